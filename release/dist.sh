#!/usr/bin/env bash
# What is given to users: static programs for Linux, an image, the chart, and the checksums of all of it, in dist/. `make dist` calls it.
#
# The version is that of Cargo.toml, for everything. The same sources and tools give the same programs and image: no time, user or folder of this machine is in them.
# `dist.sh programs` compiles alone; `dist.sh image` makes the image alone, `dist.sh chart` the chart alone: what is in target/ is taken as it is then.
# `dist.sh folder` prints the folder of the compiled programs. DIST is the folder that all goes to.
# DIST_PROGRAMS is a folder of programs that are packed as they are, and nothing is compiled.
# ARCH is the architecture, amd64 or arm64; without it amd64. docs/install.md says what cargo needs to build for another architecture than that of this machine.
# DOWNLOAD_URL and HOMEPAGE are for the manifest of the kubectl plugin: the folder that the publisher puts dist/ into, and the page of the project.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || { echo 'no version in Cargo.toml' >&2; exit 1; }
dist=${DIST:-dist}
say() { printf '%s\n' "$*" >&2; }

arch=${ARCH:-amd64}
case $arch in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) say "ARCH is $arch, and must be amd64 or arm64"; exit 2 ;;
esac

# musl where its standard library is installed, as the smaller of the two; else glibc's own static one. The programs reach the API server of their cluster by address, so a
# glibc that cannot load the name services of a system loses nothing there.
target=$machine-unknown-linux-musl
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || target=$machine-unknown-linux-gnu
built=${DIST_PROGRAMS:-${CARGO_TARGET_DIR:-target}/$target/release}

programs() {
  [ -z "${DIST_PROGRAMS:-}" ] || return 0
  # Named for the target only: proc macros are libraries that are loaded, and cannot be static.
  local flags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<$target)_RUSTFLAGS
  # The folders of this machine do not stand in the messages of panics.
  env "$flags=-C target-feature=+crt-static --remap-path-prefix=$PWD=podgroup --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=crates -C strip=symbols" \
    cargo build --release --locked --target $target -p podgroup --bins ${CARGO_FLAGS:-}
}

# The programs that there are, with the plugin where it is built.
each_program() { local name; for name in podgroup-controller podgroup-scheduler kubectl-podgroup; do [ ! -x "$built/$name" ] || echo "$name"; done; }

check_static() {
  local name
  for name in $(each_program); do
    # An interpreter is what a dynamic program needs first of all. ldd's exit status says nothing for a static-pie.
    if readelf --program-headers --wide "$built/$name" | grep -q INTERP || readelf --dynamic --wide "$built/$name" | grep -q NEEDED; then
      say "$name is not static"; exit 1
    fi
    # A program for another architecture cannot run here.
    [ "$(uname -m)" = $machine ] || continue
    local found; found=$("$built/$name" --version)
    [ "$found" = "$name $version" ] || { say "$name says \"$found\", and Cargo.toml $version"; exit 1; }
  done
}

# tar without anything of this machine and this moment.
pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar "$@"; }
sum() { sha256sum "$1" | cut -d' ' -f1; }

archive() {
  local work=$1 name=podgroup-$version-linux-$arch
  mkdir "$work/$name"
  local program; for program in $(each_program); do install -m 755 "$built/$program" "$work/$name/$program"; done
  install -m 644 README.md CHANGELOG.md "$work/$name/"
  [ ! -f LICENSE ] || install -m 644 LICENSE "$work/$name/"
  pack -C "$work" -cf - "$name" | gzip -n9 >"$dist/$name.tar.gz"
}

# The manifest by which krew installs the kubectl plugin from the archives in dist/, one for each architecture: `kubectl krew install --manifest=FILE`.
krew() {
  local each name
  [ -x "$built/kubectl-podgroup" ] || return 0
  cat >"$dist/podgroup-$version-krew.yaml" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: podgroup
spec:
  version: v$version
  homepage: ${HOMEPAGE:-https://HOMEPAGE}
  shortDescription: Explain why PodGroups and pods wait
  description: |
    Shows why PodGroups and their pods wait, the tree of queues with what each
    uses and may use, and the nodes with what is free on them. It asks the
    PodGroup controller and gang scheduler that the chart "podgroup" installs.
  platforms:
END
  for each in amd64 arm64; do
    name=podgroup-$version-linux-$each
    [ -f "$dist/$name.tar.gz" ] || continue
    cat >>"$dist/podgroup-$version-krew.yaml" <<END
    - selector:
        matchLabels: {os: linux, arch: $each}
      uri: ${DOWNLOAD_URL:-https://DOWNLOAD_URL}/$name.tar.gz
      sha256: $(sum "$dist/$name.tar.gz")
      files:
        - {from: $name/kubectl-podgroup, to: .}
        - {from: $name/LICENSE, to: .}
      bin: kubectl-podgroup
END
  done
}

# An image in the layout of the OCI, made of tar and sha256sum alone: one layer with the two programs, as the Dockerfile has it.
image() {
  local work=$1 layout=$1/layout root=$1/root blobs=$1/layout/blobs/sha256 program
  mkdir -p "$blobs" "$root"
  for program in podgroup-controller podgroup-scheduler; do install -m 755 "$built/$program" "$root/$program"; done
  pack -C "$root" -cf "$work/layer.tar" podgroup-controller podgroup-scheduler
  local diff; diff=$(sum "$work/layer.tar")
  gzip -n9 "$work/layer.tar"
  blob() { local digest; digest=$(sum "$1"); mv "$1" "$blobs/$digest"; printf '{"mediaType":"%s","digest":"sha256:%s","size":%d}' "$2" "$digest" "$(stat -c %s "$blobs/$digest")"; }
  local layer config manifest
  layer=$(blob "$work/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)
  # The user is the chart's; no shell, no libraries, nothing else is in it.
  printf '{"architecture":"%s","os":"linux","config":{"User":"65532:65532","Entrypoint":["/podgroup-controller"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"podgroup","org.opencontainers.image.version":"%s"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"release/dist.sh"}]}' \
    "$arch" "$version" "$diff" >"$work/config"
  config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' "$config" "$layer" >"$work/manifest"
  manifest=$(blob "$work/manifest" application/vnd.oci.image.manifest.v1+json)
  # Both annotations: the one is the layout's own word for a tag, the other what docker and containerd take for the whole name.
  printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s,"annotations":{"org.opencontainers.image.ref.name":"%s","io.containerd.image.name":"localhost/podgroup:%s"}}]}' \
    "${manifest%\}}" "$version" "$version" >"$layout/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
  pack -C "$layout" -cf "$dist/podgroup-$version-linux-$arch.oci.tar" blobs index.json oci-layout
}

chart() {
  local helm; helm=$(bash e2e/tools/build.sh --path)/helm
  "$helm" package charts/podgroup --version "$version" --app-version "$version" --destination "$dist" >/dev/null
}

if [ "${1:-}" = programs ]; then programs; exit; fi
if [ "${1:-}" = folder ]; then echo "$built"; exit; fi
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case ${1:-all} in
  all) programs; check_static; archive "$work"; krew; image "$work"; chart ;;
  image) check_static; image "$work" ;;
  chart) chart ;;
  *) say "dist.sh [programs|folder|image|chart]"; exit 2 ;;
esac
(cd "$dist" && find . -maxdepth 1 -name "podgroup-$version*" -type f -printf '%f\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
(cd "$dist" && du -h --apparent-size podgroup-"$version"* && cat SHA256SUMS)
