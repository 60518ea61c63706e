#!/usr/bin/env bash
# Says at once everything that is missing to build and test, and how to get it; silent if nothing is. Installs nothing but libfaketime, and gets Prometheus into the
# cache (see below). `prerequisites.sh demo` asks only for what builds the demo, and gets nothing.
set -uo pipefail
missing=0
lacks() { # WHAT HOW
  [ $missing -ne 0 ] || echo 'missing on this machine:' >&2
  missing=1
  printf '  %-22s %s\n' "$1" "$2" >&2
}
# at_least WANTED FOUND: whether version FOUND is WANTED or newer
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$1" ]; }

rust=1.95
found=$(rustc --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/\1/p')
if ! command -v cargo >/dev/null || [ -z "$found" ]; then
  lacks "cargo >= $rust" "https://rustup.rs"
elif ! at_least $rust "$found"; then
  lacks "cargo >= $rust" "there is $found: rustup update stable"
fi
if [ "${1:-}" != demo ]; then
  cargo fmt --version >/dev/null 2>&1 || lacks rustfmt "rustup component add rustfmt"
  cargo clippy --version >/dev/null 2>&1 || lacks clippy "rustup component add clippy"
fi

go=1.26
found=$(go env GOVERSION 2>/dev/null | sed -n 's/^go\([0-9]*\.[0-9]*\).*/\1/p')
if [ -z "$found" ]; then
  lacks "go >= $go" "https://go.dev/dl"
elif ! at_least $go "$found"; then
  lacks "go >= $go" "there is $found: https://go.dev/dl"
fi
command -v git >/dev/null || lacks git "the package git of your system"
command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
  lacks "a C compiler" "the package build-essential (Debian), gcc (Fedora), or xcode-select --install (macOS)"

[ "${1:-}" != demo ] || exit $missing
# For the cases in which a clock jumps; they alone need it and say so, so its lack fails nothing here. Installed where that asks nobody for a password.
faketime() {
  local file
  for file in /usr/lib/*-linux-gnu/faketime/libfaketimeMT.so.1 /usr/{lib64,lib,local/lib}/faketime/libfaketimeMT.so.1; do
    [ ! -e "$file" ] || return 0
  done
  return 1
}
if [ "$(uname -s)" = Linux ] && ! faketime; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    install_faketime() { DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -qq -y --no-install-recommends libfaketime; }
    { install_faketime || { timeout 120 apt-get update -qq && install_faketime; }; } >/dev/null 2>&1
  fi
  faketime || echo 'without libfaketime (the package of that name) the cases K7 and K7-two cannot run' >&2
fi
# For the cases and tests in which dashboards and alerts are asked of a real Prometheus; the same holds for it.
bash "$(dirname "$0")/prometheus.sh" --fetch >/dev/null ||
  echo 'without prometheus and promtool in PATH (the package prometheus) the cases M1 and M2 and the test of the alerts cannot run' >&2
exit $missing
