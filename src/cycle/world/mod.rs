//! What does the scheduler know? All facts that a cycle decides on, indexed so that an event costs only what it touches.
//!
//! Facts arrive through [`World::apply_pod`] and its siblings, in any order and any number of times. The accounting, the counts and the
//! backlog are updated at once. PodGroups, queues and pods that must be processed again are marked *dirty*. A PodGroup that found no nodes
//! is parked until something changes that may help it (`requeue`).
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
//! A gang that waits for its victims is *nominated* in between: [`nominations`].
//!
//! **Architecture invariant:** no clock, no API, no logging here; a test drives it with facts alone.

mod admission;
mod binds;
mod budgets;
mod candidates;
mod counter;
mod demands;
mod eviction_backoff;
mod foreign;
mod groups;
mod nominations;
mod partial_gang;
mod pods;
mod preemption_retries;
mod queues;
mod stand_by;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Accounting, ROOT_QUEUE, Shares, Waiting};
use crate::api::{BudgetFacts, BudgetKey, GroupKey, NodeFacts, PriorityClassFacts, QueueFacts, Uid};
use crate::by_key::ByKey;
use crate::resources::Resources;

use super::placement::anti_affinity::AntiAffinityIndex;
use super::placement::class::Classes;
use super::placement::finder::NodeFinder;
use super::placement::nodes::Nodes;
use super::requeue::{Change, Requeue};

use counter::Counter;
pub(in crate::cycle) use eviction_backoff::EvictionBackoff;
use preemption_retries::PreemptionRetries;

pub use super::requeue::Backlog;
pub use admission::{Admission, AdmissionBackoff};
pub use candidates::Dirty;
pub(in crate::cycle) use groups::victim_priority;
pub use groups::{Counts, Group, Phase, Retry};
pub use nominations::{LONGEST_GRACE, NOMINATION_MARGIN};
pub use pods::{Assumed, Member, State};
pub use preemption_retries::MOST_PREEMPTION_ATTEMPTS;
pub(in crate::cycle) use preemption_retries::PreemptionOutcome;

/// The facts that a cycle decides on.
#[derive(Debug)]
pub struct World {
    /// The names of our schedulers. Their pods are placed here and charged to queues.
    schedulers: BTreeSet<String>,
    /// The accounting: the resources that pods use on nodes and in queues.
    pub(in crate::cycle) books: Accounting,
    /// The nodes, and which of them changed.
    pub(in crate::cycle) nodes: Nodes,
    /// The pods on nodes with anti-affinity terms.
    pub(in crate::cycle) anti_affinity: AntiAffinityIndex,
    /// The scheduling classes: the pods of a class are the same to every node.
    pub(in crate::cycle) classes: Classes,
    /// Finds the best node for a pod.
    pub(in crate::cycle) finder: NodeFinder,
    /// Our pods.
    pub(in crate::cycle) pods: ByKey<Uid, Member>,
    /// The foreign pods that are charged to a node.
    foreign_on_nodes: BTreeSet<Uid>,
    /// The foreign pods that name a PodGroup.
    foreign: foreign::ForeignPods,
    /// The terminating pods that are charged to a node, ours and foreign, each with its grace period.
    pub(in crate::cycle) leaving: BTreeMap<Uid, Duration>,
    /// Every PodGroup that exists or that a pod names.
    pub(in crate::cycle) groups: BTreeMap<GroupKey, Group>,
    queues: BTreeMap<Arc<str>, Arc<QueueFacts>>,
    /// The node groups that the affinity of any queue names. Nodes with these labels are for those queues.
    node_groups_named: BTreeSet<String>,
    /// The disruption budgets.
    budgets: Arc<BTreeMap<BudgetKey, BudgetFacts>>,
    /// The nominations: nodes and quota that gangs get when their victims are gone.
    nominations: nominations::Nominations,
    /// The number of PodGroups in each phase, by queue.
    phases: BTreeMap<Arc<str>, BTreeMap<Phase, i32>>,
    /// The resources that the PodGroups of each queue wait for.
    pub(in crate::cycle) demands: BTreeMap<Arc<str>, Resources>,
    /// The shares of all queues; none when an input changed and no reader needed them since.
    pub(in crate::cycle) shares: Option<Shares>,
    /// Whether the shares hold for this cycle only, because a placement took more from the demand than it added to the use.
    outdated: bool,
    /// The queues that were guaranteed less than their children when the last cycle began.
    overpromising: BTreeSet<Arc<str>>,
    /// The preemptions that were attempted in vain, and when each is retried.
    preemption_retries: PreemptionRetries,
    /// The pods with a refused eviction.
    pub(in crate::cycle) eviction_backoff: EvictionBackoff,
    /// The priorities of our pods that have a node.
    pub(in crate::cycle) placed: Counter<i32>,
    /// The unused part of all floors when the last cycle ended.
    unfilled: Resources,
    pub(in crate::cycle) priority_classes: BTreeMap<String, PriorityClassFacts>,
    /// The PodGroups that wait, and the subset that the next cycle tries.
    pub(in crate::cycle) requeue: Requeue,
    dirty_queues: BTreeSet<Arc<str>>,
    dirty_pods: BTreeSet<Uid>,
}

