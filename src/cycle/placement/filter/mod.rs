//! The predicates: whether a node can take a pod, and if not, why.
//!
//! One predicate is one file with one type, and one line in [`PREDICATES`]. It then holds for placing, for preempting and for settling
//! nominations, because all of them ask [`refusal`], and it is explained by the [`Reason`] that it returns.
//!
//! A predicate that depends on the objects alone ([`Basis::Objects`]) must not read the request of the pod: [`lasting_refusal`] asks it
//! without one. A predicate that depends on the pods that are placed ([`Basis::Before`]) needs more than its line: the state that it reads is
//! a kind of state of the [`trial`](super::trial), and what changes when a pod leaves is a `Wake` of the cache.
//!
//! The predicates are evaluated in the order of the table, which is that of the plugins of kube-scheduler (what its PreFilter refuses comes
//! first). Only the first refusal is counted. What reaches further than one node (affinity, anti-affinity, spread, claims for one pod), and
//! what other pods use of attach limits and free volumes, is worked out before, into the [`Verdict`] of the [`Query`].
//!
//! Most predicates cannot refuse most nodes: a node without taints refuses no pod for its taints. Each predicate says so itself
//! ([`Predicate::concerns_node`], [`Predicate::concerns_pod`]), and the node table asks only those that could refuse ([`Concerns`]).

mod declared_features;
mod host_ports;
mod named_nodes;
mod node_affinity;
mod node_group;
mod node_selector;
mod node_set;
mod other_pods;
mod resources;
mod taints;
mod unschedulable;
mod volume_affinity;
mod volume_limits;
mod volume_restrictions;
mod volume_supply;
mod volume_zone;

use std::collections::BTreeSet;

use crate::accounting::NodeView;
use crate::api::NodeFacts;
use crate::api::pod_facts::Constraints;
use crate::cycle::explain::Reason;
use crate::resources::{Amount, Resources};

pub(super) use node_affinity::preference;
pub(super) use taints::avoided;
pub(super) use volume_affinity::can_mount;

use super::class::Class;
use super::images::ImagePoints;
use super::nodes::NodeId;
use super::snapshot::Snapshot;
use super::topology::verdict::Verdict;

/// The requirements of a pod on a node.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The request of the pod.
    pub request: &'a Resources,
    /// The constraints of the pod on its node.
    pub constraints: &'a Constraints,
    /// The nodes that refuse the pod for the sake of other pods.
    pub verdict: &'a Verdict,
    /// The node groups of other queues.
    pub barred: &'a BTreeSet<String>,
    /// The points that nodes have for the images of the pod, which refuse nothing; none where all nodes have the same.
    pub images: Option<&'a ImagePoints>,
}

impl<'a> Query<'a> {
    /// The requirements of pods of the class, whatever their images are.
    pub(super) fn of(class: &'a Class, verdict: &'a Verdict, snapshot: Snapshot<'a>) -> Self {
        Self { request: &class.request, constraints: &class.constraints, verdict, barred: snapshot.barred, images: None }
    }
}

/// One node, as it is at this moment.
#[derive(Clone, Copy, Debug)]
pub struct NodeState<'a> {
    /// The number of the node.
    pub id: NodeId,
    /// The facts of the Node object.
    pub facts: &'a NodeFacts,
    /// The resources that the node offers, and their use.
    pub accounting: NodeView<'a>,
}

/// Why a node does not take a pod, with the amounts if a resource is insufficient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct No {
    /// Why the node does not take the pod.
    pub reason: Reason,
    /// The requested amount for [`Reason::Lacks`]; else 0.
    pub asked: Amount,
    /// The idle amount for [`Reason::Lacks`]; else 0.
    pub free: Amount,
}

impl From<Reason> for No {
    fn from(reason: Reason) -> Self {
        Self { reason, asked: Amount::ZERO, free: Amount::ZERO }
    }
}

/// The facts that the result of a predicate depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The pod and the Node object. The result does not change when placed pods leave.
    Objects,
    /// The placed pods, which may leave, or the set of nodes. It is worked out before, for all nodes: [`Verdict::refuses`].
    Before,
    /// The idle amounts. The result may change when placed pods leave, and the node table computes it from its columns.
    Amounts,
}

