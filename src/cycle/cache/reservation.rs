//! The states of admission and of reservations. The rules are in `admission`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::accounting::{ROOT_QUEUE, ReservedMinimums};
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::resources::Resources;

use super::gang::{has_its_places, is_owed_a_beginning, is_satisfied};
use super::rank::{GroupRank, MINIMUMS_PASS};
use super::{Cache, Change, Group, Wake};

static NOTHING: Resources = Resources::new();

/// The admission of a PodGroup, and its reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Whether it is admitted.
    pub state: AdmissionState,
    /// Its back-off after the admission timeout.
    pub backoff: AdmissionBackoff,
    /// Whether it was admitted within its entitlement only (A3): there was no room for its reservation.
    pub(in crate::cycle) within_entitlement: bool,
    /// Its queue and what it lacks of its minimum, where it was so admitted while it lacked members: it reserves none of this.
    pub(in crate::cycle) unreserved: Option<(Arc<str>, Resources)>,
    /// The name of its reservation in the accounting; none where it reserves nothing.
    pub(in crate::cycle) reservation: Option<Arc<str>>,
    /// Whether further members of other PodGroups leave room for its reservation.
    pub(in crate::cycle) precedence: Precedence,
    /// Whether it keeps what its minResources state beyond its minimum.
    pub(in crate::cycle) rest: Rest,
    /// The charges of the places that are kept for its lost members (A8).
    pub(in crate::cycle) kept: Vec<Uid>,
    /// The queue of its reservation and the part of it that further members of other PodGroups leave room for: all of it, or nothing.
    first: Option<(Arc<str>, Resources)>,
    /// The creation under which that is filed.
    first_of: Timestamp,
    /// The queue of its reservation, and its place in the order in which reservations give way; none where it does not.
    pub(super) gives_way: Option<(Arc<str>, GroupRank)>,
}

/// Whether members beyond the minimum of other PodGroups leave room for the reservation of a PodGroup (A7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) enum Precedence {
    /// They do. Its time begins when a cycle reserves.
    #[default]
    Whole,
    /// They do until then (monotonic): the end of its first admission timeout since it had its nodes.
    Until(Duration),
    /// They do not, until it has its nodes again.
    Over,
}

/// Whether a PodGroup with its minimum still reserves what its minResources state beyond the members that it has (A4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) enum Rest {
    /// It does from when it gets its minimum.
    #[default]
    Owed,
    /// It does until then (monotonic).
    Until(Duration),
    /// It does not.
    Over,
}

/// Whether a PodGroup is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionState {
    /// It waits for admission, and reserves nothing.
    Pending {
        /// The end of its admission timeout, if its admission was revoked because its object changed; else none.
        until: Option<Duration>,
    },
    /// It is admitted: its minimum fits in its queue, with what other PodGroups use and reserve.
    Inqueue {
        /// Its minimum: its request and the charges of its members at that time. The part that is not charged to members now may be
        /// reserved.
        minimum: Resources,
        /// The end of the admission timeout (monotonic); none where there is no end.
        until: Option<Duration>,
    },
}

impl Default for AdmissionState {
    fn default() -> Self {
        Self::Pending { until: None }
    }
}

impl AdmissionState {
    /// Admitted, with nothing left to reserve and no timeout.
    pub(in crate::cycle) const SETTLED: Self = Self::Inqueue { minimum: Resources::new(), until: None };

    /// The end of the admission timeout; none where there is no end.
    pub(in crate::cycle) const fn until(&self) -> Option<Duration> {
        match self {
            Self::Pending { until } | Self::Inqueue { until, .. } => *until,
        }
    }
}

/// The back-off of a PodGroup that found no nodes for the whole admission timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionBackoff {
    /// The number of back-offs since it last had its nodes.
    pub times: u32,
    /// Until when it reserves nothing (monotonic).
    pub until: Duration,
}

impl Group {
    /// Whether the PodGroup is admitted.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.admission.state, AdmissionState::Inqueue { .. })
    }

    /// Whether it is admitted within its entitlement, lacks members, and does not reserve what it lacks (A3).
    #[must_use]
    pub const fn is_unreserved(&self) -> bool {
        self.admission.unreserved.is_some()
    }

    /// Whether it waits for admission or for a node.
    pub(super) fn is_waiting(&self) -> bool {
        // A PodGroup with a reservation that waits for its own members is tried again, so that a closed queue is noticed. So is one that
        // requests room for members that do not exist yet, though it may be admitted within its entitlement, and one whose members have
        // scheduling gates. A PodGroup with all its nodes needs no admission: in a standby replica no cycle runs.
        let may_change = !self.is_admitted() || self.counts.gated > 0 || self.admission.unreserved.is_some();
        let has_a_member = self.counts.gated > 0 || !self.blocked.is_empty();
        let asks =
            |facts: &Arc<GroupFacts>| may_change && !has_its_places(self, facts) && (has_a_member || is_owed_a_beginning(self, facts));
        // What it states beyond its minimum may be reserved, though nothing of it waits.
        let reserves = |facts: &Arc<GroupFacts>| self.admission.reservation.is_some() && !has_its_places(self, facts);
        self.waits() || self.facts.as_ref().is_some_and(|facts| reserves(facts) || asks(facts))
    }
}

