#!/usr/bin/env bash
# Builds the kit (the real control plane, kwok and helm, and our oracle) into a cache folder named by what it is built from.
# `build.sh --path` only prints that folder. Two runs at once are safe: the second waits for the first.
#
# The programs of others have a folder of their own, and the kit links to them: after a change of the oracle only the oracle is built.
set -euo pipefail
cd "$(dirname "$0")"

version=1.36.3
key() { cat "$@" | sha256sum | cut -c1-16; }
cache=${PODGROUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podgroup}
programs=$cache/programs-$(key go.mod go.sum build.sh)
kit=$cache/kit-$(key go.mod go.sum build.sh oracle/*.go)
if [ "${1:-}" = --path ]; then
  echo "$kit"
  exit 0
fi
if [ -e "$kit/.complete" ]; then
  exit 0
fi

mkdir -p "$cache"
# One builder at a time; whoever waited finds the kit complete. Without flock (not on every system) there is only the rename below.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock 9
  [ -e "$kit/.complete" ] && exit 0
fi

staging=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$staging"' EXIT
minor=${version#1.}
minor=${minor%%.*}
# Without these every program says v0.0.0-master, and version checks go wrong.
stamp="-s -w -X k8s.io/component-base/version.gitVersion=v$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
export CGO_ENABLED=0
total=9
n=0
build() { # NAME PACKAGE
  n=$((n + 1))
  printf '[kit %d/%d] %s\n' "$n" "$total" "$1" >&2
  go build -trimpath -ldflags "$stamp" -o "$staging/$1" "$2"
}
complete() { # FOLDER
  touch "$staging/.complete"
  rm -rf "$1"
  mv "$staging" "$1"
}
if [ ! -e "$programs/.complete" ]; then
  printf 'building the kit (about 6 minutes on two cores, once) into %s\n' "$kit" >&2
  build etcd go.etcd.io/etcd/server/v3
  build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
  build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
  build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
  build kubectl k8s.io/kubernetes/cmd/kubectl
  build kwok sigs.k8s.io/kwok/cmd/kwok
  build kwokctl sigs.k8s.io/kwok/cmd/kwokctl
  build helm helm.sh/helm/v4/cmd/helm
  complete "$programs"
  mkdir "$staging"
fi
n=$((total - 1))
build oracle ./oracle
ln "$programs"/* "$staging"
complete "$kit"
trap - EXIT
