//! The cache: the facts about the cluster, and the changes that each event made to them.
//!
//! Facts arrive through [`Cache::apply_pod`] and its siblings, in any order and any number of times. The accounting and the counts are
//! updated at once. Each function adds its changes as typed [`Change`]s. The modules above take them ([`Cache::take_changes`]) and decide
//! what follows. The cache decides nothing.
//!
//! ```text
//!                    apply: seen on a node
//!   ┌──────────────────────────────────────────────────┐
//!   │          cycle            bind confirmed, seen    ▼        ended, gone
//! waiting ───────────────► assumed ───────────────► placed ──────────────────► over
//!   ▲                        │  │ bind refused: forget                           ▲
//!   └────────────────────────┘  └──────────────── ended, gone ──────────────────┘
//! ```
//!
//! A gang that waits for its victims is *nominated* in between (`holds`).
//!
//! **Architecture invariant:** no clock, no API, no logging here; a test drives it with facts alone.

mod binds;
mod budgets;
mod changes;
pub(super) mod counter;
mod demands;
mod foreign;
pub mod gang;
mod gives_way;
mod group;
mod holders;
mod holds;
pub(in crate::cycle) mod members;
mod nodes;
mod other_pods;
mod partial_gang;
pub mod phase;
mod placer;
mod pods;
mod queues;
mod rank;
mod refused_for_selectors;
pub(in crate::cycle) mod reservation;
pub(in crate::cycle) mod subgroups;
mod successes;
mod told;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::{Accounting, ROOT_QUEUE, ReservedMinimums};
use crate::api::volumes::CsiNodeFacts;
use crate::api::{BudgetFacts, BudgetKey, GroupKey, PriorityClassFacts, QueueFacts, Uid};
use crate::by_key::ByKey;
use crate::resources::{ResourceName, Resources};

use super::placement::class::Classes;
use super::placement::finder::NodeFinder;
use super::placement::nodes::Nodes;
use super::placement::nominated_by_others::NominatedByOthers;
use super::placement::topology::placed::PlacedPods;
use super::placement::topology::selection::LabelSetId;

use counter::Counter;

pub use changes::{Change, LostMember, Wake};
pub(in crate::cycle) use demands::Sharing;
pub(in crate::cycle) use group::victim_priority;
pub use group::{Counts, Group, Retry};
pub use phase::Phase;
pub(in crate::cycle) use placer::Beside;
pub use pods::{Assumed, Member, State};
pub(in crate::cycle) use pods::{request_of, to_place};
pub use rank::GroupRank;
pub use reservation::{Admission, AdmissionBackoff};
pub(in crate::cycle) use told::Answers;

/// The objects with a status that may have changed since the last call.
#[derive(Debug, Default)]
pub struct Dirty {
    /// The queues with a status that may have changed.
    pub queues: BTreeSet<Arc<str>>,
    /// The pods with a condition that may have changed.
    pub pods: BTreeSet<Uid>,
    /// The PodGroups that wait for a queue of which something changed, and were not tried since.
    pub groups: Vec<GroupKey>,
}

