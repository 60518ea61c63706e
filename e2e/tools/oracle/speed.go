// How many decisions do kube-scheduler's own plugins make in a second of processor time, on one core? `oracle speed` prints a table; the pods and nodes are those of `make bench`.
//
// A decision is what schedulePod in schedule_one.go does: PreFilter, Filter on each node until enough take the pod, PreScore and Score, and the best node. It is not assumed or bound,
// nothing is queued, and no hint of an earlier pod is used (OpportunisticBatching). The snapshot stays as it is: four members of each gang are on nodes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"strconv"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

const (
	speedNodes = 5000
	gangs      = 100
	placed     = 4
)

type object = map[string]any

func read[T any](from object) *T {
	text, err := json.Marshal(from)
	into := new(T)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err)
	}
	return into
}

func speedNode(number int) *v1.Node {
	var images []any
	for at := range 50 {
		name := fmt.Sprintf("registry.example.com/team-%d/service-%d:1", at%7, number%40*50+at)
		if at == 0 {
			name = "registry.example.com/base:1"
		} else if at == 1 && number%2 == 0 {
			name = "registry.example.com/train:1"
		}
		images = append(images, object{"names": []string{name, fmt.Sprintf("%s@sha256:%064d", name, at)}, "sizeBytes": uint64(8_000_000_000) >> (at / 2)})
	}
	name := fmt.Sprintf("node-%05d", number)
	labels := object{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "zone": fmt.Sprintf("z%d", number%3), "rack": fmt.Sprintf("r%d", number/20)}
	allocatable := object{"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"}
	return read[v1.Node](object{"metadata": object{"name": name, "labels": labels}, "status": object{"allocatable": allocatable, "images": images}})
}

// A pod with this request; what it requires is added to its spec.
func speedPod(name, app, cpu, memory string, spec object) *v1.Pod {
	all := object{"containers": []any{object{"name": "c", "image": "registry.example.com/base:1", "resources": object{"requests": object{"cpu": cpu, "memory": memory}}}}}
	maps.Copy(all, spec)
	return read[v1.Pod](object{"metadata": object{"namespace": "team", "name": name, "uid": name, "labels": object{"app": app}}, "spec": all})
}

// What the pods of a gang require, as in benches/decisions/cluster.rs.
func requires(kind string, gang int) (string, object) {
	app := fmt.Sprintf("train-%d", gang)
	selector := object{"matchLabels": object{"app": app}}
	required := func(kind, key string) object {
		term := object{"topologyKey": key, "labelSelector": selector}
		return object{"affinity": object{kind: object{"requiredDuringSchedulingIgnoredDuringExecution": []any{term}}}}
	}
	zones := []any{object{"key": "zone", "operator": "In", "values": []string{"z0", "z1"}}}
	terms := object{"nodeSelectorTerms": []any{object{"matchExpressions": zones}}}
	switch nodes := kind == "nodes" || kind == "usual"; {
	case nodes && gang < gangs/3:
		return app, object{"nodeSelector": object{"kubernetes.io/os": "linux"}, "tolerations": []any{object{"key": "dedicated", "operator": "Exists"}},
			"affinity": object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
	case kind == "spread" || kind == "usual" && gang >= gangs-gangs/5 && gang%2 == 0:
		constraint := object{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
		return app, object{"topologySpreadConstraints": []any{constraint}}
	case kind == "apart" || kind == "usual" && gang >= gangs-gangs/5:
		return app, required("podAntiAffinity", "kubernetes.io/hostname")
	case kind == "together":
		return app, required("podAffinity", "zone")
	}
	return "train", object{}
}

// A snapshot with so many running pods, and one waiting pod of each gang.
func speedCluster(kind string, running int) (*cache.Snapshot, []*v1.Pod) {
	var nodes []*v1.Node
	var pods, pending []*v1.Pod
	for number := range speedNodes {
		nodes = append(nodes, speedNode(number))
	}
	on := func(pod *v1.Pod, node int) {
		pod.Spec.NodeName = nodes[node%speedNodes].Name
		pods = append(pods, pod)
	}
	for number := range running {
		on(speedPod(fmt.Sprintf("runs-%d", number), "train", "100m", "256Mi", nil), number)
	}
	for gang := range gangs {
		app, spec := requires(kind, gang)
		for member := range placed {
			node := gang*30 + member
			if kind == "together" {
				node = gang*30 + member*3
			}
			on(speedPod(fmt.Sprintf("placed-%d-%d", gang, member), app, "500m", "1Gi", spec), node)
		}
		pending = append(pending, speedPod(fmt.Sprintf("waits-%d", gang), app, "500m", "1Gi", spec))
	}
	return cache.NewSnapshot(pods, nodes), pending
}

// The framework with the whole default profile, one node at a time.
func speedFramework(ctx context.Context, client kubernetes.Interface, snapshot *cache.Snapshot) (framework.Framework, error) {
	all, err := latest.Default()
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	nominated, err := nominate(nil)
	if err != nil {
		return nil, err
	}
	return runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &all.Profiles[0], runtime.WithClientSet(client), runtime.WithInformerFactory(factory),
		runtime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, slices, factory)), runtime.WithSnapshotSharedLister(snapshot),
		runtime.WithParallelism(1), runtime.WithPodNominator(nominated), csiNodes(factory))
}

