// Which pods have a nominated node? Their nodes must take a pod of no higher priority with and without them.
package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nominator has the pods by node. They do not change while it is asked.
type nominator map[string][]fwk.PodInfo

func nominate(pods []*v1.Pod) (nominator, error) {
	all := nominator{}
	for _, pod := range pods {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, err
		}
		all[pod.Status.NominatedNodeName] = append(all[pod.Status.NominatedNodeName], info)
	}
	return all, nil
}

func (n nominator) NominatedPodsForNode(name string) []fwk.PodInfo                { return n[name] }
func (n nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
