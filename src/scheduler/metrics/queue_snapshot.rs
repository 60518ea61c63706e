//! A snapshot of the queues for Prometheus: their amounts, their states, and their waiting PodGroups with the position of the oldest.
//!
//! It is a pure function of the state and is computed at each scrape. Only the leader has one: a standby replica does not know
//! which PodGroups are admitted or why they wait.
//!
//! **The number of series is bounded, whatever users write:**
//!
//! * At most [`QUEUES`] queues have their own label value: `root`, `default`, then the first by name. The other queues are summed as [`OTHERS`].
//! * A name without a queue (a user may write any name) is [`UNKNOWN`].
//! * At most [`RESOURCES`] resources have their own label value: those of every cluster, then those in queues, then those of nodes.
//!   Other resources have no amounts, and a PodGroup that lacks one is counted under `other`.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::{QueueState, QueueView, Quota};
use crate::api::names::{DEFAULT_QUEUE, ROOT_QUEUE};
use crate::cycle::cache::Group;
use crate::cycle::explain::{Cause, Code};
use crate::cycle::state::SchedulingState;
use crate::resources::{Amount, Limits, Resources};

use crate::scheduler::overcommit;
use crate::scheduler::state::State;

mod position;
mod waiting;

pub use waiting::{BELOW, WAITING, WaitingLabels};

/// The limit of queues with their own label value.
pub const QUEUES: usize = 500;

/// The limit of resources with their own label value.
pub const RESOURCES: usize = 32;

/// The label of queues beyond [`QUEUES`]. It is not a valid queue name.
pub const OTHERS: &str = "(others)";

/// The label of queues that do not exist.
pub const UNKNOWN: &str = "(unknown)";

/// The label of resources beyond [`RESOURCES`].
const OTHER: &str = "other";

/// The resources of every cluster.
const USUAL: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pods"];

/// A kind of amount of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Used in the queue and below it.
    Allocated,
    /// Used in the queue itself.
    AllocatedItself,
    /// Admitted and not charged yet, or nominated, in the queue and below it.
    Reserved,
    /// The capability in the spec.
    Capability,
    /// The deserved amount in the spec.
    Deserved,
    /// The guarantee in the spec.
    Guarantee,
    /// The part of the guarantee in force.
    Floor,
    /// The unused guarantees in the queue and below it.
    Kept,
    /// The queue's share.
    Share,
}

/// The queues at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// The amounts by queue and resource. A limit that is not set is absent.
    pub amounts: BTreeMap<(Of, String, String), Amount>,
    /// The number of queues in each state.
    pub states: BTreeMap<(String, &'static str), u64>,
    /// The number of waiting PodGroups in each queue and below it.
    pub waiting: BTreeMap<WaitingLabels, u64>,
    /// The creation time of the oldest waiting member in a queue or below it, in seconds since 1970.
    pub oldest: BTreeMap<String, i64>,
    /// The position, from 1, of the PodGroup with the oldest waiting member in the queue itself, among those that wait there. Queues that
    /// share a label are absent.
    pub oldest_position: BTreeMap<String, i64>,
}

/// Returns the state of a queue, for a label.
fn state_of(quota: &Quota, queue: &str) -> &'static str {
    if quota.fault(queue).is_some() {
        return "broken";
    }
    match quota.state(queue) {
        QueueState::Open => "open",
        QueueState::Closing => "closing",
        QueueState::Closed => "closed",
    }
}

impl QueueSnapshot {
    /// Takes a snapshot. It is empty while another replica leads.
    #[must_use]
    pub fn of(state: &State) -> Self {
        if !state.decides() {
            return Self::default();
        }
        let scheduling = &state.scheduling;
        let quota = scheduling.cache().accounting().quota();
        let labels = Labels::of(scheduling);
        let mut snapshot = Self::default();
        let shares = scheduling.cache().shares_now();
        for queue in quota.queues() {
            let name = labels.queue(queue.name);
            let (used, own) = overcommit::used_in(queue, scheduling);
            // Capacity that is nominated for a gang is reserved. No pod uses it yet.
            let mut reserved = queue.reserved.clone();
            reserved.add(queue.used);
            reserved.sub(&used);
            let queue = QueueView { used: &used, own: &own, reserved: &reserved, ..queue };
            // The amounts of a queue are part of its parent's amounts. Of the queues that share a label, only the topmost are summed.
            if name != queue.name && labels.has_above(quota, queue.name, name) {
                snapshot.add_resources(&labels, Of::AllocatedItself, name, queue.own);
            } else {
                snapshot.add_queue(&labels, name, queue, shares.of(queue.name));
            }
            if queue.exists {
                let count = snapshot.states.entry((name.to_owned(), state_of(quota, queue.name))).or_default();
                *count = count.saturating_add(1);
            }
        }
        snapshot.count_waiting(scheduling, &labels);
        snapshot.find_positions(scheduling, &labels);
        snapshot
    }

