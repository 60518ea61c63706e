#!/usr/bin/env bash
# Builds an operator of another project from its Go module into a cache folder, once, and prints that folder. Nothing of the module is in this repository.
#
#   operators.sh mpi-operator ─▶ FOLDER/mpi-operator    the program
#                                FOLDER/manifests.yaml  CRDs, rights and configuration, without Deployments: the case starts the program itself
#                                FOLDER/example.yaml    an example of the project
#   operators.sh local-path-provisioner                 the same of a provisioner of volumes
#
# The Services become names of this machine, because webhooks are served here: see src/operator/webhooks.rs.
set -euo pipefail
cd "$(dirname "$0")"

operator=${1:-}
case $operator in
  mpi-operator)
    module=github.com/kubeflow/mpi-operator version=v0.6.0 sum=h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=
    package=cmd/mpi-operator manifests=deploy/v2beta1/mpi-operator.yaml example=examples/v2beta1/pi/pi.yaml minutes=4
    ;;
  training-operator)
    module=github.com/kubeflow/training-operator version=v1.8.1 sum=h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=
    package=cmd/training-operator.v1 manifests=manifests/overlays/standalone example=examples/pytorch/simple.yaml minutes=4
    ;;
  lws-0.6.0)
    module=sigs.k8s.io/lws version=v0.6.0 sum=h1:qHvhm54daBzL1S/+e8bafp7BKRC3jhrqY+EgpDGf41o=
    package=cmd manifests=config/default example=docs/examples/sample/lws-restart-policy.yaml minutes=4
    ;;
  lws-0.7.0)
    module=sigs.k8s.io/lws version=v0.7.0 sum=h1:qWfzX8+UBak+Hq0+m/PuE3uO0mp/3dmm5q/h/7z31A8=
    package=cmd manifests=config/default example=docs/examples/sample/gang-scheduling/lws-sample-volcano.yaml minutes=4
    ;;
  jobset)
    module=sigs.k8s.io/jobset version=v0.8.0 sum=h1:80cJcPld+IMdKFOqzEW4et3Y6lGAPcP8YmBZ+aiKGYA=
    package=. manifests=config/default example=site/static/examples/simple/paralleljobs.yaml minutes=4
    ;;
  trainer)
    module=github.com/kubeflow/trainer/v2 version=v2.0.0 sum=h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=
    package=cmd/trainer-controller-manager example=manifests/base/runtimes/torch_distributed.yaml minutes=4
    # Its overlay without JobSet, which that overlay downloads.
    manifests='manifests/overlays/manager/namespace.yaml manifests/base/crds manifests/base/manager manifests/base/rbac manifests/base/webhook'
    settings='
namespace: kubeflow-system
secretGenerator: [{name: kubeflow-trainer-webhook-cert, options: {disableNameSuffixHash: true}}]'
    ;;
  local-path-provisioner)
    module=github.com/rancher/local-path-provisioner version=v0.0.30 sum=h1:OkiuofkCSscddl7tma/B9Ox1wu+JEVSrP7IcZI65Ggo=
    package=. manifests=deploy/local-path-storage.yaml example=examples/pvc/pvc.yaml minutes=2
    ;;
  *)
    echo "no operator is called '$operator'; there are mpi-operator, training-operator, lws-0.6.0, lws-0.7.0, jobset, trainer and local-path-provisioner" >&2
    exit 1
    ;;
esac

cache=${PODGROUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podgroup}
folder=$cache/operator-$operator-$(sha256sum <operators.sh | cut -c1-16)
if [ -e "$folder/.complete" ]; then
  echo "$folder"
  exit 0
fi

mkdir -p "$cache"
# As in build.sh: one builder at a time, and without flock only the rename below.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock-$operator"
  flock 9
  if [ -e "$folder/.complete" ]; then
    echo "$folder"
    exit 0
  fi
fi

printf 'building %s %s (about %s minutes on two cores, once) into %s\n' "$operator" "$version" "$minutes" "$folder" >&2
staging=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$staging"' EXIT
value() { sed -n "s/^\t\"$1\": \"\(.*\)\",\{0,1\}$/\1/p"; }
download=$(cd "$staging" && go mod download -json "$module@$version")
found=$(value Sum <<<"$download")
if [ "$found" != "$sum" ]; then
  echo "$module@$version has the checksum $found, expected $sum" >&2
  exit 1
fi
# A copy, because the module cache is read-only. The module's own go.sum names every dependency.
cp -R "$(value Dir <<<"$download")" "$staging/source"
chmod -R u+w "$staging/source"
(cd "$staging/source" && CGO_ENABLED=0 go build -mod=readonly -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' -o "$staging/$operator" "./$package") >&2
cp "$staging/source/$example" "$staging/example.yaml"
mkdir "$staging/source/podgroup"
cat >"$staging/source/podgroup/kustomization.yaml" <<YAML
resources: [$(printf '../%s, ' $manifests)]${settings:-}
patches:
  - target: {kind: Deployment}
    patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: any}, \$patch: delete}'
  - target: {kind: Service}
    patch: '[{"op": "replace", "path": "/spec", "value": {"type": "ExternalName", "externalName": "localhost"}}]'
YAML
"$(bash build.sh --path)/kubectl" kustomize --load-restrictor=LoadRestrictionsNone "$staging/source/podgroup" >"$staging/manifests.yaml"
rm -rf "$staging/source"

touch "$staging/.complete"
rm -rf "$folder"
mv "$staging" "$folder"
trap - EXIT
echo "$folder"
