//! What does the scheduler know? Everything that a cycle decides on, indexed so that an event costs what it touches.
//!
//! Facts come in by [`World::apply_pod`] and its like, in any order and any number of times; what follows from them (books, counts, who waits)
//! is kept up to date at once. What must be looked at again is remembered as *dirty*: a group, a queue, a pod. A group that found no place is
//! parked until something is gained (room on a node or below a ceiling): nothing else could help it.
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
//! A gang for which others leave is *nominated* in between: [`nominations`].
//!
//! **Architecture invariant:** no clock, no API, no logging here; a test drives it with facts alone.

mod admission;
mod asking;
mod binds;
mod budgets;
mod demands;
mod groups;
mod how_many;
mod looks;
mod nominations;
mod pods;
mod queues;
mod stand_by;
mod stays;
mod strangers;
mod torn;

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

use asking::Asking;
use how_many::HowMany;
pub(in crate::cycle) use stays::Stays;

pub use super::requeue::Backlog;
pub use admission::{Admission, Rest};
pub(in crate::cycle) use asking::Answer;
pub use asking::MOST_CLAIMS;
pub(in crate::cycle) use groups::standing;
pub use groups::{Counts, Group, Phase, Retry};
pub use looks::Dirty;
pub use nominations::{LONGEST_GRACE, PATIENCE};
pub use pods::{Assumed, Member, State};

/// Everything that a cycle decides on.
#[derive(Debug)]
pub struct World {
    /// The names of our schedulers: whose pods we place and charge to queues.
    schedulers: BTreeSet<String>,
    /// Who uses how much.
    pub(in crate::cycle) books: Accounting,
    /// The nodes, and which of them changed.
    pub(in crate::cycle) nodes: Nodes,
    /// The pods on nodes that keep others away.
    pub(in crate::cycle) anti_affinity: AntiAffinityIndex,
    /// Which pods are the same to every node.
    pub(in crate::cycle) classes: Classes,
    /// What finds the best node for a pod.
    pub(in crate::cycle) finder: NodeFinder,
    /// Our pods.
    pub(in crate::cycle) pods: ByKey<Uid, Member>,
    /// The pods of other schedulers that are charged to a node.
    others: BTreeSet<Uid>,
    /// Which of those name a group.
    strangers: strangers::Strangers,
    /// The pods that are charged to a node and being deleted, ours and others', with how long each may take.
    pub(in crate::cycle) leaving: BTreeMap<Uid, Duration>,
    /// Every group that exists or that a pod refers to.
    pub(in crate::cycle) groups: BTreeMap<GroupKey, Group>,
    queues: BTreeMap<Arc<str>, Arc<QueueFacts>>,
    /// The node groups that the affinity of any queue names: nodes with these labels are for those queues.
    node_groups_named: BTreeSet<String>,
    /// The disruption budgets.
    budgets: Arc<BTreeMap<BudgetKey, BudgetFacts>>,
    /// What is kept for gangs until others are gone.
    nominations: nominations::Nominations,
    /// How many groups of each queue are in each phase.
    phases: BTreeMap<Arc<str>, BTreeMap<Phase, i32>>,
    /// What the groups of each queue wait for.
    pub(in crate::cycle) demands: BTreeMap<Arc<str>, Resources>,
    /// The shares of all queues; none when something changed that they follow from, and nobody needed them since.
    pub(in crate::cycle) shares: Option<Shares>,
    /// The shares hold for this cycle only: a placement took more from what waits than it added to what is taken.
    outdated: bool,
    /// The queues whose children were guaranteed more than they themselves when a cycle last looked.
    overpromising: BTreeSet<Arc<str>>,
    /// Who asked in vain for the places of others.
    asking: Asking,
    /// Whose eviction was refused.
    pub(in crate::cycle) stays: Stays,
    /// The priorities of our pods that have their places.
    pub(in crate::cycle) placed: HowMany<i32>,
    /// What pods did not fill of all floors when a cycle last looked.
    unfilled: Resources,
    pub(in crate::cycle) priority_classes: BTreeMap<String, PriorityClassFacts>,
    /// The PodGroups that wait, and those of them that the next cycle tries.
    pub(in crate::cycle) requeue: Requeue,
    dirty_queues: BTreeSet<Arc<str>>,
    dirty_pods: BTreeSet<Uid>,
}

