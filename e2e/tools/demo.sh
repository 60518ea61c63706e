#!/usr/bin/env bash
# What does `make demo` build, how long does that take, and how far is it? Builds the control plane (build.sh) and the programs at the same time, then runs COMMAND
# if there is one, and says at its end how long each part took. `make cluster-up` needs the same.
#
#   demo.sh COMMAND...
#
# All that it says itself goes to the standard error, because the last line of `make cluster-up` is a command for the shell.
set -euo pipefail
cd "$(dirname "$0")/../.."
built=${PODGROUP_BUILT:-}
compiled=${CARGO_TARGET_DIR:-target}
# Processor time from empty caches, in seconds (docs/decisions/2026-11-29-what-the-demo-builds.md).
control_plane_takes=960
programs_take=430

bash e2e/tools/prerequisites.sh demo
work=$(mktemp -d)
lanes=
# Each lane is a process group of its own: it ends with this script, also after Ctrl-C.
finish() { local lane; for lane in $lanes; do kill -- "-$lane" 2>/dev/null || true; done; rm -rf "$work"; }
trap finish EXIT
trap 'exit 130' INT TERM
say() { printf '%s\n' "$*" >&2; }
took() { printf '%2d min %02d s' $(($1 / 60)) $(($1 % 60)); }

control_plane() { bash e2e/tools/build.sh control-plane; }
# Prints what cargo says, and how far it is: a line for each 20 crates, and for each of ours.
programs() {
  local of=(--package podgroup --package e2e) crates line word number=0
  crates=$(cargo tree --quiet "${of[@]}" --edges no-dev --prefix none --format '{p}' | sed 's/ (\*)$//' | sort -u | wc -l)
  cargo build --verbose "${of[@]}" --bins 2>&1 | while IFS= read -r line; do
    read -r word _ <<<"$line" || true
    case $word in
      Running | Dirty | Downloaded) ;;
      Fresh | Compiling)
        number=$((number + 1))
        case $line in
          *Compiling\ *"($PWD"*) echo "$((number)) of $((crates)) crates: $(awk '{ print $2 }' <<<"$line")" ;;
          *Compiling\ *) [ $((number % 20)) -ne 0 ] || echo "$((number)) of $((crates)) crates" ;;
        esac
        ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
}
# keep NAME SECONDS: the line for the end. The processor time is that of all that this shell, or this part of it, has waited for.
keep() {
  times >"$work/$1.times"
  printf '%-13s in %s (processor time %s)\n' "$1" "$(took "$2")" "$(took "$(awk -F '[ms ]+' 'END { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$work/$1.times")")" >"$work/$1"
}
# lane NAME COMMAND: runs it beside what follows. Its lines have the time and the name before them.
lane() {
  set -m
  {
    "$2" 2>&1 | while IFS= read -r line; do say "$(printf '%3d:%02d  %-13s  %s' $((SECONDS / 60)) $((SECONDS % 60)) "$1" "$line")"; done
    keep "$1" "$SECONDS"
  } </dev/null &
  lanes="$lanes $!"
  set +m
}

plane=$(bash e2e/tools/build.sh --path control-plane)
seconds=0
if [ ! -e "$plane/.complete" ]; then
  say "control plane  etcd, kube-apiserver, kube-controller-manager, kubectl, kwok, kwokctl and helm are built from source, once, into $plane"
  seconds=$((seconds + control_plane_takes))
  lane control-plane control_plane
fi
if [ -z "$built" ]; then
  if [ -d "$compiled/debug/deps" ]; then
    say "programs       cargo compiles what has changed in $compiled"
  else
    say "programs       podgroup-controller, podgroup-scheduler, kubectl-podgroup and the runner are compiled into $compiled"
    seconds=$((seconds + programs_take))
  fi
  lane programs programs
fi
if [ $seconds -ne 0 ]; then
  processors=$(getconf _NPROCESSORS_ONLN)
  minutes=$(((seconds / processors + 59) / 60))
  [ $minutes -ge 2 ] || minutes=2
  say "From empty caches that is about $((seconds / 60)) minutes of processor time: $minutes minutes on $processors idle processors"
fi

# All lanes are waited for, so that what is whole stays in the cache when another one fails.
failed=
for lane in $lanes; do wait "$lane" || failed=1; done
lanes=
if [ -n "$failed" ]; then
  say 'the build failed: see the lines above'
  exit 1
fi
status=0
if [ $# -ne 0 ]; then
  began=$SECONDS
  "$@" || status=$?
  printf '%-13s in %s\n' demo "$(took $((SECONDS - began)))" >"$work/demo"
fi
printf '%-13s in %s\n' all "$(took $SECONDS)" >"$work/all"
for part in control-plane programs demo all; do
  [ ! -e "$work/$part" ] || say "$(<"$work/$part")"
done
exit $status
