#!/usr/bin/env bash
# Which pictures do the chart's dashboards give? Scrapes both programs of the cluster in FOLDER with a real Prometheus, runs a load that fills the panels, and has
# draw.js write one picture for each dashboard. `make screenshots` starts and ends the cluster. The load checks nothing: case M1 compares the numbers of each panel.
# screenshots.sh FOLDER PICTURES MINUTES
set -euo pipefail
folder=$1 pictures=$2 minutes=$3
here=$(cd "$(dirname "$0")" && pwd)
kubectl=$(bash "$here/../build.sh" --path)/kubectl
export KUBECONFIG=$folder/kubeconfig
log=$folder/logs/load.log

# A program that is started with a path in FOLDER ends with the cluster. The same rule finds the programs.
address_of() { ps -axww -o args= | sed -n "s|^$folder/bin/$1 .*--http-address=\([0-9.:]*\).*|\1|p"; }

start_prometheus() {
  local port
  port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
  prometheus=http://127.0.0.1:$port
  {
    echo 'global: {scrape_interval: 2s, scrape_timeout: 2s}'
    echo 'scrape_configs:'
    for program in podgroup-controller podgroup-scheduler; do
      # The label that the Prometheus Operator adds to the series of a pod.
      echo "- {job_name: $program, static_configs: [{targets: ['$(address_of $program)'], labels: {namespace: podgroup-system}}]}"
    done
  } >"$folder/prometheus.yaml"
  ln -s "$(bash "$here/../prometheus.sh")/prometheus" "$folder/bin/prometheus"
  "$folder/bin/prometheus" --config.file="$folder/prometheus.yaml" --storage.tsdb.path="$folder/prometheus" \
    --web.listen-address="127.0.0.1:$port" >"$folder/logs/prometheus.log" 2>&1 &
}

make_node() { # NAME GPUS
  local amounts="{cpu: '16', memory: 64Gi, pods: '110', example.com/gpu: '$2'}"
  "$kubectl" create -f - >>"$log" <<YAML
apiVersion: v1
kind: Node
metadata:
  name: $1
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: $1, kubernetes.io/os: linux, type: kwok}
status: {allocatable: $amounts, capacity: $amounts}
YAML
}

deployment() { # NAME QUEUE REPLICAS MINIMUM REQUESTS
  "$kubectl" create -f - >>"$log" <<YAML
apiVersion: apps/v1
kind: Deployment
metadata:
  name: $1
  annotations: {scheduling.volcano.sh/queue-name: $2, scheduling.volcano.sh/group-min-member: '$4'}
spec:
  replicas: $3
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      schedulerName: podgroup-scheduler
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: example/1, resources: {requests: {$5}, limits: {$5}}}]
YAML
}

change() { "$kubectl" "$@" >>"$log"; }

# A Deployment and, as another client, its PodGroup are changed at once: sometimes between a read and a write of the controller.
change_both() { # ROUND
  local turn
  for turn in 1 2 3 4 5 6 7 8; do
    change annotate deployment notebooks volcano.sh/beside="$1-$turn" --overwrite &
    change annotate podgroup "$notebooks" example.com/seen="$1-$turn" --overwrite &
    sleep 1
  done
}

# About 45 seconds. The queue batch borrows what is free; gangs of vision and language reclaim it, and now and then one exceeds a quota.
round() { # NUMBER
  local sweep served members
  case $(($1 % 3)) in 0) sweep=30 served=4 members=3 ;; 1) sweep=24 served=10 members=10 ;; *) sweep=12 served=6 members=8 ;; esac
  change scale deployment sweep --replicas=$sweep
  change scale deployment notebooks --replicas=$served
  # The controller deletes the PodGroup of a Deployment without pods. The garbage collector deletes that of a deleted Deployment.
  change scale deployment nightly --replicas=$(($1 % 2))
  sleep 9
  deployment "vision-$1" vision $members $members 'cpu: 2, memory: 4Gi'
  sleep 5
  deployment "language-$1" language 10 10 'cpu: 2, memory: 4Gi'
  case $(($1 % 4)) in
    # Four GPUs, of which there are two.
    0) deployment detector vision 4 4 'cpu: 2, memory: 4Gi, example.com/gpu: 1' ;;
    3) change delete deployment detector --wait=false ;;
  esac
  change_both "$1"
  sleep 7
  [ "$1" -gt 0 ] || return 0
  change delete deployment "vision-$(($1 - 1))" --wait=false
  sleep 9
  change delete deployment "language-$(($1 - 1))" --wait=false
  sleep 4
}

start_prometheus
make_node node-a 2
for name in node-b node-c node-d; do make_node $name 0; done
change apply -f "$here/stage.yaml"
deployment old-report archive 1 1 'cpu: 1, memory: 1Gi'
deployment notebooks serving 1 1 'cpu: 1, memory: 2Gi'
deployment sweep batch 1 1 'cpu: 2, memory: 4Gi'
deployment nightly batch 1 1 'cpu: 1, memory: 2Gi'
"$kubectl" wait --for=condition=Available --timeout=60s deployment/notebooks >>"$log"
notebooks=$("$kubectl" get podgroups -o jsonpath='{.items[?(@.spec.queue=="serving")].metadata.name}')
echo "Prometheus: $prometheus; the load runs for $minutes minutes"
for ((number = 0; SECONDS < minutes * 60; number++)); do round $number; done
node "$here/draw.js" --prometheus "$prometheus" --to "$pictures" --minutes $((minutes - 1)) --queue vision --resource cpu
# A third of the size, where the program is there.
if command -v pngquant >/dev/null; then pngquant --ext .png --force 128 "$pictures"/dashboard-*.png; fi