impl World {
    /// A world in which nothing has been seen yet, for the pods of these schedulers.
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
            others: BTreeSet::new(),
            strangers: strangers::Strangers::default(),
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
            asking: Asking::default(),
            stays: Stays::default(),
            placed: HowMany::default(),
            unfilled: Resources::new(),
            priority_classes: BTreeMap::new(),
            requeue: Requeue::default(),
            dirty_queues: BTreeSet::new(),
            dirty_pods: BTreeSet::new(),
        }
    }

    /// A node is there.
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
        self.asking.nodes_changed();
        self.requeue.changed(Change::Node(Arc::clone(&name)));
        // The cluster as a whole has more; where it has less, a PodGroup may be too large for it now, for which others waited (A6).
        self.requeue.changed(if shrank { Change::Everything } else { Change::Quota(Arc::from(ROOT_QUEUE)) });
    }

    /// The labels of nodes make the domains of anti-affinity.
    fn node_labels_changed(&mut self) {
        if !self.anti_affinity.is_empty() {
            self.anti_affinity.nodes_changed();
            self.requeue.changed(Change::AntiAffinity);
        }
    }

    /// A node is gone. Its pods stay charged to its name.
    pub fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name) {
            self.books.node_delete(name);
            self.nominations.node_changed(name);
            self.shares = None;
            self.node_labels_changed();
            self.asking.nodes_changed();
            // No PodGroup has more room now, but the cluster is another.
            self.requeue.changed(Change::Everything);
        }
    }

    /// A priority class is there, with these facts.
    pub fn apply_priority_class(&mut self, facts: PriorityClassFacts) {
        if self.priority_classes.get(&facts.name) != Some(&facts) {
            self.priority_classes.insert(facts.name.clone(), facts);
            self.requeue.changed(Change::Everything);
        }
    }

    /// There is no such priority class any more.
    pub fn delete_priority_class(&mut self, name: &str) {
        if self.priority_classes.remove(name).is_some() {
            self.requeue.changed(Change::Everything);
        }
    }

    /// Who uses how much.
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

    /// The groups that exist or that a pod refers to.
    #[must_use]
    pub const fn groups(&self) -> &BTreeMap<GroupKey, Group> {
        &self.groups
    }

    /// The queues that have an object.
    #[must_use]
    pub const fn queues(&self) -> &BTreeMap<Arc<str>, Arc<QueueFacts>> {
        &self.queues
    }

    /// The shares of all queues, as they were when somebody last needed them; none where something changed since.
    #[must_use]
    pub const fn shares(&self) -> Option<&Shares> {
        self.shares.as_ref()
    }

    /// The shares of all queues as they are at this moment, for who only looks.
    #[must_use]
    pub fn shares_now(&self) -> Cow<'_, Shares> {
        match &self.shares {
            Some(shares) if !self.outdated => Cow::Borrowed(shares),
            Some(_) | None => Cow::Owned(self.books.quota().shares(Waiting::Of(&self.demands))),
        }
    }

    /// Somebody needs the shares now. They hold for the whole cycle: what a placement adds to what is taken it takes from what waits (or more,
    /// where it is the last of a group whose minimum is larger than its members).
    pub(in crate::cycle) fn share_out(&mut self) {
        if std::mem::take(&mut self.outdated) || self.shares.is_none() {
            self.shares = Some(self.books.quota().shares(Waiting::Of(&self.demands)));
        }
    }

    /// The same, but what was shared out in this cycle stands.
    pub(in crate::cycle) fn share_out_if_unknown(&mut self) {
        if self.shares.is_none() {
            self.share_out();
        }
    }

    /// The names of the priority classes.
    pub fn priority_class_names(&self) -> impl Iterator<Item = &String> {
        self.priority_classes.keys()
    }

    /// The UIDs of all pods of which anything is known, ours and others', some of these twice.
    pub fn pod_uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys().chain(&self.others).chain(self.strangers.uids())
    }

    /// The groups that wait for a place or for admission.
    #[must_use]
    pub const fn backlog(&self) -> &Backlog {
        self.requeue.backlog()
    }

    /// How many of our pods could be placed and have no place.
    #[must_use]
    pub const fn waiting_pods(&self) -> usize {
        self.classes.users()
    }

    /// A pod's charge to a node and a queue changed.
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
