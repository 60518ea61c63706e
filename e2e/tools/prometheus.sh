#!/usr/bin/env bash
# Where are prometheus and promtool? Prints their folder, or fails. `prometheus.sh --fetch` first gets Debian's package into the cache where the machine has neither.
# It is unpacked there and never installed: an installed one starts a service.
set -uo pipefail
folder=${PODGROUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podgroup}/prometheus

where() {
  local promtool
  if command -v prometheus >/dev/null && promtool=$(command -v promtool); then dirname "$promtool"
  elif [ -x "$folder/usr/bin/prometheus" ] && [ -x "$folder/usr/bin/promtool" ]; then echo "$folder/usr/bin"
  else return 1; fi
}

fetch() {
  local work status
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder-XXXXXX") || return 1
  download() { (cd "$work" && timeout 180 apt-get -o APT::Sandbox::User="$(id -un)" download -qq prometheus); }
  # What fails half way leaves nothing behind that looks whole; of two at once the first is kept.
  { download || { [ "$(id -u)" -eq 0 ] && timeout 120 apt-get update -qq && download; }; } >/dev/null 2>&1 &&
    dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked" && mv -T "$work/unpacked" "$folder" 2>/dev/null
  status=$?
  rm -rf "$work"
  return $status
}

if [ "${1:-}" = --fetch ] && ! where >/dev/null && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
  fetch || true
fi
where
