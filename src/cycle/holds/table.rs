//! The table of all holds: by PodGroup, pod, node, victim and claim, with one clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::Cache;
use crate::cycle::plan::VolumeWrite;
use crate::cycle::requeue::Requeue;
use crate::resources::Resources;

use super::hold::{Because, Hold, Kind};

/// All holds. What is charged for them is in the accounting of the cache.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Holds {
    all: BTreeMap<u64, Hold>,
    of_group: BTreeMap<GroupKey, BTreeSet<u64>>,
    of_pod: BTreeMap<Uid, u64>,
    on_node: BTreeMap<Arc<str>, BTreeSet<u64>>,
    /// What is held in each queue; the queue of a lost member has its part of the reservation instead.
    in_queue: BTreeMap<(Kind, Arc<str>), Resources>,
    /// The holds that wait for each victim to end.
    of_victim: BTreeMap<Uid, BTreeSet<u64>>,
    pub(super) of_claim: BTreeMap<ClaimKey, Waiting>,
    /// Those of which the time begins with the next cycle.
    without_time: BTreeSet<u64>,
    deadlines: BTreeSet<(Duration, u64)>,
    /// Those for which something changed.
    changed: BTreeSet<u64>,
    /// The PodGroups whose nomination was withdrawn since the last cycle, and why, of a bounded set.
    pub(in crate::cycle) failed: BTreeMap<GroupKey, String>,
    /// The numbers of these nominations, so that no further pod is evicted for them.
    pub(in crate::cycle) withdrawn: Vec<u64>,
    /// The writes of claims that no plan has taken.
    pub(super) writes: Vec<VolumeWrite>,
    /// Whether the next cycle reads from the pods what an earlier leader has nominated.
    pub(in crate::cycle) to_be_read: bool,
    /// The number of the last one.
    last: u64,
}

/// The holds that wait for one claim. Pods of several may share it: it is tied once.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The first hold, with whose number the write goes out. It may be over before the others are.
    pub(super) writer: u64,
    pub(super) holds: BTreeSet<u64>,
}

