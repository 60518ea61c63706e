//! Which nodes and quota are kept for a gang while its victims end, and when is the gang placed there? (R10)
//!
//! ```text
//!            nominate                 victims gone, and it fits
//!  waiting ───────────▶ nominated ─────────────────────────────▶ assumed, bound like any other
//!     ▲                     │
//!     ╰──── withdraw ───────╯  as a whole, and the PodGroup backs off
//! ```
//!
//! A nominated gang is charged at once, to its nodes and its queue, though the victims are still there. Both are overcommitted in the
//! accounting for that time, so no other pod is placed there. A nominated member neither waits nor has a node: it does not count for its
//! gang and is not bound.
//!
//! When the last victim holds nothing any more, the whole gang is placed again with every filter and every limit of its queue. What is
//! nominated for *other* gangs is left out: they have nothing yet. So no bind is sent while a victim still holds what the bind needs.
//! A nomination is withdrawn, always as a whole, when:
//!
//! * its time is over;
//! * an eviction was refused;
//! * one of its pods, or the request of its PodGroup, changed or is gone (bound by another scheduler, deleted, gated, another minimum);
//! * a node is gone or refuses it (cordon, taint);
//! * its queue is broken, gone or closed (a closed queue places no pod, O2);
//! * it would not satisfy its gang any more;
//! * the victims are gone and the gang does not fit all the same. Then it waits on, within its time, while a terminating pod there could
//!   make the difference.
//!
//! Nothing of this is persisted. Terminating pods count as gone in the search for victims. So a new process finds the same room, nominates
//! again, and evicts no further pod.

mod register;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::{Placement, ROOT_QUEUE};
use crate::api::{GroupFacts, GroupKey, PodFacts, Uid};
use crate::backoff::Backoff;
use crate::cycle::explain::{Refusal, Step};
use crate::cycle::plan::{Bind, Eviction, EvictionCause, Victim};
use crate::resources::Resources;

use register::Nomination;
pub(super) use register::Nominations;
use settle::Outlook;

use super::pods::Assumed;
use super::{Member, State, World};

/// The time that victims get beyond their grace period before the nomination is withdrawn.
pub const NOMINATION_MARGIN: Duration = Duration::from_secs(60);

/// The longest grace period that a nomination waits for: any author of a pod can write any number there.
pub const LONGEST_GRACE: Duration = Duration::from_secs(600);

/// The back-off of a PodGroup after a withdrawn nomination.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

impl World {
    /// Nominates these placements for waiting members of the PodGroup, all together, until these pods are gone or it is `until`. `victims`
    /// are the pods to evict and the terminating pods that the nomination counts on. Returns the eviction. Returns none and changes
    /// nothing where a member does not wait or the PodGroup has a nomination already.
    pub fn nominate(
        &mut self,
        key: &GroupKey,
        places: &[Placement],
        victims: &[Uid],
        cause: EvictionCause,
        until: Duration,
    ) -> Option<Eviction> {
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
        self.release_for_nomination(key, &queue);
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
        // The order of this cycle follows the shares before the preemption.
        self.shares = shares;
        self.outdated = true;
        let id = self.nominations.next_number();
        let waited_for = there.iter().map(|victim| victim.uid.clone()).collect();
        let nomination = Nomination { id, places: places.to_vec(), victims: waited_for, until, refusal: Arc::clone(&refusal) };
        self.nominations.insert(key, nomination);
        self.judge_group(key, Some(refusal));
        let leaving = |uid: &Uid| self.pods.get(uid).is_some_and(|member| member.facts.deleting);
        let victims = there.into_iter().filter(|victim| !leaving(&victim.uid)).collect();
        Some(Eviction { nomination: id, group: key.clone(), group_uid, queue, cause, victims })
    }

