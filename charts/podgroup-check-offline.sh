# shellcheck shell=bash
# What does the chart render, and what does it refuse? Asks helm alone; no cluster. Sourced by podgroup-check.sh, which has the words of the checks.

digest=sha256:$(printf a%.0s {1..64})
# image NAME WANTED VALUES: the image of both programs with these values.
image() { equal "$1" "$2" "$(render --set "$3" | awk '$1=="image:"{gsub(/"/,""); print $2}' | sort -u | tr '\n' ' ' | sed 's/ $//')"; }

offline() {
  local v1=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy policy='+MutatingAdmissionPolicy/podgroup-group-name +MutatingAdmissionPolicy/podgroup-queue +MutatingAdmissionPolicyBinding/podgroup-group-name +MutatingAdmissionPolicyBinding/podgroup-queue'
  works 'helm lint --strict' helm lint --strict "$chart"
  while IFS='|' read -r set words; do refuses "--set $set is refused" "$words" render --set "$set"; done <<'END'
controler.enabled=true|'controler'
controller.enable=true|'enable'
scheduler.annotatePods=true|'annotatePods'
controller.replicas=-1|/controller/replicas
controller.resources.request.cpu=1|'request'
controller.resources.requests.cpu=much|/controller/resources/requests/cpu
controller.tolerations[0].efect=NoSchedule|'efect'
controller.extraArgs[0]=oops|/controller/extraArgs/0
logFilter=loud!|/logFilter
controller.enabled=maybe|/controller/enabled
scheduler.placement=binpack|/scheduler/placement
image.tga=1|'tga'
image.repository=|publishes no image
image.repository=example.org/podgroup:1|/image/repository
image.repository=REGISTRY/podgroup|/image/repository
image.tag=a b|/image/tag
image.tag=sha256:0|/image/tag
image.digest=sha256:0|/image/digest
image.registry=a b|/image/registry
image.registry=REGISTRY|/image/registry
nameOverride=Not_A_Name|/nameOverride
global.imageRegistry=a b|/global/imageRegistry
global.imageRegistry=REGISTRY|/global/imageRegistry
controller.serviceAccount.create=false|controller.serviceAccount.name is empty
scheduler.serviceAccount.name=A_b|/scheduler/serviceAccount/name
scheduler.serviceAccount.annotation.a=b|'annotation'
controller.extraEnv[0].nam=A|'nam'
scheduler.extraEnv[0].name=RUST_LOG|logFilter
crds.keeps=false|'keeps'
podMonitor.interval=often|/podMonitor/interval
crds.enable=false|'enable'
admissionPolicy.enabled=maybe|/admissionPolicy/enabled
admissionPolicy.failurePolicy=Fail|'failurePolicy'
rbac.aggregateRole=false|'aggregateRole'
metrics.service.enable=false|'enable'
dashboards.enable=true|'enable'
alerts.for.PodgroupQueueBelowDeserved=soon|PodgroupQueueBelowDeserved
serviceMonitor.interval=often|/serviceMonitor/interval
http.secure.certSecret=A_b|/http/secure/certSecret
http.secure.enable=true|'enable'
leaderElection.enable=false|'enable'
logFormat=xml|/logFormat
schedulerNames={podgroup-scheduler,default-scheduler}|replacesDefaultScheduler=true
replacesDefaultScheduler=maybe|/replacesDefaultScheduler
http.bindAddress=here|/http/bindAddress
http.bindAddress=10.0.0.256|/http/bindAddress
http.secure.certSecret=c|http.secure.enabled=true
controller.extraArgs[0]=--annotate-pods|controller.annotatePods
scheduler.extraArgs[0]=--http-address=:1|http.bindAddress
scheduler.extraArgs[0]=--evictions=false|scheduler.evictions
scheduler.extraArgs[0]=--admission-patience=1s|scheduler.admissionTimeout
scheduler.admissionTimeout=soon|/scheduler/admissionTimeout
scheduler.volumeTimeout=0m0s|/scheduler/volumeTimeout
scheduler.extraArgs[0]=--volume-timeout=1m|scheduler.volumeTimeout
scheduler.evictions=maybe|/scheduler/evictions
runAsUser=0|/runAsUser
schedulerNames=volcano|/schedulerNames
schedulerNames[0]=a"]b|/schedulerNames/0
fullnameOverride=Not_A_Name|/fullnameOverride
priorityClassName=Not_A_Name|/priorityClassName
scheduler.queueStatus=guess|/scheduler/queueStatus
controller.queueStatus=obey|'queueStatus'
podDisruptionBudget.minAvailable=1|'minAvailable'
networkPolicy.enable=true|'enable'
networkPolicy.from[0].namespace=x|'namespace'
controller.affinity.nodeAfinity.x=1|'nodeAfinity'
scheduler.topologySpreadConstraints[0].maxSkew=1|/scheduler/topologySpreadConstraints/0
commonLabels.a=b c|/commonLabels/a
controller.podLabels.a=-|/controller/podLabels/a
controller.podAnnotations=x|/controller/podAnnotations
tenancy.enable=true|'enable'
tenancy.serviceAccount=Not_A_Name|/tenancy/serviceAccount
tenancy.freeQueues=a|/tenancy/freeQueues
tenancy.deputies[0]=a"]b|/tenancy/deputies/0
tenancy.maxAnnotationBytes=1|/tenancy/maxAnnotationBytes
tenancy.actions[0]=Refuse|/tenancy/actions/0
tenancy.namespaceSelector.labels.a=b|'labels'
END
  for set in image.repository=localhost:5000/a/b-c.d image.repository=[::1]:5000/a image.repository=podgroup image.tag=0.1.0-rc.1_2 http.bindAddress=255.10.0.1 'scheduler.extraArgs={--bind-concurrency=64,--placement-of=x}'; do
    works "--set $set is taken" render --set "$set"
  done
  refuses 'no scheduler name at all is refused' /schedulerNames render --set-json 'schedulerNames=[]'
  refuses 'two replicas without leader election are refused' controller.replicas=1 render --set leaderElection.enabled=false,scheduler.replicas=1
  refuses "a label of the chart's own is refused" app.kubernetes.io/name render --set 'commonLabels.app\.kubernetes\.io/name=x'
  refuses 'so is one on the pods alone' controller.podLabels render --set 'controller.podLabels.app\.kubernetes\.io/component=x'
  refuses 'Kubernetes 1.29 is refused' kubeVersion render --kube-version 1.29.0
  works "a vendor's version of Kubernetes is not" render --kube-version v1.33.4-gke.100

  objects >"$work/plain"
  equal 'each switch changes what it says: policy, without a cluster' '' "$(change --set admissionPolicy.enabled=auto)"
  equal 'policy, auto, where the API is' "$policy" "$(change --api-versions $v1)"
  equal 'policy, auto, beside another controller' "$(gone controller)" "$(change --api-versions $v1 --set controller.enabled=false)"
  equal 'policy, false, where the API is' '' "$(change --api-versions $v1 --set admissionPolicy.enabled=false)"
  equal 'policy, true, without a cluster' "$policy" "$(change --set admissionPolicy.enabled=true)"
  equal 'policy in an older cluster' admissionregistration.k8s.io/v1beta1 \
    "$(render --api-versions ${v1/v1/v1beta1} | awk '/^apiVersion: admission/{v=$2} /^kind: MutatingAdmissionPolicy$/{print v}' | sort -u)"
  refuses 'policy, true, on a cluster without the API' admissionPolicy.enabled render --set admissionPolicy.enabled=true --api-versions v1/Pod
  equal 'tenancy.enabled=true' '+ValidatingAdmissionPolicy/podgroup-tenancy-groups +ValidatingAdmissionPolicy/podgroup-tenancy-pods +ValidatingAdmissionPolicyBinding/podgroup-tenancy-groups +ValidatingAdmissionPolicyBinding/podgroup-tenancy-pods' \
    "$(change --set tenancy.enabled=true)"
  refuses 'tenancy on a cluster without the API' tenancy.enabled=false render --set tenancy.enabled=true --api-versions v1/Pod
  equal 'the namespaces that it is for' 2 "$(render --set tenancy.enabled=true,tenancy.namespaceSelector.matchLabels.tenant=yes | grep -c 'tenant: yes\|tenant: "yes"')"
  equal 'crds.enabled=false' '-CustomResourceDefinition/podgroups.scheduling.volcano.sh -CustomResourceDefinition/queues.scheduling.volcano.sh' "$(change --set crds.enabled=false)"
  equal 'rbac.aggregateRoles=false' '-ClusterRole/podgroup-edit -ClusterRole/podgroup-view' "$(change --set rbac.aggregateRoles=false)"
  equal 'metrics.service.enabled=false' '-Service/podgroup-controller -Service/podgroup-scheduler' "$(change --set metrics.service.enabled=false)"
  equal 'dashboards.enabled=true' '+ConfigMap/podgroup-dashboard-lifecycle +ConfigMap/podgroup-dashboard-operator +ConfigMap/podgroup-dashboard-queue' "$(change --set dashboards.enabled=true)"
  equal 'alerts.enabled=true' '+PrometheusRule/podgroup' "$(change --set alerts.enabled=true)"
  equal 'a dashboard links to the runbooks where their address is set' '0 3' \
    "$(render --set dashboards.enabled=true | grep -c '"url": "https://r.example/') $(render --set dashboards.enabled=true,alerts.runbookUrl=https://r.example/x | grep -c '"url": "https://r.example/')"
  equal 'every series in an alert is of this release' '' \
    "$(render -s templates/alerts.yaml --set alerts.enabled=true | grep -o 'podgroup_[a-z_]*.[^"]*"[^"]*"' | grep -v '{namespace="podgroup-system"')"
  equal 'or has the labels that are set' '' \
    "$(render -s templates/alerts.yaml --set alerts.enabled=true --set-string 'alerts.selector=cluster="a"\,namespace="b"' | grep -o 'podgroup_[a-z_]*.[^"]*"[^"]*"[^"]*"[^"]*"' | grep -v '{cluster="a",namespace="b"')"
  equal 'also where a label looks like a series' '{cluster="podgroup_a"' \
    "$(render -s templates/alerts.yaml --set alerts.enabled=true --set-string 'alerts.selector=cluster="podgroup_a"' | grep -o '{[^{}"]*"podgroup_[^"]*"' | sort -u | grep -v program)"
  equal 'and each alert has these labels' '' \
    "$(render -s templates/alerts.yaml --set alerts.enabled=true --set-string 'alerts.selector=cluster="a"\,namespace="b"\,job!="c"' | awk '/- alert:/{n++} /^ *labels:/{on=1} on&&/cluster: "?a"?/{c++} on&&/namespace: "?podgroup-system"?/{m++} END{if (!n || c!=n || m<n) print n, c, m}')"
  equal 'serviceMonitor.enabled=true' '+ServiceMonitor/podgroup-controller +ServiceMonitor/podgroup-scheduler' "$(change --set serviceMonitor.enabled=true)"
  equal 'no alert about a program that is not installed' 'PodgroupControllerAbsent PodgroupNotReady' \
    "$(render -s templates/alerts.yaml --set alerts.enabled=true,scheduler.enabled=false | awk '/- alert:/{printf "%s%s", n++?" ":"", $3}')"
  refuses 'a duration for an alert that is none is refused' 'there is no such alert' render --set alerts.enabled=true,alerts.for.Nothing=1m
  equal 'podMonitor.enabled=true' '+PodMonitor/podgroup-controller +PodMonitor/podgroup-scheduler' "$(change --set podMonitor.enabled=true,metrics.service.enabled=false | sed 's/-Service[^ ]* //g')"
  refuses 'both kinds of monitors are refused' 'scrape each program twice' render --set podMonitor.enabled=true,serviceMonitor.enabled=true
  refuses 'a PodMonitor of secure metrics needs a way to authorize' podMonitor.endpoint.authorization render --set podMonitor.enabled=true,http.secure.enabled=true
  works 'and is taken with one' render --set podMonitor.enabled=true,http.secure.enabled=true,podMonitor.endpoint.authorization.type=Bearer
  refuses 'a ServiceMonitor without Services is refused' metrics.service.enabled render --set serviceMonitor.enabled=true,metrics.service.enabled=false
  equal 'without TLS a ServiceMonitor asks for none' 'interval: 30s path: /metrics port: http-metrics' "$(endpoint)"
  equal 'with it, for what is served, with the token that it must show' "$token insecureSkipVerify: true interval: 30s path: /metrics port: http-metrics scheme: https tlsConfig:" "$(endpoint http.secure.enabled=true)"
  equal 'with a certificate that can be checked, it is' "$token ca: interval: 30s key: ca.crt name: c path: /metrics port: http-metrics scheme: https secret: serverName: podgroup-scheduler.podgroup-system.svc tlsConfig:" \
    "$(endpoint http.secure.enabled=true,http.secure.certSecret=c)"
  equal 'what serviceMonitor.endpoint says goes before that' 'authorization: insecureSkipVerify: false interval: 30s path: /metrics port: http-metrics scheme: https tlsConfig: type: Bearer' \
    "$(endpoint http.secure.enabled=true,serviceMonitor.endpoint.authorization.type=Bearer,serviceMonitor.endpoint.tlsConfig.insecureSkipVerify=false)"
  equal 'networkPolicy.enabled=false' '-NetworkPolicy/podgroup-controller -NetworkPolicy/podgroup-scheduler' "$(change --set networkPolicy.enabled=false)"
  equal 'podDisruptionBudget.enabled=false' '-PodDisruptionBudget/podgroup-controller -PodDisruptionBudget/podgroup-scheduler' "$(change --set podDisruptionBudget.enabled=false)"
  equal 'one replica needs no budget' '-PodDisruptionBudget/podgroup-controller' "$(change --set controller.replicas=1)"
  refuses 'of either program' scheduler.replicas=1 render --set leaderElection.enabled=false,controller.replicas=1
  equal 'leaderElection.enabled=false' '-Lease/podgroup-controller -Lease/podgroup-scheduler -PodDisruptionBudget/podgroup-controller -PodDisruptionBudget/podgroup-scheduler -Role/podgroup-controller-lease -Role/podgroup-scheduler-lease -RoleBinding/podgroup-controller-lease -RoleBinding/podgroup-scheduler-lease' \
    "$(change --set leaderElection.enabled=false,controller.replicas=1,scheduler.replicas=1)"
  equal 'controller.enabled=false leaves nothing of it' "$(gone controller)" "$(change --set controller.enabled=false)"
  equal 'scheduler.enabled=false leaves nothing of it' "$(gone scheduler)" "$(change --set scheduler.enabled=false)"
  equal 'http.secure.enabled=true adds the right to ask, and roles for readers' \
    '+ClusterRole/podgroup-access-review +ClusterRole/podgroup-debug-reader +ClusterRole/podgroup-metrics-reader +ClusterRoleBinding/podgroup-access-review' \
    "$(change --set http.secure.enabled=true)"
  equal 'the flags, probes and scrape annotation of it' 'scheme: https --secure-serving --tls-cert-file=/certificate/tls.crt --tls-private-key-file=/certificate/tls.key scheme: HTTPS scheme: HTTPS secretName: c' \
    "$(render -s templates/scheduler.yaml --set http.secure.enabled=true,http.secure.certSecret=c | grep -oE -- '--(secure|tls)[^ ]*|scheme: .*|secretName: .*' | tr '\n' ' ' | sed 's/ $//')"
  refuses 'both programs off are refused' 'both false' render --set controller.enabled=false,scheduler.enabled=false
  image 'the tag is the version of the chart' 'registry.example/podgroup:0.1.0' ''
  image 'a digest names the image alone' "registry.example/podgroup@$digest" "image.digest=$digest"
  image 'or beside a tag' "registry.example/podgroup:x@$digest" "image.tag=x,image.digest=$digest"
  image 'image.registry goes before the repository' 'r.example:5000/team/podgroup:0.1.0' image.repository=team/podgroup,image.registry=r.example:5000
  image 'global.imageRegistry goes before that' 'g.example/podgroup:0.1.0' image.repository=podgroup,image.registry=r.example,global.imageRegistry=g.example
  refuses 'two registries are refused' 'global.imageRegistry names another' render --set global.imageRegistry=g.example
  equal 'nameOverride names everything but the Leases, which both programs know by name' '0 2' \
    "$(render --set nameOverride=gangs >"$work/named"; grep -c 'app.kubernetes.io/name: podgroup' "$work/named") $(grep -c 'name: podgroup-\(controller\|scheduler\)$' "$work/named")"
  works 'a chart that has this one as a part may switch it with podgroup.enabled' render --set enabled=true
  equal 'scheduler.evictions=false takes the right to evict' '1 0' \
    "$(render -s templates/scheduler.yaml | grep -c 'pods/eviction') $(render -s templates/scheduler.yaml --set scheduler.evictions=false | grep -c 'pods/eviction')"
  equal 'crds.keep=false' 0 "$(render --set crds.keep=false | grep -c resource-policy)"
  equal 'a ServiceAccount that exists is not made' '-ServiceAccount/podgroup-scheduler' "$(change --set scheduler.serviceAccount.create=false,scheduler.serviceAccount.name=there)"
  equal 'its rights, the program and the policies go by its name' 'name: there serviceAccountName: there system:serviceaccount:podgroup-system:there' \
    "$(render --set scheduler.serviceAccount.create=false,scheduler.serviceAccount.name=there,tenancy.enabled=true | grep -o '\(serviceAccountN\|  n\)ame: there$\|system:serviceaccount:podgroup-system:there' | sed 's/^ *//' | LC_ALL=C sort -u | tr '\n' ' ' | sed 's/ $//')"
  works 'annotations of a ServiceAccount' grep -q 'role-arn: "\?x' <(render --set 'controller.serviceAccount.annotations.role-arn=x')
  equal 'extraEnv' 'RUST_LOG info RUST_BACKTRACE 1' \
    "$(render -s templates/controller.yaml --set 'logFilter=info,controller.extraEnv[0].name=RUST_BACKTRACE' --set-string 'controller.extraEnv[0].value=1' | awk '/env:/{on=1;next} /ports:/{on=0} on{print $NF}' | tr -d '"' | tr '\n' ' ' | sed 's/ $//')"
  equal 'the flags of the controller' '--scheduler-name=a --scheduler-name=b --leader-elect=true --leader-elect-namespace=podgroup-system --http-address=[::]:8080 --log-format=text "--annotate-pods" "--x=y"' \
    "$(render -s templates/controller.yaml --set 'schedulerNames={a,b},logFormat=text,http.bindAddress=[::],controller.annotatePods=true,controller.extraArgs={--x=y}' | flags)"
  equal 'the flags of the scheduler' '--scheduler-name=podgroup-scheduler --leader-elect=false --http-address=0.0.0.0:8081 --log-format=json "--placement=pack" "--queue-status=obey" "--evictions=false" "--admit-by=nodes" "--admission-timeout=1m30s" "--release-after=5m" "--volume-timeout=1m30s" "--scheduled-events=true"' \
    "$(render -s templates/scheduler.yaml --set leaderElection.enabled=false,controller.replicas=1,scheduler.replicas=1,scheduler.placement=pack,scheduler.queueStatus=obey,scheduler.evictions=false,scheduler.admitBy=nodes,scheduler.admissionTimeout=1m30s,scheduler.volumeTimeout=1m30s,scheduler.scheduledEvents=true | flags)"
  equal 'own is said too' '"--queue-status=own"' "$(render -s templates/scheduler.yaml | flags | grep -o '"--queue-status=[a-z]*"')"
  local each
  for each in controller scheduler; do
    render -s templates/$each.yaml >"$work/program"
    # What every pod of the two must have; a kubelet and the restricted Pod Security Standard read it.
    for line in 'replicas: 2' 'maxUnavailable: 0' 'maxSurge: 1' 'runAsNonRoot: true' 'runAsUser: 65532' 'type: RuntimeDefault' 'allowPrivilegeEscalation: false' \
      'readOnlyRootFilesystem: true' 'drop: [ALL]' 'priorityClassName: system-cluster-critical' 'path: /healthz' 'path: /readyz' 'maxUnavailable: 1' 'publishNotReadyAddresses: true' \
      'whenUnsatisfiable: ScheduleAnyway' 'topologyKey: kubernetes.io/hostname' 'memory: '; do
      works "$each has $line" grep -qF -- "$line" "$work/program"
    done
    # It is immutable: one that is changed stops every upgrade from a release before.
    equal "$each: the Deployment's selector is that of every release" "app.kubernetes.io/component: $each app.kubernetes.io/instance: podgroup app.kubernetes.io/name: podgroup" \
      "$(awk '/^kind: /{k=$2} k=="Deployment"&&/matchLabels:/&&!n++{on=1;next} on&&!/app.kubernetes.io/{on=0} on{print $1,$2}' "$work/program" | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
    equal "$each: a rolling update waits for no node" 0 "$(grep -c DoNotSchedule "$work/program")"
    equal "$each: all its objects carry the common labels" '' \
      "$(render -s templates/$each.yaml --set commonLabels.team=x | awk '/^kind: /{k=$2; l=0} /^metadata:/{l=1} l&&/^    team: "x"/{seen[k]=1} /^kind: /{all[k]=1} END{for (k in all) if (!seen[k]) print k}')"
    render -s templates/$each.yaml --set "$each.podLabels.a=b,$each.podAnnotations.c=d,priorityClassName=,$each.affinity.nodeAffinity.x=1,$each.tolerations[0].key=t,$each.nodeSelector.tier=s" \
      --set "$each.topologySpreadConstraints[0].maxSkew=2,$each.topologySpreadConstraints[0].topologyKey=rack,$each.topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule,imagePullSecrets={pull}" \
      --set 'networkPolicy.from[0].namespaceSelector.matchLabels.m=o,networkPolicy.egress[0].ports[0].port=6443' >"$work/program"
    for line in '        a: "b"' '        c: d' 'key: t' 'tier: s' 'topologyKey: rack' '- name: pull' 'm: o' 'policyTypes: [Ingress, Egress]' 'port: 6443' 'nodeAffinity:'; do
      works "$each takes $line" grep -qF -- "$line" "$work/program"
    done
    equal "$each: a constraint without a selector gets the program's" 1 "$(grep -A12 'topologySpreadConstraints' "$work/program" | grep -c "app.kubernetes.io/component: $each")"
    equal "$each: an empty priority class is none" 0 "$(grep -c priorityClassName: "$work/program")"
  done
  # In a cluster of two architectures the image runs only on the nodes of the programs.
  render -s templates/helm-test.yaml --set 'scheduler.nodeSelector.tier=s,scheduler.tolerations[0].key=t' >"$work/program"
  for line in '    tier: s' '    - key: t'; do works "the pod of helm test takes $line" grep -qF -- "$line" "$work/program"; done
  # The whole matrix renders, and the two halves never get in each other's way.
  for each in true,true true,false false,true; do
    for set in admissionPolicy.enabled=true crds.enabled=false leaderElection.enabled=false,controller.replicas=1,scheduler.replicas=1 controller.annotatePods=true http.bindAddress=[::] runAsUser=null; do
      works "controller,scheduler=$each with $set" render --set "controller.enabled=${each%,*},scheduler.enabled=${each#*,},$set"
    done
  done
}
# The lines of the endpoint in the scheduler's ServiceMonitor, sorted, with these values.
token='bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token'
endpoint() { render -s templates/monitors.yaml --set "serviceMonitor.enabled=true,controller.enabled=false${1:+,$1}" | sed '1,/endpoints:/d; s/^[- ]*//; /^$/d' | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//'; }
gone() { printf -- '-%s ' ClusterRole/podgroup-$1 ClusterRoleBinding/podgroup-$1 Deployment/podgroup-$1 Lease/podgroup-$1 NetworkPolicy/podgroup-$1 PodDisruptionBudget/podgroup-$1 Role/podgroup-$1-lease RoleBinding/podgroup-$1-lease Service/podgroup-$1 ServiceAccount/podgroup-$1 | sed 's/ $//'; }
flags() { awk '/args:/{on=1;next} /env:|ports:/{on=0} on{sub(/^ *- /,""); printf "%s%s", n++?" ":"", $0}'; }
