//! Which pods are charged where, and in which stage each charge is.
//!
//! The ledger and the quota are kept in step. A pod is in both or in neither; a pod of another scheduler has no queue and is
//! in the ledger only. The stages of a charge:
//!
//! ```text
//!            Trial::place               Trial::commit                confirm,
//!                                       or assume                    charge_observed
//!  not here ──────────────▶ Placed ──────────────▶ Assumed ──────────────────────▶ Observed ─╮ charge_observed
//!    ▲  ▲  ▲                  │                       │                            ▲   │   ▲  │ (resized, moved …)
//!    │  │  ╰──────────────────╯                       │                            │   │   ╰──╯
//!    │  │    trial dropped, rolled back               │                            │   │
//!    │  ╰─────────────────────────────────────────────╯                            │   │
//!    │       forget: the bind failed                                               │   │
//!    ├─────────────────────────────────────────────────────────────────────────────│───╯
//!    │       release: the pod has ended or is gone (from any state)                │
//!    ╰─────────────────────────────────────────────────────────────────────────────╯
//!            charge_observed: another scheduler bound it, or it ran before the start
//! ```
//!
//! A pod that is *Nominated* is charged before there is room for it: victims of a preemption must end first, and their room stays reserved for
//! this pod (R7). It is charged without a check (`nominate`). [`Accounting::withdraw`] takes that back, and a trial then places it like any other.
//!
//! `forget` of an Observed pod does nothing: its bind got no answer, but the watch has shown the pod since, so the bind succeeded.
//! A pod that was seen in the cluster is never refused, however far it exceeds a limit, because it exists. Only what *we* place is
//! checked.

use std::sync::Arc;

use crate::api::Uid;
use crate::by_key::ByKey;
use crate::resources::Resources;

use super::audit::{AuditReport, Difference, Place};
use super::ledger::Ledger;
use super::limits::QueueLimits;
use super::node::NodeRefusal;
use super::places::PlaceSource;
use super::quota::Quota;
use super::refusal::QueueRefusal;
use super::tree::QueueShape;
use super::trial::Trial;

/// The charges of all pods of a cluster, to nodes and to queues.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Accounting {
    pub(super) ledger: Ledger,
    pub(super) quota: Quota,
    /// Every charged pod, with the stage of its charge.
    pub(super) stages: ByKey<Uid, Stage>,
}

/// The stage of a charge, as drawn above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The pod waits for the end of preempted pods; their room is reserved for it.
    Nominated,
    /// The pod is in an open trial; never seen outside of one.
    Placed,
    /// We decided the placement, and the cluster has not shown it yet.
    Assumed,
    /// The cluster has shown the pod.
    Observed,
}

/// One charged pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodView<'a> {
    /// The stage of the charge.
    pub stage: Stage,
    /// The node that the pod is charged to, existing or not; `None` if it has none.
    pub node: Option<&'a str>,
    /// The queue that the pod is charged to, existing or not; `None` if it has none.
    pub queue: Option<&'a str>,
    /// The charged amounts.
    pub resources: &'a Resources,
}

/// Why a pod cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The pod is charged already: placed, assumed, or seen on a node.
    AlreadyCharged,
    /// The queue does not take the pod.
    Queue(QueueRefusal),
    /// The node does not take the pod.
    Node(NodeRefusal),
}

impl Accounting {
    /// Makes an accounting without nodes and pods, and with only the queues `root` and `default`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The accounting of the nodes.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The accounting of the queues.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// See [`Ledger::node_upsert`].
    pub fn node_upsert(&mut self, name: &str, allocatable: Resources) {
        self.ledger.node_upsert(name, allocatable);
        self.quota.set_total(self.ledger.total());
    }

    /// See [`Ledger::node_delete`].
    pub fn node_delete(&mut self, name: &str) {
        self.ledger.node_delete(name);
        self.quota.set_total(self.ledger.total());
    }

    /// See [`Quota::queue_upsert`].
    pub fn queue_upsert(&mut self, shape: &QueueShape, limits: QueueLimits) {
        self.quota.queue_upsert(shape, limits);
    }

