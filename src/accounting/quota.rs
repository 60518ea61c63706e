//! Counts how much each queue uses, against how much it may use.
//!
//! What counts is what pods use plus what PodGroups have reserved; in addition, the unused guarantees of other queues stay free.
//! Whether more fits is decided in `fits`.
//!
//! The tree can change while pods run: what is used moves with the queues at once, and an audit recounts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::resources::Resources;

use super::audit::{Difference, Place, compare};
use super::derived::Derived;
use super::limits::QueueLimits;
use super::places::PlaceSource;
use super::shares::{Shares, Waiting};
use super::subtree_sums::SubtreeSums;
use super::tree::{Path, QueueFault, QueueShape, QueueTree, Why};
use super::unused_guarantees::UnusedGuarantees;

/// One queue in its present state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueView<'a> {
    /// The name.
    pub name: &'a str,
    /// Whether the queue exists; pods may be charged to a deleted one.
    pub exists: bool,
    /// The parent that the queue names; of a deleted queue in use, the one below which it keeps its place (T3); else `None`.
    pub parent: Option<&'a str>,
    /// The limits; `None` if the queue does not exist.
    pub limits: Option<&'a QueueLimits>,
    /// The sum of the pods of the queue itself.
    pub own: &'a Resources,
    /// The sum of the pods of the queue and of all queues below it.
    pub used: &'a Resources,
    /// The additional reservations of the PodGroups of the queue and of all queues below it.
    pub reserved: &'a Resources,
    /// The part of the guarantee that is in force (F2); empty for `root`, whose floor is the cluster.
    pub floor: &'a Resources,
    /// What must stay free for the guarantees in the queue and below it, beyond what is used and reserved (F3).
    pub unused_guarantee: &'a Resources,
    /// The part of the floors in the queue and below it that pods do not fill, whatever is reserved (F3).
    pub unfilled: &'a Resources,
}

/// The tree of queues, with what each queue may use and uses.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Quota {
    pub(super) tree: QueueTree,
    /// The limits of the queues that exist.
    pub(super) limits: BTreeMap<Arc<str>, QueueLimits>,
    /// What is there to be guaranteed and shared: what all nodes leave to our queues (N2).
    pub(super) total: Resources,
    pub(super) charged: SubtreeSums<Uid>,
    pub(super) reserved: SubtreeSums<Arc<str>>,
    /// Derived from all other fields. A charge updates it; any other change drops it.
    unused_guarantees: Derived<UnusedGuarantees>,
    /// Derived from the tree, the limits, the total, and what is taken in inner queues.
    entitlements: Derived<Shares>,
}

