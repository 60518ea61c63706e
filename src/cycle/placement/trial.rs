//! A trial: a placement that can be undone with everything that it changed.
//!
//! A trial covers everything that a placement changes. While it is open, filters and scores include the pods that it has placed. So a later
//! member of a gang is placed with regard to the earlier ones.
//!
//! A trial that is dropped is undone; [`Trial::commit`] keeps it. There is one undo log, with savepoints.
//!
//! | state | changed by | undone by |
//! |---|---|---|
//! | accounting: nodes, queues, reservations | [`place`](Trial::place), [`release_reservation`](Trial::release_reservation) | the accounting's own trial |
//! | the log of changed nodes | `place` | the node is logged once more, because it changed back |
//! | the pods on each node, for affinity and spread | `place` | the pod is taken from its node |
//! | the reservations for claims without a volume | `place` | the pod's part of them is let go |
//!
//! **To add a kind of state**:
//!
//! 1. Add a field to [`Trial`] that borrows it.
//! 2. In `place`, change it, and push to the undo log a new variant of `Undo` that says what it was before. Add the arm in `undo`.
//! 3. If pods on nodes count for it, take their part out in [`set_aside`](Trial::set_aside), keep it in `Aside`, and return it in `restore`.
//!
//! Savepoints, dropping and committing need no change.
//!
//! Pods that are *set aside* (victims of preemption, pods that are terminating) are put back in any order, so they are not in the log: a
//! rollback does not bring them back. The end of the trial does, however it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::{self, Accounting, Placement};
use crate::api::volumes::ClaimKey;
use crate::api::{PodFacts, Uid};
use crate::cycle::placement::Strategy;

use super::nodes::{NodeId, Nodes};
use super::snapshot::Snapshot;
use super::topology::place::Place;
use super::topology::placed::PlacedPods;

/// Changes to the cluster that are kept all together or not at all.
#[must_use = "a trial that is dropped is undone"]
#[derive(Debug)]
pub struct Trial<'w> {
    accounting: accounting::Trial<'w>,
    nodes: &'w mut Nodes,
    placed: &'w mut PlacedPods,
    /// How to undo what was done, in the order in which it was done.
    log: Vec<Undo>,
    /// The pods that are set aside, each with the place where it counts.
    aside: BTreeMap<Uid, Option<Place>>,
}

/// The undo of one change.
#[derive(Debug)]
enum Undo {
    /// The accounting goes back to this point.
    Accounting(accounting::Savepoint),
    /// The node changes back.
    Node(NodeId),
    /// The pod is on no node any more.
    Placed(Uid),
    /// Nothing is reserved for the claims of the pod any more.
    Reserved(Vec<ClaimKey>),
}

/// A point in a trial to go back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(usize);

impl<'w> Trial<'w> {
    /// Opens a trial over this state.
    pub fn new(accounting: &'w mut Accounting, nodes: &'w mut Nodes, placed: &'w mut PlacedPods) -> Self {
        Self { accounting: accounting.trial(), nodes, placed, log: Vec::new(), aside: BTreeMap::new() }
    }

    /// The accounting with everything that the trial changed.
    #[must_use]
    pub fn accounting(&self) -> &Accounting {
        self.accounting.accounting()
    }

    /// The nodes.
    #[must_use]
    pub const fn nodes(&self) -> &Nodes {
        self.nodes
    }

    /// Returns the snapshot for predicates and scores, with everything that the trial changed.
    #[must_use]
    pub fn snapshot<'a>(&'a self, strategy: Strategy, barred: &'a BTreeSet<String>) -> Snapshot<'a> {
        Snapshot { nodes: self.nodes, ledger: self.accounting().ledger(), placed: self.placed, strategy, barred }
    }

    /// The pods on the nodes, to join selectors.
    pub(super) const fn placed(&mut self) -> &mut PlacedPods {
        self.placed
    }

    /// Returns whether the pod has anti-affinity terms that keep other pods away, also while it is set aside.
    #[must_use]
    pub fn keeps_others_away(&self, uid: &Uid) -> bool {
        self.placed.keeps_others_away(uid)
    }

