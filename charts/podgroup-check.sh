#!/usr/bin/env bash
# Does the chart do what it says? Asks helm for what needs no cluster, and a real API server for the rest.
#
# Needs: helm and kubectl in PATH, KUBECONFIG of a cluster of Kubernetes 1.36 that nobody else uses, without the CRDs of PodGroup and Queue.
# It cleans up after itself. `podgroup-check.sh offline` leaves the cluster out.
# Every check prints one line; the exit status is 1 if one failed. Scenario by scenario: offline(), rights(), stamping(), queues(), life(), leaving().
set -uo pipefail
cd "$(dirname "$0")"
chart=podgroup
ns=podgroup-system
work=$(mktemp -d)
failed=0
passed=0

pass() { passed=$((passed + 1)); printf 'ok      %s\n' "$1"; }
flunk() { failed=$((failed + 1)); printf 'FAILED  %s\n' "$1"; [ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/        | /'; }
# equal NAME WANTED FOUND
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "wanted: $2"$'\n'"found:  $3"; fi; }
# works NAME COMMAND…
works() { local name=$1 out; shift; if out=$("$@" 2>&1); then pass "$name"; else flunk "$name" "$out"; fi; }
# refuses NAME WORDS COMMAND…: fails, and the message has the words
refuses() {
  local name=$1 words=$2 out; shift 2
  if out=$("$@" 2>&1); then flunk "$name" "it was accepted"
  elif grep -qF -- "$words" <<<"$out"; then pass "$name"
  else flunk "$name" "refused, but not with \"$words\": $out"; fi
}
# eventually SECONDS COMMAND…: until it succeeds
eventually() { local until=$((SECONDS + $1)); shift; until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $until ] || return 1; sleep 0.1; done; }

# The chart demands the name of an image.
helm() {
  case $1 in
    template | install | upgrade | lint) command helm "$1" --set image.repository=registry.example/podgroup "${@:2}" ;;
    *) command helm "$@" ;;
  esac
}
render() { helm template podgroup "$chart" -n "$ns" "$@"; }
# Kind/name of every object in the rendering of these arguments, sorted.
objects() { render "$@" | awk '/^kind: /{k=$2} /^metadata:/{m=1} m&&/^  name: /{print k"/"$2; m=0}' | sort; }
# What these arguments take away from (-) and add to (+) the rendering without them, in one line.
change() { { comm -23 "$work/plain" <(objects "$@") | sed 's/^/-/'; comm -13 "$work/plain" <(objects "$@") | sed 's/^/+/'; } | tr '\n' ' ' | sed 's/ $//'; }

# shellcheck source=podgroup-check-offline.sh
. ./podgroup-check-offline.sh

# Lines as in podgroup-rights.txt.
can() {
  local wanted who what
  while read -r wanted who what; do
    case $wanted in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    equal "may $who $what? $wanted" "$wanted" "$(kubectl auth can-i $what --as="$who" 2>/dev/null)"
  done < <(sed "s/ctl /system:serviceaccount:$ns:podgroup-controller /; s/sch /system:serviceaccount:$ns:podgroup-scheduler /")
}

rights() {
  # People: bound in one namespace, and bound cluster-wide.
  local role
  for role in view edit admin; do kubectl create rolebinding "check-$role" --clusterrole=$role --user=local-$role -n check-a >/dev/null; done
  kubectl create clusterrolebinding check-view --clusterrole=view --user=wide-view >/dev/null
  kubectl create clusterrolebinding check-admin --clusterrole=admin --user=wide-admin >/dev/null
  # The cluster's own roles are put together by a controller.
  eventually 20 kubectl auth can-i delete podgroups.scheduling.volcano.sh -n check-a --as=local-admin || true
  can <podgroup-rights.txt
}

