//! What does a PodGroup get in its turn? Admission, then its whole gang, or one further member.

use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Bound, Placement};
use crate::api::{GroupFacts, GroupKey, PodFacts, Uid};
use crate::resources::{Amount, ResourceName};

use super::admission::admit::{self, Admitted};
use super::admission::reservation;
use super::cache::gang::Gang;
use super::cache::{Cache, Group, members, request_of, to_place};
use super::explain::{Exceeds, Refusal};
use super::placement::placer::{Attempt, Placer};
use super::plan::Plan;
use super::policy::Policy;
use super::preemption::Unplaced;
use super::state::SchedulingState;

/// A PodGroup that waits for its turn.
#[derive(Debug)]
pub(super) struct Want {
    pub(super) key: GroupKey,
    pub(super) gang: Gang,
    /// Its waiting members, in the order in which they are placed; none where it only waits for admission.
    pub(super) members: Vec<Uid>,
    /// Why its members cannot be placed though it may be admitted: they are not all there yet.
    pub(super) incomplete: Option<Refusal>,
    /// The number of members that had their turn: a satisfied PodGroup places one in a turn.
    next: usize,
    /// Whether only what later PodGroups have reserved keeps it from being admitted.
    is_before_reservations: bool,
    /// Why a member found no node in an earlier turn.
    refusal: Option<Arc<Refusal>>,
    /// The members that found no node.
    unplaced: Vec<Uid>,
}

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
    state: &mut SchedulingState,
    policy: &Policy,
    queue: &Arc<str>,
    mut want: Want,
    now: Duration,
    plan: &mut Plan,
    unplaced: &mut Vec<Unplaced>,
) -> Turn {
    let Some(facts) = state.cache.groups().get(&want.key).and_then(|group| group.facts.clone()) else { return Turn::Over };
    let mut turn = Ongoing { state, policy, queue, facts, now, plan, unplaced, gave_way: false };
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
    /// Creates the entry of a PodGroup that had no turn yet.
    pub(super) fn new(key: &GroupKey, gang: Gang, members: Vec<Uid>) -> Self {
        Self {
            key: key.clone(),
            gang,
            members,
            incomplete: None,
            next: 0,
            is_before_reservations: false,
            refusal: None,
            unplaced: Vec::new(),
        }
    }

    /// Keeps the members without a place. Each of them has a turn from now on.
    fn keep_unplaced(&mut self, cache: &Cache) {
        self.members.retain(|uid| cache.pods().get(uid).is_some_and(|member| member.assumed.is_none()));
        self.next = 0;
    }

    /// The members that had no turn yet.
    fn remaining(&self) -> &[Uid] {
        self.members.get(self.next..).unwrap_or_default()
    }
}

/// A turn that is being taken.
struct Ongoing<'t> {
    state: &'t mut SchedulingState,
    policy: &'t Policy,
    queue: &'t Arc<str>,
    facts: Arc<GroupFacts>,
    now: Duration,
    plan: &'t mut Plan,
    unplaced: &'t mut Vec<Unplaced>,
    /// Whether reservations of other PodGroups gave way.
    gave_way: bool,
}