impl Cache {
    /// The reservation of the PodGroup, beyond the charges of its members.
    #[must_use]
    pub fn reserved(&self, group: &Group) -> &Resources {
        let name = group.admission.reservation.as_deref();
        name.and_then(|name| self.accounting.quota().reservation_of(name)).map_or(&NOTHING, |(_, amounts)| amounts)
    }

    /// The queue in which the PodGroup reserves something; none where it reserves nothing.
    pub(in crate::cycle) fn reserves_in(&self, group: &Group) -> Option<Arc<str>> {
        let name = group.admission.reservation.as_deref()?;
        self.accounting.quota().reservation_of(name).map(|(queue, _)| Arc::from(queue))
    }

    /// Ends the reservation: its amount is free for other PodGroups.
    pub(in crate::cycle) fn release_reservation(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let queue = self.reserves_in(group);
        if let Some(name) = self.groups.get_mut(key).and_then(|group| group.admission.reservation.take())
            && self.accounting.unreserve(&name)
            && let Some(queue) = queue
        {
            self.dirty_path(&queue);
            self.changed(Wake::Quota(queue));
            self.update_demand(key);
        }
        self.update_way(key, false);
        self.update_first(key);
    }

    /// What PodGroups have reserved for their minimum, for which members beyond the minimum of other PodGroups leave room (A7).
    #[must_use]
    pub(in crate::cycle) const fn reserved_first(&self) -> &ReservedMinimums {
        &self.reserved_first
    }

    /// What of that comes before a further member of this queue that was created then: all but what PodGroups reserve that are younger by
    /// more than [`MINIMUMS_PASS`].
    #[must_use]
    pub(in crate::cycle) fn reserved_before(&self, queue: &str, created: Timestamp) -> Resources {
        let quota = self.accounting.quota();
        if self.younger(created).next().is_none() {
            self.reserved_first.before(queue, quota)
        } else {
            self.first_before(created).before(queue, quota)
        }
    }

    /// The reservations that come before a further member that was created then.
    #[must_use]
    pub(in crate::cycle) fn first_before(&self, created: Timestamp) -> ReservedMinimums {
        let mut first = self.reserved_first.clone();
        self.younger(created).for_each(|(queue, amounts)| first.remove(queue, amounts));
        first
    }

    /// These, each with its PodGroup and its queue.
    pub(super) fn reserving_first(&self, created: Timestamp) -> impl Iterator<Item = (&GroupKey, &Arc<str>, &Resources)> {
        let until = last_before(created);
        let first = self.first_by_age.iter().take_while(move |((at, _), _)| *at <= until);
        first.filter_map(|((_, key), (queue, amounts))| Some((key.as_ref()?, queue, amounts)))
    }

    /// Whether in a dimension of these amounts nothing of the queue counts that is reserved by PodGroups that were created then or before: for
    /// an old member nothing may count there any more.
    fn was_the_oldest_in(&self, queue: &Arc<str>, created: Timestamp, amounts: &Resources) -> bool {
        let as_old = || self.first_by_age.iter().take_while(|((at, _), _)| *at <= created).filter(|(_, (of, _))| of == queue);
        let is_alone = |dimension| !as_old().any(|(_, (_, amounts))| amounts.get(dimension).is_positive());
        amounts.iter().any(|(dimension, amount)| amount.is_positive() && is_alone(dimension))
    }

    /// The reservations of PodGroups that are so much younger that they do not.
    fn younger(&self, created: Timestamp) -> impl Iterator<Item = &(Arc<str>, Resources)> {
        let from = last_before(created);
        self.first_by_age.range((from, None)..).filter(move |((at, _), _)| *at > from).map(|(_, first)| first)
    }

    /// Whether any PodGroup is so admitted that it reserves nothing (A3).
    pub(super) fn has_unreserved(&self) -> bool {
        !self.unreserved.is_empty()
    }

    /// What PodGroups without their members were admitted for in the queue and have not reserved (A3).
    #[must_use]
    pub(in crate::cycle) fn unreserved_in(&self, queue: &str) -> &Resources {
        self.unreserved.get(queue).unwrap_or(&NOTHING)
    }

    /// Sets what the PodGroup was admitted for in its queue and does not reserve; none where it is not so admitted.
    pub(in crate::cycle) fn set_unreserved(&mut self, key: &GroupKey, now: Option<(Arc<str>, Resources)>) {
        let Some(group) = self.groups.get_mut(key).filter(|group| group.admission.unreserved != now) else { return };
        let before = std::mem::replace(&mut group.admission.unreserved, now.clone());
        if let Some((queue, amounts)) = now {
            self.unreserved.entry(queue).or_default().add(&amounts);
        }
        if let Some((queue, amounts)) = before {
            if let Some(sum) = self.unreserved.get_mut(&queue) {
                sum.sub(&amounts);
                if sum.is_zero() {
                    self.unreserved.remove(&queue);
                }
            }
            // Others may be admitted within the entitlement of the queue.
            self.changed(Change::Victims);
        }
    }

