#!/usr/bin/env bash
# What does `make test` run, in which order, and how long did each part take? The Makefile calls it; each part is a verb of the Makefile.
#
#   prerequisites, format, tools ─┬─▶ programs, tests (compiled) ─┬─▶ unit and property tests ─▶ observer's tests ─▶ cases
#                                 ╰─▶ shipped, jobset, lints ─────╯
#
# `shipped` are the programs as `make dist` makes them: a part of the cases runs them, and C11 packs them. `jobset` is the operator of E2-whole.
# Nothing runs beside the cases and the observer's tests: they have deadlines, and what only computes takes both cores for minutes, also at a low priority. The two lanes of compilers have folders of their own in target/, so neither
# waits for the other.
#
# The output of a part of the second lane is printed when the part ends, so that the lines of two parts do not mix. A part that fails does not stop the others,
# but without programs there is no case.
set -uo pipefail
cd "$(dirname "$0")/../.."
make=${MAKE:-make}
began=$SECONDS
work=$(mktemp -d)
lane= bin=
# The second lane is a process group of its own: it ends with this script, also after Ctrl-C.
finish() { [ -z "$lane" ] || kill -- "-$lane" 2>/dev/null; rm -rf "$work" ${bin:+"$bin"}; }
trap finish EXIT
trap 'exit 130' INT TERM

took() { printf '%2d min %02d s' $(($1 / 60)) $(($1 % 60)); }
verb() { "$make" --no-print-directory "$@"; }

# part NAME COMMAND...: runs it, prints its time, and keeps that line for the sum. Its output goes to a file of its name too.
part() {
  local name=$1 start=$SECONDS status word=passed
  shift
  "$@" 2>&1 | tee "$work/$name.log"
  status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || word=FAILED
  printf '%-9s %s in %s\n' "$name" "$word" "$(took $((SECONDS - start)))" | tee -a "$work/sum"
  return "$status"
}

# The same for a part of the second lane: its output comes at its end.
quiet_part() {
  local status
  part "$@" >"$work/$1.all"
  status=$?
  cat "$work/$1.all"
  return "$status"
}

# lane COMMAND...: runs it beside what follows, as the second lane.
lane() {
  set -m
  "$@" &
  lane=$!
  set +m
}
# Without the first two there are no cases. The lints are there because this lane is the shorter one.
second_lane() {
  local status=0
  quiet_part shipped verb shipped && quiet_part jobset verb jobset || return 2
  CARGO_TARGET_DIR=target/lints quiet_part lints verb lints || status=1
  return "$status"
}
# The end of the second lane, and its status.
lane_ended() { local status; wait "$lane"; status=$?; lane=; return "$status"; }

# A fresh checkout is compiled once, so cargo need not keep what a second compilation would use. A later one uses what is there.
[ -d "${CARGO_TARGET_DIR:-target}/debug/incremental" ] || export CARGO_INCREMENTAL=0

verb prerequisites || exit 1
part format verb format || exit 1
part tools verb provisioner || exit 1

failed=0
export SHIPPED=1
lane second_lane
part programs verb debug-build || exit 1
part tests verb unit-build || failed=1
lane_ended
case $? in 0) ;; 1) failed=1 ;; *) exit 1 ;; esac
# The cases run the programs of now: cargo may link them anew meanwhile, and replaces the file. Links, because a copy takes 0.4 GB.
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd) && bin=$(mktemp -d "$target/cases-XXXXXX") || exit 1
ln "$target"/debug/{e2e,podgroup-controller,podgroup-scheduler,kubectl-podgroup} "$bin/" || exit 1

part unit verb unit || failed=1
part observer verb observer || failed=1
BIN=$bin PODGROUP_E2E=$bin/e2e PODGROUP_BUILT=1 part cases verb e2e || failed=1

printf '\n'
cat "$work/sum"
printf '%-9s        in %s\n' all "$(took $((SECONDS - began)))"
# The end of a long output is what is read first, so what failed stands there by its name: tests of cargo, and cases.
awk '/^failures:$/ { names = 1; next } names && /^    [a-z]/ { print "failed: " $1; next } /^[^ ]/ { names = 0 } /^failed: [A-Z]/' \
  "$work/unit.log" "$work/observer.log" "$work/cases.log" 2>/dev/null | sort -u
# One line for all: the tests of cargo (`test result: ok. 668 passed; 0 failed; ...`) and the cases (`138 passed, 0 failed`).
cat "$work/observer.log" "$work/unit.log" "$work/cases.log" | awk '
  /^test result: / || /^[0-9]+ passed, [0-9]+ failed$/ {
    for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^failed/) wrong += $(i - 1) }
  }
  END { printf "%d passed, %d failed\n", passed, wrong }'
exit "$failed"
