//! Updates the state when a gang is nominated, when its victims are gone, and when the nomination is withdrawn (R7).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::admission::reservation;
use crate::cycle::cache::{Change, gang};
use crate::cycle::explain::{Lack, Refusal, Step};
use crate::cycle::holds::victims::{after_refusal, outlook, settle};
use crate::cycle::holds::{BACKOFF, Because, Hold, Kind, Outlook, Victims};
use crate::cycle::plan::{Bind, Eviction, EvictionCause, Victim};
use crate::resources::Resources;

use super::SchedulingState;

impl SchedulingState {
    /// Returns why the PodGroup waits while it is nominated; none where it is not.
    #[must_use]
    pub fn nominated(&self, key: &GroupKey) -> Option<&Arc<Refusal>> {
        match &self.holds.nomination(key)?.because {
            Because::Victims(victims) => Some(&victims.refusal),
            Because::LostMember(_) | Because::Claims(_) => None,
        }
    }

    /// The resources on a node that are nominated, for gangs or by other schedulers. They are charged, but no pod uses them.
    #[must_use]
    pub fn nominated_on(&self, node: &str) -> Option<Resources> {
        let (ours, others) = (self.holds.nominated_on(node), self.cache.nominated_by_others().on(node));
        ours.into_iter().chain(others.cloned()).reduce(|mut all, some| {
            all.add(&some);
            all
        })
    }

    /// The nominated resources of a queue: in it and all below it, and in itself.
    #[must_use]
    pub fn nominated_in(&self, queue: &str) -> (Resources, Resources) {
        self.holds.in_queue(&self.cache, Kind::Victims, queue)
    }

    /// The node that the pod is charged to, and how much.
    pub(super) fn charge_of(&self, uid: &Uid) -> Option<(Arc<str>, Resources)> {
        let pod = self.cache.accounting().pod(uid)?;
        Some((Arc::from(pod.node?), pod.resources.clone()))
    }

