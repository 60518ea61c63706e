//! Which kinds of objects does the API server have?

/// A kind of objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in paths, as in `pods`.
    pub plural: &'static str,
    /// Its API group and version, as in `apps/v1`.
    pub api_version: &'static str,
    /// Its name in objects, as in `Pod`.
    pub name: &'static str,
    /// Whether its objects belong to a namespace.
    pub namespaced: bool,
    /// Whether the status is a subresource: a write of the object leaves it as it is.
    pub has_status: bool,
}

const fn kind(plural: &'static str, api_version: &'static str, name: &'static str, namespaced: bool, has_status: bool) -> Kind {
    Kind { plural, api_version, name, namespaced, has_status }
}

/// All kinds. The CRD of the PodGroup has no subresource, as in Volcano.
pub static KINDS: [Kind; 23] = [
    kind("nodes", "v1", "Node", false, true),
    kind("namespaces", "v1", "Namespace", false, true),
    kind("pods", "v1", "Pod", true, true),
    kind("events", "v1", "Event", true, false),
    kind("persistentvolumes", "v1", "PersistentVolume", false, true),
    kind("persistentvolumeclaims", "v1", "PersistentVolumeClaim", true, true),
    kind("podgroups", "scheduling.volcano.sh/v1beta1", "PodGroup", true, false),
    kind("queues", "scheduling.volcano.sh/v1beta1", "Queue", false, true),
    kind("deployments", "apps/v1", "Deployment", true, true),
    kind("replicasets", "apps/v1", "ReplicaSet", true, true),
    kind("statefulsets", "apps/v1", "StatefulSet", true, true),
    kind("daemonsets", "apps/v1", "DaemonSet", true, true),
    kind("jobs", "batch/v1", "Job", true, true),
    kind("cronjobs", "batch/v1", "CronJob", true, true),
    kind("leases", "coordination.k8s.io/v1", "Lease", true, false),
    kind("poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", true, true),
    kind("priorityclasses", "scheduling.k8s.io/v1", "PriorityClass", false, false),
    kind("storageclasses", "storage.k8s.io/v1", "StorageClass", false, false),
    kind("csinodes", "storage.k8s.io/v1", "CSINode", false, false),
    kind("csidrivers", "storage.k8s.io/v1", "CSIDriver", false, false),
    kind("csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity", true, false),
    kind("volumeattachments", "storage.k8s.io/v1", "VolumeAttachment", false, true),
    kind("configmaps", "v1", "ConfigMap", true, false),
];

impl Kind {
    /// Returns the kind with this name in paths.
    #[must_use]
    pub fn by_plural(plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    /// Returns the kind with this name in any spelling that kubectl knows: `pod`, `pods`, `Pod`; `group` stands for the PodGroup.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.to_lowercase();
        let long = match &*name {
            "group" => "podgroup",
            "pvc" => "persistentvolumeclaim",
            "pv" => "persistentvolume",
            "pdb" => "poddisruptionbudget",
            other => other,
        };
        KINDS.iter().find(|kind| kind.plural == long || kind.name.to_lowercase() == long)
    }
}