    /// See [`Quota::queue_remove`].
    pub fn queue_remove(&mut self, name: &str) {
        self.quota.queue_remove(name);
    }

    /// See [`Quota::reserve`]. Never refused: the caller checks with [`Accounting::fits_queue`] before.
    pub fn reserve(&mut self, group: &str, queue: &str, resources: &Resources) {
        self.quota.reserve(group, queue, resources.clone());
    }

    /// See [`Quota::unreserve`].
    pub fn unreserve(&mut self, group: &str) -> bool {
        self.quota.unreserve(group)
    }

    /// See [`Quota::fits`].
    ///
    /// # Errors
    ///
    /// Those of [`Quota::fits`].
    pub fn fits_queue(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        self.quota.fits(queue, asked)
    }

    /// Starts a trial, which places all of its pods or none.
    pub fn trial(&mut self) -> Trial<'_> {
        Trial::new(self)
    }

    /// Places one pod that is bound next: it is checked, charged, and Assumed.
    ///
    /// # Errors
    ///
    /// Those of [`Trial::place`]; then nothing has changed (B3).
    pub fn assume(&mut self, uid: &Uid, node: &str, queue: &str, resources: &Resources) -> Result<(), Refusal> {
        let mut trial = self.trial();
        trial.place(uid, node, queue, resources)?;
        trial.commit();
        Ok(())
    }

    /// Reserves the room of a pod that is not charged yet: the pod is charged, whether or not it fits now. Returns whether it was charged.
    pub fn nominate(&mut self, uid: &Uid, node: &str, queue: &str, resources: &Resources) -> bool {
        let free = !self.stages.contains_key(uid);
        if free {
            self.charge(uid, Some(node), Some(queue), resources, Stage::Nominated);
        }
        free
    }

    /// Keeps the place of a pod that is gone: it stays charged on its node, and in no queue, as a nomination. Nothing where this name is
    /// charged already.
    pub fn keep(&mut self, name: &Uid, node: &str, resources: &Resources) {
        if !self.stages.contains_key(name) {
            self.charge(name, Some(node), None, resources, Stage::Nominated);
        }
    }

    /// Takes back the charge of a nominated pod. Returns whether there was one.
    pub fn withdraw(&mut self, uid: &Uid) -> bool {
        self.stages.get(uid) == Some(&Stage::Nominated) && self.release(uid)
    }

    /// Records that the bind of an assumed pod succeeded. Returns whether the pod is charged.
    pub fn confirm(&mut self, uid: &Uid) -> bool {
        match self.stages.get_mut(uid) {
            // A nominated pod is not being bound.
            None | Some(Stage::Nominated) => false,
            Some(stage) => {
                *stage = Stage::Observed;
                true
            }
        }
    }

    /// Records that the bind of an assumed pod failed: its charge is taken back, unless it was confirmed or seen since. Returns whether
    /// it was taken back.
    pub fn forget(&mut self, uid: &Uid) -> bool {
        self.stages.get(uid) == Some(&Stage::Assumed) && self.release(uid)
    }

    /// Charges a pod that the watch has seen and that has not ended: to this node and queue, with this request, whether or not
    /// that fits and whether or not they exist. `queue` is `None` for a pod of another scheduler, `node` for a pod without one.
    /// A pod never loses its node. So when a pod that is charged to a node is seen without one, the event is from before its bind, and
    /// nothing changes, not even if the bind was confirmed.
    pub fn charge_observed(&mut self, uid: &Uid, node: Option<&str>, queue: Option<&str>, resources: &Resources) {
        let has_node = |(node, _): (Option<&str>, &Resources)| node.is_some();
        if node.is_none() && self.ledger.charge_of(uid).is_some_and(has_node) {
            return;
        }
        self.charge(uid, node, queue, resources, Stage::Observed);
    }

    /// The same for a pod with the path of queues that its binding wrote, from its own queue up to `root`: it says where those of them were that do
    /// not exist (T3). `created` is in seconds since 1970.
    pub fn charge_observed_on_path(&mut self, uid: &Uid, node: Option<&str>, path: &[Arc<str>], created: i64, resources: &Resources) {
        let Some(queue) = path.first() else { return };
        self.quota.believe_path(path, &PlaceSource::Pod { created, uid: uid.clone() });
        self.charge_observed(uid, node, Some(queue), resources);
    }

    /// Forgets the places of deleted queues in which and below which nothing is charged or reserved any more (T3). Not within an event: what follows
    /// from a release still needs the way up.
    pub fn forget_unused_places(&mut self) {
        self.quota.forget_unused_places();
    }

    /// Changes the amounts of a charged pod, whether or not they fit. Its node, queue and stage stay.
    pub fn resize(&mut self, uid: &Uid, resources: &Resources) {
        let Some(PodView { stage, node, queue, .. }) = self.pod(uid) else { return };
        let (node, queue) = (node.map(str::to_owned), queue.map(str::to_owned));
        self.charge(uid, node.as_deref(), queue.as_deref(), resources, stage);
    }

    /// Takes back the charge of a pod that has ended or is gone, whatever its stage. Returns whether there
    /// was a charge.
    pub fn release(&mut self, uid: &Uid) -> bool {
        self.ledger.release(uid);
        self.quota.release(uid);
        self.quota.set_total(self.ledger.total());
        self.stages.remove(uid).is_some()
    }

    pub(super) fn charge(&mut self, uid: &Uid, node: Option<&str>, queue: Option<&str>, resources: &Resources, stage: Stage) {
        // A kept place is in no queue, and no pod of others.
        let foreign = queue.is_none() && stage != Stage::Nominated;
        self.ledger.charge(uid, node, resources.clone(), foreign);
        self.quota.set_total(self.ledger.total());
        match queue {
            Some(queue) => self.quota.charge(uid, queue, resources.clone()),
            None => {
                self.quota.release(uid);
            }
        }
        self.stages.insert(uid.clone(), stage);
    }

    /// Returns one pod; `None` if it is not charged.
    #[must_use]
    pub fn pod(&self, uid: &Uid) -> Option<PodView<'_>> {
        let stage = *self.stages.get(uid)?;
        let (node, resources) = self.ledger.charge_of(uid)?;
        let queue = self.quota.charge_of(uid).map(|(queue, _)| queue);
        Some(PodView { stage, node, queue, resources })
    }

    /// Returns the charged pods, by UID.
    pub fn pods(&self) -> impl Iterator<Item = (&Uid, PodView<'_>)> {
        self.stages.keys().filter_map(|uid| self.pod(uid).map(|pod| (uid, pod)))
    }

    /// Recounts everything: nodes, queues, reservations and the tree. Also checks that ledger, quota and stages have the same
    /// pods.
    pub fn audit(&self) -> AuditReport {
        let mut differences = self.ledger.audit();
        differences.extend(self.quota.audit(self.ledger.total()));
        let apart = |uid: &Uid, stored: &Resources, recounted: &Resources| Difference {
            place: Place::Pod,
            name: uid.to_string(),
            stored: stored.clone(),
            recounted: recounted.clone(),
        };
        let none = Resources::new();
        for (uid, _, resources) in self.ledger.charges() {
            let in_queue = self.quota.charge_of(uid).map_or(resources, |(_, amounts)| amounts);
            let known = matches!(self.stages.get(uid), Some(Stage::Nominated | Stage::Assumed | Stage::Observed));
            if in_queue != resources || !known {
                differences.push(apart(uid, resources, in_queue));
            }
        }
        for (uid, _, resources) in self.quota.charges() {
            if self.ledger.charge_of(uid).is_none() {
                differences.push(apart(uid, &none, resources));
            }
        }
        for uid in self.stages.keys().filter(|uid| self.ledger.charge_of(uid).is_none()) {
            differences.push(apart(uid, &none, &none));
        }
        AuditReport { pods: self.stages.len(), nodes: self.ledger.nodes().count(), queues: self.quota.tree().names().count(), differences }
    }
}

#[cfg(test)]
#[path = "charges_tests.rs"]
mod tests;
