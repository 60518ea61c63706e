//! Which pods count where, and how sure is that?
//!
//! The ledger and the quota, kept in step. A pod is in both or in neither (a pod of another scheduler has no queue and is
//! in the ledger only). Its life here:
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
//!            charge_observed: somebody else bound it, or it was there at the start
//! ```
//!
//! A pod that is *Nominated* is charged before there is room for it: others must go first, and what they leave is kept for it (R10). It is
//! charged without being asked whether it fits (`nominate`); [`Books::withdraw`] takes that back, and a trial then places it like any other.
//!
//! `forget` of an Observed pod does nothing: a bind whose answer was lost and that the watch has shown since did happen.
//! What was seen in the cluster is never refused, however far over it is: it is the truth, and only what *we* place is
//! asked whether it fits.

use crate::api::Uid;
use crate::by_key::ByKey;
use crate::resources::Resources;

use super::audit::{AuditReport, Difference, Place};
use super::ledger::Ledger;
use super::limits::QueueLimits;
use super::node::NodeRefusal;
use super::quota::Quota;
use super::refusal::QueueRefusal;
use super::rules::{Rule, holds};
use super::tree::QueueShape;
use super::trial::Trial;

/// The books of a cluster.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Books {
    pub(super) ledger: Ledger,
    pub(super) quota: Quota,
    /// Every pod that is charged, with how sure that is.
    pub(super) stages: ByKey<Uid, Stage>,
}

/// How sure it is that a pod is where it is charged. Drawn in the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It has no place yet: what others will leave is kept for it.
    Nominated,
    /// In a trial that is still open; never seen outside of one.
    Placed,
    /// We decided it, the cluster has not shown it yet.
    Assumed,
    /// The cluster has shown it.
    Observed,
}

/// One pod that is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodView<'a> {
    /// How sure it is.
    pub stage: Stage,
    /// The node it is charged to, existing or not; `None` if it has none.
    pub node: Option<&'a str>,
    /// The queue it is charged to, existing or not; `None` if it has none.
    pub queue: Option<&'a str>,
    /// What it is charged with.
    pub resources: &'a Resources,
}

/// Why a pod cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is charged already: placed, assumed, or seen on a node.
    AlreadyCharged,
    /// Its queue does not take it.
    Queue(QueueRefusal),
    /// The node cannot take it.
    Node(NodeRefusal),
}

impl Books {
    /// No nodes, no pods, and only the queues `root` and `default`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The nodes' side.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The queues' side.
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

    /// See [`Quota::reserve`]. Not refused: whether it fits is asked before, with [`Books::fits_queue`].
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
    /// As there.
    pub fn fits_queue(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        self.quota.fits(queue, asked)
    }