    /// Places a pod on a node, if that fits there and in the queue at every level. The caller checks the predicates.
    ///
    /// # Errors
    ///
    /// The first limit that is in the way. Then nothing has changed.
    pub fn place(&mut self, pod: &PodFacts, node: NodeId, queue: &str) -> Result<Arc<str>, accounting::Refusal> {
        let name = self.nodes.get(node).map_or_else(|| Arc::from(""), |facts| Arc::clone(&facts.name));
        let before = self.accounting.savepoint();
        self.accounting.place(&pod.uid, &name, queue, &pod.request)?;
        self.log.push(Undo::Accounting(before));
        self.nodes.touch(node);
        self.log.push(Undo::Node(node));
        if let Some((volumes, facts)) =
            pod.constraints.volumes.as_ref().filter(|volumes| !volumes.unbound.is_empty()).zip(self.nodes.get(node))
        {
            let reserved = self.placed.volumes_mut().reserve(&volumes.unbound, facts);
            self.log.push(Undo::Reserved(reserved));
        }
        self.placed.put(&pod.uid, Place { node: Arc::clone(&name), is_nominated: false });
        self.log.push(Undo::Placed(pod.uid.clone()));
        Ok(name)
    }

    /// Takes the reservation of a PodGroup back, so that it is not in the PodGroup's own way (A4). Nothing where there is none.
    pub fn release_reservation(&mut self, group: &str) {
        let before = self.accounting.savepoint();
        self.accounting.release_reservation(group);
        self.log.push(Undo::Accounting(before));
    }

    /// Sets a pod aside, as if it were gone, until it is put back or the trial ends. Does nothing if the pod is not charged or was placed
    /// by this trial.
    pub fn set_aside(&mut self, uid: &Uid) {
        let node = self.node_of(uid);
        if self.accounting.set_aside(uid) {
            node.into_iter().for_each(|node| self.nodes.touch(node));
            self.aside.insert(uid.clone(), self.placed.take(uid));
        }
    }

    /// Puts a pod back that was set aside, whether or not it fits.
    pub fn put_back(&mut self, uid: &Uid) {
        if let Some(counted) = self.aside.remove(uid) {
            self.restore(uid, counted);
        }
    }

    fn restore(&mut self, uid: &Uid, counted: Option<Place>) {
        self.accounting.put_back(uid);
        self.node_of(uid).into_iter().for_each(|node| self.nodes.touch(node));
        counted.into_iter().for_each(|place| self.placed.put(uid, place));
    }

    fn node_of(&self, uid: &Uid) -> Option<NodeId> {
        self.accounting().pod(uid)?.node.and_then(|name| self.nodes.id(name))
    }

    fn put_all_back(&mut self) {
        while let Some((uid, counted)) = self.aside.pop_first() {
            self.restore(&uid, counted);
        }
    }

    /// Returns a savepoint of the present state of the trial.
    #[must_use]
    pub const fn savepoint(&self) -> Savepoint {
        Savepoint(self.log.len())
    }

    /// Undoes what was done since the savepoint, but for pods that were set aside.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        while self.log.len() > savepoint.0 {
            let Some(undo) = self.log.pop() else { break };
            self.undo(undo);
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Accounting(before) => self.accounting.rollback_to(before),
            Undo::Node(node) => self.nodes.touch(node),
            Undo::Placed(uid) => _ = self.placed.take(&uid),
            Undo::Reserved(claims) => claims.iter().for_each(|claim| _ = self.placed.volumes_mut().undo_reserve(claim)),
        }
    }

    /// Keeps what was done. Returns the pods that were placed, in that order; they are Assumed. Pods that were set aside are charged again, so a
    /// node may have more on it than it offers until they are gone (R7).
    pub fn commit(mut self) -> Vec<Placement> {
        for undo in std::mem::take(&mut self.log) {
            if let Undo::Placed(uid) = undo {
                self.aside.remove(&uid);
            }
        }
        self.put_all_back();
        self.accounting.keep()
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.rollback_to(Savepoint(0));
        self.put_all_back();
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