stale=podgroup-00000000-1111-2222-3333-444444444444
# A Deployment of one pod: NAME SCHEDULER [ANNOTATION VALUE]…
deployment() {
  local name=$1 scheduler=$2 notes='' labels=''; shift 2
  while [ $# -ge 2 ]; do
    if [ "$1" = podgroup.dev/group ]; then labels=", $1: \"$2\""; else notes="$notes\"$1\": \"$2\","; fi
    shift 2
  done
  kubectl apply -n check-a -f - >/dev/null <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: $name}
spec:
  replicas: 1
  selector: {matchLabels: {app: $name}}
  template:
    metadata: {labels: {app: $name$labels}, annotations: {${notes%,}}}
    spec: {schedulerName: $scheduler, containers: [{name: c, image: none}]}
END
}
# "annotation, older annotation, label" of the one pod of a Deployment, its own right group written as MINE.
stamp_of() {
  eventually 20 sh -c "kubectl get pod -n check-a -l app=$1 -o name | grep -q ." || { echo 'no pod came'; return; }
  local uid
  uid=$(kubectl get rs -n check-a -l app="$1" -o jsonpath='{.items[0].metadata.uid}')
  kubectl get pod -n check-a -l app="$1" -o 'jsonpath={.items[0].metadata.annotations.scheduling\.k8s\.io/group-name},{.items[0].metadata.annotations.scheduling\.volcano\.sh/group-name},{.items[0].metadata.labels.podgroup\.dev/group}' |
    sed "s/podgroup-$uid/MINE/g; s/$stale/STALE/g"
}
# A pod in YAML: SCHEDULER OWNER-UID [controller true|false]; no owner where the UID is empty.
pod() {
  printf 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: probe\n  namespace: check-a\n  annotations: {scheduling.k8s.io/group-name: "%s"}\n' "${4:-}"
  [ -z "$2" ] || printf '  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: "%s", controller: %s}]\n' "$2" "${3:-true}"
  printf 'spec: {schedulerName: %s, containers: [{name: c, image: none}]}\n' "$1"
}
# The label that such a pod would be created with.
label_of() { pod "$@" | kubectl create --dry-run=server -f - -o 'jsonpath={.metadata.labels.podgroup\.dev/group}' 2>&1; }

# The label that a pod with a controller would be created with: ANNOTATIONS LABELS, each as pairs of YAML.
label_with() {
  kubectl create --dry-run=server -f - -o 'jsonpath={.metadata.labels.podgroup\.dev/group}' 2>&1 <<END
apiVersion: v1
kind: Pod
metadata:
  name: probe
  namespace: check-a
  annotations: {$1}
  labels: {$2}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: x, uid: 99999999-1111-2222-3333-444444444444, controller: true}]
spec: {schedulerName: podgroup-scheduler, containers: [{name: c, image: none}]}
END
}
# The same for a pod of a JobSet: NAME ATTEMPT JOBS [value of podgroup.dev/gang].
label_in_jobset() {
  label_with "podgroup.dev/gang: \"${4-jobset}\"" \
    "jobset.sigs.k8s.io/jobset-name: \"$1\", jobset.sigs.k8s.io/restart-attempt: \"$2\", jobset.sigs.k8s.io/global-replicas: \"$3\""
}
# The same for a pod of a LeaderWorkerSet: NAME GROUP REVISION SIZE [value of podgroup.dev/gang [PodGroup that it names]].
label_in_lws() {
  local lws=leaderworkerset.sigs.k8s.io
  label_with "podgroup.dev/gang: \"${5-leaderworkerset}\", $lws/size: \"$4\", scheduling.k8s.io/group-name: \"${6-}\"" \
    "$lws/name: \"$1\", $lws/group-index: \"$2\", $lws/template-revision-hash: \"$3\""
}

# The API server learns of a policy from a watch, a moment after helm is done: whoever needs stamps must wait for one, as here.
stamps() { [ "$(label_of "$1" 99999999-1111-2222-3333-444444444444)" = podgroup-99999999-1111-2222-3333-444444444444 ]; }