/// The facts that a cycle decides on, indexed so that an event costs only what it touches.
#[derive(Debug)]
pub struct Cache {
    /// The names of our schedulers. Their pods are placed here and charged to queues.
    schedulers: BTreeSet<String>,
    /// The resources that pods use on nodes and in queues.
    accounting: Accounting,
    /// The nodes, and which of them changed.
    nodes: Nodes,
    /// What kubelets say about CSI drivers, by node.
    csi_nodes: BTreeMap<Arc<str>, Arc<CsiNodeFacts>>,
    /// The pods that affinity, anti-affinity and spread count, ours and foreign, and those of them on nodes; and the volumes that they use.
    on_nodes: PlacedPods,
    /// Our waiting pods, by label set.
    waiting_with: BTreeMap<LabelSetId, BTreeSet<Uid>>,
    /// Those of our waiting pods that are refused because their namespace has too many selectors.
    refused_for_selectors: refused_for_selectors::RefusedForSelectors,
    /// The scheduling classes: the pods of a class are the same to every node.
    classes: Classes,
    /// Finds the best node for a pod.
    finder: NodeFinder,
    /// Our pods.
    pods: ByKey<Uid, Member>,
    /// The priorities of our pods that have a node.
    placed_priorities: Counter<i32>,
    /// The pods of other schedulers.
    foreign: foreign::ForeignPods,
    /// The nodes that are nominated for them.
    nominated_by_others: NominatedByOthers,
    /// Our pods with a nominated place.
    nominated: BTreeSet<Uid>,
    /// The terminating pods that are charged to a node, ours and foreign, each with its grace period.
    leaving: BTreeMap<Uid, Duration>,
    /// Every PodGroup that exists or that a pod names.
    groups: ByKey<GroupKey, Group>,
    priority_classes: BTreeMap<String, PriorityClassFacts>,
    /// The disruption budgets.
    budgets: Arc<BTreeMap<BudgetKey, BudgetFacts>>,
    queues: queues::Queues,
    /// What PodGroups have reserved and further members of others leave room for (A7).
    reserved_first: ReservedMinimums,
    /// The same by the creation of the PodGroup.
    first_by_age: BTreeMap<(Timestamp, Option<GroupKey>), (Arc<str>, Resources)>,
    /// The reservations that give way to PodGroups that come before.
    giving_way: gives_way::GivingWay,
    /// By queue: what PodGroups were admitted for within the entitlement, and have not reserved as they lack members (A3). No entry is zero.
    unreserved: BTreeMap<Arc<str>, Resources>,
    /// What of it counted for members of other queues at the last check, by the queue of the reservations.
    counted_minimums: BTreeMap<Arc<str>, Resources>,
    /// How much the nodes could ever take, as far as it was counted since a node changed (A6).
    room_if_empty: nodes::RoomIfEmpty,
    /// What the queues want, and the shares that follow.
    sharing: Sharing,
    /// What pods that wait for nodes below a capability are told, as decided last.
    answers: Answers,
    may_ask_for_nodes: bool,
    dirty: Dirty,
    /// The resources that nodes offer, as the queues were told last.
    offered: Vec<ResourceName>,
    /// The changes since they were taken last.
    changes: Vec<Change>,
}

impl Cache {
    /// Creates an empty cache for the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: impl IntoIterator<Item = String>) -> Self {
        Self {
            schedulers: schedulers.into_iter().collect(),
            accounting: Accounting::new(),
            nodes: Nodes::default(),
            csi_nodes: BTreeMap::new(),
            on_nodes: PlacedPods::default(),
            waiting_with: BTreeMap::new(),
            refused_for_selectors: refused_for_selectors::RefusedForSelectors::default(),
            classes: Classes::default(),
            finder: NodeFinder::default(),
            pods: ByKey::default(),
            placed_priorities: Counter::default(),
            foreign: foreign::ForeignPods::default(),
            nominated_by_others: NominatedByOthers::default(),
            nominated: BTreeSet::new(),
            leaving: BTreeMap::new(),
            groups: ByKey::default(),
            priority_classes: BTreeMap::new(),
            budgets: Arc::default(),
            queues: queues::Queues::default(),
            reserved_first: ReservedMinimums::default(),
            first_by_age: BTreeMap::new(),
            giving_way: gives_way::GivingWay::default(),
            unreserved: BTreeMap::new(),
            counted_minimums: BTreeMap::new(),
            room_if_empty: nodes::RoomIfEmpty::new(),
            sharing: Sharing::default(),
            answers: Answers::new(),
            may_ask_for_nodes: false,
            dirty: Dirty::default(),
            offered: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Takes the changes since the last call, in their order.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Adds a change.
    pub(super) fn changed(&mut self, change: impl Into<Change>) {
        self.changes.push(change.into());
    }

    /// Takes the objects with a status that may have changed since the last call.
    pub(super) fn take_dirty(&mut self) -> Dirty {
        std::mem::take(&mut self.dirty)
    }

    /// The queues with a status that may have changed.
    pub(super) const fn dirty_queues(&self) -> &BTreeSet<Arc<str>> {
        &self.dirty.queues
    }

    /// The accounting: the resources that pods use on nodes and in queues.
    #[must_use]
    pub const fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// The nodes.
    #[must_use]
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Our pods, by UID.
    #[must_use]
    pub const fn pods(&self) -> &ByKey<Uid, Member> {
        &self.pods
    }

    /// The PodGroups that exist or that a pod names.
    #[must_use]
    pub const fn groups(&self) -> &ByKey<GroupKey, Group> {
        &self.groups
    }

    /// Returns what is remembered of the PodGroup, to change it.
    pub(super) fn group_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.groups.get_mut(key)
    }