    /// Takes the numbers of the nominations that were withdrawn since the last call: no further pod is to be evicted for them.
    pub fn take_withdrawn(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.holds.withdrawn)
    }

    /// Lets the next cycle read from the pods what an earlier leader has nominated. Call it when a takeover is complete.
    pub const fn read_nominations(&mut self) {
        self.holds.to_be_read = true;
    }

    /// Nominates these placements for waiting members of the PodGroup, all together, until these pods are gone or it is `until`. `victims`
    /// are the pods to evict and the terminating pods that the nomination counts on. Returns the eviction. Returns none and changes
    /// nothing where a member does not wait or the PodGroup has a nomination already.
    pub(crate) fn nominate(
        &mut self,
        key: &GroupKey,
        places: &[Placement],
        victims: &[Uid],
        cause: EvictionCause,
        until: Duration,
    ) -> Option<Eviction> {
        let group = self.cache.groups().get(key)?;
        let (group_uid, lack) = (group.facts.as_ref()?.uid.clone(), group.refusal.as_deref().and_then(Refusal::lack));
        let queue = Arc::clone(&places.first()?.queue);
        let there: Vec<Victim> = victims.iter().filter_map(|uid| self.cache.victim(uid)).collect();
        let waited_for = there.iter().map(|victim| victim.uid.clone()).collect();
        let id = self.enter_nomination(key, places, waited_for, why_nominated(&there, lack), until)?;
        let leaving = |uid: &Uid| self.cache.pods().get(uid).is_some_and(|member| member.facts.deleting);
        let mut victims: Vec<Victim> = there.into_iter().filter(|victim| !leaving(&victim.uid)).collect();
        // An eviction that ends midway leaves the members on which others depend.
        let groups: BTreeSet<&GroupKey> = victims.iter().map(|victim| &victim.group).collect();
        let leaders: BTreeSet<Uid> = groups.into_iter().filter_map(|key| self.cache.leader_of(key).cloned()).collect();
        victims.sort_by_key(|victim| leaders.contains(&victim.uid));
        Some(Eviction { nomination: id, group: key.clone(), group_uid, queue, cause, victims })
    }

    /// Makes the nomination of an earlier leader again, without an eviction: it is settled as soon as the gang fits. `leaving` are the pods that make
    /// the room, for its message, and `lack` is what they free. Returns none where a member does not wait.
    pub(in crate::cycle) fn nominate_again(
        &mut self,
        key: &GroupKey,
        places: &[Placement],
        leaving: &BTreeSet<Uid>,
        lack: Option<Lack>,
        until: Duration,
    ) -> Option<()> {
        let there: Vec<Victim> = leaving.iter().filter_map(|uid| self.cache.victim(uid)).collect();
        self.enter_nomination(key, places, BTreeSet::new(), why_nominated(&there, lack), until).map(drop)
    }

    /// Enters the nomination, until it is settled or withdrawn. `victims` are the pods that must be gone before it is settled. Returns its number.
    fn enter_nomination(
        &mut self,
        key: &GroupKey,
        places: &[Placement],
        victims: BTreeSet<Uid>,
        refusal: Arc<Refusal>,
        until: Duration,
    ) -> Option<u64> {
        let group = self.cache.groups().get(key)?;
        let queue = Arc::clone(&places.first()?.queue);
        let members: BTreeSet<&Uid> = places.iter().map(|place| &place.uid).collect();
        let waits = |uid: &&Uid| group.waiting.contains(*uid) && self.cache.accounting().pod(uid).is_none();
        if self.holds.nomination(key).is_some() || members.len() != places.len() || !members.iter().all(waits) {
            return None;
        }
        // The order of this cycle follows the shares before the preemption.
        self.keeping_shares(|state| state.charge_nominated(key, &queue, places, &refusal));
        self.cache.shares_are_outdated();
        let number = self.holds.next_number();
        // Its victims do not count for their gangs any more, of which further members may wait.
        for gang in self.gangs_of(&victims).into_iter().filter(|gang| self.cache.is_waiting(gang)) {
            self.requeue.try_again(&gang);
        }
        let because = Because::Victims(Victims { left: victims, refusal: Arc::clone(&refusal) });
        self.holds.insert(Hold { number, group: key.clone(), places: places.to_vec(), until: Some(until), because });
        self.judge_group(key, Some(refusal));
        Some(number)
    }

    /// Returns the PodGroups of these pods.
    fn gangs_of(&self, pods: &BTreeSet<Uid>) -> BTreeSet<GroupKey> {
        pods.iter().filter_map(|uid| Some(self.cache.pods().get(uid)?.facts.group.clone())).collect()
    }

    fn charge_nominated(&mut self, key: &GroupKey, queue: &str, places: &[Placement], refusal: &Arc<Refusal>) {
        self.drop_all_places(key);
        reservation::release_for_nomination(&mut self.cache, &mut self.requeue.timers, key, queue);
        for place in places {
            self.cache.nominate(place, refusal);
        }
        self.follow();
    }

    /// Settles every nomination for which something changed, first in a cycle. Returns the binds, which are charged like any placement.
    pub(in crate::cycle) fn take_fulfilled(&mut self, now: Duration, rest_time: Duration) -> Vec<Bind> {
        for key in self
            .holds
            .due(Kind::Victims, now)
            .into_iter()
            .filter_map(|number| Some(self.holds.get(number)?.group.clone()))
            .collect::<Vec<_>>()
        {
            self.withdraw_nomination(&key, "timeout");
        }
        let mut binds = Vec::new();
        for number in self.holds.take_nominations(&self.requeue) {
            let Some(hold) = self.holds.get(number) else { continue };
            let (key, mut outlook) = (hold.group.clone(), outlook(&self.cache, hold));
            if outlook == Outlook::Ready {
                match settle(&mut self.cache, &self.holds, &key) {
                    Ok(placed) => binds.extend(self.fulfil(&key, &placed, now, rest_time)),
                    Err(refusal) => outlook = after_refusal(&mut self.cache, &self.holds, &key, &refusal),
                }
            }
            if let Outlook::Broken(why) = outlook {
                self.withdraw_nomination(&key, &why);
            }
        }
        for (key, why) in std::mem::take(&mut self.holds.failed) {
            self.back_off(&key, (Step::Preemption, &why), now, None, |failures| BACKOFF.delay(failures));
        }
        binds
    }

    fn take_nomination(&mut self, key: &GroupKey) -> Option<Hold> {
        let number = self.holds.nomination(key)?.number;
        self.holds.remove(number)
    }

    /// Assumes the gang on its nominated nodes.
    fn fulfil(&mut self, key: &GroupKey, placed: &[Placement], now: Duration, rest_time: Duration) -> Vec<Bind> {
        self.take_nomination(key);
        let known = self.cache.groups().get(key).and_then(|group| Some((group, group.facts.as_ref()?)));
        let minimum =
            known.filter(|(group, facts)| facts.min_member > 1 && gang::is_satisfied(group, facts)).map(|(_, facts)| facts.min_member);
        let binds = self.assume_all(key, placed, minimum);
        self.satisfied(key, now, rest_time);
        self.judge_group(key, None);
        binds
    }

    /// Records a refused eviction, for a reason of a bounded set, and withdraws its nomination unless that is gone already.
    pub fn refuse_eviction(&mut self, key: &GroupKey, nomination: u64, why: &'static str) {
        if let Some(group) = self.cache.group_mut(key).filter(|group| group.partial.eviction == Some(nomination)) {
            group.partial.eviction = None;
        }
        if self.holds.nomination(key).is_some_and(|known| known.number == nomination) {
            self.withdraw_nomination(key, why);
        }
    }

    /// Withdraws the nomination of a gang as a whole; the next cycle lets the gang back off. `why` is of a bounded set.
    pub(super) fn withdraw_nomination(&mut self, key: &GroupKey, why: &str) {
        let Some(nomination) = self.take_nomination(key) else { return };
        // Its victims stay, and another nomination may wait for them to go.
        self.holds.room_taken();
        for place in &nomination.places {
            self.cache.withdraw_nominated(place);
        }
        self.follow();
        // It keeps what it needs to be finished (A5).
        if self.cache.is_partially_bound(key) {
            nomination
                .places
                .iter()
                .for_each(|place| reservation::reserve_refused_bind(&mut self.cache, key, &place.queue, &place.resources));
        }
        // Its victims count for their gangs again, which may have further members.
        nomination.victims().map(|left| self.gangs_of(left)).into_iter().flatten().for_each(|key| self.cache.changed(Change::Group(key)));
        // Its victims are not waited for any more.
        self.requeue.preemptions.forget(key);
        self.holds.withdrawn.push(nomination.number);
        self.holds.failed.insert(key.clone(), why.to_owned());
        self.cache.changed(Change::Group(key.clone()));
        self.follow();
    }
}

/// Why a PodGroup waits that is nominated: for these pods, which free what is lacking.
fn why_nominated(pods: &[Victim], lack: Option<Lack>) -> Arc<Refusal> {
    let queues = pods.iter().map(|victim| Arc::clone(&victim.queue)).collect();
    Arc::new(Refusal::Nominated { victims: u32::try_from(pods.len()).unwrap_or(u32::MAX), queues, lack })
}