stamping() {
  local key=scheduling.k8s.io/group-name old=scheduling.volcano.sh/group-name uid=99999999-1111-2222-3333-444444444444
  works 'the policy acts within 20 s' eventually 20 stamps podgroup-scheduler
  deployment plain podgroup-scheduler
  deployment named podgroup-scheduler $key my-group
  deployment named-old podgroup-scheduler $old my-group
  deployment both podgroup-scheduler $key $stale $old my-group
  deployment looks-like podgroup-scheduler $key podgroup-train
  deployment copied podgroup-scheduler $key $stale podgroup.dev/group $stale
  deployment copied-old podgroup-scheduler $old $stale
  deployment empty podgroup-scheduler $key ''
  deployment other default-scheduler
  deployment other-copied default-scheduler $key $stale
  equal 'a pod of a Deployment is stamped' MINE,,MINE "$(stamp_of plain)"
  equal 'a group that somebody named is left alone' my-group,, "$(stamp_of named)"
  equal 'so is one in the older spelling' ,my-group, "$(stamp_of named-old)"
  equal 'so is one in the older spelling beside a copy' STALE,my-group, "$(stamp_of both)"
  equal 'a name that only begins like ours is somebody'"'"'s' podgroup-train,, "$(stamp_of looks-like)"
  equal 'a copied template is mended' MINE,,MINE "$(stamp_of copied)"
  equal 'the older spelling is never written' MINE,STALE,MINE "$(stamp_of copied-old)"
  equal 'an empty name is no name' MINE,,MINE "$(stamp_of empty)"
  equal 'a pod of another scheduler is left alone' ,, "$(stamp_of other)"
  equal 'even with a stale copy' STALE,, "$(stamp_of other-copied)"
  equal 'a bare pod is left alone' '' "$(label_of podgroup-scheduler '')"
  equal 'so is one with an owner that does not control it' '' "$(label_of podgroup-scheduler $uid false)"
  equal 'an owner UID that could be no label is not stamped, and the pod is not refused' '' "$(label_of podgroup-scheduler 'not a / UID')"
  equal 'a user'"'"'s pod with an owner and a name is left alone' '' "$(label_of podgroup-scheduler $uid true my-group)"
  local longest=a23456789012345678901234567890123456789012345678901234
  equal 'a pod of a JobSet that asks for it is stamped with the PodGroup of the whole' jobset-train-0 "$(label_in_jobset train 0 2)"
  equal 'each restart has its own' jobset-train-12 "$(label_in_jobset train 12 2)"
  equal 'the longest name that is a label' "jobset-$longest-0" "$(label_in_jobset $longest 0 2)"
  equal 'a longer one is not stamped, and the pod is not refused' '' "$(label_in_jobset ${longest}5 0 2)"
  equal 'without asking it is one of its Job' podgroup-$uid "$(label_in_jobset train 0 2 '')"
  equal 'so is one without an attempt' podgroup-$uid "$(label_in_jobset train '' 2)"
  equal 'so is one without the number of Jobs' podgroup-$uid "$(label_in_jobset train 0 '')"
  equal 'a pod of a LeaderWorkerSet that asks for it is stamped with the PodGroup of its group' lws-serve-12-5b9cf9 "$(label_in_lws serve 12 5b9cf9 4)"
  equal 'the longest name that is a label' "lws-${longest}5-0-r" "$(label_in_lws ${longest}5 0 r 4)"
  equal 'a longer one is not stamped' '' "$(label_in_lws ${longest}56 0 r 4)"
  equal 'a leader that does not know its group yet is one of its StatefulSet' podgroup-$uid "$(label_in_lws serve '' r 4)"
  equal 'and it is stamped anew when it knows it' lws-serve-0-r "$(label_in_lws serve 0 r 4 leaderworkerset podgroup-$uid)"
  equal 'a name that is no label is one of its StatefulSet' podgroup-$uid "$(label_in_lws a.b 0 r 4)"
  equal 'so is one without asking' podgroup-$uid "$(label_in_lws serve 0 r 4 '')"
  equal 'and one without a revision' podgroup-$uid "$(label_in_lws serve 0 '' 4)"
  equal 'and one with a revision that LeaderWorkerSet does not write' podgroup-$uid "$(label_in_lws serve 0 123456789012345678901 4)"
  equal 'and one of a group without pods' podgroup-$uid "$(label_in_lws serve 0 r 0)"
}

# The queue of a new PodGroup: NAMESPACE NAME-OF-THE-QUEUE [WRITER].
queue_of() {
  printf 'apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: probe}\nspec: {minMember: 1%s}\n' "${2:+, queue: $2}" |
    kubectl create -n "$1" --dry-run=server -f - -o 'jsonpath={.spec.queue}' ${3:+"--as=$3"} 2>&1
}
queue_is() { [ "$(queue_of check-a)" = "$1" ]; }

queues() {
  equal 'a PodGroup that names no queue is in default' default "$(queue_of check-a)"
  kubectl annotate namespace check-a scheduling.volcano.sh/queue-name=team >/dev/null
  works 'where its Namespace names a queue it is in that one, within 20 s' eventually 20 queue_is team
  equal 'so is one that names default' team "$(queue_of check-a default)"
  equal 'one that names another queue is in that' other "$(queue_of check-a other)"
  equal 'what our controller decided stays' default "$(queue_of check-a default "system:serviceaccount:$ns:podgroup-controller")"
  equal 'another Namespace names none' default "$(queue_of check-b)"
  kubectl annotate namespace check-a scheduling.volcano.sh/queue-name- >/dev/null
}