    fn add_queue(&mut self, labels: &Labels<'_>, name: &str, queue: QueueView<'_>, share: &Resources) {
        // Resources of nodes, and resources that the queue deserves, are shown even if they are 0, so that a graph has no gaps.
        // Other resources are shown only if they are not 0.
        let deserved = queue.limits.into_iter().flat_map(|limits| limits.deserved.iter()).map(|(resource, _)| resource.as_str());
        for resource in labels.offered.iter().copied().chain(deserved) {
            for of in [Of::Allocated, Of::Share] {
                self.add(labels, of, name, resource, Amount::ZERO);
            }
        }
        for (of, amounts) in [
            (Of::Allocated, queue.used),
            (Of::AllocatedItself, queue.own),
            (Of::Reserved, queue.reserved),
            (Of::Floor, queue.floor),
            (Of::Kept, queue.unused_guarantee),
            (Of::Share, share),
        ] {
            self.add_resources(labels, of, name, amounts);
        }
        let Some(limits) = queue.limits else { return };
        for (of, stated) in [(Of::Capability, &limits.capability), (Of::Deserved, &limits.deserved), (Of::Guarantee, &limits.guarantee)] {
            for (resource, amount) in stated.iter() {
                self.add(labels, of, name, resource.as_str(), amount);
            }
        }
    }

    fn add_resources(&mut self, labels: &Labels<'_>, of: Of, name: &str, amounts: &Resources) {
        for (resource, amount) in amounts.iter() {
            self.add(labels, of, name, resource.as_str(), amount);
        }
    }

    fn add(&mut self, labels: &Labels<'_>, of: Of, queue: &str, resource: &str, amount: Amount) {
        if labels.resources.contains(resource) {
            let sum = self.amounts.entry((of, queue.to_owned(), resource.to_owned())).or_insert(Amount::ZERO);
            *sum = sum.plus(amount);
        }
    }
}

/// Returns the cause of a PodGroup's wait.
#[must_use]
pub fn cause_of(group: &Group) -> Cause<'_> {
    match (&group.facts, group.refusal.as_deref()) {
        (None, _) => Cause::plain(Code::PodGroupNotFound),
        (Some(_), None) => Cause::plain(Code::NotTried),
        (Some(_), Some(refusal)) => Cause::of(refusal),
    }
}

/// The queues and resources with their own label values.
struct Labels<'a> {
    queues: BTreeSet<&'a str>,
    exist: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    /// The subset of `resources` that the nodes offer.
    offered: BTreeSet<&'a str>,
}

impl<'a> Labels<'a> {
    fn of(scheduling: &'a SchedulingState) -> Self {
        let quota = scheduling.cache().accounting().quota();
        let exist: BTreeSet<&str> = quota.tree().names().map(|name| &**name).collect();
        let first = [ROOT_QUEUE, DEFAULT_QUEUE].into_iter().chain(exist.iter().copied());
        let queues = up_to(QUEUES, first);
        let stated = |limits: &'a Limits| limits.iter().map(|(name, _)| name.as_str());
        let stated: BTreeSet<&str> = quota
            .queues()
            .filter_map(|queue| queue.limits)
            .flat_map(|limits| stated(&limits.capability).chain(stated(&limits.deserved)).chain(stated(&limits.guarantee)))
            .collect();
        let offered = || scheduling.cache().accounting().ledger().offered().iter().map(|(name, _)| name.as_str());
        let resources = up_to(RESOURCES, USUAL.into_iter().chain(stated).chain(offered()));
        let offered = offered().filter(|name| resources.contains(name)).collect();
        Self { queues, exist, resources, offered }
    }

    fn queue(&self, name: &str) -> &'a str {
        let beyond = || if self.exist.contains(name) { OTHERS } else { UNKNOWN };
        self.queues.get(name).copied().unwrap_or_else(beyond)
    }

    fn resource(&self, name: &str) -> &'a str {
        self.resources.get(name).copied().unwrap_or(OTHER)
    }

    /// Returns whether an ancestor of the queue has the same label.
    fn has_above(&self, quota: &Quota, name: &str, label: &str) -> bool {
        quota.tree().way(name).iter().skip(1).any(|above| self.queue(above) == label)
    }
}

/// Returns the first `most` distinct names.
fn up_to<'a>(most: usize, names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut all = BTreeSet::new();
    for name in names {
        if all.len() == most {
            break;
        }
        all.insert(name);
    }
    all
}

#[cfg(test)]
#[path = "queue_snapshot_tests.rs"]
mod tests;
