//! How much may each queue use, and how much does it?
//!
//! What counts is what pods use plus what groups have reserved, and beside it what must stay kept for the guarantees of
//! others. Whether more would fit is asked in `fits`.
//!
//! The tree can change under the pods: what is used moves with the queues, at once, and an audit recounts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::resources::Resources;

use super::audit::{Difference, Place, compare};
use super::derived::Derived;
use super::held::Held;
use super::kept::Kept;
use super::limits::QueueLimits;
use super::rules::{Rule, holds};
use super::shares::{Shares, Waiting};
use super::tree::{Path, QueueFault, QueueShape, QueueTree, Why};

/// One queue as it is at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether there is such a queue; pods may be charged to one that is gone.
    pub exists: bool,
    /// The parent that it names; `None` for `root` and for a queue that does not exist.
    pub parent: Option<&'a str>,
    /// What it is allowed; `None` if it says nothing.
    pub limits: Option<&'a QueueLimits>,
    /// What the pods of the queue itself use.
    pub own: &'a Resources,
    /// What the pods of the queue and of all below it use.
    pub used: &'a Resources,
    /// What groups of the queue and of all below it have reserved beyond that.
    pub reserved: &'a Resources,
    /// What of the guarantee is in force (F3); of `root`, whose floor is the cluster, nothing.
    pub floor: &'a Resources,
    /// What must be kept for the guarantees in the queue and below it, beyond what is used and reserved (F4).
    pub kept: &'a Resources,
    /// What of the floors in the queue and below it pods do not fill, whatever is reserved (F4).
    pub unfilled: &'a Resources,
}

/// The tree of queues with what each may use and does use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Quota {
    pub(super) tree: QueueTree,
    /// Of the queues that have an object.
    pub(super) limits: BTreeMap<Arc<str>, QueueLimits>,
    /// What all nodes offer together.
    pub(super) total: Resources,
    pub(super) charged: Held<Uid>,
    pub(super) reserved: Held<Arc<str>>,
    /// Follows from all the rest; a charge changes it, and whatever else changes makes it unknown.
    kept: Derived<Kept>,
    /// Follows from the shape, the limits, the total, and what is taken in queues that have others below them.
    rights: Derived<Shares>,
}

