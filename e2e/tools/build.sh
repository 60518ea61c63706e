#!/usr/bin/env bash
# Builds the real control plane and our oracle from source, into two cache folders that are named by what they are built from:
#
#   build.sh control-plane ─▶ control-plane-KEY  etcd, kube-apiserver, kube-controller-manager, kubectl, kwok, kwokctl, helm: a cluster, and all of the demo
#   build.sh               ─▶ kit-KEY            links to these, kube-scheduler, and our oracle: what cases and tests need besides
#
# `build.sh --path` and `build.sh --path control-plane` only print the folder. Two runs at once are safe: the second waits for the first.
set -euo pipefail
cd "$(dirname "$0")"

version=1.36.3
key() { cat "$@" | sha256sum | cut -c1-16; }
cache=${PODGROUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podgroup}
control_plane=$cache/control-plane-$(key go.mod go.sum build.sh)
kit=$cache/kit-$(key go.mod go.sum build.sh oracle/*.go)
only_path=
if [ "${1:-}" = --path ]; then
  only_path=1
  shift
fi
case ${1:-} in
  control-plane) wanted=$control_plane ;;
  '') wanted=$kit ;;
  *) echo "no part of the kit is called '$1'; there is control-plane" >&2 && exit 1 ;;
esac
if [ -n "$only_path" ]; then
  echo "$wanted"
  exit 0
fi
if [ -e "$wanted/.complete" ]; then
  exit 0
fi

mkdir -p "$cache"
# One builder at a time; a second one then finds the folder complete. Without flock (not on every system) there is only the rename below.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock -n 9 || { echo 'waiting for another build into the same cache' >&2 && flock 9; }
  [ -e "$wanted/.complete" ] && exit 0
fi

staging=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$staging"' EXIT
minor=${version#1.}
minor=${minor%%.*}
# Without these every program says v0.0.0-master, and version checks go wrong.
stamp="-s -w -X k8s.io/component-base/version.gitVersion=v$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
export CGO_ENABLED=0

# Prints what go says, and how far it is: a line for each 100 packages, and for each 100 modules that it downloads.
progress() { # PACKAGES
  local line packages=0 modules=0
  while IFS= read -r line; do
    case $line in
      'go: downloading '*) modules=$((modules + 1)) && [ $((modules % 100)) -ne 0 ] || echo "$modules modules downloaded" ;;
      '' | *[[:space:]:]*) printf '%s\n' "$line" ;;
      *) packages=$((packages + 1)) && [ $((packages % 100)) -ne 0 ] || echo "$packages of $1 packages compiled" ;;
    esac
  done >&2
}
# One call for all programs of a part, so that one is linked while another one is compiled. The linker drops what a debugger needs (-s -w), so the compiler does
# not write it either (-dwarf=false): a tenth of its time. The traces of a panic have their lines all the same.
build() { # PACKAGE...
  local list=$staging/.packages packages
  go list -deps "$@" 2>&1 >"$list" | progress 0
  packages=$(wc -l <"$list")
  rm "$list"
  go build -v -trimpath -gcflags all=-dwarf=false -ldflags "$stamp" -o "$staging/" "$@" 2>&1 | progress $((packages))
}
complete() { # FOLDER
  touch "$staging/.complete"
  rm -rf "$1"
  mv "$staging" "$1"
}
if [ ! -e "$control_plane/.complete" ]; then
  printf 'building the control plane into %s\n' "$control_plane" >&2
  k8s=k8s.io/kubernetes/cmd kwok=sigs.k8s.io/kwok/cmd
  build go.etcd.io/etcd/server/v3 $k8s/kube-apiserver $k8s/kube-controller-manager $k8s/kubectl $kwok/kwok $kwok/kwokctl helm.sh/helm/v4/cmd/helm
  mv "$staging/server" "$staging/etcd"
  complete "$control_plane"
  mkdir "$staging"
fi
if [ "$wanted" = "$kit" ]; then
  printf 'building kube-scheduler and the oracle into %s\n' "$kit" >&2
  build k8s.io/kubernetes/cmd/kube-scheduler ./oracle
  ln "$control_plane"/* "$staging"
  complete "$kit"
fi
trap - EXIT
