//! Which constraints of a pod does the scheduler not support yet?

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::resources::Resources;

use super::names::{NUMA_POLICY, NUMA_SOFT, REVOCABLE_ZONE, SHARED_DEVICES, SHARED_NPU_MEMORY, SHARED_NPUS, TOPOLOGY_MODE, TOPOLOGY_TIER};
use super::pod::PodSpec;
use super::pod_facts::annotation;

/// A required constraint that the scheduler does not support yet. It refuses the pod with a condition that names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unsupported {
    /// An attached disk that the pod names itself, without a claim.
    Volume,
    /// Claims on devices (`spec.resourceClaims`).
    ResourceClaims,
    /// A scheduling group of Kubernetes itself (`spec.schedulingGroup`).
    SchedulingGroup,
    /// Volcano's shared devices.
    SharedDevices,
    /// A required NUMA policy of Volcano.
    NumaPolicy,
    /// Volcano's revocable zone of nodes.
    RevocableZone,
    /// A required network topology, in an annotation of the pod.
    NetworkTopology,
    /// A selector more than are told apart in a namespace. The cache finds that; the pod itself does not show it.
    Selector,
}

impl Unsupported {
    /// Returns the name of the field for messages.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Volume => {
                "an attached volume without a claim (awsElasticBlockStore, azureDisk, azureFile, cinder, gcePersistentDisk, iscsi, portworxVolume, rbd, vsphereVolume)"
            }
            Self::SharedDevices => {
                "a shared device of Volcano's (volcano.sh/vgpu-*, volcano.sh/gpu-memory, volcano.sh/gpu-number, huawei.com/npu-core, huawei.com/Ascend*-memory)"
            }
            Self::NumaPolicy => "the annotation volcano.sh/numa-topology-policy",
            Self::RevocableZone => "the annotation volcano.sh/revocable-zone",
            Self::NetworkTopology => "the annotation volcano.sh/network-topology-mode, hard",
            Self::ResourceClaims => "spec.resourceClaims",
            Self::SchedulingGroup => "spec.schedulingGroup",
            Self::Selector => {
                "more than 256 different selectors in affinity and spread of the pods of a namespace that select by the same label, or by none"
            }
        }
    }
}

/// Returns whether annotations require a network topology. Volcano's controller copies them to the spec of its PodGroups.
pub(super) fn asks_for_hard_topology(meta: &ObjectMeta) -> bool {
    let mode = annotation(meta, TOPOLOGY_MODE);
    (mode.is_some() || annotation(meta, TOPOLOGY_TIER).is_some()) && !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("soft"))
}

/// Returns whether Volcano's scheduler shares the resource out of whole cards.
fn is_shared_device(resource: &str) -> bool {
    let [start, end] = SHARED_NPU_MEMORY;
    SHARED_DEVICES.iter().any(|prefix| resource.starts_with(prefix))
        || SHARED_NPUS.contains(&resource)
        || (resource.starts_with(start) && resource.ends_with(end))
}

/// Returns the constraints of the pod that are not supported, each once. Empty for most pods.
pub(super) fn unsupported(meta: &ObjectMeta, spec: &PodSpec, request: &Resources) -> Vec<Unsupported> {
    let disk = spec.volumes.iter().any(|volume| {
        [
            &volume.gce_persistent_disk,
            &volume.aws_elastic_block_store,
            &volume.azure_disk,
            &volume.azure_file,
            &volume.cinder,
            &volume.iscsi,
            &volume.portworx_volume,
            &volume.rbd,
            &volume.vsphere_volume,
        ]
        .iter()
        .any(|source| source.is_some())
    });
    [
        (Unsupported::Volume, disk),
        (Unsupported::ResourceClaims, !spec.resource_claims.is_empty()),
        (Unsupported::SchedulingGroup, spec.scheduling_group.is_some()),
        (Unsupported::SharedDevices, request.iter().any(|(name, amount)| amount.is_positive() && is_shared_device(name))),
        (Unsupported::NumaPolicy, annotation(meta, NUMA_POLICY).is_some_and(|policy| !NUMA_SOFT.contains(&policy))),
        (Unsupported::RevocableZone, annotation(meta, REVOCABLE_ZONE).is_some()),
        (Unsupported::NetworkTopology, asks_for_hard_topology(meta)),
    ]
    .into_iter()
    .filter_map(|(kind, there)| there.then_some(kind))
    .collect()
}
