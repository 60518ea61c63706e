//! What does a PodGroup get in its turn? Admission, then its whole gang, or one further member.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupFacts, Uid};
use crate::resources::Resources;

use super::explain::Refusal;
use super::gang::Gang;
use super::place::{self, Attempt};
use super::plan::Plan;
use super::policy::Policy;
use super::preemption::Unplaced;
use super::world::World;
use super::{Want, admit, refuse};

/// How a turn ended.
pub(super) enum Turn {
    /// Nothing is left to do for the PodGroup.
    Over,
    /// It has further members to place.
    Again(Box<Want>),
    /// It waits for room, and every later PodGroup of a fifo queue waits for it (A6).
    First,
}

/// Takes one turn of a PodGroup: admission, and then its whole gang, or one further member.
pub(super) fn take_turn(
    world: &mut World,
    policy: &Policy,
    queue: &Arc<str>,
    mut want: Want,
    now: Duration,
    plan: &mut Plan,
    unplaced: &mut Vec<Unplaced>,
) -> Turn {
    let Some(facts) = world.groups.get(&want.key).and_then(|group| group.facts.clone()) else { return Turn::Over };
    let mut turn = Ongoing { world, policy, queue, facts, now, plan, unplaced };
    if want.remaining().is_empty() || want.gang.needed > 0 {
        if let Some(end) = turn.gang(&mut want) {
            return end;
        }
    } else {
        turn.one_further(&mut want);
    }
    if want.remaining().is_empty() { turn.end(want) } else { Turn::Again(Box::new(want)) }
}

impl Want {
    /// The members that had no turn yet.
    fn remaining(&self) -> &[Uid] {
        self.members.get(self.next..).unwrap_or_default()
    }

    /// How many members the gang still needs, and how many of the first of them are needed for their tasks.
    fn needed(&self) -> [u32; 2] {
        [self.gang.needed, self.gang.tasks.values().fold(0_u32, |sum, missing| sum.saturating_add(*missing))]
    }
}

/// A turn that is being taken.
struct Ongoing<'t> {
    world: &'t mut World,
    policy: &'t Policy,
    queue: &'t Arc<str>,
    facts: Arc<GroupFacts>,
    now: Duration,
    plan: &'t mut Plan,
    unplaced: &'t mut Vec<Unplaced>,
}

