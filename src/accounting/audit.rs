//! Reports whether the stored sums agree with a recount.
//!
//! There is one report for the tests, the gauge and `/debug/audit`. The recounts are in the files of the sums that they check.

use serde::Serialize;

use crate::resources::Resources;

/// The result of a recount of everything.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[must_use]
pub struct AuditReport {
    /// The number of charged pods.
    pub pods: usize,
    /// The number of existing nodes.
    pub nodes: usize,
    /// The number of existing queues, `root` and `default` included.
    pub queues: usize,
    /// The wrong sums; empty when there are none. The gauge is the length of this.
    pub differences: Vec<Difference>,
}

impl AuditReport {
    /// Whether the recount agrees with all sums.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// A sum that differs from its recount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The kind of the sum.
    pub place: Place,
    /// The name of the node or queue, or the UID of the pod.
    pub name: String,
    /// The sum in the accounting; `kept` in JSON.
    #[serde(rename = "kept")]
    pub stored: Resources,
    /// The recounted sum.
    pub recounted: Resources,
}

/// The kind of a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// The `used` of a node.
    Node,
    /// The part of a node's `used` that belongs to pods outside our queues.
    Foreign,
    /// The sum of the pods of a queue itself.
    QueueOwn,
    /// The sum of the pods of a queue and of all queues below it.
    QueueSubtree,
    /// The reservations of the PodGroups of a queue itself.
    ReservedOwn,
    /// The reservations of the PodGroups of a queue and of all queues below it.
    ReservedSubtree,
    /// The list of the entries of a queue does not agree with the charges; `holders` in JSON.
    #[serde(rename = "holders")]
    Entries,
    /// The unused guarantee of a queue with all below it; `kept` in JSON.
    #[serde(rename = "kept")]
    UnusedGuarantee,
    /// The part of the floors in a queue and below it that pods do not fill.
    Unfilled,
    /// A total of all nodes: what they offer, or what they leave to our queues; or the queues have another one than the ledger.
    Total,
    /// The list of a queue's children does not agree with the parents.
    Tree,
    /// A pod whose charge to its node (stored) is not its charge to its queue (recounted), that is charged without
    /// being known, or that a trial left behind.
    Pod,
}

/// Compares stored and recounted sums name by name; a name that one side lacks is 0 there.
pub(super) fn compare<'a>(
    place: Place,
    stored: impl Iterator<Item = (&'a str, &'a Resources)>,
    mut recounted: std::collections::BTreeMap<String, Resources>,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, stored) in stored {
        let recounted = recounted.remove(name).unwrap_or_default();
        if *stored != recounted {
            differences.push(Difference { place, name: name.to_owned(), stored: stored.clone(), recounted });
        }
    }
    let missed = recounted.into_iter().filter(|(_, recounted)| !recounted.is_zero());
    differences.extend(missed.map(|(name, recounted)| Difference { place, name, stored: Resources::new(), recounted }));
    differences
}
