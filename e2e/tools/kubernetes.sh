#!/usr/bin/env bash
# Builds a kit with the programs of an older Kubernetes into the cache, once, and prints its folder: `kubernetes.sh 1.35`. The runner takes it from PODGROUP_KIT.
#
# Only the API server, the controller manager, the scheduler and kubectl are of that minor (kubernetes-1.35/go.mod says which patch). All others are links to the
# kit of build.sh, which must exist.
set -euo pipefail
cd "$(dirname "$0")"

minor=${1:-}
if [ ! -e "kubernetes-$minor/go.mod" ]; then
  echo "no go.mod for Kubernetes '$minor'; there are: $(printf '%s\n' kubernetes-*/ | sed 's/kubernetes-//; s,/,,' | xargs)" >&2
  exit 1
fi
version=$(sed -n 's,^.*k8s.io/kubernetes v\([0-9.]*\).*,\1,p' "kubernetes-$minor/go.mod")
usual=$(bash build.sh --path)
if [ ! -e "$usual/.complete" ]; then
  echo "the kit is not built in $usual: run \`make tools\`" >&2
  exit 1
fi
cache=$(dirname "$usual")
key=$(cat "kubernetes-$minor/go.mod" "kubernetes-$minor/go.sum" kubernetes.sh | sha256sum | cut -c1-16)
programs=$cache/kubernetes-$version-$key
kit=$cache/$(basename "$usual")-$version-$key
if [ -e "$kit/.complete" ]; then
  echo "$kit"
  exit 0
fi

# As in build.sh: one builder at a time, and without flock only the rename below.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock-kubernetes"
  flock 9
  if [ -e "$kit/.complete" ]; then
    echo "$kit"
    exit 0
  fi
fi

staging=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$staging"' EXIT
complete() { # FOLDER
  touch "$staging/.complete"
  rm -rf "$1"
  mv "$staging" "$1"
}
# As in build.sh.
stamp="-s -w -X k8s.io/component-base/version.gitVersion=v$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor#1.}"
if [ ! -e "$programs/.complete" ]; then
  printf 'building Kubernetes %s (about 6 minutes on two cores, once) into %s\n' "$version" "$programs" >&2
  for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    printf '[%s] %s\n' "$version" "$program" >&2
    (cd "kubernetes-$minor" && CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags "$stamp" -o "$staging/$program" "k8s.io/kubernetes/cmd/$program") >&2
  done
  complete "$programs"
  mkdir "$staging"
fi
ln "$usual"/* "$staging"
ln -f "$programs"/* "$staging"
complete "$kit"
trap - EXIT
echo "$kit"