impl Ongoing<'_> {
    /// Admits the gang and places all members that are needed together. None where the gang was placed.
    fn gang(&mut self, want: &mut Want) -> Option<Turn> {
        match self.admit(want) {
            Err(refusal) => {
                let way = match want.remaining() {
                    [] => Vec::new(),
                    members => self.that_give_way(want, members, want.gang.needed, &refusal),
                };
                if way.is_empty() { Some(self.not_admitted(want, refusal)) } else { self.gang_before_others(want, &way) }
            }
            Ok(admitted) if want.remaining().is_empty() => Some(self.admitted(want, admitted)),
            Ok(admitted) => self.place_gang(want, admitted),
        }
    }

    fn admit(&mut self, want: &Want) -> Result<Admitted, Refusal> {
        let needed = usize::try_from(want.gang.needed).unwrap_or(usize::MAX);
        let together = want.remaining().get(..needed).unwrap_or_else(|| want.remaining());
        admit::admit(&mut self.state.cache, &want.key, together, self.policy.admit_within_nodes)
    }

    fn not_admitted(&mut self, want: &Want, refusal: Refusal) -> Turn {
        self.state.revoke_admission(&want.key);
        // Where only amounts are in the way, other pods may be preempted: a queue full of lower priorities admits no PodGroup before an
        // eviction. And its share may grow later, though nothing becomes free.
        if matches!(refusal, Refusal::Ceiling(_)) {
            self.unplaced.push(Unplaced::gang(&want.key, self.queue, want.remaining(), &want.gang, false));
        }
        // Without this PodGroup the next one would have room, and then this one, too, and so on for ever.
        if want.remaining().is_empty() && reservation::is_backing_off(&self.state.cache, &want.key, self.now) {
            self.state.refuse(&want.key, &Arc::new(refusal));
            return Turn::Over;
        }
        // A member that can never be placed as it is has to be mended first. The PodGroup is admitted all the same once there is room.
        if let (Refusal::Ceiling(_), Some(blocked)) = (&refusal, want.incomplete.as_ref().filter(|refusal| refusal.is_of_a_pod())) {
            self.state.refuse(&want.key, &Arc::new(blocked.clone()));
            self.state.requeue.park_refused(&self.state.cache, &want.key, &refusal);
            return Turn::Over;
        }
        self.waits(want, refusal)
    }

    /// Handles a PodGroup without a waiting member: it reserves its minimum, if there is room.
    fn admitted(&mut self, want: &mut Want, admitted: Admitted) -> Turn {
        let ceiling = admitted.unreserved.clone();
        self.reserve(want, admitted);
        match want.incomplete.take() {
            // It waits for its members and not for room, so no PodGroup waits for it.
            Some(refusal) => self.state.refuse(&want.key, &Arc::new(refusal)),
            None => self.state.judge_group(&want.key, None),
        }
        // Once there is room it reserves its minimum.
        let is_unreserved = self.state.cache.groups().get(&want.key).is_some_and(Group::is_unreserved);
        if let Some(ceiling) = ceiling.filter(|_| is_unreserved) {
            self.state.requeue.park_refused(&self.state.cache, &want.key, &Refusal::Ceiling(ceiling));
        }
        Turn::Over
    }

    /// Places what is needed together; what is not placed reserves the minimum.
    fn place_gang(&mut self, want: &mut Want, admitted: Admitted) -> Option<Turn> {
        let reserved = self.state.cache.groups().get(&want.key).map(|group| self.state.cache.reserved(group).clone()).unwrap_or_default();
        // What its queues took of its minimum; by reclaim alone it is what it had reserved.
        let mut minimum = admitted.minimum.clone();
        if admitted.within_entitlement {
            minimum = self.state.cache.groups().get(&want.key).map(|group| group.charged.clone()).unwrap_or_default();
            minimum.add(&reserved);
        }
        // One that reclaim alone admits needs no victims where others give way.
        let (members, gang) = (want.remaining().to_vec(), want.gang.clone());
        let placements = match self.place_before_others(want, &members, &gang) {
            Ok(placements) => placements,
            Err(refusal) => {
                let refusal = self.with_what_exceeds(want, refusal);
                self.reserve(want, admitted);
                self.unplaced.push(Unplaced::gang(&want.key, self.queue, want.remaining(), &want.gang, true));
                return Some(self.waits(want, refusal));
            }
        };
        reservation::free_surplus(&mut self.state.cache, &want.key, &reserved, &placements);
        self.plan.binds.extend(self.state.assume_all(&want.key, &placements, None));
        reservation::keep_rest(&mut self.state.cache, &want.key, minimum);
        self.state.satisfied(&want.key, self.now, self.policy.rest_time());
        want.gang = Gang::default();
        want.keep_unplaced(&self.state.cache);
        None
    }

    /// Does the same where only reservations of PodGroups that come later are in the way: they give way as soon as nodes have room, and not
    /// before. Meanwhile it reserves nothing.
    fn gang_before_others(&mut self, want: &mut Want, way: &[GroupKey]) -> Option<Turn> {
        self.state.revoke_admission(&want.key);
        want.is_before_reservations = true;
        if let Err(refusal) = self.could_place(want, want.remaining(), &want.gang, way) {
            let refusal = self.with_what_exceeds(want, refusal);
            self.unplaced.push(Unplaced::gang(&want.key, self.queue, want.remaining(), &want.gang, false));
            return Some(self.waits(want, refusal));
        }
        way.iter().for_each(|key| self.state.give_way(key));
        match self.admit(want) {
            Err(refusal) => Some(self.not_admitted(want, refusal)),
            Ok(admitted) => self.place_gang(want, admitted),
        }
    }

    /// Returns the PodGroups whose reservations give way to the first `needed` of these members where they are all that is in the way (A4).
    /// What has to fit in the nodes as well waits until it does.
    fn that_give_way(&mut self, want: &Want, members: &[Uid], needed: u32, refusal: &Refusal) -> Vec<GroupKey> {
        let Refusal::Ceiling(ceiling) = refusal else { return Vec::new() };
        if self.policy.admit_within_nodes {
            return Vec::new();
        }
        let members = members.get(..usize::try_from(needed).unwrap_or(usize::MAX)).unwrap_or(members);
        let cache = &mut self.state.cache;
        let asked = if want.gang.needed > 0 { admit::requested(cache, &want.key) } else { request_of(cache.pods(), members) };
        cache.that_give_way(&want.key, self.queue, members, &asked, ceiling)
    }

    /// Adds to the refusal of the nodes of what the gang requests more than all nodes offer together, if it does.
    fn with_what_exceeds(&self, want: &Want, mut refusal: Refusal) -> Refusal {
        if let Refusal::Nodes { exceeds, .. } = &mut refusal {
            let least = admit::least(&self.state.cache, &want.key, &want.members, want.gang.needed);
            let total = self.state.cache.accounting().ledger().total();
            let over = |(dimension, asked): &(&ResourceName, Amount)| *asked > total.get(dimension);
            *exceeds = least.iter().find(over).filter(|_| !total.is_zero()).map(|(dimension, asked)| Exceeds {
                dimension: dimension.clone(),
                asked,
                offered: total.get(dimension),
            });
        }
        refusal
    }

    /// Places one further member of a PodGroup that has its minimum, or one subgroup.
    fn one_further(&mut self, want: &mut Want) {
        let reserved = self.state.cache.groups().get(&want.key).map(|group| self.state.cache.reserved(group).clone()).unwrap_or_default();
        let one = match self.next_together(want) {
            Ok(one) => one,
            Err(refusal) => {
                let refusal = Arc::new(refusal);
                want.remaining().first().into_iter().for_each(|uid| self.state.cache.refuse_pod(uid, Some(&refusal)));
                want.refusal.get_or_insert(refusal);
                want.next = want.next.saturating_add(1);
                return;
            }
        };
        let number = one.len();
        let needed = Gang::of(u32::try_from(number).unwrap_or(u32::MAX));
        match self.leaves_room(&one).and_then(|()| self.place_before_others(want, &one, &needed)) {
            Err(refusal) => {
                let refusal = Arc::new(refusal);
                for uid in &one {
                    self.state.cache.refuse_pod(uid, Some(&refusal));
                }
                // Of subgroups the first one is tried.
                if !is_for_minimums(&refusal) && (self.facts.sub_groups.is_empty() || want.unplaced.is_empty()) {
                    want.unplaced.extend(one);
                }
                want.refusal.get_or_insert(refusal);
            }
            Ok(placements) => {
                let minimum = Some(self.facts.min_member).filter(|minimum| *minimum > 1);
                self.plan.binds.extend(self.state.assume_all(&want.key, &placements, minimum));
                reservation::keep_rest_of(&mut self.state.cache, &want.key, &reserved);
                if self.gave_way {
                    // What gave way may have been in the way of members that had their turn.
                    want.keep_unplaced(&self.state.cache);
                    (want.refusal, want.unplaced) = (None, Vec::new());
                    return;
                }
            }
        }
        want.next = want.next.saturating_add(number);
    }

    /// Returns the members that are placed together next: one, or those of a subgroup that is not whole.
    fn next_together(&self, want: &Want) -> Result<Vec<Uid>, Refusal> {
        let group = self.state.cache.groups().get(&want.key);
        let number = group.map_or(Ok(1), |group| members::next_together(&self.state.cache, group, &self.facts, want.remaining()))?;
        Ok(want.remaining().get(..number).unwrap_or_default().to_vec())
    }

    /// Places what is needed of these members, or none. Where only reservations of PodGroups that come later refuse what is asked, these give way.
    fn place_before_others(&mut self, want: &mut Want, members: &[Uid], needed: &Gang) -> Result<Vec<Placement>, Refusal> {
        let refusal = match self.place(want, members, needed) {
            Ok(placements) => return Ok(placements),
            Err(refusal) => refusal,
        };
        let way = self.that_give_way(want, members, needed.needed, &refusal);
        if way.is_empty() {
            return Err(refusal);
        }
        want.is_before_reservations = true;
        self.could_place(want, members, needed, &way)?;
        way.iter().for_each(|key| self.state.give_way(key));
        self.gave_way = true;
        self.place(want, members, needed)
    }

    /// Checks that these further members leave room for what other PodGroups have reserved (A7).
    fn leaves_room(&self, members: &[Uid]) -> Result<(), Refusal> {
        let cache = &self.state.cache;
        let quota = cache.accounting().quota();
        // Where there is room beside all of it, nothing has to be computed by queue.
        let leaves = |facts: &PodFacts| {
            let beside_all = quota.leaves(&facts.request, cache.reserved_first().all());
            beside_all.or_else(|_| quota.leaves(&facts.request, &cache.reserved_before(self.queue, facts.created)))
        };
        members.iter().filter_map(|uid| cache.pods().get(uid)).try_for_each(|member| leaves(&member.facts)).map_err(Refusal::Ceiling)
    }

    /// Reserves the minimum of a PodGroup without nodes. It is not admitted during its admission back-off.
    fn reserve(&mut self, want: &Want, admitted: Admitted) {
        let SchedulingState { cache, requeue, .. } = &mut *self.state;
        reservation::reserve(cache, &mut requeue.timers, &want.key, admitted, self.now, self.policy.admission_timeout);
    }

    /// Places what is needed of these members, or none.
    fn place(&mut self, want: &Want, members: &[Uid], needed: &Gang) -> Result<Vec<Placement>, Refusal> {
        self.on_trial(want, members, needed, &[], |placer| placer.commit())
    }

    /// Whether they would be placed without what these PodGroups have reserved.
    fn could_place(&mut self, want: &Want, members: &[Uid], needed: &Gang, way: &[GroupKey]) -> Result<(), Refusal> {
        self.on_trial(want, members, needed, way, |placer| drop(placer))
    }

    fn on_trial<T>(
        &mut self,
        want: &Want,
        members: &[Uid],
        gang: &Gang,
        way: &[GroupKey],
        then: impl FnOnce(Placer<'_>) -> T,
    ) -> Result<T, Refusal> {
        let (queue, preemptable) = (&**self.queue, self.state.cache.may_borrow(&want.key));
        // Its reservation is gone once the PodGroup is placed.
        let (mut placer, beside) = self.state.cache.placer(&want.key, queue, self.policy.placement);
        let reserved_by = |key: &GroupKey| beside.groups.get(key).and_then(|group| group.admission.reservation.as_deref());
        way.iter().filter_map(reserved_by).for_each(|name| placer.trial().release_reservation(name));
        let (mut to_place, parts) = (to_place(beside.pods, members), gang.parts());
        if let Some(group) = beside.groups.get(&want.key) {
            to_place = gang.prepare(group, to_place);
        }
        // All of it is asked at once: members that are placed on trial are not used.
        if usize::try_from(gang.needed) == Ok(members.len()) {
            let asked = request_of(beside.pods, members);
            placer.accounting().fits_queue(queue, &asked)?;
            if !preemptable || gang.needed > 1 && to_place.iter().any(|pod| !pod.facts.preemptable) {
                placer.accounting().quota().within_entitlement(queue, &asked)?;
            }
        }
        match placer.place(&Attempt { queue, pods: &to_place, needed: gang.least, parts: &parts, preemptable, is_due: false }) {
            Ok(_) => Ok(then(placer)),
            Err(mut not) => {
                if let Refusal::Nodes { needed, .. } = &mut *not.refusal {
                    *needed = gang.needed;
                }
                Err(*not.refusal)
            }
        }
    }

    /// Every member had its turn.
    fn end(&mut self, mut want: Want) -> Turn {
        self.state.satisfied(&want.key, self.now, self.policy.rest_time());
        let Some(refusal) = want.refusal.take() else {
            let waits = self.state.nominated(&want.key).cloned().or_else(|| self.state.waits_for_volumes(&want.key));
            self.state.judge_group(&want.key, waits);
            return Turn::Over;
        };
        let comes_first = !want.unplaced.is_empty() && self.is_first(&want);
        self.state.judge_group(&want.key, Some(refusal));
        self.park_for_both(&want);
        if !want.unplaced.is_empty() && self.state.nominated(&want.key).is_none() {
            self.unplaced.push(Unplaced::further(&want.key, self.queue, want.unplaced, !self.facts.sub_groups.is_empty()));
        }
        if comes_first { Turn::First } else { Turn::Over }
    }

    /// One that nodes refused, and that would be admitted if a later PodGroup had reserved less, waits for either.
    fn park_for_both(&mut self, want: &Want) {
        if want.is_before_reservations {
            self.state.requeue.park_for_nodes_and_quota(&self.state.cache, &want.key);
        }
    }

    /// Records that the PodGroup found no room in its turn.
    fn waits(&mut self, want: &Want, refusal: Refusal) -> Turn {
        let comes_first = self.is_first(want);
        self.state.refuse(&want.key, &Arc::new(refusal));
        self.park_for_both(want);
        if comes_first { Turn::First } else { Turn::Over }
    }

    /// Whether later PodGroups of the queue wait for this one: while the queue is fifo and the PodGroup could ever fit (A6).
    fn is_first(&mut self, want: &Want) -> bool {
        self.state.cache.is_fifo(self.queue) && {
            let least = admit::least(&self.state.cache, &want.key, &want.members, want.gang.needed);
            let needed = usize::try_from(want.gang.needed.max(1)).unwrap_or(usize::MAX);
            let accounting = self.state.cache.accounting();
            accounting.quota().ever_fits(self.queue, &least, accounting.ledger().offered())
                && self.state.cache.could_ever_take(self.queue, &want.members, needed)
        }
    }
}

/// Whether a further member waits only for the minimum of other PodGroups (A7).
fn is_for_minimums(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Ceiling(ceiling) if ceiling.bound == Bound::Minimums)
}