impl Quota {
    /// Only `root` and `default`, without limits, and nothing used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The shape of the queues.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        &self.tree
    }

    /// A queue exists, is there, and may use so much. What is used below it moves with it.
    pub fn queue_upsert(&mut self, shape: &QueueShape, limits: QueueLimits) {
        if self.limits.get(&shape.name) != Some(&limits) {
            self.limits.insert(Arc::clone(&shape.name), limits);
            self.unknown();
        }
        if !self.tree.agrees_with(shape) {
            self.reshape(&shape.name, |tree| tree.upsert(shape));
        }
    }

    /// There is no such queue any more. What is used in it stays charged to its name, and to `root`.
    pub fn queue_remove(&mut self, name: &str) {
        self.limits.remove(name);
        self.reshape(name, |tree| tree.remove(name));
    }

    fn reshape(&mut self, name: &str, change: impl FnOnce(&mut QueueTree)) {
        self.unknown();
        let moved = self.tree.subtree(name);
        self.charged.lift(&moved, &self.tree);
        self.reserved.lift(&moved, &self.tree);
        change(&mut self.tree);
        if holds(Rule::T3Moves) {
            self.charged.lay(&moved, &self.tree);
            self.reserved.lay(&moved, &self.tree);
        }
    }

    /// All nodes offer so much together.
    pub fn set_total(&mut self, total: &Resources) {
        if self.total != *total {
            self.total = total.clone();
            self.unknown();
        }
    }

    /// The way up from a queue that can take pods.
    ///
    /// # Errors
    ///
    /// Why it can take none (T1, T2).
    pub fn path(&self, queue: &str) -> Result<Path, QueueFault> {
        match self.tree.path(queue) {
            Ok(path) => self.overpromised(path.iter()).map_or(Ok(path), Err),
            // What is broken is named before what is no leaf (F6).
            Err(fault) if fault.why == Why::NotLeaf && holds(Rule::F6Broken) => Err(self.fault(queue).unwrap_or(fault)),
            Err(fault) => Err(fault),
        }
    }

    /// What is wrong with the queue or with the first one above it (T2); having children is not.
    #[must_use]
    pub fn fault(&self, queue: &str) -> Option<QueueFault> {
        let (way, fault) = self.tree.walk(queue);
        fault.or_else(|| self.overpromised(way.iter()))
    }

    /// The queues whose children are guaranteed more than they are themselves (T2), by name.
    pub fn overpromising(&self) -> impl Iterator<Item = &Arc<str>> {
        self.kept().excessive()
    }

    fn overpromised<'a>(&self, mut way: impl Iterator<Item = &'a Arc<str>>) -> Option<QueueFault> {
        if !holds(Rule::T2Guarantees) {
            return None;
        }
        let kept = self.kept();
        way.find_map(|queue| Some(QueueFault { queue: Arc::clone(queue), why: Why::Guarantees(kept.excess(queue)?.clone()) }))
    }

    pub(super) fn kept(&self) -> &Kept {
        self.kept.get(|| self.count_kept())
    }

    /// What each queue has a right to, whatever others ask for (S3).
    #[must_use]
    pub fn rights(&self) -> &Shares {
        self.rights.get(|| self.shares(Waiting::Unlimited))
    }

    fn unknown(&mut self) {
        self.kept.forget();
        self.rights.forget();
    }

    fn count_kept(&self) -> Kept {
        Kept::of(&self.tree, &self.limits, &self.total, |queue| taken_and_used(&self.charged, &self.reserved, queue))
    }

    /// What is taken in these queues changed, and with it what is kept on their way up, if anything is.
    fn refresh(&mut self, queues: impl IntoIterator<Item = Arc<str>>) {
        let mut kept = self.kept.known_mut().filter(|kept| !kept.is_empty() && holds(Rule::F4Charges));
        for queue in queues {
            // What a queue above others has itself is demand (S1), in its right, too.
            if holds(Rule::S3Charges) && self.tree.children(&queue).next().is_some() {
                self.rights.forget();
            }
            if let Some(kept) = &mut kept {
                kept.refresh(&queue, &self.tree, |queue| taken_and_used(&self.charged, &self.reserved, queue));
            }
        }
    }

    /// Charges a pod to a queue, existing or not, and to all above it; replaces what it was charged before. Never
    /// refuses; negative amounts count as 0.
    pub fn charge(&mut self, uid: &Uid, queue: &str, resources: Resources) {
        let changed = self.charged.put(uid.clone(), queue, resources, &self.tree);
        self.refresh(changed.into_iter().flatten());
    }

    /// Takes a pod's charge back at every level. Returns whether there was one.
    pub fn release(&mut self, uid: &Uid) -> bool {
        let old = self.charged.take(uid, &self.tree).map(|held| held.queue);
        let was = old.is_some();
        self.refresh(old);
        was
    }

    /// Reserves so much for a group, at every level; replaces what it had reserved, and nothing is no reservation. It is
    /// what the group still needs: the caller lowers it by what its pods are charged, so that nothing is counted twice.
    pub fn reserve(&mut self, group: &str, queue: &str, resources: Resources) {
        let resources = resources.without_negative();
        if resources.is_zero() {
            self.unreserve(group);
        } else {
            let changed = self.reserved.put(Arc::from(group), queue, resources, &self.tree);
            self.refresh(changed.into_iter().flatten());
        }
    }

    /// Takes a group's reservation back. Returns whether there was one.
    pub fn unreserve(&mut self, group: &str) -> bool {
        let old = self.reserved.take(&Arc::from(group), &self.tree).map(|held| held.queue);
        let was = old.is_some();
        self.refresh(old);
        was
    }

    /// The queue and the amounts that a pod is charged with; `None` if it is not charged.
    #[must_use]
    pub fn charge_of(&self, uid: &Uid) -> Option<(&str, &Resources)> {
        self.charged.holding(uid).map(|held| (&*held.queue, &held.resources))
    }

    /// The pods that are charged, by UID, with their queue and amounts.
    pub fn charges(&self) -> impl Iterator<Item = (&Uid, &str, &Resources)> {
        self.charged.holdings().map(|(uid, held)| (uid, &*held.queue, &held.resources))
    }

    /// The pods that are charged to the queue itself, by UID.
    pub fn pods_in(&self, queue: &str) -> impl Iterator<Item = &Uid> {
        self.charged.holders_in(queue)
    }

    /// The queues that pods are charged to, existing or not, by name.
    pub fn queues_with_pods(&self) -> impl Iterator<Item = &Arc<str>> {
        self.charged.queues_of_holders()
    }

    /// The queue and the amounts that a group has reserved; `None` if it has not.
    #[must_use]
    pub fn reservation_of(&self, group: &str) -> Option<(&str, &Resources)> {
        self.reserved.holding(&Arc::from(group)).map(|held| (&*held.queue, &held.resources))
    }

    /// What the pods of the queue and of all below it use.
    #[must_use]
    pub fn used(&self, name: &str) -> &Resources {
        self.charged.subtree(name)
    }

    /// One queue, existing or not.
    #[must_use]
    pub fn queue<'a>(&'a self, name: &'a str) -> QueueView<'a> {
        QueueView {
            name,
            exists: self.tree.contains(name),
            parent: self.tree.parent(name).map(|parent| &**parent),
            limits: self.limits.get(name),
            own: self.charged.own(name),
            used: self.charged.subtree(name),
            reserved: self.reserved.subtree(name),
            floor: self.kept().floor(name),
            kept: self.kept().kept(name),
            unfilled: self.kept().unfilled(name),
        }
    }

    /// The queues that exist or in which something is used or reserved, by name.
    pub fn queues(&self) -> impl Iterator<Item = QueueView<'_>> {
        let in_use = self.charged.queues().chain(self.reserved.queues());
        let names: BTreeSet<&Arc<str>> = self.tree.names().chain(in_use).collect();
        names.into_iter().map(|name| self.queue(name))
    }

    /// Recounts every queue from the pods and groups (B2), what is kept, the tree's two indices, and whether the total is still that of
    /// the nodes.
    #[must_use]
    pub fn audit(&self, total: &Resources) -> Vec<Difference> {
        let mut differences = self.charged.audit(Place::QueueOwn, Place::QueueSubtree, &self.tree);
        differences.extend(self.reserved.audit(Place::ReservedOwn, Place::ReservedSubtree, &self.tree));
        if let Some(kept) = self.kept.known() {
            differences.extend(kept.audit(&self.count_kept()));
        }
        differences.extend(compare(Place::Total, [("", &self.total)].into_iter(), [(String::new(), total.clone())].into()));
        differences.extend(self.tree.misfiled().into_iter().map(|name| Difference {
            place: Place::Tree,
            name: name.to_string(),
            kept: Resources::new(),
            recounted: Resources::new(),
        }));
        differences
    }
}

/// T4: what is taken in a queue and below it, and what of that pods use.
fn taken_and_used(charged: &Held<Uid>, reserved: &Held<Arc<str>>, queue: &str) -> [Resources; 2] {
    let used = charged.subtree(queue);
    let mut taken = used.clone();
    if holds(Rule::T4) {
        taken.add(reserved.subtree(queue));
    }
    [taken, used.clone()]
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