    /// The pods that affinity, anti-affinity and spread count.
    pub(super) const fn on_nodes(&self) -> &PlacedPods {
        &self.on_nodes
    }

    /// The scheduling classes.
    pub(super) const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The nodes that are nominated for the pods of other schedulers.
    pub(super) const fn nominated_by_others(&self) -> &NominatedByOthers {
        &self.nominated_by_others
    }

    /// The terminating pods that are charged to a node, each with its grace period.
    pub(in crate::cycle) const fn leaving(&self) -> &BTreeMap<Uid, Duration> {
        &self.leaving
    }

    /// The priority classes, by name.
    #[cfg(test)]
    pub(in crate::cycle) const fn priority_classes(&self) -> &BTreeMap<String, PriorityClassFacts> {
        &self.priority_classes
    }

    /// What the queues want, and the shares that follow.
    pub(in crate::cycle) const fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// The lowest priority of our pods that have a node.
    #[cfg(test)]
    pub(super) fn lowest_placed(&self) -> Option<i32> {
        self.placed_priorities.lowest().copied()
    }

    /// The names of our schedulers.
    pub fn schedulers(&self) -> impl Iterator<Item = &str> + Clone {
        self.schedulers.iter().map(String::as_str)
    }

    /// The queues that have an object.
    #[must_use]
    pub const fn queues(&self) -> &BTreeMap<Arc<str>, Arc<QueueFacts>> {
        &self.queues.facts
    }

    /// The names of the priority classes.
    pub fn priority_class_names(&self) -> impl Iterator<Item = &String> {
        self.priority_classes.keys()
    }

    /// The UIDs of all known pods, ours and foreign. Foreign pods may come twice.
    pub fn pod_uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys().chain(self.foreign.uids())
    }

    /// The number of our pods that wait for a node.
    #[must_use]
    pub const fn waiting_pods(&self) -> usize {
        self.classes.users()
    }

    /// Returns the lowest priority that a pod with a node may have as a victim; none where no pod has a node.
    pub(super) fn lowest_priority(&self) -> Option<i32> {
        // A class may give a pod a lower priority than its own.
        self.placed_priorities.lowest().copied().into_iter().chain(self.priority_classes.values().map(|class| class.value)).min()
    }

    /// Adds or updates a priority class.
    pub fn apply_priority_class(&mut self, facts: PriorityClassFacts) {
        if self.priority_classes.get(&facts.name) != Some(&facts) {
            self.priority_classes.insert(facts.name.clone(), facts);
            self.update_ways();
            self.changed(Wake::Everything);
        }
    }

    /// Removes a priority class.
    pub fn delete_priority_class(&mut self, name: &str) {
        if self.priority_classes.remove(name).is_some() {
            self.update_ways();
            self.changed(Wake::Everything);
        }
    }

    /// Notes that the charge of a pod to a node and a queue changed.
    pub(super) fn charge_changed(&mut self, node: Option<&str>, queue: Option<&str>, freed: bool) {
        if let Some(node) = node {
            self.nodes.touch_name(node);
        }
        if let Some(queue) = queue {
            self.dirty_path(queue);
        }
        if freed {
            node.into_iter().for_each(|node| self.changed(Wake::Node(Arc::from(node))));
            // What a pod outside our queues gives back is there for all of them (N2).
            self.changed(Wake::Quota(Arc::from(queue.unwrap_or(ROOT_QUEUE))));
        }
        self.sharing.shares = None;
    }

    /// Keeps what is collected for a status write small where no status is written: objects that are gone are forgotten. `longer` says
    /// whether so many entries are too many for so many objects.
    pub(super) fn bound_dirty(&mut self, longer: impl Fn(usize, usize) -> bool) {
        if longer(self.dirty.pods.len(), self.pods.len()) {
            let pods = &self.pods;
            self.dirty.pods.retain(|uid| pods.contains_key(uid));
        }
        if longer(self.dirty.queues.len(), self.queues.facts.len()) {
            let queues = &self.queues.facts;
            self.dirty.queues.retain(|name| queues.contains_key(name));
        }
        self.tidy_classes();
    }
}

#[cfg(test)]
mod deleted_queue_tests;
#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod refused_for_selectors_tests;
