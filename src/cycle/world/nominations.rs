//! What is kept for a gang while others leave for it, and when does it get that? (R10)
//!
//! ```text
//!            nominate                 victims gone, and it fits
//!  waiting ───────────▶ nominated ─────────────────────────────▶ assumed, bound like any other
//!     ▲                     │
//!     ╰──── take back ──────╯  as a whole, and the group backs off
//! ```
//!
//! The places of a nominated gang are charged at once, to its nodes and its queue, though their present users are there still: both are
//! overcommitted in the books for that time, so nobody else is placed there. A nominated member neither waits nor has a place: it does not
//! count for its gang, and nobody binds it. When the last victim holds nothing any more, the whole gang is tried once more like a placement
//! (every filter, every limit of its queue, its right), with what is kept for *others* left out: they have nothing yet. So no bind is sent
//! while a victim still holds what it needs.
//!
//! Taken back, always as a whole: the time is over; an eviction was refused; one of its pods, or what its group asks for, changed or is gone
//! (bound by another scheduler, deleted, gated, another minimum); a node is gone or refuses it (cordon, taint); its queue is broken, gone or
//! closed (a closed queue places no pod, O2); it would not satisfy its gang any more; or the victims are gone and it does not fit all the same.
//! In that last case it goes on waiting, within its time, as long as a pod is leaving there that could make the difference.
//!
//! Nothing of this is persisted. Pods that are being deleted count as gone in the search for victims, so a process that starts in between
//! finds the same room, nominates again, and evicts nobody twice.

mod register;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Placement, ROOT_QUEUE};
use crate::api::{GroupFacts, GroupKey, PodFacts, Uid};
use crate::backoff::Backoff;
use crate::cycle::explain::{Refusal, Step};
use crate::cycle::plan::{Bind, Eviction, Taking, Victim};
use crate::resources::Resources;

use register::Nomination;
pub(super) use register::Nominations;
use settle::Outlook;

use super::pods::Assumed;
use super::{Member, State, World};

/// How long victims may take beyond their own time to end, before the nomination is taken back.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time to end that is waited for: whoever writes a pod can write any number there.
pub const LONGEST_GRACE: Duration = Duration::from_secs(600);

/// How patiently a group asks again whose nomination was taken back.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

impl World {
    /// Keeps these places for waiting members of the group, all together, until these pods are gone or it is `until`. Among `victims` are those
    /// that must go and those that are leaving already and that it counts on. What is to be evicted; none, and nothing has changed, where a
    /// member does not wait or something is kept for the group already.
    pub fn nominate(&mut self, key: &GroupKey, places: &[Placement], victims: &[Uid], taking: Taking, until: Duration) -> Option<Eviction> {
        let group = self.groups.get(key)?;
        let group_uid = group.facts.as_ref()?.uid.clone();
        let lack = group.refusal.as_deref().and_then(Refusal::lack);
        let queue = Arc::clone(&places.first()?.queue);
        let members: BTreeSet<&Uid> = places.iter().map(|place| &place.uid).collect();
        let waits = |uid: &&Uid| self.groups.get(key).is_some_and(|group| group.waiting.contains(*uid)) && self.books.pod(uid).is_none();
        if self.nominations.gangs.contains_key(key) || members.len() != places.len() || !members.iter().all(waits) {
            return None;
        }
        let there: Vec<Victim> = victims.iter().filter_map(|uid| self.victim(uid)).collect();
        let queues = there.iter().map(|victim| Arc::clone(&victim.queue)).collect();
        let refusal = Arc::new(Refusal::Nominated { victims: u32::try_from(there.len()).unwrap_or(u32::MAX), queues, lack });
        let shares = self.shares.take();
        self.reserves_elsewhere(key, &queue);
        for place in places {
            self.books.nominate(&place.uid, &place.node, &place.queue, &place.resources);
            if let Some(mut member) = self.detach(&place.uid) {
                member.nominated =
                    Some(Assumed { node: Arc::clone(&place.node), queue: Arc::clone(&place.queue), confirmed: false, open: None });
                member.refusal = Some(Arc::clone(&refusal));
                self.attach(member);
            }
            self.nodes.touch_name(&place.node);
            self.dirty_path(&place.queue);
        }
        // Who has his turn in this cycle is ranked by the shares before the taking.
        self.shares = shares;
        self.outdated = true;
        let id = self.nominations.next_number();
        let waited_for = there.iter().map(|victim| victim.uid.clone()).collect();
        let nomination = Nomination { id, places: places.to_vec(), victims: waited_for, until, refusal: Arc::clone(&refusal) };
        self.nominations.insert(key, nomination);
        self.judge_group(key, Some(refusal));
        let leaving = |uid: &Uid| self.pods.get(uid).is_some_and(|member| member.facts.deleting);
        let victims = there.into_iter().filter(|victim| !leaving(&victim.uid)).collect();
        Some(Eviction { nomination: id, group: key.clone(), group_uid, queue, taking, victims })
    }

