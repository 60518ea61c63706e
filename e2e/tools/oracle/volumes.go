package main

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// The storage objects of a question; all of them may be missing.
type storage struct {
	Claims      []*v1.PersistentVolumeClaim     `json:"claims"`
	Volumes     []*v1.PersistentVolume          `json:"volumes"`
	Classes     []*storagev1.StorageClass       `json:"classes"`
	CSINodes    []*storagev1.CSINode            `json:"csiNodes"`
	Attachments []*storagev1.VolumeAttachment   `json:"attachments"`
	Drivers     []*storagev1.CSIDriver          `json:"drivers"`
	Capacities  []*storagev1.CSIStorageCapacity `json:"capacities"`
}

func init() {
	for _, plugin := range []string{names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone} {
		asked[plugin] = true
	}
}

// The option by which the plugins read CSINodes.
func csiNodes(factory informers.SharedInformerFactory) runtime.Option {
	return runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister()))
}

// Adds the objects to the stores of the informers, which run nowhere. The plugins must have made their indexes before.
func (s *storage) add(factory informers.SharedInformerFactory) error {
	core, csi := factory.Core().V1(), factory.Storage().V1()
	for _, add := range []func() error{
		func() error { return each(core.PersistentVolumeClaims().Informer(), s.Claims) },
		func() error { return each(core.PersistentVolumes().Informer(), s.Volumes) },
		func() error { return each(csi.StorageClasses().Informer(), s.Classes) },
		func() error { return each(csi.CSINodes().Informer(), s.CSINodes) },
		func() error { return each(csi.VolumeAttachments().Informer(), s.Attachments) },
		func() error { return each(csi.CSIDrivers().Informer(), s.Drivers) },
		func() error { return each(csi.CSIStorageCapacities().Informer(), s.Capacities) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

func each[T any](informer cache.SharedIndexInformer, objects []T) error {
	for _, object := range objects {
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
	}
	return nil
}