    /// Records the charges of the places that are kept for lost members of the PodGroup.
    pub(in crate::cycle) fn set_kept(&mut self, key: &GroupKey, kept: Vec<Uid>) {
        if let Some(group) = self.groups.get_mut(key) {
            group.admission.kept = kept;
        }
    }

    /// Updates what further members leave room for, after the reservation of the PodGroup or its precedence changed.
    pub(in crate::cycle) fn update_first(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        // The rest (A4) is kept in the queue only.
        let is_rest = group.facts.as_ref().is_some_and(|facts| is_satisfied(group, facts));
        let comes_first = group.admission.precedence != Precedence::Over && !is_rest;
        let first = self.reserves_in(group).filter(|_| comes_first).map(|queue| (queue, self.reserved(group).clone()));
        if first == group.admission.first {
            return;
        }
        // What others left room for stays reserved, and counts no more: its time is over, or it is the rest. They are tried.
        let counts_no_more = group.admission.first.is_some() && first.is_none() && group.admission.reservation.is_some();
        let mut of_queues: BTreeMap<Arc<str>, Resources> = BTreeMap::new();
        for (queue, _) in group.admission.first.iter().chain(&first) {
            of_queues.entry(Arc::clone(queue)).or_insert_with(|| self.reserved_first.of(queue).clone());
        }
        let created = group.facts.as_ref().map_or(Timestamp::MIN, |facts| facts.created);
        let (before, created_before) = (group.admission.first.clone(), group.admission.first_of);
        if let Some((queue, amounts)) = &group.admission.first {
            self.reserved_first.remove(queue, amounts);
            self.first_by_age.remove(&(group.admission.first_of, Some(key.clone())));
        }
        if let Some((queue, amounts)) = &first {
            self.reserved_first.add(queue, amounts);
            self.first_by_age.insert((created, Some(key.clone())), (Arc::clone(queue), amounts.clone()));
        }
        if let Some(group) = self.groups.get_mut(key) {
            (group.admission.first, group.admission.first_of) = (first, created);
        }
        // Where nothing is reserved any more, further members need no room in the sum: on a node they may have it though others are overcommitted.
        let served = of_queues.iter().any(|(queue, before)| holds_more(before, self.reserved_first.of(queue)))
            || before.is_some_and(|(queue, amounts)| self.was_the_oldest_in(&queue, created_before, &amounts));
        let grows = of_queues.iter().any(|(queue, before)| !before.covers(self.reserved_first.of(queue)));
        self.minimums_changed(served, grows);
        if counts_no_more {
            self.changed(Wake::Quota(Arc::from(ROOT_QUEUE)));
        }
    }

    /// Adds a change if what is reserved in some queue began or ceased to count for members of other queues since the last call (A7): the
    /// queue uses more or less of its entitlement.
    pub(in crate::cycle) fn notice_minimums(&mut self) {
        let now = self.reserved_first.counted(self.accounting.quota());
        let before = std::mem::replace(&mut self.counted_minimums, now);
        let more = |these: &BTreeMap<Arc<str>, Resources>, those: &BTreeMap<Arc<str>, Resources>| {
            these.iter().any(|(queue, amounts)| holds_more(amounts, those.get(queue).unwrap_or(&NOTHING)))
        };
        let (served, grows) = (more(&before, &self.counted_minimums), more(&self.counted_minimums, &before));
        self.minimums_changed(served, grows);
    }

    fn minimums_changed(&mut self, served: bool, grows: bool) {
        if served {
            self.changed(Change::MinimumsServed);
        }
        if grows {
            self.changed(Change::MinimumsReserved);
        }
    }

    /// Sets what the PodGroup reserves. A zero amount ends the reservation.
    pub(in crate::cycle) fn set_reservation(&mut self, key: &GroupKey, queue: &str, amounts: &Resources) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let begins = group.admission.reservation.is_none();
        if amounts.is_zero() {
            if let Some(name) = group.admission.reservation.take() {
                self.accounting.unreserve(&name);
                self.dirty_path(queue);
            }
        } else {
            let name = group.admission.reservation.get_or_insert_with(|| Arc::from(key.to_string()));
            self.accounting.reserve(name, queue, amounts);
            self.dirty_path(queue);
        }
        self.update_way(key, begins);
        self.update_first(key);
    }
}

/// When the youngest PodGroup may be created that comes before a further member that was created then.
fn last_before(created: Timestamp) -> Timestamp {
    created.checked_add(MINIMUMS_PASS).unwrap_or(Timestamp::MAX)
}

/// Whether `these` have something in a dimension in which `those` have nothing.
fn holds_more(these: &Resources, those: &Resources) -> bool {
    these.iter().any(|(dimension, amount)| amount.is_positive() && !those.get(dimension).is_positive())
}
