//! Would the gang be placed if these pods were not there?
//!
//! The placer on a trial with some pods set aside. Everything is put back when the stage is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Accounting;
use crate::api::Uid;
use crate::by_key::ByKey;
use crate::cycle::explain::Refusal;
use crate::cycle::place::waiting;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::class::{ClassId, Classes};
use crate::cycle::placement::placer::{Attempt, Placer, State};
use crate::cycle::world::Member;
use crate::resources::Resources;

use super::rules::{Rule, holds};
use super::{Claim, MOST_PLACINGS};

pub(super) use crate::cycle::placement::placer::Places;

/// The cluster as it would be.
pub(super) struct Stage<'w> {
    placer: Placer<'w>,
    classes: &'w Classes,
    pods: &'w ByKey<Uid, Member>,
    /// The pods that the last try placed before one was not.
    before: Places,
}

impl<'w> Stage<'w> {
    pub(super) fn new(state: State<'w>, pods: &'w ByKey<Uid, Member>, strategy: Strategy, last: &BTreeSet<Arc<str>>) -> Self {
        let classes = state.classes;
        Self { placer: Placer::new(state, strategy, last, MOST_PLACINGS), classes, pods, before: Places::new() }
    }

    pub(super) fn books(&self) -> &Accounting {
        self.placer.books()
    }

    /// The pods that the last try placed before one was not.
    pub(super) fn placed_before(&self) -> Places {
        self.before.clone()
    }

    /// Whether the node could take such a pod if every pod there left: taints, labels and whatever else does not depend on pods.
    pub(super) fn could_take(&self, id: ClassId, node: &str) -> bool {
        self.classes.get(id).is_some_and(|class| self.placer.could_take(&class.constraints, node))
    }

    /// One of our pods.
    pub(super) fn member(&self, uid: &Uid) -> Option<&'w Member> {
        self.pods.get(uid)
    }

    /// Whether the pod keeps others away.
    pub(super) fn keeps_away(&self, uid: &Uid) -> bool {
        self.placer.keeps_others_away(uid)
    }

    /// Whether the tries of this call are used up.
    pub(super) const fn is_spent(&self) -> bool {
        self.placer.is_spent()
    }

    /// Takes back what a group has reserved, until the stage ends.
    pub(super) fn unreserve(&mut self, group: &str, queue: &str) {
        self.placer.trial().reserve(group, queue, &Resources::new());
    }

    /// Leaves the pod out, as if it were gone.
    pub(super) fn set_aside(&mut self, uid: &Uid) {
        self.placer.trial().set_aside(uid);
    }

    /// Returns the pod.
    pub(super) fn put_back(&mut self, uid: &Uid) {
        self.placer.trial().put_back(uid);
    }

    /// Why the queue takes nothing, whatever pods leave (T1, T2, O2).
    pub(super) fn unhelpable(&self, queue: &str) -> Option<Refusal> {
        self.books().fits_queue(queue, &Resources::new()).err().map(Refusal::from)
    }

    /// Where all the members would be placed. They are not placed any more when this returns.
    pub(super) fn place_all(&mut self, claim: &Claim<'_>) -> Result<Places, Refusal> {
        if !holds(Rule::R4) {
            return Ok(Places::new());
        }
        let pods = waiting(self.pods, claim.members);
        let needed = u32::try_from(claim.members.len()).unwrap_or(u32::MAX);
        let attempt = Attempt { queue: claim.queue, pods: &pods, needed, first: needed, preemptable: claim.preemptable };
        let not = match self.placer.try_place(&attempt) {
            Ok(places) => return Ok(places),
            Err(not) => not,
        };
        // Without R5 a ceiling is none.
        if let Refusal::Ceiling(wall) = &*not.refusal
            && !holds(Rule::R5)
            && wall.unused_guarantee.is_zero()
        {
            return Ok(not.placed);
        }
        self.before = not.placed;
        Err(*not.refusal)
    }
}
