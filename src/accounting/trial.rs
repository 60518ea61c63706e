//! Places several pods, all or none.
//!
//! A trial charges the real accounting, so every check in between sees what was placed. Dropping the trial
//! takes everything back, also after a panic or an early return. Only [`Trial::commit`]
//! keeps the charges.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::Uid;
use crate::resources::Resources;

use super::charges::{Accounting, Refusal, Stage};

/// Places pods in the accounting, all together or not at all (B3).
#[must_use = "a trial that is dropped is undone"]
#[derive(Debug)]
pub struct Trial<'a> {
    accounting: &'a mut Accounting,
    /// The steps in their order; undone from the end.
    steps: Vec<Step>,
    /// The pods whose charges are left out for the moment.
    aside: BTreeMap<Uid, Aside>,
}

/// A charge as it was before it was left out.
#[derive(Debug)]
struct Aside {
    node: Option<Arc<str>>,
    queue: Option<Arc<str>>,
    resources: Resources,
    stage: Stage,
}

#[derive(Debug)]
enum Step {
    Placed(Uid),
    /// The reservation of a PodGroup was changed; this is the previous one.
    Reserved {
        group: Arc<str>,
        before: Option<(Arc<str>, Resources)>,
    },
}

/// A point in a trial to return to. In another trial it has no meaning; at worst it goes back too far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(usize);

/// A pod that a committed trial placed, and that is Assumed now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The pod.
    pub uid: Uid,
    /// The node that the pod is bound to next.
    pub node: Arc<str>,
    /// The queue that the pod is charged to.
    pub queue: Arc<str>,
    /// The charged amounts.
    pub resources: Resources,
}

impl<'a> Trial<'a> {
    pub(super) fn new(accounting: &'a mut Accounting) -> Self {
        Self { accounting, steps: Vec::new(), aside: BTreeMap::new() }
    }

    /// Returns the accounting with everything that was placed so far.
    #[must_use]
    pub fn accounting(&self) -> &Accounting {
        self.accounting
    }

    /// Returns how many pods are placed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Placed(_))).count()
    }

    /// Whether no pod is placed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Charges a pod to a node, and to a queue at every level, if it fits everywhere.
    ///
    /// # Errors
    ///
    /// The first obstacle: the pod is charged already, its queue, a ceiling, or the node. Then nothing has
    /// changed.
    pub fn place(&mut self, uid: &Uid, node: &str, queue: &str, resources: &Resources) -> Result<(), Refusal> {
        // What was nominated for the pod is set aside, and the new charge takes its place.
        let is_aside = self.aside.get(uid).is_some_and(|aside| aside.stage != Stage::Nominated);
        if self.accounting.stages.contains_key(uid) || is_aside {
            return Err(Refusal::AlreadyCharged);
        }
        // Everything is checked before anything is charged, and a charge cannot fail.
        self.accounting.fits_queue(queue, resources).map_err(Refusal::Queue)?;
        self.accounting.ledger.fits(node, resources).map_err(Refusal::Node)?;
        self.accounting.charge(uid, Some(node), Some(queue), resources, Stage::Placed);
        self.steps.push(Step::Placed(uid.clone()));
        Ok(())
    }

    /// Sets what a PodGroup has reserved beyond the charges of its pods. A gang is placed into its own
    /// reservation this way: lower it, place, and both are kept or undone together. An empty amount takes the reservation back.
    pub fn reserve(&mut self, group: &str, queue: &str, resources: &Resources) {
        let before = self.accounting.quota.reservation_of(group).map(|(queue, amounts)| (Arc::from(queue), amounts.clone()));
        self.accounting.reserve(group, queue, resources);
        self.steps.push(Step::Reserved { group: Arc::from(group), before });
    }

    /// Takes the reservation of a PodGroup back: what is asked next leaves it out of account. Nothing where there is none.
    pub fn release_reservation(&mut self, group: &str) {
        if let Some(queue) = self.accounting.quota.reservation_of(group).map(|(queue, _)| Arc::<str>::from(queue)) {
            self.reserve(group, &queue, &Resources::new());
        }
    }

    /// Leaves a pod's charge out, as if the pod had gone, until it is put back or the trial ends, however it ends. A pod that really goes is
    /// released when it is gone (N1). It is no step, so no savepoint undoes it. Returns whether the pod was charged before this trial.
    pub fn set_aside(&mut self, uid: &Uid) -> bool {
        let Some(pod) = self.accounting.pod(uid).filter(|pod| pod.stage != Stage::Placed) else { return false };
        let aside =
            Aside { node: pod.node.map(Arc::from), queue: pod.queue.map(Arc::from), resources: pod.resources.clone(), stage: pod.stage };
        self.accounting.release(uid);
        self.aside.insert(uid.clone(), aside);
        true
    }

    /// Charges a pod again that was set aside, whether or not it fits, because it exists. Returns whether it was set aside. What was nominated
    /// for a pod that is placed stays aside.
    pub fn put_back(&mut self, uid: &Uid) -> bool {
        if self.accounting.stages.contains_key(uid) {
            return false;
        }
        let Some(aside) = self.aside.remove(uid) else { return false };
        self.accounting.charge(uid, aside.node.as_deref(), aside.queue.as_deref(), &aside.resources, aside.stage);
        true
    }

    fn put_all_back(&mut self) {
        while let Some((uid, aside)) = self.aside.pop_first() {
            self.accounting.charge(&uid, aside.node.as_deref(), aside.queue.as_deref(), &aside.resources, aside.stage);
        }
    }

    /// Returns the present point of the trial.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.steps.len())
    }

    /// Undoes the steps since the savepoint.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        while self.steps.len() > savepoint.0 {
            match self.steps.pop() {
                Some(Step::Placed(uid)) => {
                    self.accounting.release(&uid);
                }
                Some(Step::Reserved { group, before: Some((queue, resources)) }) => {
                    self.accounting.reserve(&group, &queue, &resources);
                }
                Some(Step::Reserved { group, before: None }) => {
                    self.accounting.unreserve(&group);
                }
                None => break,
            }
        }
    }

    /// Keeps everything; the pods are Assumed. They are returned in the order of their placement, without reservations.
    /// A pod that was set aside is charged again: a node may then have more on it than it offers, until that pod is gone (R7). What was
    /// nominated for a pod that was placed is given back.
    pub fn commit(mut self) -> Vec<Placement> {
        self.keep()
    }

    /// The same for a trial that is part of a larger one: it is empty afterwards.
    pub fn keep(&mut self) -> Vec<Placement> {
        let steps = std::mem::take(&mut self.steps);
        for step in &steps {
            if let Step::Placed(uid) = step {
                self.aside.remove(uid);
            }
        }
        self.put_all_back();
        let mut placements = Vec::with_capacity(steps.len());
        for step in steps {
            let Step::Placed(uid) = step else { continue };
            if let Some(stage) = self.accounting.stages.get_mut(&uid) {
                *stage = Stage::Assumed;
            }
            let Some(pod) = self.accounting.pod(&uid) else {
                continue;
            };
            let (Some(node), Some(queue)) = (pod.node, pod.queue) else {
                continue;
            };
            let (node, queue, resources) = (Arc::from(node), Arc::from(queue), pod.resources.clone());
            placements.push(Placement { uid, node, queue, resources });
        }
        placements
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.rollback_to(Savepoint(0));
        self.put_all_back();
    }
}