impl Holds {
    /// Returns a number that was never used.
    pub(in crate::cycle) fn next_number(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Adds a hold.
    pub(in crate::cycle) fn insert(&mut self, hold: Hold) {
        let (number, kind) = (hold.number, hold.kind());
        for place in &hold.places {
            self.of_pod.insert(place.uid.clone(), number);
            self.on_node.entry(Arc::clone(&place.node)).or_default().insert(number);
            if kind != Kind::LostMember {
                self.in_queue.entry((kind, Arc::clone(&place.queue))).or_default().add(&place.resources);
            }
        }
        for uid in hold.victims().into_iter().flatten() {
            self.of_victim.entry(uid.clone()).or_default().insert(number);
        }
        for claim in hold.claims().into_iter().flat_map(|claims| &claims.all) {
            let waiting = self.of_claim.entry(claim.clone()).or_insert_with(|| Waiting { writer: number, holds: BTreeSet::new() });
            waiting.holds.insert(number);
        }
        match hold.until {
            None => _ = self.without_time.insert(number),
            Some(until) => self.ends_at(number, until),
        }
        self.of_group.entry(hold.group.clone()).or_default().insert(number);
        self.all.insert(number, hold);
        self.look_at([number]);
    }

    /// Removes a hold, and returns it.
    pub(in crate::cycle) fn remove(&mut self, number: u64) -> Option<Hold> {
        let hold = self.all.remove(&number)?;
        let kind = hold.kind();
        for place in &hold.places {
            self.of_pod.remove(&place.uid);
            leave(&mut self.on_node, &place.node, number);
            let key = (kind, Arc::clone(&place.queue));
            if let Some(held) = self.in_queue.get_mut(&key) {
                held.sub(&place.resources);
                if held.is_zero() {
                    self.in_queue.remove(&key);
                }
            }
        }
        for uid in hold.victims().into_iter().flatten() {
            leave(&mut self.of_victim, uid, number);
        }
        for claim in hold.claims().into_iter().flat_map(|claims| &claims.all) {
            if let Some(waiting) = self.of_claim.get_mut(claim) {
                waiting.holds.remove(&number);
                if waiting.holds.is_empty() {
                    self.of_claim.remove(claim);
                }
            }
        }
        self.writes.retain(|write| write.binding != number);
        self.without_time.remove(&number);
        hold.until.into_iter().for_each(|until| _ = self.deadlines.remove(&(until, number)));
        self.changed.remove(&number);
        leave(&mut self.of_group, &hold.group, number);
        if kind == Kind::Claims {
            // They may have waited for this one.
            self.group_changed(&hold.group);
        }
        Some(hold)
    }

    pub(in crate::cycle) fn get(&self, number: u64) -> Option<&Hold> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Hold> {
        self.all.get_mut(&number)
    }

    /// All holds of this kind, in the order in which they began.
    pub(in crate::cycle) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Hold> {
        self.all.values().filter(move |hold| hold.kind() == kind)
    }

    /// Those of the PodGroup of this kind, in the order in which they began.
    pub(in crate::cycle) fn held_for(&self, key: &GroupKey, kind: Kind) -> impl Iterator<Item = &Hold> {
        let numbers = self.of_group.get(key).into_iter().flatten();
        numbers.filter_map(|number| self.all.get(number)).filter(move |hold| hold.kind() == kind)
    }

    /// Returns the nomination of the PodGroup; none where it has none. It has one at most.
    pub(in crate::cycle) fn nomination(&self, key: &GroupKey) -> Option<&Hold> {
        self.held_for(key, Kind::Victims).next()
    }

    /// Whether nothing is held.
    pub(in crate::cycle) fn has_none(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether any gang is nominated.
    pub(in crate::cycle) fn has_nominations(&self) -> bool {
        self.in_queue.first_key_value().is_some_and(|((kind, _), _)| *kind == Kind::Victims)
    }

    /// The holds with a place on the node.
    pub(in crate::cycle) fn on_node(&self, node: &str) -> impl Iterator<Item = &Hold> {
        self.on_node.get(node).into_iter().flatten().filter_map(|number| self.all.get(number))
    }

    /// What is nominated or kept on the node; nothing where that is none.
    pub(in crate::cycle) fn nominated_on(&self, node: &str) -> Option<Resources> {
        let holds = self.on_node(node).filter(|hold| hold.kind() != Kind::Claims);
        let places = holds.flat_map(|hold| &hold.places).filter(|place| *place.node == *node);
        places.map(|place| place.resources.clone()).reduce(|mut all, some| {
            all.add(&some);
            all
        })
    }

    /// Returns what is held of this kind: in the queue and all below it, and in the queue itself.
    #[must_use]
    pub(in crate::cycle) fn in_queue(&self, cache: &Cache, kind: Kind, queue: &str) -> (Resources, Resources) {
        let tree = cache.accounting().quota().tree();
        let (mut all, mut own) = (Resources::new(), Resources::new());
        for ((_, leaf), held) in self.in_queue.iter().filter(|((of, _), _)| *of == kind) {
            if tree.way(leaf).iter().any(|above| **above == *queue) {
                all.add(held);
            }
            if **leaf == *queue {
                own.add(held);
            }
        }
        (all, own)
    }

    /// The pods that are to be preempted; some are perhaps not terminating yet.
    pub(in crate::cycle) fn victims(&self) -> impl Iterator<Item = &Uid> {
        self.of_victim.keys()
    }

    /// Whether the pod is to be preempted.
    pub(in crate::cycle) fn is_victim(&self, uid: &Uid) -> bool {
        self.of_victim.contains_key(uid)
    }

    /// Returns those of these pods that are to be preempted.
    pub(in crate::cycle) fn victims_among(&self, pods: &BTreeSet<Uid>) -> BTreeSet<Uid> {
        if self.of_victim.len() < pods.len() {
            return self.victims().filter(|uid| pods.contains(*uid)).cloned().collect();
        }
        pods.iter().filter(|uid| self.is_victim(uid)).cloned().collect()
    }

    /// Returns the terminating pods and the victims. They count as gone in a search for victims.
    pub(in crate::cycle) fn terminating_or_victims(&self, cache: &Cache) -> BTreeSet<Uid> {
        cache.leaving().keys().chain(self.victims()).cloned().collect()
    }

    /// A pod has no charge any more. A nomination is looked at once all its victims are gone.
    pub(in crate::cycle) fn gone(&mut self, uid: &Uid) {
        for number in self.of_victim.remove(uid).into_iter().flatten() {
            let Some(Because::Victims(victims)) = self.all.get_mut(&number).map(|hold| &mut hold.because) else { continue };
            victims.left.remove(uid);
            if victims.left.is_empty() {
                self.changed.insert(number);
            }
        }
    }

    /// A pod changed or is gone. What is nominated for it is withdrawn where that matters.
    pub(in crate::cycle) fn pod_changed(&mut self, uid: &Uid) {
        let number = self.of_pod.get(uid).copied().filter(|number| self.is_of(*number, Kind::Claims));
        self.look_at(number);
    }

    /// A claim changed or is gone.
    pub(in crate::cycle) fn claim_changed(&mut self, claim: &ClaimKey) {
        let numbers = self.of_claim.get(claim).map(|waiting| waiting.holds.clone()).unwrap_or_default();
        self.look_at(numbers);
    }

    /// A PodGroup changed or is gone. Its nomination is withdrawn where that matters.
    pub(in crate::cycle) fn group_changed(&mut self, key: &GroupKey) {
        let numbers: Vec<u64> = self.held_for(key, Kind::Claims).map(|hold| hold.number).collect();
        self.look_at(numbers);
    }

    /// Something about a node changed: the nominations there are looked at, and all that waits for claims.
    pub(in crate::cycle) fn node_changed(&mut self, node: &str) {
        let numbers: Vec<u64> = self.on_node(node).map(|hold| hold.number).collect();
        self.look_at(numbers);
        self.all_changed(Kind::Claims);
    }

    /// Something changed that may matter to every hold of this kind.
    pub(in crate::cycle) fn all_changed(&mut self, kind: Kind) {
        let numbers: Vec<u64> = self.of_kind(kind).map(|hold| hold.number).collect();
        self.look_at(numbers);
    }

    /// Room was taken on some node, or in some queue. A nomination that waits for victims is looked at once they are gone.
    pub(in crate::cycle) fn room_taken(&mut self) {
        let without_victims = |hold: &&Hold| hold.victims().is_some_and(BTreeSet::is_empty);
        let numbers: Vec<u64> = self.all.values().filter(without_victims).map(|hold| hold.number).collect();
        self.look_at(numbers);
    }

    /// A pod takes room on the node.
    pub(in crate::cycle) fn room_taken_on(&mut self, node: &str) {
        let numbers: Vec<u64> = self.on_node(node).filter(|hold| hold.kind() == Kind::Claims).map(|hold| hold.number).collect();
        self.look_at(numbers);
        self.room_taken();
    }

    /// These are looked at in the next cycle, or later in this one. The place of a lost member is dropped when its PodGroup changes.
    pub(super) fn look_at(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let Self { all, changed, .. } = self;
        let is_looked_at = |number: &u64| all.get(number).is_some_and(|hold| hold.kind() != Kind::LostMember);
        changed.extend(numbers.into_iter().filter(is_looked_at));
    }

    /// Begins the time of new holds of this kind; `None`: they have no end.
    pub(in crate::cycle) fn begin(&mut self, kind: Kind, now: Duration, time: Option<Duration>) {
        let until = time.map_or(Duration::MAX, |time| now.saturating_add(time));
        let new: Vec<u64> = self.without_time.iter().filter(|number| self.is_of(**number, kind)).copied().collect();
        for number in new {
            self.without_time.remove(&number);
            self.ends_at(number, until);
            self.all.get_mut(&number).into_iter().for_each(|hold| hold.until = Some(until));
        }
    }

    /// Returns the holds of this kind of which the time is over, in the order of their ends.
    pub(in crate::cycle) fn due(&self, kind: Kind, now: Duration) -> Vec<u64> {
        let over = self.deadlines.iter().take_while(|(until, _)| *until <= now).map(|(_, number)| *number);
        over.filter(|number| self.is_of(*number, kind)).collect()
    }

    /// Those of this kind of which the time is over are looked at.
    pub(in crate::cycle) fn look_at_due(&mut self, kind: Kind, now: Duration) {
        let due = self.due(kind, now);
        self.look_at(due);
    }

    /// Takes the next hold of this kind for which something changed.
    pub(in crate::cycle) fn take_changed(&mut self, kind: Kind) -> Option<u64> {
        let number = self.changed.iter().find(|number| self.is_of(**number, kind)).copied()?;
        self.changed.remove(&number);
        Some(number)
    }

    /// Takes the nominations that may have changed, in the order in which they were made.
    pub(in crate::cycle) fn take_nominations(&mut self, requeue: &Requeue) -> Vec<u64> {
        let nominated: Vec<u64> = requeue.to_try().iter().filter_map(|key| self.nomination(key)).map(|hold| hold.number).collect();
        self.look_at(nominated);
        if requeue.has_changes() {
            self.room_taken();
        }
        std::iter::from_fn(|| self.take_changed(Kind::Victims)).collect()
    }

    /// Whether a cycle has something to do here.
    pub(in crate::cycle) fn has_work(&self) -> bool {
        self.to_be_read || !self.changed.is_empty() || !self.failed.is_empty() || !self.without_time.is_empty()
    }

    /// When the time of the next one is over.
    pub(in crate::cycle) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn is_of(&self, number: u64, kind: Kind) -> bool {
        self.all.get(&number).is_some_and(|hold| hold.kind() == kind)
    }

    fn ends_at(&mut self, number: u64, until: Duration) {
        if until < Duration::MAX {
            self.deadlines.insert((until, number));
        }
    }

    /// Whether nothing is held, and no record of anything is left.
    #[cfg(test)]
    pub(in crate::cycle) fn is_empty(&self) -> bool {
        let Self { all, of_group, of_pod, on_node, in_queue, of_victim, of_claim, without_time, deadlines, changed, writes, .. } = self;
        all.is_empty()
            && of_group.is_empty()
            && of_pod.is_empty()
            && on_node.is_empty()
            && in_queue.is_empty()
            && of_victim.is_empty()
            && of_claim.is_empty()
            && without_time.is_empty()
            && deadlines.is_empty()
            && changed.is_empty()
            && writes.is_empty()
    }
}

fn leave<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    let Some(numbers) = index.get_mut(key) else { return };
    numbers.remove(&number);
    if numbers.is_empty() {
        index.remove(key);
    }
}
