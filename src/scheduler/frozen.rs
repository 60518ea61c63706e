//! What do the queues have and want at this moment, and why does who wait in them? As it is shown to Prometheus.
//!
//! A pure function of the state, worked out when somebody looks, so that it costs nothing while nobody does. Only who decides says anything: a replica that
//! stands by knows who uses what, but not who is admitted or why somebody waits.
//!
//! **Bounded, whatever anybody writes.** At most [`QUEUES`] queues have a name of their own in a label (`root`, `default`, then the first by name); the rest
//! are [`OTHERS`], summed. A name that no queue has (a tenant may write any) is [`UNKNOWN`]. At most [`RESOURCES`] resources have theirs: what every
//! cluster has, what queues state, what nodes offer, in this order; of another one nothing is shown, and who lacks it lacks `other`.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::{QueueState, QueueView, Quota};
use crate::api::names::{DEFAULT_QUEUE, ROOT_QUEUE};
use crate::cycle::explain::{Cause, Code};
use crate::cycle::world::{Group, World};
use crate::resources::{Amount, Limits, Resources};

use super::overcommit;
use super::state::State;

mod waits;

pub use waits::{BELOW, WAITING, Waits};

/// So many queues have a label value of their own.
pub const QUEUES: usize = 500;

/// So many resources have.
pub const RESOURCES: usize = 32;

/// The queues beyond [`QUEUES`]. No queue can be called so.
pub const OTHERS: &str = "(others)";

/// Names of queues that do not exist.
pub const UNKNOWN: &str = "(unknown)";

/// A resource beyond [`RESOURCES`].
const OTHER: &str = "other";

/// What every cluster has.
const USUAL: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pods"];

/// What is said of the amounts of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Used in it and below it.
    Allocated,
    /// Used in it and not below it.
    AllocatedItself,
    /// Admitted and not charged yet, or kept until others are gone, in it and below it.
    Reserved,
    /// What is stated.
    Capability,
    /// What is stated.
    Deserved,
    /// What is stated.
    Guarantee,
    /// What of the guarantee is in force.
    Floor,
    /// What is kept for guarantees in it and below it, beyond what is taken.
    Kept,
    /// What it has a share in.
    Share,
}

/// The picture of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Amounts by queue and resource. Where nothing is stated there is none.
    pub amounts: BTreeMap<(Of, String, String), Amount>,
    /// How many queues are in which state.
    pub states: BTreeMap<(String, &'static str), u64>,
    /// How many groups wait, in each queue with those below it.
    pub waiting: BTreeMap<Waits, u64>,
    /// When the oldest member that waits in a queue or below it was created, in seconds since 1970.
    pub oldest: BTreeMap<String, i64>,
}

/// The picture of now; nothing while another decides.
#[must_use]
pub fn freeze(state: &State) -> Frozen {
    if !state.decides() {
        return Frozen::default();
    }
    let world = &state.world;
    let quota = world.books().quota();
    let labels = Labels::of(world);
    let mut frozen = Frozen::default();
    let shares = world.shares_now();
    for queue in quota.queues() {
        let name = labels.queue(queue.name);
        let (used, own) = overcommit::used_in(queue, world);
        // What is kept for gangs until others are gone is used by nobody yet, and promised.
        let mut reserved = queue.reserved.clone();
        reserved.add(queue.used);
        reserved.sub(&used);
        let queue = QueueView { used: &used, own: &own, reserved: &reserved, ..queue };
        // What stands in a queue stands in all above it, too: of those that are summed only the topmost are taken.
        if name != queue.name && labels.has_above(quota, queue.name, name) {
            frozen.add_resources(&labels, Of::AllocatedItself, name, queue.own);
        } else {
            frozen.add_queue(&labels, name, queue, shares.of(queue.name));
        }
        if queue.exists {
            let count = frozen.states.entry((name.to_owned(), state_of(quota, queue.name))).or_default();
            *count = count.saturating_add(1);
        }
    }
    frozen.waits(world, &labels);
    frozen
}

/// In which state a queue is, for a label.
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

impl Frozen {
    fn add_queue(&mut self, labels: &Labels<'_>, name: &str, queue: QueueView<'_>, share: &Resources) {
        // What nodes offer, and what the queue deserves, is there even where it is 0: so a graph has no holes, and nobody who deserves what no node offers any more goes unseen.
        // The rest is there where there is something.
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

/// Why a group waits.
#[must_use]
pub fn why(group: &Group) -> Cause<'_> {
    match (&group.facts, group.refusal.as_deref()) {
        (None, _) => Cause::plain(Code::PodGroupNotFound),
        (Some(_), None) => Cause::plain(Code::NotTried),
        (Some(_), Some(refusal)) => Cause::of(refusal),
    }
}

/// What has a label value of its own.
struct Labels<'a> {
    queues: BTreeSet<&'a str>,
    exist: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    /// Of those what the nodes offer.
    offered: BTreeSet<&'a str>,
}

impl<'a> Labels<'a> {
    fn of(world: &'a World) -> Self {
        let quota = world.books().quota();
        let exist: BTreeSet<&str> = quota.tree().names().map(|name| &**name).collect();
        let first = [ROOT_QUEUE, DEFAULT_QUEUE].into_iter().chain(exist.iter().copied());
        let queues = up_to(QUEUES, first);
        let stated = |limits: &'a Limits| limits.iter().map(|(name, _)| name.as_str());
        let stated: BTreeSet<&str> = quota
            .queues()
            .filter_map(|queue| queue.limits)
            .flat_map(|limits| stated(&limits.capability).chain(stated(&limits.deserved)).chain(stated(&limits.guarantee)))
            .collect();
        let offered = || world.books().ledger().total().iter().map(|(name, _)| name.as_str());
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

    /// Whether a queue above this one is summed under the same label.
    fn has_above(&self, quota: &Quota, name: &str, label: &str) -> bool {
        quota.tree().way(name).iter().skip(1).any(|above| self.queue(above) == label)
    }
}

/// The first different ones.
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
#[path = "frozen_tests.rs"]
mod tests;
