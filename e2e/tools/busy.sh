#!/usr/bin/env bash
# What happens on a busy machine? Runs COMMAND beside LOOPS programs that compute all the time, and ends these with it.
#
#   busy.sh LOOPS COMMAND...
set -euo pipefail
loops=$1
shift
pids=
trap '[ -z "$pids" ] || kill $pids 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for ((loop = 0; loop < loops; loop++)); do
  (while :; do :; done) &
  pids="$pids $!"
done
"$@"