    /// When a nomination for these places that waits for these pods is over: the longest time that one of them may take to end (within reason), and then some. Who is leaving
    /// already, from one of its nodes or from a queue that shares a limit with its own, may be counted on as well.
    #[must_use]
    pub fn nomination_deadline(&self, places: &[Placement], victims: &[Uid], now: Duration) -> Duration {
        let tree = self.books.quota().tree();
        let nodes: BTreeSet<&str> = places.iter().map(|place| &*place.node).collect();
        let ways: BTreeSet<Arc<str>> =
            places.iter().flat_map(|place| tree.way(&place.queue)).filter(|queue| **queue != *ROOT_QUEUE).collect();
        let matters = |uid: &Uid| {
            let pod = self.books.pod(uid);
            let shares = |queue: &str| tree.way(queue).iter().any(|above| ways.contains(above));
            pod.is_some_and(|pod| pod.node.is_some_and(|node| nodes.contains(node)) || pod.queue.is_some_and(shares))
        };
        let grace = |uid: &Uid| self.pods.get(uid).map(|member| member.facts.grace);
        let others = self.leaving.iter().filter(|(uid, _)| matters(uid)).map(|(_, grace)| *grace);
        let told = self.nominations.victims.keys().filter(|uid| matters(uid)).chain(victims).filter_map(grace);
        let longest = others.chain(told).map(|grace| grace.min(LONGEST_GRACE)).max();
        now.saturating_add(longest.unwrap_or_default()).saturating_add(PATIENCE)
    }

    /// Settles every nomination for which something changed; to be asked first in a cycle. What is to be bound now is charged like any placement.
    pub(in crate::cycle) fn take_fulfilled(&mut self, now: Duration) -> Vec<Bind> {
        while let Some((at, key)) = self.nominations.deadlines.first().cloned().filter(|(at, _)| *at <= now) {
            self.nominations.deadlines.remove(&(at, key.clone()));
            self.take_back(&key, "timeout");
        }
        let mut look = std::mem::take(&mut self.nominations.look);
        look.extend(self.requeue.to_try().iter().filter(|key| self.nominations.gangs.contains_key(*key)).cloned());
        if self.requeue.has_changes() {
            let unsettled = self.nominations.gangs.iter().filter(|(_, nomination)| nomination.victims.is_empty());
            look.extend(unsettled.map(|(key, _)| key.clone()));
        }
        let mut in_order: Vec<(u64, GroupKey)> =
            look.into_iter().filter_map(|key| Some((self.nominations.gangs.get(&key)?.id, key))).collect();
        in_order.sort();
        let mut binds = Vec::new();
        for (_, key) in in_order {
            match self.outlook(&key) {
                Outlook::Waits => {}
                Outlook::Broken(why) => self.take_back(&key, why),
                Outlook::Ready => match self.settle(&key) {
                    Ok(placed) => binds.extend(self.fulfil(&key, &placed)),
                    Err(refusal) => {
                        if let Outlook::Broken(why) = self.after_refusal(&key, &refusal) {
                            self.take_back(&key, why);
                        }
                    }
                },
            }
        }
        for (key, why) in std::mem::take(&mut self.nominations.failed) {
            self.back_off(&key, (Step::Preemption, why), now, None, |failures| BACKOFF.delay(failures));
        }
        binds
    }

    /// An eviction was refused, for a reason of a bounded set: what it was for is taken back, unless that has happened already.
    pub fn refuse_eviction(&mut self, key: &GroupKey, nomination: u64, why: &'static str) {
        self.release_refused(key, nomination);
        if self.nominations.gangs.get(key).is_some_and(|known| known.id == nomination) {
            self.take_back(key, why);
        }
    }

