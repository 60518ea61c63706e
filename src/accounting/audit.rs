//! Do the sums that were kept agree with a recount?
//!
//! One report for the tests, the gauge and `/debug/audit`. The recounts themselves stand beside the sums they check.

use serde::Serialize;

use crate::resources::Resources;

/// The outcome of a recount of everything.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[must_use]
pub struct AuditReport {
    /// How many pods are charged.
    pub pods: usize,
    /// How many nodes exist.
    pub nodes: usize,
    /// How many queues exist, `root` and `default` included.
    pub queues: usize,
    /// Where the sums are wrong; empty when all is well. The gauge is the length of this.
    pub differences: Vec<Difference>,
}

impl AuditReport {
    /// Whether the recount agrees with all sums.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// One sum that is not what the recount says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// Which kind of sum.
    pub place: Place,
    /// The node, queue or pod UID.
    pub name: String,
    /// What the books say.
    pub kept: Resources,
    /// What the recount says.
    pub recounted: Resources,
}

/// Which kind of sum is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// `used` of a node.
    Node,
    /// What the pods of a queue itself use.
    QueueOwn,
    /// What the pods of a queue and of all below it use.
    QueueSubtree,
    /// What the groups of a queue itself have reserved.
    ReservedOwn,
    /// What the groups of a queue and of all below it have reserved.
    ReservedSubtree,
    /// The list of those who hold something in a queue is not what their charges say.
    Holders,
    /// What is kept for the guarantees in a queue and below it.
    Kept,
    /// What of the floors in a queue and below it pods do not fill.
    Unfilled,
    /// What all nodes offer together; one is what the queues were told.
    Total,
    /// The list of a queue's children is not what the parents say.
    Tree,
    /// A pod whose charge to its node (kept) is not its charge to its queue (recounted), or that is charged without
    /// being known, or that a trial left behind.
    Pod,
}

/// Compares what was kept with what was recounted, name by name; a name that one side lacks is 0 there.
pub(super) fn compare<'a>(
    place: Place,
    kept: impl Iterator<Item = (&'a str, &'a Resources)>,
    mut recounted: std::collections::BTreeMap<String, Resources>,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, kept) in kept {
        let recounted = recounted.remove(name).unwrap_or_default();
        if *kept != recounted {
            differences.push(Difference { place, name: name.to_owned(), kept: kept.clone(), recounted });
        }
    }
    let missed = recounted.into_iter().filter(|(_, recounted)| !recounted.is_zero());
    differences.extend(missed.map(|(name, recounted)| Difference { place, name, kept: Resources::new(), recounted }));
    differences
}
