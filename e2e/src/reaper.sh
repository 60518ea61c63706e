# Answers: who removes a run's processes and folder when the one who started them is gone?
# Started with DIR and LIMIT; standard input is a pipe that only the starter holds. The pipe closes when the starter is done, panics or is
# killed (-9 too), and then everything goes. One line "keep" lets it all live on. LIMIT seconds are the bound on any run.
# A process belongs to the run exactly if the path that it was started by (its argv[0]) lies in DIR: the folder's name is random, so
# nobody else can be hit, and no pid has to be remembered and then be another's.
set -u
dir=$1
limit=$2
word=
IFS= read -r -t "$limit" word || true
[ "$word" = keep ] && exit 0

members() {
  if [ -d /proc/self ]; then
    for entry in /proc/[0-9]*; do
      program=
      { IFS= read -r -d '' program <"$entry/cmdline"; } 2>/dev/null || continue
      case $program in "$dir"/*) printf '%s\n' "${entry#/proc/}" ;; esac
    done
  else
    ps -axww -o pid= -o args= | while read -r pid program _; do
      case $program in "$dir"/*) printf '%s\n' "$pid" ;; esac
    done
  fi
}

# More than once: kwokctl may have been starting something when the first round looked.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  pids=$(members)
  [ -z "$pids" ] && break
  # shellcheck disable=SC2086
  kill -KILL $pids 2>/dev/null
  sleep 0.1
done
rm -rf "$dir"
