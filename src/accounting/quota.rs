//! How much may each queue use, how much does it, and would more fit at every level?
//!
//! [`Quota::fits`] is the one function that answers for a queue and all its ancestors (F6); admit, allocate, and what
//! later preempts or reclaims, ask it and nothing else. What counts is what pods use plus what groups have reserved.
//!
//! The tree can change under the pods: what is used moves with the queues, at once, and an audit recounts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::resources::{Amount, Limits, ResourceName, Resources};

use super::audit::{Difference, Place};
use super::held::Held;
use super::tree::{Path, QueueFault, QueueShape, QueueTree};

/// What one queue is allowed, as its object says.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// The ceiling of the queue with all below it; unset is unlimited.
    pub capability: Limits,
}

/// A ceiling that something would break.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ceiling {
    /// The queue whose ceiling it is: the one asked about or an ancestor, the nearest that binds.
    pub queue: Arc<str>,
    /// The first dimension, by name, that binds there.
    pub dimension: ResourceName,
    /// What was asked; above 0.
    pub asked: Amount,
    /// What is used and reserved in the queue and below it already.
    pub used: Amount,
    /// The ceiling.
    pub capability: Amount,
}

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
}

/// The tree of queues with what each may use and does use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Quota {
    tree: QueueTree,
    /// Of the queues that have an object.
    limits: BTreeMap<Arc<str>, QueueLimits>,
    charged: Held<Uid>,
    reserved: Held<Arc<str>>,
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
        self.limits.insert(Arc::clone(&shape.name), limits);
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
        let moved = self.tree.subtree(name);
        self.charged.lift(&moved, &self.tree);
        self.reserved.lift(&moved, &self.tree);
        change(&mut self.tree);
        self.charged.lay(&moved, &self.tree);
        self.reserved.lay(&moved, &self.tree);
    }

    /// The way up from a queue that can take pods.
    ///
    /// # Errors
    ///
    /// Why it can take none.
    pub fn path(&self, queue: &str) -> Result<Path, QueueFault> {
        self.tree.path(queue)
    }

    /// Whether so much more fits at every level of a path (F6). A dimension that is not asked for is not looked at, one
    /// that no node has is.
    ///
    /// # Errors
    ///
    /// The nearest queue, and its first dimension, in which it does not.
    pub fn fits(&self, path: &Path, asked: &Resources) -> Result<(), Ceiling> {
        for queue in path.iter() {
            let Some(limits) = self.limits.get(queue) else {
                continue;
            };
            let (charged, reserved) = (self.charged.subtree(queue), self.reserved.subtree(queue));
            for (dimension, asked) in asked.iter().filter(|(_, asked)| asked.is_positive()) {
                let Some(capability) = limits.capability.get(dimension) else {
                    continue;
                };
                let used = charged.get(dimension).plus(reserved.get(dimension));
                if used.plus(asked) > capability {
                    let (queue, dimension) = (Arc::clone(queue), dimension.clone());
                    return Err(Ceiling { queue, dimension, asked, used, capability });
                }
            }
        }
        Ok(())
    }

    /// Charges a pod to a queue, existing or not, and to all above it; replaces what it was charged before. Never
    /// refuses; negative amounts count as 0.
    pub fn charge(&mut self, uid: &Uid, queue: &str, resources: Resources) {
        self.charged.put(uid.clone(), queue, resources, &self.tree);
    }

    /// Takes a pod's charge back at every level. Returns whether there was one.
    pub fn release(&mut self, uid: &Uid) -> bool {
        self.charged.take(uid, &self.tree).is_some()
    }

    /// Reserves so much for a group, at every level; replaces what it had reserved, and nothing is no reservation. It is
    /// what the group still needs: the caller lowers it by what its pods are charged, so that nothing is counted twice.
    pub fn reserve(&mut self, group: &str, queue: &str, resources: Resources) {
        let resources = resources.without_negative();
        if resources.is_zero() {
            self.unreserve(group);
        } else {
            self.reserved.put(Arc::from(group), queue, resources, &self.tree);
        }
    }

    /// Takes a group's reservation back. Returns whether there was one.
    pub fn unreserve(&mut self, group: &str) -> bool {
        self.reserved.take(&Arc::from(group), &self.tree).is_some()
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

    /// The queue and the amounts that a group has reserved; `None` if it has not.
    #[must_use]
    pub fn reservation_of(&self, group: &str) -> Option<(&str, &Resources)> {
        self.reserved.holding(&Arc::from(group)).map(|held| (&*held.queue, &held.resources))
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
        }
    }

    /// The queues that exist or in which something is used or reserved, by name.
    pub fn queues(&self) -> impl Iterator<Item = QueueView<'_>> {
        let in_use = self.charged.queues().chain(self.reserved.queues());
        let names: BTreeSet<&Arc<str>> = self.tree.names().chain(in_use).collect();
        names.into_iter().map(|name| self.queue(name))
    }

    /// Recounts every queue from the pods and groups (B2), and the tree's two indices.
    #[must_use]
    pub fn audit(&self) -> Vec<Difference> {
        let mut differences = self.charged.audit(Place::QueueOwn, Place::QueueSubtree, &self.tree);
        differences.extend(self.reserved.audit(Place::ReservedOwn, Place::ReservedSubtree, &self.tree));
        differences.extend(self.tree.misfiled().into_iter().map(|name| Difference {
            place: Place::Tree,
            name: name.to_string(),
            kept: Resources::new(),
            recounted: Resources::new(),
        }));
        differences
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