    /// Returns the deadline of a nomination: the longest grace period of its victims, at most [`LONGEST_GRACE`], and
    /// [`NOMINATION_MARGIN`]. It may count on terminating pods as well: those on one of its nodes, or in a queue that shares a limit with
    /// its own.
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
        let victims = self.nominations.victims.keys().filter(|uid| matters(uid)).chain(victims).filter_map(grace);
        let longest = others.chain(victims).map(|grace| grace.min(LONGEST_GRACE)).max();
        now.saturating_add(longest.unwrap_or_default()).saturating_add(NOMINATION_MARGIN)
    }

    /// Settles every nomination for which something changed, first in a cycle. Returns the binds, which are charged like any placement.
    pub(in crate::cycle) fn take_fulfilled(&mut self, now: Duration) -> Vec<Bind> {
        while let Some((at, key)) = self.nominations.deadlines.first().cloned().filter(|(at, _)| *at <= now) {
            self.nominations.deadlines.remove(&(at, key.clone()));
            self.withdraw_nomination(&key, "timeout");
        }
        let mut changed = std::mem::take(&mut self.nominations.changed);
        changed.extend(self.requeue.to_try().iter().filter(|key| self.nominations.gangs.contains_key(*key)).cloned());
        if self.requeue.has_changes() {
            let unsettled = self.nominations.gangs.iter().filter(|(_, nomination)| nomination.victims.is_empty());
            changed.extend(unsettled.map(|(key, _)| key.clone()));
        }
        let mut in_order: Vec<(u64, GroupKey)> =
            changed.into_iter().filter_map(|key| Some((self.nominations.gangs.get(&key)?.id, key))).collect();
        in_order.sort();
        let mut binds = Vec::new();
        for (_, key) in in_order {
            match self.outlook(&key) {
                Outlook::Waits => {}
                Outlook::Broken(why) => self.withdraw_nomination(&key, why),
                Outlook::Ready => match self.settle(&key) {
                    Ok(placed) => binds.extend(self.fulfil(&key, &placed)),
                    Err(refusal) => {
                        if let Outlook::Broken(why) = self.after_refusal(&key, &refusal) {
                            self.withdraw_nomination(&key, why);
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

    /// Records a refused eviction, for a reason of a bounded set, and withdraws its nomination unless that is gone already.
    pub fn refuse_eviction(&mut self, key: &GroupKey, nomination: u64, why: &'static str) {
        self.partial_eviction_refused(key, nomination);
        if self.nominations.gangs.get(key).is_some_and(|known| known.id == nomination) {
            self.withdraw_nomination(key, why);
        }
    }

    /// Returns why the PodGroup waits while it is nominated; none where it is not.
    #[must_use]
    pub fn nominated(&self, key: &GroupKey) -> Option<&Arc<Refusal>> {
        self.nominations.gangs.get(key).map(|nomination| &nomination.refusal)
    }

    /// Returns the terminating pods and the victims of nominations. They count as gone in a search for victims.
    pub(in crate::cycle) fn terminating_or_victims(&self) -> BTreeSet<Uid> {
        self.leaving.keys().chain(self.nominations.victims.keys()).cloned().collect()
    }

    /// The resources on a node that are nominated for gangs. They are charged, but no pod uses them.
    #[must_use]
    pub fn nominated_on(&self, node: &str) -> Option<&Resources> {
        self.nominations.nodes.get(node)
    }

    /// The nominated resources of a queue: in it and all below it, and in itself.
    #[must_use]
    pub fn nominated_in(&self, queue: &str) -> (Resources, Resources) {
        let tree = self.books.quota().tree();
        let (mut all, mut own) = (Resources::new(), Resources::new());
        for (leaf, nominated) in &self.nominations.queues {
            if tree.way(leaf).iter().any(|above| **above == *queue) {
                all.add(nominated);
            }
            if **leaf == *queue {
                own.add(nominated);
            }
        }
        (all, own)
    }

    /// Whether the pod is a victim of a nomination and perhaps not terminating yet. In a search for victims it counts as gone.
    #[must_use]
    pub fn is_victim(&self, uid: &Uid) -> bool {
        self.nominations.victims.contains_key(uid)
    }

    /// Takes the numbers of the nominations that were withdrawn since the last call: no further pod is to be evicted for them.
    pub fn take_withdrawn(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.nominations.withdrawn)
    }

    /// Withdraws the nomination of a gang as a whole; the next cycle lets the gang back off. `why` is of a bounded set.
    pub(super) fn withdraw_nomination(&mut self, key: &GroupKey, why: &'static str) {
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
        if self.is_partially_bound(key) {
            nomination.places.iter().for_each(|place| self.reserve_refused_bind(key, &place.queue, &place.resources));
        }
        self.nominations.withdrawn.push(nomination.id);
        self.nominations.failed.insert(key.clone(), why);
        self.retry_group(key);
    }

    /// Withdraws a nomination when one of its pods changed.
    pub(super) fn notice_change(&mut self, facts: &PodFacts) {
        let Some(known) = self.pods.get(&facts.uid).filter(|known| known.nominated.is_some()) else { return };
        let old = &known.facts;
        let same = (&old.group, &old.task, &old.request, &old.constraints, old.preemptable)
            == (&facts.group, &facts.task, &facts.request, &facts.constraints, facts.preemptable);
        let next = Member { facts: Arc::new(facts.clone()), ..known.clone() };
        if !same || next.state() != State::Nominated {
            let key = old.group.clone();
            self.withdraw_nomination(&key, "pod_changed");
        }
    }

    /// Withdraws a nomination when the request of its PodGroup changed. The status does not matter: this scheduler writes it.
    pub(super) fn notice_terms(&mut self, facts: &GroupFacts) {
        let Some(old) = self.groups.get(&facts.key).and_then(|group| group.facts.as_ref()) else { return };
        let (status, resource_version) = (facts.status.clone(), facts.resource_version.clone());
        if (GroupFacts { status, resource_version, ..(**old).clone() }) != *facts {
            self.withdraw_nomination(&facts.key, "group_changed");
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