# The API server has looked at the expressions of both policies.
typed() { [ "$(kubectl get validatingadmissionpolicies -o 'jsonpath={.items[*].status.observedGeneration}')" = '1 1' ]; }
install() { helm install "$1" "$chart" -n "$2" --create-namespace "${@:3}"; }
# What is left in the cluster with the labels of the release.
left() {
  kubectl get deploy,svc,sa,pdb,networkpolicy,role,rolebinding,clusterrole,clusterrolebinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding,validatingadmissionpolicy,validatingadmissionpolicybinding,crd \
    -A -l "app.kubernetes.io/instance=$1" -o name 2>/dev/null | sort | tr '\n' ' ' | sed 's/ $//'
}

# The same objects have the same UIDs.
uids() { kubectl get queues.scheduling.volcano.sh/check podgroups.scheduling.volcano.sh/check -n check-a -o 'jsonpath={.items[*].metadata.uid}' 2>&1; }

life() {
  local told crds='customresourcedefinition.apiextensions.k8s.io/podgroups.scheduling.volcano.sh customresourcedefinition.apiextensions.k8s.io/queues.scheduling.volcano.sh' file
  for file in "$chart"/files/crds/*.yaml; do
    works "the CRD in the cluster is $(basename "$file")" kubectl diff --server-side --force-conflicts -f "$file"
  done
  works 'a Queue can be made' kubectl create -f - <<<'{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"check"},"spec":{"weight":2}}'
  works 'a PodGroup too' kubectl create -n check-a -f - <<<'{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"check"},"spec":{"minMember":2,"queue":"check"}}'
  local uids
  uids=$(uids)
  works 'upgrade to another scheduler name' helm upgrade podgroup "$chart" -n $ns --set 'schedulerNames={volcano}',controller.annotatePods=true
  works 'the policy follows' eventually 20 stamps volcano
  equal 'and leaves the old name alone' '' "$(label_of podgroup-scheduler 99999999-1111-2222-3333-444444444444)"
  can <<<'yes ctl patch pods -A'
  works 'upgrade to the policies of tenancy' helm upgrade podgroup "$chart" -n $ns --set tenancy.enabled=true
  equal 'the API server finds no fault in their expressions' '' "$(eventually 20 typed; kubectl get validatingadmissionpolicies -o 'jsonpath={.items[*].status.typeChecking.expressionWarnings}')"
  works 'rollback' helm rollback podgroup 1 -n $ns
  equal 'they are gone with it' 'No resources found' "$(kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings 2>&1)"
  works 'the policy follows again' eventually 20 stamps podgroup-scheduler
  can <<<'no ctl patch pods -A'
  refuses 'a second release is told whose the CRDs are' 'belongs to the Helm release podgroup-system/podgroup' install other check-b
  works 'and installs beside the first without them' install other check-b --set crds.enabled=false,schedulerNames={other}
  works 'the second goes' helm uninstall other -n check-b
  equal 'whole' '' "$(left other)"
  works 'uninstall' helm uninstall podgroup -n $ns
  equal 'the CRDs stay, and nothing else' "$crds" "$(left podgroup)"
  equal 'so do the Queue and the PodGroup, through upgrade and rollback, too' "$uids" "$(uids)"
  works 'installed again it takes them up' install podgroup $ns --set admissionPolicy.enabled=false
  equal 'and what was in them is there' "$uids" "$(uids)"
  equal 'without the policy nothing is stamped' 'No resources found' "$(kubectl get mutatingadmissionpolicies,mutatingadmissionpolicybindings 2>&1)"
  works 'uninstall again' helm uninstall podgroup -n $ns
  kubectl delete crd podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh >/dev/null
  kubectl create -f "$chart/files/crds" >/dev/null
  refuses 'CRDs that are not of Helm: the error names the value' 'crds.enabled=false' install podgroup $ns
  works 'and they are left as they are with it' install podgroup $ns --set crds.enabled=false
  equal 'a CRD of ours lacks nothing, and has its columns' 0 "$(helm get notes podgroup -n $ns | grep -c 'WARNING\|without the columns')"
  works 'uninstall beside them' helm uninstall podgroup -n $ns
  # As an old Volcano left them: no tree, and a status subresource that drops what the scheduler says. And as one of tomorrow might: with more than we know.
  kubectl patch crd queues.scheduling.volcano.sh --type=json >/dev/null -p '[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parent"},
    {"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields"}]'
  kubectl patch crd podgroups.scheduling.volcano.sh --type=json >/dev/null -p '[{"op":"add","path":"/spec/versions/0/subresources/status","value":{}},
    {"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tomorrow","value":{"type":"string"}}]'
  works 'older ones are used, too' install podgroup $ns --set crds.enabled=false
  told=$(helm get notes podgroup -n $ns)
  works 'and what they lack is said' grep -q 'WARNING: the CRD of queues does not know spec.parent,' <<<"$told"
  works 'and what they have too much' grep -q 'WARNING: the CRD of podgroups has a status subresource' <<<"$told"
  equal 'and nothing else' 2 "$(grep -c WARNING <<<"$told")"
  works 'uninstall a third time' helm uninstall podgroup -n $ns
  local name
  for name in podgroups queues; do
    told=$(install podgroup $ns 2>&1)
    works "the commands of the error hand $name over" sh -ec "$(grep -o "kubectl label crd $name.*" <<<"$told" || echo 'echo no commands; false')"
  done
  refuses 'the fields are still the other'"'"'s' conflict install podgroup $ns
  helm uninstall podgroup -n $ns >/dev/null 2>&1
  works 'and with --force-conflicts it installs, over them' install podgroup $ns --force-conflicts
}

# A chart with its CRDs among its templates, as Volcano's, is left in the words of docs/from-volcano.md, and nothing of ours is lost.
leaving() {
  local name told uids steps vns=volcano-system
  { helm uninstall podgroup -n $ns; kubectl delete crd podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh; } >/dev/null 2>&1
  mkdir -p "$work/volcano/templates"
  printf 'apiVersion: v2\nname: volcano\nversion: 1.0.0\n' >"$work/volcano/Chart.yaml"
  cp "$chart"/files/crds/*.yaml "$work/volcano/templates/"
  # A line that ends like the mark between two objects, and parts none.
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano, namespace: %s}\ndata:\n  x: |\n    -----\n    kind: CustomResourceDefinition\n' $vns >"$work/volcano/templates/config.yaml"
  works "a chart that has its CRDs as Volcano's has" helm install volcano "$work/volcano" -n $vns --create-namespace
  kubectl wait --for=condition=Established crd podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh --timeout=20s >/dev/null
  works 'a Queue in its CRDs' eventually 20 kubectl create -f - <<<'{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"check"},"spec":{"weight":2}}'
  works 'a PodGroup in its CRDs' kubectl create -n check-a -f - <<<'{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"check"},"spec":{"minMember":2,"queue":"check"}}'
  uids=$(uids)
  works 'beside it' install podgroup $ns --set crds.enabled=false
  for name in podgroups queues; do
    told=$(helm upgrade podgroup "$chart" -n $ns --reset-then-reuse-values --set crds.enabled=true 2>&1)
    works "an upgrade says how $name are handed over" sh -ec "$(grep -o "kubectl label crd $name.*" <<<"$told" || echo 'echo no commands; false')"
  done
  works 'and takes them' helm upgrade podgroup "$chart" -n $ns --reset-then-reuse-values --set crds.enabled=true --force-conflicts
  steps=$(sed -n '/^helm get manifest volcano/,/^```/p' ../docs/from-volcano.md | sed '$d')
  works 'the steps of docs/from-volcano.md' sh -ec "cd $work; ${steps:-echo no steps; false}"
  equal 'helm knows no release any more' '' "$(helm list -n $vns -q)"
  equal 'its other objects are gone' '' "$(kubectl get configmap volcano -n $vns --ignore-not-found -o name)"
  equal 'the Queue and the PodGroup are not' "$uids" "$(uids)"
  works 'and the CRDs go on as ours' helm upgrade podgroup "$chart" -n $ns --reset-then-reuse-values
}

clean() {
  helm uninstall volcano -n volcano-system; kubectl delete namespace volcano-system --timeout=60s
  helm uninstall podgroup -n $ns; helm uninstall other -n check-b
  kubectl delete crd podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh
  kubectl delete clusterrolebinding check-view check-admin
  kubectl delete namespace $ns check-a check-b --timeout=60s
} >/dev/null 2>&1

if [ "${1:-}" != offline ]; then
  if kubectl get crd podgroups.scheduling.volcano.sh >/dev/null 2>&1; then
    echo 'this cluster has the CRD of PodGroup already: the check needs one of its own' >&2
    exit 2
  fi
  kubectl version >/dev/null || exit 2
fi
offline
if [ "${1:-}" != offline ]; then
  trap 'clean; rm -rf "$work"' EXIT
  kubectl create namespace check-a >/dev/null
  kubectl create namespace check-b >/dev/null
  works 'helm install' install podgroup $ns
  rights
  stamping
  queues
  life
  leaving
else
  trap 'rm -rf "$work"' EXIT
fi
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