    /// Why the group waits while places are kept for it; none where none are.
    #[must_use]
    pub fn nominated(&self, key: &GroupKey) -> Option<&Arc<Refusal>> {
        self.nominations.gangs.get(key).map(|nomination| &nomination.refusal)
    }

    /// Everybody of ours who is leaving or is to go for somebody: they count as gone in a search for victims.
    pub(in crate::cycle) fn leaving_or_told_to(&self) -> BTreeSet<Uid> {
        self.leaving.keys().chain(self.nominations.victims.keys()).cloned().collect()
    }

    /// What is kept on a node for gangs that are not there yet. The books charge it; nobody uses it.
    #[must_use]
    pub fn nominated_on(&self, node: &str) -> Option<&Resources> {
        self.nominations.nodes.get(node)
    }

    /// The same for a queue: in it and all below it, and in itself.
    #[must_use]
    pub fn nominated_in(&self, queue: &str) -> (Resources, Resources) {
        let tree = self.books.quota().tree();
        let (mut all, mut own) = (Resources::new(), Resources::new());
        for (leaf, kept) in &self.nominations.queues {
            if tree.way(leaf).iter().any(|above| **above == *queue) {
                all.add(kept);
            }
            if **leaf == *queue {
                own.add(kept);
            }
        }
        (all, own)
    }

    /// Whether the pod is to go for somebody, and does perhaps not know it yet: for a search for victims it counts as gone.
    #[must_use]
    pub fn is_victim(&self, uid: &Uid) -> bool {
        self.nominations.victims.contains_key(uid)
    }

    /// The nominations that were taken back since this was last asked: nobody more is to be evicted for them.
    pub fn take_withdrawn(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.nominations.withdrawn)
    }

    /// Takes the places of a gang back, all of them; the next cycle lets it back off. `why` is of a bounded set.
    pub(super) fn take_back(&mut self, key: &GroupKey, why: &'static str) {
        let Some(nomination) = self.nominations.remove(key) else { return };
        for place in &nomination.places {
            if self.books.withdraw(&place.uid) {
                self.books_changed(Some(&place.node), Some(&place.queue), true);
            }
            if let Some(mut member) = self.detach(&place.uid) {
                member.nominated = None;
                member.refusal = None;
                self.attach(member);
            }
        }
        // It keeps what it needs to be finished (A5).
        if self.is_half_bound(key) {
            nomination.places.iter().for_each(|place| self.swap_back(key, &place.queue, &place.resources));
        }
        self.nominations.withdrawn.push(nomination.id);
        self.nominations.failed.insert(key.clone(), why);
        self.look_at(key);
    }

    /// What this news of a pod means to the nomination that it is part of: another pod than the one that places were kept for.
    pub(super) fn notice_change(&mut self, facts: &PodFacts) {
        let Some(known) = self.pods.get(&facts.uid).filter(|known| known.nominated.is_some()) else { return };
        let old = &known.facts;
        let same = (&old.group, &old.task, &old.request, &old.constraints, old.preemptable)
            == (&facts.group, &facts.task, &facts.request, &facts.constraints, facts.preemptable);
        let next = Member { facts: Arc::new(facts.clone()), ..known.clone() };
        if !same || next.state() != State::Nominated {
            let key = old.group.clone();
            self.take_back(&key, "pod_changed");
        }
    }

    /// The same of a group: it asks for something else. Its status is our own word and says nothing.
    pub(super) fn notice_terms(&mut self, facts: &GroupFacts) {
        let Some(old) = self.groups.get(&facts.key).and_then(|group| group.facts.as_ref()) else { return };
        let (status, resource_version) = (facts.status.clone(), facts.resource_version.clone());
        if (GroupFacts { status, resource_version, ..(**old).clone() }) != *facts {
            self.take_back(&facts.key, "group_changed");
        }
    }

    pub(super) fn victim(&self, uid: &Uid) -> Option<Victim> {
        let facts = &self.pods.get(uid)?.facts;
        let queue = Arc::from(self.books.pod(uid)?.queue?);
        let (namespace, name) = (Arc::clone(&facts.namespace), Arc::clone(&facts.name));
        Some(Victim { uid: uid.clone(), namespace, name, queue, group: facts.group.clone() })
    }
}

#[cfg(test)]
#[path = "nominations_promises.rs"]
mod promises;
#[cfg(test)]
#[path = "nominations_tests.rs"]
mod tests;