impl World {
    /// Creates an empty world for the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: impl IntoIterator<Item = String>) -> Self {
        Self {
            schedulers: schedulers.into_iter().collect(),
            books: Accounting::new(),
            nodes: Nodes::default(),
            anti_affinity: AntiAffinityIndex::default(),
            classes: Classes::default(),
            finder: NodeFinder::default(),
            pods: ByKey::default(),
            foreign_on_nodes: BTreeSet::new(),
            foreign: foreign::ForeignPods::default(),
            leaving: BTreeMap::new(),
            groups: BTreeMap::new(),
            node_groups_named: BTreeSet::new(),
            queues: BTreeMap::new(),
            budgets: Arc::default(),
            nominations: nominations::Nominations::default(),
            phases: BTreeMap::new(),
            demands: BTreeMap::new(),
            shares: None,
            outdated: false,
            overpromising: BTreeSet::new(),
            preemption_retries: PreemptionRetries::default(),
            eviction_backoff: EvictionBackoff::default(),
            placed: Counter::default(),
            unfilled: Resources::new(),
            priority_classes: BTreeMap::new(),
            requeue: Requeue::default(),
            dirty_queues: BTreeSet::new(),
            dirty_pods: BTreeSet::new(),
        }
    }

    /// Adds or updates a node.
    pub fn apply_node(&mut self, facts: NodeFacts) {
        let (name, allocatable) = (Arc::clone(&facts.name), facts.allocatable.clone());
        let known = self.nodes.id(&name).and_then(|id| self.nodes.get(id));
        let shrank = known.is_some_and(|known| !allocatable.covers(&known.allocatable));
        if !self.nodes.upsert(facts) {
            return;
        }
        self.books.node_upsert(&name, allocatable);
        self.nominations.node_changed(&name);
        self.shares = None;
        self.node_labels_changed();
        self.preemption_retries.nodes_changed();
        self.requeue.changed(Change::Node(Arc::clone(&name)));
        // The cluster as a whole has more. Where it has less, a PodGroup may be too large for it now, and others waited behind that one
        // (A6).
        self.requeue.changed(if shrank { Change::Everything } else { Change::Quota(Arc::from(ROOT_QUEUE)) });
    }

    /// The labels of nodes make the domains of anti-affinity.
    fn node_labels_changed(&mut self) {
        if !self.anti_affinity.is_empty() {
            self.anti_affinity.nodes_changed();
            self.requeue.changed(Change::AntiAffinity);
        }
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name) {
            self.books.node_delete(name);
            self.nominations.node_changed(name);
            self.shares = None;
            self.node_labels_changed();
            self.preemption_retries.nodes_changed();
            // No PodGroup has more room now, but the cluster is another.
            self.requeue.changed(Change::Everything);
        }
    }

    /// Adds or updates a priority class.
    pub fn apply_priority_class(&mut self, facts: PriorityClassFacts) {
        if self.priority_classes.get(&facts.name) != Some(&facts) {
            self.priority_classes.insert(facts.name.clone(), facts);
            self.requeue.changed(Change::Everything);
        }
    }

    /// Removes a priority class.
    pub fn delete_priority_class(&mut self, name: &str) {
        if self.priority_classes.remove(name).is_some() {
            self.requeue.changed(Change::Everything);
        }
    }

    /// The accounting: the resources that pods use on nodes and in queues.
    #[must_use]
    pub const fn books(&self) -> &Accounting {
        &self.books
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
    pub const fn groups(&self) -> &BTreeMap<GroupKey, Group> {
        &self.groups
    }

    /// The queues that have an object.
    #[must_use]
    pub const fn queues(&self) -> &BTreeMap<Arc<str>, Arc<QueueFacts>> {
        &self.queues
    }

    /// The shares of all queues, as computed last; none where an input changed since.
    #[must_use]
    pub const fn shares(&self) -> Option<&Shares> {
        self.shares.as_ref()
    }

    /// The shares of all queues at this moment, for a reader that changes nothing.
    #[must_use]
    pub fn shares_now(&self) -> Cow<'_, Shares> {
        match &self.shares {
            Some(shares) if !self.outdated => Cow::Borrowed(shares),
            Some(_) | None => Cow::Owned(self.books.quota().shares(Waiting::Of(&self.demands))),
        }
    }

    /// Computes the shares if an input changed. They hold for the whole cycle. A placement moves resources from the demand to the use. It
    /// may take more from the demand, where it is the last of a PodGroup whose minimum is larger than its members.
    pub(in crate::cycle) fn share_out(&mut self) {
        if std::mem::take(&mut self.outdated) || self.shares.is_none() {
            self.shares = Some(self.books.quota().shares(Waiting::Of(&self.demands)));
        }
    }

    /// Computes the shares if there are none. Shares of this cycle stay as they are.
    pub(in crate::cycle) fn share_out_if_unknown(&mut self) {
        if self.shares.is_none() {
            self.share_out();
        }
    }

    /// The names of the priority classes.
    pub fn priority_class_names(&self) -> impl Iterator<Item = &String> {
        self.priority_classes.keys()
    }

    /// The UIDs of all known pods, ours and foreign. Foreign pods may come twice.
    pub fn pod_uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys().chain(&self.foreign_on_nodes).chain(self.foreign.uids())
    }

    /// The PodGroups that wait for nodes or for admission.
    #[must_use]
    pub const fn backlog(&self) -> &Backlog {
        self.requeue.backlog()
    }

    /// The number of our pods that wait for a node.
    #[must_use]
    pub const fn waiting_pods(&self) -> usize {
        self.classes.users()
    }

    /// Notes that the charge of a pod to a node and a queue changed.
    fn books_changed(&mut self, node: Option<&str>, queue: Option<&str>, freed: bool) {
        if let Some(node) = node {
            self.nodes.touch_name(node);
        }
        if let Some(queue) = queue {
            self.dirty_path(queue);
        }
        if freed {
            node.into_iter().for_each(|node| self.requeue.changed(Change::Node(Arc::from(node))));
            queue.into_iter().for_each(|queue| self.requeue.changed(Change::Quota(Arc::from(queue))));
        }
        self.shares = None;
    }
}

#[cfg(test)]
mod forgotten_tests;
