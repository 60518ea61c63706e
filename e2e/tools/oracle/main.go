// The oracle answers which nodes kube-scheduler would let a pod go to, and which of them it would prefer, by its own filter and score plugins on a snapshot.
//
// It reads one JSON object a line: {"nodes": [...], "pods": [...], "namespaces": [...], "pending": [...]}, and the storage objects of volumes.go. The pods have a node that is among the nodes.
// "nominated" has pods without a node that name one in status.nominatedNodeName.
// It writes one JSON object a line: {"answers": [{NODE: [PLUGIN, REASON, ...], ...}, ...]}, one entry for each pending pod, with a node only if it is refused;
// or {"error": "..."}. A pod that is refused before any node is looked at is refused by every node. Under the empty name stands the message that the pod would get
// if it had no node.
//
// With "scores": true it also writes "scores": [{NODE: {PLUGIN: POINTS, ...}, ...}, ...] with each node that is not refused: what the plugin gives it among these,
// normalized and multiplied by the plugin's weight. A plugin that has nothing to say about the pod is left out. "replicaSets" is for the default spread.
//
// `oracle speed SECONDS` answers nothing: it measures decisions (speed.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// The plugins that are asked, in the order of kube-scheduler's default profile. Claims of devices are refused by both; volumes.go adds those for volumes.
var asked = map[string]bool{
	names.NodeUnschedulable: true, names.NodeName: true, names.TaintToleration: true, names.NodeAffinity: true, names.NodePorts: true,
	names.NodeResourcesFit: true, names.PodTopologySpread: true, names.InterPodAffinity: true, names.NodeDeclaredFeatures: true,
	names.ImageLocality: true,
	names.PrioritySort:  true, names.DefaultBinder: true,
}

type question struct {
	Nodes      []*v1.Node      `json:"nodes"`
	Pods       []*v1.Pod       `json:"pods"`
	Namespaces []*v1.Namespace `json:"namespaces"`
	Pending    []*v1.Pod       `json:"pending"`
	Nominated  []*v1.Pod       `json:"nominated"`
	storage

	ReplicaSets []*appsv1.ReplicaSet `json:"replicaSets"`
	Scores      bool                 `json:"scores"`
}

type answer map[string][]string

type scores map[string]map[string]int64

type reply struct {
	Answers []answer `json:"answers,omitempty"`
	Scores  []scores `json:"scores,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func profile() (*config.KubeSchedulerProfile, error) {
	all, err := latest.Default()
	if err != nil {
		return nil, err
	}
	one := all.Profiles[0].DeepCopy()
	var enabled []config.Plugin
	for _, plugin := range one.Plugins.MultiPoint.Enabled {
		if asked[plugin.Name] {
			enabled = append(enabled, plugin)
		}
	}
	one.Plugins.MultiPoint.Enabled = enabled
	return one, nil
}

func (q *question) ask(client kubernetes.Interface, profile *config.KubeSchedulerProfile) (*reply, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces := factory.Core().V1().Namespaces().Informer().GetIndexer()
	for _, namespace := range q.Namespaces {
		if err := namespaces.Add(namespace); err != nil {
			return nil, err
		}
	}
	replicaSets := factory.Apps().V1().ReplicaSets().Informer().GetIndexer()
	for _, set := range q.ReplicaSets {
		if err := replicaSets.Add(set); err != nil {
			return nil, err
		}
	}
	nominated, err := nominate(q.Nominated)
	if err != nil {
		return nil, err
	}
	snapshot := cache.NewSnapshot(q.Pods, q.Nodes)
	scheduler, err := runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, runtime.WithClientSet(client),
		runtime.WithInformerFactory(factory), runtime.WithSnapshotSharedLister(snapshot), runtime.WithParallelism(1), runtime.WithPodNominator(nominated), csiNodes(factory))
	if err != nil {
		return nil, err
	}
	if err := q.storage.add(factory); err != nil {
		return nil, err
	}
	var back reply
	for _, pod := range q.Pending {
		state := framework.NewCycleState()
		one, err := ask(ctx, scheduler, state, snapshot, pod)
		if err != nil {
			return nil, err
		}
		back.Answers = append(back.Answers, one)
		if !q.Scores {
			continue
		}
		points, err := score(ctx, scheduler, state, snapshot, pod, one)
		if err != nil {
			return nil, err
		}
		back.Scores = append(back.Scores, points)
	}
	return &back, nil
}

func score(ctx context.Context, scheduler framework.Framework, state fwk.CycleState, snapshot *cache.Snapshot, pod *v1.Pod, refused answer) (scores, error) {
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	var take []fwk.NodeInfo
	for _, node := range nodes {
		if _, no := refused[node.Node().Name]; !no {
			take = append(take, node)
		}
	}
	points := scores{}
	if len(take) == 0 {
		return points, nil
	}
	if status := scheduler.RunPreScorePlugins(ctx, state, pod, take); !status.IsSuccess() {
		return nil, status.AsError()
	}
	all, status := scheduler.RunScorePlugins(ctx, state, pod, take)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	for _, node := range all {
		of := map[string]int64{}
		for _, plugin := range node.Scores {
			of[plugin.Name] = plugin.Score
		}
		points[node.Name] = of
	}
	return points, nil
}

func ask(ctx context.Context, scheduler framework.Framework, state fwk.CycleState, snapshot *cache.Snapshot, pod *v1.Pod) (answer, error) {
	refused := answer{}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	only, status, by := scheduler.RunPreFilterPlugins(ctx, state, pod)
	// The message is put together as by findNodesThatFitPod in schedule_one.go.
	fit := framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
	fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(absent)
	if !status.IsSuccess() {
		fit.Diagnosis.PreFilterMsg = status.Message()
	}
	if !status.IsSuccess() && !status.IsRejected() {
		return nil, fmt.Errorf("%s: %s", status.Plugin(), status.Message())
	}
	for _, node := range nodes {
		name := node.Node().Name
		if !status.IsSuccess() {
			refused[name] = said(status)
			continue
		}
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			refused[name] = append([]string{names.NodeAffinity}, absent.Reasons()...)
			continue
		}
		filtered := scheduler.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		if filtered.IsRejected() {
			fit.Diagnosis.NodeToStatus.Set(name, filtered)
			refused[name] = said(filtered)
		} else if !filtered.IsSuccess() {
			return nil, fmt.Errorf("%s: %s", filtered.Plugin(), filtered.Message())
		}
	}
	refused[""] = []string{fit.Error()}
	return refused, nil
}

func said(status *fwk.Status) []string {
	return append([]string{status.Plugin()}, status.Reasons()...)
}

func main() {
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err == nil && len(os.Args) == 3 && os.Args[1] == "speed" {
		err = speed(client, os.Args[2])
	} else if err == nil {
		err = serve(client)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(client kubernetes.Interface) error {
	profile, err := profile()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder, out := json.NewDecoder(in), bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for {
		var one question
		if err := decoder.Decode(&one); err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
		back, err := one.ask(client, profile)
		if err != nil {
			back = &reply{Error: err.Error()}
		}
		if err := encoder.Encode(back); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
