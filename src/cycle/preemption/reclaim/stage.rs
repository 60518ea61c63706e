//! The stage: tries whether the gang can be placed without some pods.
//!
//! The stage is the placer on a trial with some pods set aside. Everything is put back when the stage is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Accounting;
use crate::api::Uid;
use crate::by_key::ByKey;
use crate::cycle::cache::{Member, request_of, to_place};
use crate::cycle::explain::Refusal;
use crate::cycle::placement::class::{Class, ClassId};
use crate::cycle::placement::placer::{Attempt, Placer};
use crate::cycle::placement::topology::selection::SelectorId;
use crate::resources::Resources;

use super::{MOST_PLACINGS, Preemptor};

pub(super) use crate::cycle::placement::placer::Places;

/// The cluster without the pods that are set aside.
pub(super) struct Stage<'w> {
    placer: Placer<'w>,
    pods: &'w ByKey<Uid, Member>,
    /// The pods that the last try placed before one was not.
    before: Places,
}

impl<'w> Stage<'w> {
    pub(super) fn new(mut placer: Placer<'w>, pods: &'w ByKey<Uid, Member>) -> Self {
        placer.limit(MOST_PLACINGS);
        Self { placer, pods, before: Places::new() }
    }

    pub(super) fn accounting(&self) -> &Accounting {
        self.placer.accounting()
    }

    /// The pods that the last try placed before one was not.
    pub(super) fn placed_before(&self) -> Places {
        self.before.clone()
    }

    /// Whether the node could take such a pod without any pod there: taints, labels and whatever else does not depend on pods.
    pub(super) fn could_take(&self, id: ClassId, node: &str) -> bool {
        self.placer.classes().get(id).is_some_and(|class| self.placer.could_take(&class.constraints, node))
    }

    /// One of our pods.
    pub(super) fn member(&self, uid: &Uid) -> Option<&'w Member> {
        self.pods.get(uid)
    }

    /// Whether the pod has an anti-affinity term that keeps other pods away.
    pub(super) fn keeps_away(&self, uid: &Uid) -> bool {
        self.placer.keeps_others_away(uid)
    }

    /// Returns the selectors of the pods that the members require beside them.
    pub(super) fn required_by(&self, preemptor: &Preemptor<'_>) -> BTreeSet<SelectorId> {
        self.classes_of(preemptor).filter_map(|class| class.terms.affinity.as_ref()).map(|affinity| affinity.selector).collect()
    }

    /// Returns whether other pods matter to the members beyond what they use.
    pub(super) fn others_matter_to(&self, preemptor: &Preemptor<'_>) -> bool {
        self.classes_of(preemptor).any(|class| class.terms.counted().next().is_some())
    }

    fn classes_of(&self, preemptor: &Preemptor<'_>) -> impl Iterator<Item = &'w Arc<Class>> {
        let ids: BTreeSet<ClassId> = preemptor.members.iter().filter_map(|uid| self.pods.get(uid)?.class).collect();
        let classes = self.placer.classes();
        ids.into_iter().filter_map(|id| classes.get(id))
    }

    /// Returns the selectors that match the pod, and those of its anti-affinity.
    pub(super) fn interests(&self, uid: &Uid) -> Vec<SelectorId> {
        self.placer.interests(uid)
    }

    /// Whether the tries of this call are used up.
    pub(super) const fn is_spent(&self) -> bool {
        self.placer.is_spent()
    }

    /// Sets the pod aside, as if it were gone.
    pub(super) fn set_aside(&mut self, uid: &Uid) {
        self.placer.trial().set_aside(uid);
    }

    /// Puts the pod back.
    pub(super) fn put_back(&mut self, uid: &Uid) {
        self.placer.trial().put_back(uid);
    }

    /// Returns the request of all members together.
    pub(super) fn request_of(&self, preemptor: &Preemptor<'_>) -> Resources {
        request_of(self.pods, preemptor.members)
    }

    /// Returns why the queue takes no pod, whatever pods end (T1, T1b, O1).
    pub(super) fn unhelpable(&self, queue: &str) -> Option<Refusal> {
        self.accounting().fits_queue(queue, &Resources::new()).err().map(Refusal::from)
    }

    /// Returns the nodes of all members, or why one was not placed. The members are not placed any more when this returns.
    pub(super) fn place_all(&mut self, preemptor: &Preemptor<'_>) -> Result<Places, Refusal> {
        if !preemptor.beyond.is_zero() {
            let mut asked = self.request_of(preemptor);
            asked.add(preemptor.beyond);
            self.before = Places::new();
            self.accounting().fits_queue(preemptor.queue, &asked)?;
        }
        let pods = to_place(self.pods, preemptor.members);
        let needed = u32::try_from(preemptor.members.len()).unwrap_or(u32::MAX);
        let attempt =
            Attempt { queue: preemptor.queue, pods: &pods, needed, parts: &[], preemptable: preemptor.preemptable, is_due: false };
        let not = match self.placer.try_place(&attempt) {
            Ok(places) => return Ok(places),
            Err(not) => not,
        };
        self.before = not.placed;
        Err(*not.refusal)
    }
}
