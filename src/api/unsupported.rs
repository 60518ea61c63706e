//! Which constraints of a pod does the scheduler not support yet?

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::resources::Resources;

use super::names::{NUMA_POLICY, NUMA_SOFT, REVOCABLE_ZONE, SHARED_DEVICES, TOPOLOGY_MODE, TOPOLOGY_TIER};
use super::pod::{Container, PodAffinity, PodSpec};
use super::pod_facts::annotation;

/// A required constraint that the scheduler does not support yet. It refuses the pod with a condition that names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unsupported {
    /// `hostPort` of a container.
    HostPort,
    /// A volume that is bound to nodes: a claim, an ephemeral claim or a disk.
    Volume,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity.
    PodAntiAffinity,
    /// A topology spread constraint with `DoNotSchedule`.
    TopologySpread,
    /// Claims on devices (`spec.resourceClaims`).
    ResourceClaims,
    /// A scheduling group of Kubernetes itself (`spec.schedulingGroup`).
    SchedulingGroup,
    /// A restart rule that needs a declared feature of the node.
    RestartAllContainers,
    /// A user namespace with the node's network, which needs a declared feature of the node.
    HostNetworkUserNamespace,
    /// Volcano's shared devices.
    SharedDevices,
    /// A required NUMA policy of Volcano.
    NumaPolicy,
    /// Volcano's revocable zone of nodes.
    RevocableZone,
    /// A required network topology, in an annotation of the pod.
    NetworkTopology,
}

impl Unsupported {
    /// Returns the name of the field for messages.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::HostPort => "spec.containers[].ports[].hostPort",
            Self::Volume => "a volume that is bound to nodes (persistentVolumeClaim, ephemeral, or an attached disk)",
            Self::RestartAllContainers => "spec.containers[].restartPolicyRules[] with action: RestartAllContainers",
            Self::HostNetworkUserNamespace => "spec.hostUsers: false with hostNetwork: true",
            Self::SharedDevices => "a shared device of Volcano's (volcano.sh/vgpu-*, volcano.sh/gpu-memory, volcano.sh/gpu-number)",
            Self::NumaPolicy => "the annotation volcano.sh/numa-topology-policy",
            Self::RevocableZone => "the annotation volcano.sh/revocable-zone",
            Self::NetworkTopology => "the annotation volcano.sh/network-topology-mode, hard",
            Self::PodAffinity => "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            Self::PodAntiAffinity => "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            Self::TopologySpread => "spec.topologySpreadConstraints[] with whenUnsatisfiable: DoNotSchedule",
            Self::ResourceClaims => "spec.resourceClaims",
            Self::SchedulingGroup => "spec.schedulingGroup",
        }
    }
}

/// Returns whether annotations require a network topology. Volcano's controller copies them to the spec of its PodGroups.
pub(super) fn asks_for_hard_topology(meta: &ObjectMeta) -> bool {
    let mode = annotation(meta, TOPOLOGY_MODE);
    (mode.is_some() || annotation(meta, TOPOLOGY_TIER).is_some()) && !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("soft"))
}

/// Returns the constraints of the pod that are not supported, each once. Empty for most pods.
pub(super) fn unsupported(meta: &ObjectMeta, spec: &PodSpec, request: &Resources) -> Vec<Unsupported> {
    let restarts_all = |container: &Container| container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers");
    let shared = |name: &str| SHARED_DEVICES.iter().any(|prefix| name.starts_with(prefix));
    let host_port = |container: &Container| container.ports.iter().any(|port| port.host_port.unwrap_or(0) != 0);
    let affinity = spec.affinity.as_ref();
    let required =
        |terms: Option<&PodAffinity>| terms.is_some_and(|terms| !terms.required_during_scheduling_ignored_during_execution.is_empty());
    let bound_volume = spec.volumes.iter().any(|volume| {
        [
            &volume.persistent_volume_claim,
            &volume.ephemeral,
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
        (Unsupported::HostPort, spec.containers.iter().chain(&spec.init_containers).any(host_port)),
        (Unsupported::Volume, bound_volume),
        (Unsupported::PodAffinity, required(affinity.and_then(|a| a.pod_affinity.as_ref()))),
        (Unsupported::PodAntiAffinity, required(affinity.and_then(|a| a.pod_anti_affinity.as_ref()))),
        (Unsupported::TopologySpread, spec.topology_spread_constraints.iter().any(|spread| spread.when_unsatisfiable == "DoNotSchedule")),
        (Unsupported::ResourceClaims, !spec.resource_claims.is_empty()),
        (Unsupported::SchedulingGroup, spec.scheduling_group.is_some()),
        // Kubernetes 1.36 infers a required node feature from these two and nothing else (component-helpers/nodedeclaredfeatures/features).
        (Unsupported::RestartAllContainers, spec.containers.iter().chain(&spec.init_containers).any(restarts_all)),
        (Unsupported::HostNetworkUserNamespace, spec.host_network && spec.host_users == Some(false)),
        (Unsupported::SharedDevices, request.iter().any(|(name, amount)| amount.is_positive() && shared(name))),
        (Unsupported::NumaPolicy, annotation(meta, NUMA_POLICY).is_some_and(|policy| !NUMA_SOFT.contains(&policy))),
        (Unsupported::RevocableZone, annotation(meta, REVOCABLE_ZONE).is_some()),
        (Unsupported::NetworkTopology, asks_for_hard_topology(meta)),
    ]
    .into_iter()
    .filter_map(|(kind, there)| there.then_some(kind))
    .collect()
}