// Decides about one pod. `most` is how many nodes that take the pod are enough. Returns how many nodes were looked at.
func decide(ctx context.Context, scheduler framework.Framework, nodes []fwk.NodeInfo, pod *v1.Pod, first, most int) (int, error) {
	state := framework.NewCycleState()
	only, status, _ := scheduler.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() || !only.AllNodes() {
		return 0, fmt.Errorf("%s: PreFilter: %v", pod.Name, status)
	}
	var take []fwk.NodeInfo
	looked := 0
	for ; looked < len(nodes) && len(take) < most; looked++ {
		if node := nodes[(first+looked)%len(nodes)]; scheduler.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			take = append(take, node)
		}
	}
	if len(take) == 0 {
		return 0, fmt.Errorf("%s: no node takes it", pod.Name)
	}
	if status := scheduler.RunPreScorePlugins(ctx, state, pod, take); !status.IsSuccess() {
		return 0, status.AsError()
	}
	points, status := scheduler.RunScorePlugins(ctx, state, pod, take)
	if !status.IsSuccess() {
		return 0, status.AsError()
	}
	best := points[0]
	for _, one := range points {
		if one.TotalScore > best.TotalScore {
			best = one
		}
	}
	return looked, nil
}

// The seconds of processor time that this process has used, which other work on the machine does not lengthen as it does the time of a clock.
func processorTime() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// Prints the table. Each figure takes `seconds` of processor time, and at least one decision for each gang.
func speed(client kubernetes.Interface, seconds string) error {
	each, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	goruntime.GOMAXPROCS(1)
	fmt.Fprintln(os.Stdout, "| pods | running | every node: decisions per second (nodes looked at) | default: decisions per second (nodes looked at) |")
	fmt.Fprintln(os.Stdout, "|---|---|---|---|")
	for _, kind := range []string{"none", "nodes", "usual", "spread", "apart", "together"} {
		for _, running := range []int{0, 50_000} {
			if err := speedOf(client, kind, running, each); err != nil {
				return err
			}
		}
	}
	return nil
}

func speedOf(client kubernetes.Interface, kind string, running int, each float64) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshot, pending := speedCluster(kind, running)
	scheduler, err := speedFramework(ctx, client, snapshot)
	if err != nil {
		return err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	goruntime.GC()
	// numFeasibleNodesToFind: 50 % less one for each 125 nodes.
	row := fmt.Sprintf("| %s | %d |", kind, running)
	for _, most := range []int{len(nodes), len(nodes) * (50 - len(nodes)/125) / 100} {
		first, decisions, all, start := 0, 0, 0, processorTime()
		for decisions < len(pending) || processorTime()-start < each {
			looked, err := decide(ctx, scheduler, nodes, pending[decisions%len(pending)], first, most)
			if err != nil {
				return err
			}
			first, decisions, all = (first+looked)%len(nodes), decisions+1, all+looked
		}
		row += fmt.Sprintf(" %.0f (%d) |", float64(decisions)/(processorTime()-start), all/decisions)
	}
	fmt.Fprintln(os.Stdout, row)
	return nil
}