impl Ongoing<'_> {
    /// Admits the gang and places all members that are needed together. None where the gang was placed.
    fn gang(&mut self, want: &mut Want) -> Option<Turn> {
        let needed = usize::try_from(want.gang.needed).unwrap_or(usize::MAX);
        let together = want.remaining().get(..needed).unwrap_or_else(|| want.remaining());
        match admit::admit(self.world, &want.key, together) {
            Err(refusal) => Some(self.not_admitted(want, refusal)),
            Ok(minimum) if want.remaining().is_empty() => Some(self.admitted(want, minimum)),
            Ok(minimum) => self.place_gang(want, minimum),
        }
    }

    fn not_admitted(&mut self, want: &Want, refusal: Refusal) -> Turn {
        self.world.revoke_admission(&want.key);
        // Where only amounts are in the way, other pods may be preempted: a queue full of lower priorities admits no PodGroup before an
        // eviction. And its share may grow later, though nothing becomes free.
        if matches!(refusal, Refusal::Ceiling(_)) {
            self.unplaced.push(Unplaced::gang(&want.key, self.queue, want.remaining(), want.needed(), false));
        }
        // Without this PodGroup the next one would have room, and then this one, too, and so on for ever.
        if want.remaining().is_empty() && self.world.is_admission_backing_off(&want.key, self.now) {
            refuse(self.world, &want.key, &Arc::new(refusal));
            return Turn::Over;
        }
        self.waits(want, refusal)
    }

    /// Handles a PodGroup without a waiting member: it reserves its minimum.
    fn admitted(&mut self, want: &mut Want, minimum: Resources) -> Turn {
        self.world.reserve(&want.key, minimum, self.now, self.policy.admission_timeout);
        match want.incomplete.take() {
            // It waits for its members and not for room, so no PodGroup waits for it.
            Some(refusal) => refuse(self.world, &want.key, &Arc::new(refusal)),
            None => self.world.judge_group(&want.key, None),
        }
        Turn::Over
    }

    /// Places what is needed together; what is not placed reserves the minimum.
    fn place_gang(&mut self, want: &mut Want, minimum: Resources) -> Option<Turn> {
        let reserved = self.world.groups.get(&want.key).map(|group| self.world.reserved(group).clone()).unwrap_or_default();
        let placements = match self.place(want, want.remaining(), want.needed()) {
            Ok(placements) => placements,
            Err(refusal) => {
                self.world.reserve(&want.key, minimum, self.now, self.policy.admission_timeout);
                self.unplaced.push(Unplaced::gang(&want.key, self.queue, want.remaining(), want.needed(), true));
                return Some(self.waits(want, refusal));
            }
        };
        self.world.free_surplus(&want.key, &reserved, &placements);
        self.plan.binds.extend(self.world.assume_all(&want.key, &placements, None));
        self.world.satisfied(&want.key);
        want.gang = Gang::default();
        want.members.retain(|uid| self.world.pods.get(uid).is_some_and(|member| member.assumed.is_none()));
        want.next = 0;
        None
    }

    /// Places one member of a PodGroup that has its minimum.
    fn one_further(&mut self, want: &mut Want) {
        let one = want.remaining().get(..1).unwrap_or_default().to_vec();
        match self.place(want, &one, [1, 0]) {
            Err(refusal) => {
                let refusal = Arc::new(refusal);
                for uid in &one {
                    self.world.refuse_pod(uid, Some(&refusal));
                }
                want.refusal.get_or_insert(refusal);
                want.unplaced.extend(one);
            }
            Ok(placements) => {
                let minimum = Some(self.facts.min_member).filter(|minimum| *minimum > 1);
                self.plan.binds.extend(self.world.assume_all(&want.key, &placements, minimum));
            }
        }
        want.next = want.next.saturating_add(1);
    }

    fn place(&mut self, want: &Want, members: &[Uid], [needed, first]: [u32; 2]) -> Result<Vec<Placement>, Refusal> {
        let group = self.world.groups.get(&want.key);
        let (last, reservation): (BTreeSet<Arc<str>>, _) =
            group.map(|group| (group.retry.last.clone(), group.reservation.clone())).unwrap_or_default();
        let (queue, preemptable) = (&**self.queue, self.facts.preemptable);
        let attempt = Attempt { queue, members, needed, first, preemptable, last: &last, reservation: reservation.as_deref() };
        place::place(self.world, self.policy.placement, &attempt)
    }

    /// Every member had its turn.
    fn end(&mut self, mut want: Want) -> Turn {
        self.world.satisfied(&want.key);
        let Some(refusal) = want.refusal.take() else {
            let waits = self.world.nominated(&want.key).cloned();
            self.world.judge_group(&want.key, waits);
            return Turn::Over;
        };
        let comes_first = self.is_first(&want);
        self.world.judge_group(&want.key, Some(refusal));
        if self.world.nominated(&want.key).is_none() {
            self.unplaced.push(Unplaced::further(&want.key, self.queue, want.unplaced));
        }
        if comes_first { Turn::First } else { Turn::Over }
    }

    /// Records that the PodGroup found no room in its turn.
    fn waits(&mut self, want: &Want, refusal: Refusal) -> Turn {
        let comes_first = self.is_first(want);
        refuse(self.world, &want.key, &Arc::new(refusal));
        if comes_first { Turn::First } else { Turn::Over }
    }

    /// Whether later PodGroups of the queue wait for this one: while the queue is fifo and the PodGroup could ever fit (A6).
    fn is_first(&self, want: &Want) -> bool {
        self.world.is_fifo(self.queue) && {
            let least = admit::least(self.world, &want.key, &want.members, want.gang.needed);
            self.world.books.quota().ever_fits(self.queue, &least)
        }
    }
}
