//! Which nodes can take a pod of a class?
//!
//! One predicate is one file with one function of one shape: what is asked, one node, and the reason why not. They are asked in the order of
//! [`PREDICATES`], cheap and lasting reasons first, and the first that refuses is the one that is counted. What reaches further than one
//! node (anti-affinity of pods that are there) is worked out before, into [`Asked`].

mod anti_affinity;
mod node_affinity;
mod node_group;
mod node_selector;
mod resources;
mod taints;
mod unschedulable;

pub(in crate::cycle) use anti_affinity::Keeper;
pub(super) use anti_affinity::selects;
pub use anti_affinity::{Audience, Keepers};

use std::collections::BTreeSet;

use crate::accounting::NodeView;
use crate::api::NodeFacts;
use crate::api::pod_facts::Constraints;
use crate::resources::{Amount, Resources};

use super::explain::Reason;

/// What every pod of a class asks of a node.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What it costs.
    pub request: &'a Resources,
    /// Where it may go.
    pub constraints: &'a Constraints,
    /// Labels of nodes (key, value) where a pod that is there keeps it away.
    pub forbidden: &'a BTreeSet<(String, String)>,
    /// Node groups that are labelled for other queues than its own.
    pub barred: &'a BTreeSet<String>,
}

/// One node, as it is at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// What it says of itself.
    pub facts: &'a NodeFacts,
    /// What is left on it.
    pub books: NodeView<'a>,
}

/// Why not; and of a resource, how much is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct No {
    /// Why the node does not take the pod.
    pub reason: Reason,
    /// Of [`Reason::Lacks`] what was asked for; else 0.
    pub asked: Amount,
    /// Of [`Reason::Lacks`] what is left; else 0.
    pub free: Amount,
}

impl From<Reason> for No {
    fn from(reason: Reason) -> Self {
        Self { reason, asked: Amount::ZERO, free: Amount::ZERO }
    }
}

type Predicate = fn(&Asked<'_>, &Sight<'_>) -> Option<No>;

/// All predicates, in the order in which they are asked.
const PREDICATES: [Predicate; 7] = [
    unschedulable::refuses,
    taints::refuses,
    node_group::refuses,
    node_selector::refuses,
    node_affinity::refuses,
    anti_affinity::refuses,
    resources::refuses,
];

/// Why the node does not take the pod; none where it does.
#[must_use]
pub fn refusal(asked: &Asked<'_>, node: &Sight<'_>) -> Option<No> {
    PREDICATES.iter().find_map(|predicate| predicate(asked, node))
}