impl Quota {
    /// Makes a quota with only `root` and `default`, without limits and use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the tree of the queues.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        &self.tree
    }

    /// Adds a queue or changes its parent and limits. What is used below it moves with it.
    pub fn queue_upsert(&mut self, shape: &QueueShape, limits: QueueLimits) {
        if self.limits.get(&shape.name) != Some(&limits) {
            self.limits.insert(Arc::clone(&shape.name), limits);
            self.unknown();
        }
        if !self.tree.agrees_with(shape) {
            self.reshape(&shape.name, |tree| tree.upsert(shape));
        }
    }

    /// Removes a queue. What is used in it stays charged to its name, and to the queues above it (T3).
    pub fn queue_remove(&mut self, name: &str) {
        self.limits.remove(name);
        let in_use = self.is_in_use(name);
        self.reshape(name, |tree| tree.remove(name, in_use));
    }

    /// Whether anything is charged or reserved in the queue or below it.
    fn is_in_use(&self, name: &str) -> bool {
        !self.charged.subtree(name).is_zero() || !self.reserved.subtree(name).is_zero()
    }

    /// Takes in where the queues of a path were (T3), from a queue up to `root`. Of queues that exist it says nothing.
    pub(super) fn believe_path(&mut self, path: &[Arc<str>], source: &PlaceSource) {
        for edge in path.windows(2) {
            let [queue, parent] = edge else { return };
            if self.tree.believes(queue, source) {
                self.reshape(queue, |tree| tree.remember_place(queue, parent, source));
            }
            // The rest of the path is that of another queue.
            if self.tree.contains(queue) || self.tree.above(queue) != Some(parent) {
                return;
            }
        }
    }

    /// Forgets the places of deleted queues in which and below which nothing is charged or reserved. No sum changes by that.
    pub(super) fn forget_unused_places(&mut self) {
        if self.tree.has_places() {
            let unused: Vec<Arc<str>> = self.tree.deleted().filter(|queue| !self.is_in_use(queue)).cloned().collect();
            unused.iter().for_each(|queue| self.tree.forget_place(queue));
        }
    }

    fn reshape(&mut self, name: &str, change: impl FnOnce(&mut QueueTree)) {
        self.unknown();
        let moved = self.tree.subtree(name);
        self.charged.detach(&moved, &self.tree);
        self.reserved.detach(&moved, &self.tree);
        change(&mut self.tree);
        self.charged.attach(&moved, &self.tree);
        self.reserved.attach(&moved, &self.tree);
    }

    /// Sets what is there to be guaranteed and shared (N2). Costs one comparison where it is the same.
    pub fn set_total(&mut self, total: &Resources) {
        if self.total != *total {
            self.total = total.clone();
            self.unknown();
        }
    }

    /// Returns the way up from a queue that can take pods.
    ///
    /// # Errors
    ///
    /// Why the queue takes no pods (T1, T1b).
    pub fn path(&self, queue: &str) -> Result<Path, QueueFault> {
        match self.tree.path(queue) {
            Ok(path) => self.overpromised(path.iter()).map_or(Ok(path), Err),
            // A broken queue is reported before one that is no leaf (F4).
            Err(fault) => Err(self.fault(queue).unwrap_or(fault)),
        }
    }

    /// Returns the fault of the queue or of the first one above it (T1b); having children is no fault.
    #[must_use]
    pub fn fault(&self, queue: &str) -> Option<QueueFault> {
        let (way, fault) = self.tree.walk(queue);
        fault.or_else(|| self.overpromised(way.iter()))
    }

    /// Returns the queues that guarantee their children more than they have themselves (T1b), by name.
    pub fn overpromising(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unused_guarantees().excessive()
    }

    fn overpromised<'a>(&self, mut way: impl Iterator<Item = &'a Arc<str>>) -> Option<QueueFault> {
        let unused = self.unused_guarantees();
        way.find_map(|queue| Some(QueueFault { queue: Arc::clone(queue), why: Why::Guarantees(unused.excess(queue)?.clone()) }))
    }

    pub(super) fn unused_guarantees(&self) -> &UnusedGuarantees {
        self.unused_guarantees.get(|| self.compute_unused_guarantees())
    }

    /// Returns what each queue is entitled to, whatever other queues request (S3).
    #[must_use]
    pub fn entitlements(&self) -> &Shares {
        self.entitlements.get(|| self.shares(Waiting::Unlimited))
    }

    fn unknown(&mut self) {
        self.unused_guarantees.forget();
        self.entitlements.forget();
    }

    fn compute_unused_guarantees(&self) -> UnusedGuarantees {
        UnusedGuarantees::of(&self.tree, &self.limits, &self.total, |queue| taken_and_used(&self.charged, &self.reserved, queue))
    }

    /// Updates the unused guarantees on the way up from queues in which the taken amounts changed.
    fn refresh(&mut self, queues: impl IntoIterator<Item = Arc<str>>) {
        let mut unused = self.unused_guarantees.known_mut().filter(|unused| !unused.is_empty());
        for queue in queues {
            // What an inner queue uses itself is demand (S1), also in its entitlement; so is what is used in a deleted queue below it.
            if self.tree.children(&queue).next().is_some() || self.tree.counts_by_place(&queue) {
                self.entitlements.forget();
            }
            if let Some(unused) = &mut unused {
                unused.refresh(&queue, &self.tree, |queue| taken_and_used(&self.charged, &self.reserved, queue));
            }
        }
    }

    /// Charges a pod to a queue, existing or not, and to all queues above it; replaces the previous charge. Never
    /// refuses; negative amounts count as 0.
    pub fn charge(&mut self, uid: &Uid, queue: &str, resources: Resources) {
        let changed = self.charged.put(uid.clone(), queue, resources, &self.tree);
        self.refresh(changed.into_iter().flatten());
    }

    /// Takes a pod's charge back at every level. Returns whether there was one.
    pub fn release(&mut self, uid: &Uid) -> bool {
        let old = self.charged.take(uid, &self.tree).map(|entry| entry.queue);
        let was = old.is_some();
        self.refresh(old);
        was
    }

    /// Reserves an amount for a PodGroup, at every level; replaces its previous reservation, and zero means none. The amount is
    /// what the PodGroup still needs: the caller subtracts the charges of its pods, so that nothing is counted twice.
    pub fn reserve(&mut self, group: &str, queue: &str, resources: Resources) {
        let resources = resources.without_negative();
        if resources.is_zero() {
            self.unreserve(group);
        } else {
            let changed = self.reserved.put(Arc::from(group), queue, resources, &self.tree);
            self.refresh(changed.into_iter().flatten());
        }
    }

    /// Takes a PodGroup's reservation back. Returns whether there was one.
    pub fn unreserve(&mut self, group: &str) -> bool {
        let old = self.reserved.take(&Arc::from(group), &self.tree).map(|entry| entry.queue);
        let was = old.is_some();
        self.refresh(old);
        was
    }

    /// Returns the queue and the amounts of a pod's charge; `None` if it is not charged.
    #[must_use]
    pub fn charge_of(&self, uid: &Uid) -> Option<(&str, &Resources)> {
        self.charged.entry(uid).map(|entry| (&*entry.queue, &entry.resources))
    }

    /// Returns the charged pods, by UID, with their queue and amounts.
    pub fn charges(&self) -> impl Iterator<Item = (&Uid, &str, &Resources)> {
        self.charged.entries().map(|(uid, entry)| (uid, &*entry.queue, &entry.resources))
    }

    /// Returns the pods that are charged to the queue itself, by UID.
    pub fn pods_in(&self, queue: &str) -> impl Iterator<Item = &Uid> {
        self.charged.keys_in(queue)
    }

    /// Returns the queues that pods are charged to, existing or not, by name.
    pub fn queues_with_pods(&self) -> impl Iterator<Item = &Arc<str>> {
        self.charged.queues_with_entries()
    }

    /// Returns the queue and the amounts of a PodGroup's reservation; `None` if it has none.
    #[must_use]
    pub fn reservation_of(&self, group: &str) -> Option<(&str, &Resources)> {
        self.reserved.entry(&Arc::from(group)).map(|entry| (&*entry.queue, &entry.resources))
    }

    /// Returns the PodGroups that have reserved something in the queue itself, by name, with the amounts.
    pub fn reservations_in(&self, queue: &str) -> impl Iterator<Item = (&str, &Resources)> {
        self.reserved.keys_in(queue).filter_map(|group| Some((&**group, &self.reserved.entry(group)?.resources)))
    }

    /// Returns the sum of the pods of the queue and of all queues below it.
    #[must_use]
    pub fn used(&self, name: &str) -> &Resources {
        self.charged.subtree(name)
    }

    /// Returns the sum of the reservations in the queue and in all queues below it.
    #[must_use]
    pub fn reserved(&self, name: &str) -> &Resources {
        self.reserved.subtree(name)
    }

    /// Returns one queue, existing or not.
    #[must_use]
    pub fn queue<'a>(&'a self, name: &'a str) -> QueueView<'a> {
        QueueView {
            name,
            exists: self.tree.contains(name),
            parent: self.tree.above(name).map(|parent| &**parent),
            limits: self.limits.get(name),
            own: self.charged.own(name),
            used: self.charged.subtree(name),
            reserved: self.reserved.subtree(name),
            floor: self.unused_guarantees().floor(name),
            unused_guarantee: self.unused_guarantees().unused(name),
            unfilled: self.unused_guarantees().unfilled(name),
        }
    }

    /// Returns the queues that exist or in which something is used or reserved, by name.
    pub fn queues(&self) -> impl Iterator<Item = QueueView<'_>> {
        let in_use = self.charged.queues().chain(self.reserved.queues());
        let names: BTreeSet<&Arc<str>> = self.tree.names().chain(in_use).collect();
        names.into_iter().map(|name| self.queue(name))
    }

    /// Recounts every queue from the pods and PodGroups (B2), the unused guarantees and the two indices of the tree. Also checks that the
    /// total is still that of the nodes.
    #[must_use]
    pub fn audit(&self, total: &Resources) -> Vec<Difference> {
        let mut differences = self.charged.audit(Place::QueueOwn, Place::QueueSubtree, &self.tree);
        differences.extend(self.reserved.audit(Place::ReservedOwn, Place::ReservedSubtree, &self.tree));
        if let Some(unused) = self.unused_guarantees.known() {
            differences.extend(unused.audit(&self.compute_unused_guarantees()));
        }
        differences.extend(compare(Place::Total, [("", &self.total)].into_iter(), [(String::new(), total.clone())].into()));
        differences.extend(self.tree.misfiled().into_iter().map(|name| Difference {
            place: Place::Tree,
            name: name.to_string(),
            stored: Resources::new(),
            recounted: Resources::new(),
        }));
        differences
    }
}

/// Returns what is taken in a queue and below it (T2), and the part of it that pods use.
fn taken_and_used(charged: &SubtreeSums<Uid>, reserved: &SubtreeSums<Arc<str>>, queue: &str) -> [Resources; 2] {
    let used = charged.subtree(queue);
    let mut taken = used.clone();
    taken.add(reserved.subtree(queue));
    [taken, used.clone()]
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