    /// Begins to place pods, all or none.
    pub fn trial(&mut self) -> Trial<'_> {
        Trial::new(self)
    }

    /// Places one pod that somebody will bind now: checked and charged, and Assumed.
    ///
    /// # Errors
    ///
    /// As [`Trial::place`]; then nothing has changed (B3).
    pub fn assume(&mut self, uid: &Uid, node: &str, queue: &str, resources: &Resources) -> Result<(), Refusal> {
        let mut trial = self.trial();
        trial.place(uid, node, queue, resources)?;
        trial.commit();
        Ok(())
    }

    /// Keeps a place for a pod that is not charged yet: it is charged, whether or not that fits now. Returns whether it is.
    pub fn nominate(&mut self, uid: &Uid, node: &str, queue: &str, resources: &Resources) -> bool {
        let free = !self.stages.contains_key(uid);
        if free {
            self.charge(uid, Some(node), Some(queue), resources, Stage::Nominated);
        }
        free
    }

    /// The place of a nominated pod is not kept any more. Returns whether it was.
    pub fn withdraw(&mut self, uid: &Uid) -> bool {
        self.stages.get(uid) == Some(&Stage::Nominated) && self.release(uid)
    }

    /// The bind of an assumed pod succeeded. Returns whether the pod is charged.
    pub fn confirm(&mut self, uid: &Uid) -> bool {
        match self.stages.get_mut(uid) {
            // Nobody is binding one that is nominated.
            None | Some(Stage::Nominated) => false,
            Some(stage) => {
                *stage = Stage::Observed;
                true
            }
        }
    }

    /// The bind of an assumed pod failed: its charge is taken back, unless it was confirmed or seen since. Returns whether
    /// it was.
    pub fn forget(&mut self, uid: &Uid) -> bool {
        (self.stages.get(uid) == Some(&Stage::Assumed) || !holds(Rule::N1Seen)) && self.release(uid)
    }

    /// A pod was seen in the cluster, by the watch, and has not ended: it counts on this node and in this queue, with
    /// this request, whether or not that fits and whether or not they exist. `queue` is `None` for a pod of another
    /// scheduler, `node` for one that has none yet. A pod never loses its node, so one that is charged to a node and is
    /// seen without is seen as it was before its bind: nothing changes then, not even if the bind was confirmed.
    pub fn charge_observed(&mut self, uid: &Uid, node: Option<&str>, queue: Option<&str>, resources: &Resources) {
        let has_node = |(node, _): (Option<&str>, &Resources)| node.is_some();
        if holds(Rule::N1Node) && node.is_none() && self.ledger.charge_of(uid).is_some_and(has_node) {
            return;
        }
        self.charge(uid, node, queue, resources, Stage::Observed);
    }

    /// A pod that is charged asks for so much now, whether or not that fits: it stays where it is charged, and as sure as that is.
    pub fn resize(&mut self, uid: &Uid, resources: &Resources) {
        let Some(PodView { stage, node, queue, .. }) = self.pod(uid) else { return };
        let (node, queue) = (node.map(str::to_owned), queue.map(str::to_owned));
        self.charge(uid, node.as_deref(), queue.as_deref(), resources, stage);
    }

    /// The pod has ended or is gone: nothing is charged for it any more, whatever its state was. Returns whether there
    /// was a charge.
    pub fn release(&mut self, uid: &Uid) -> bool {
        self.ledger.release(uid);
        self.quota.release(uid);
        self.stages.remove(uid).is_some()
    }

    pub(super) fn charge(&mut self, uid: &Uid, node: Option<&str>, queue: Option<&str>, resources: &Resources, stage: Stage) {
        let counts = |_: &&str| holds(Rule::N1Anybody) || queue.is_some();
        self.ledger.charge(uid, node.filter(counts), resources.clone());
        match queue {
            Some(queue) => self.quota.charge(uid, queue, resources.clone()),
            None => {
                self.quota.release(uid);
            }
        }
        self.stages.insert(uid.clone(), stage);
    }

    /// One pod; `None` if it is not charged.
    #[must_use]
    pub fn pod(&self, uid: &Uid) -> Option<PodView<'_>> {
        let stage = *self.stages.get(uid)?;
        let (node, resources) = self.ledger.charge_of(uid)?;
        let queue = self.quota.charge_of(uid).map(|(queue, _)| queue);
        Some(PodView { stage, node, queue, resources })
    }

    /// The pods that are charged, by UID.
    pub fn pods(&self) -> impl Iterator<Item = (&Uid, PodView<'_>)> {
        self.stages.keys().filter_map(|uid| self.pod(uid).map(|pod| (uid, pod)))
    }

    /// Recounts everything: nodes, queues, reservations, the tree, and that ledger, quota and stages speak of the same
    /// pods.
    pub fn audit(&self) -> AuditReport {
        let mut differences = self.ledger.audit();
        differences.extend(self.quota.audit(self.ledger.total()));
        let apart = |uid: &Uid, kept: &Resources, recounted: &Resources| Difference {
            place: Place::Pod,
            name: uid.to_string(),
            kept: kept.clone(),
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
#[path = "books_tests.rs"]
mod tests;