/// A predicate: one condition under which a node refuses a pod.
trait Predicate: Sync {
    /// Why the node does not take the pod; none where it does.
    fn refuses(&self, query: &Query<'_>, node: &NodeState<'_>) -> Option<No>;

    /// Returns the facts that the result depends on.
    fn basis(&self) -> Basis {
        Basis::Objects
    }

    /// Whether the node could refuse any pod. Depends on the node's object alone.
    fn concerns_node(&self, _node: &NodeFacts) -> bool {
        true
    }

    /// Whether any node could refuse the pod.
    fn concerns_pod(&self, _query: &Query<'_>) -> bool {
        true
    }
}

/// All predicates, in the order in which they are evaluated.
const PREDICATES: [&dyn Predicate; 16] = [
    &node_set::NodeSet,
    &named_nodes::NamedNodes,
    &unschedulable::Unschedulable,
    &taints::Taints,
    &node_group::NodeGroup,
    &node_selector::NodeSelector,
    &node_affinity::NodeAffinity,
    &host_ports::HostPorts,
    &resources::Resources,
    &volume_restrictions::VolumeRestrictions,
    &volume_limits::VolumeLimits,
    &volume_affinity::VolumeAffinity,
    &volume_supply::VolumeSupply,
    &volume_zone::VolumeZone,
    &other_pods::OtherPods,
    &declared_features::DeclaredFeatures,
];

/// Why the node does not take the pod; none where it does.
#[must_use]
pub fn refusal(query: &Query<'_>, node: &NodeState<'_>) -> Option<No> {
    PREDICATES.iter().find_map(|predicate| predicate.refuses(query, node))
}

/// Returns why the node would not take the pod even without any placed pod; none if it would.
#[must_use]
pub fn lasting_refusal(constraints: &Constraints, barred: &BTreeSet<String>, node: &NodeState<'_>) -> Option<No> {
    let query = Query { request: &Resources::new(), constraints, verdict: &Verdict::default(), barred, images: None };
    PREDICATES.iter().filter(|predicate| predicate.basis() == Basis::Objects).find_map(|predicate| predicate.refuses(&query, node))
}

/// Returns whether the pod's nodeSelector and required node affinity match the node.
#[must_use]
pub fn matches_affinity(constraints: &Constraints, node: &NodeFacts) -> bool {
    node_selector::matches(constraints, node) && node_affinity::matches(constraints, node)
}

/// Returns whether the pod tolerates the taints of the node.
#[must_use]
pub fn tolerates_taints(constraints: &Constraints, node: &NodeFacts) -> bool {
    taints::untolerated(constraints, node).is_none()
}

/// The predicates that may refuse, as a set of their places in the table. Only those that depend on the objects alone: amounts are in the
/// columns of the node table, and what depends on the placed pods is in the [`Verdict`].
///
/// A predicate is evaluated only if it concerns both the node and the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concerns(u32);

impl Concerns {
    /// The predicates for which the node could refuse a pod.
    #[must_use]
    pub fn of_node(node: &NodeFacts) -> Self {
        Self::of(|predicate| predicate.concerns_node(node))
    }

    /// The predicates for which a node could refuse the pod.
    #[must_use]
    pub fn of_pod(query: &Query<'_>) -> Self {
        Self::of(|predicate| predicate.concerns_pod(query))
    }

    fn of(concerns: impl Fn(&dyn Predicate) -> bool) -> Self {
        let bit = |(at, predicate): (usize, &&dyn Predicate)| {
            if predicate.basis() == Basis::Objects && concerns(*predicate) {
                1_u32.checked_shl(u32::try_from(at).unwrap_or(31)).unwrap_or(0)
            } else {
                0
            }
        };
        Self(PREDICATES.iter().enumerate().map(bit).fold(0, |all, one| all | one))
    }

    /// Returns whether a predicate must be evaluated for this node and this pod.
    #[must_use]
    pub const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod predicates_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(in crate::cycle) use tests::COUNT;
