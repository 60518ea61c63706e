//! All nominations: the victims that each waits for, and the amounts that are nominated on each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::cycle::requeue::Requeue;
use crate::resources::Resources;

use super::kept::KeptPlace;

/// All nominations, with indexes.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Nominations {
    pub(in crate::cycle) gangs: BTreeMap<GroupKey, Nomination>,
    pub(in crate::cycle) deadlines: BTreeSet<(Duration, GroupKey)>,
    /// The PodGroups that wait for each victim to end.
    pub(in crate::cycle) victims: BTreeMap<Uid, BTreeSet<GroupKey>>,
    /// The nominated resources of each node; no entry where there are none.
    pub(in crate::cycle) nodes: BTreeMap<Arc<str>, Resources>,
    /// The nominated resources of each charged queue.
    pub(in crate::cycle) queues: BTreeMap<Arc<str>, Resources>,
    /// The places of lost members, by the gang for which they are kept. No entry is empty.
    pub(in crate::cycle) kept: BTreeMap<GroupKey, Vec<KeptPlace>>,
    /// The PodGroups for which places on each node are kept. No entry is empty.
    pub(super) kept_on: BTreeMap<Arc<str>, BTreeSet<GroupKey>>,
    /// The nominations for which something changed.
    pub(super) changed: BTreeSet<GroupKey>,
    /// The nominations that were withdrawn since the last cycle, and why, of a bounded set.
    pub(in crate::cycle) failed: BTreeMap<GroupKey, &'static str>,
    /// The same by number, so that no further pod is evicted for them.
    pub(in crate::cycle) withdrawn: Vec<u64>,
    /// Whether the next cycle reads from the pods what an earlier leader has nominated.
    pub(in crate::cycle) to_be_read: bool,
    /// The number of the last nomination.
    pub(super) last: u64,
}

/// The nomination of one gang.
#[derive(Debug)]
pub(in crate::cycle) struct Nomination {
    pub(in crate::cycle) id: u64,
    pub(in crate::cycle) places: Vec<Placement>,
    /// The victims that still hold something.
    pub(in crate::cycle) victims: BTreeSet<Uid>,
    pub(in crate::cycle) until: Duration,
    pub(in crate::cycle) refusal: Arc<Refusal>,
}

impl Nominations {
    pub(in crate::cycle) fn insert(&mut self, key: &GroupKey, nomination: Nomination) {
        for uid in &nomination.victims {
            self.victims.entry(uid.clone()).or_default().insert(key.clone());
        }
        for place in &nomination.places {
            self.nodes.entry(Arc::clone(&place.node)).or_default().add(&place.resources);
            self.queues.entry(Arc::clone(&place.queue)).or_default().add(&place.resources);
        }
        self.deadlines.insert((nomination.until, key.clone()));
        self.changed.insert(key.clone());
        self.gangs.insert(key.clone(), nomination);
    }

    pub(in crate::cycle) fn remove(&mut self, key: &GroupKey) -> Option<Nomination> {
        let nomination = self.gangs.remove(key)?;
        self.deadlines.remove(&(nomination.until, key.clone()));
        self.changed.remove(key);
        for uid in &nomination.victims {
            self.forget_victim(uid, key);
        }
        for place in &nomination.places {
            self.uncount(&place.node, &place.resources);
            subtract(&mut self.queues, &place.queue, &place.resources);
        }
        Some(nomination)
    }

    /// Returns those of these pods that are to be preempted.
    pub(in crate::cycle) fn victims_among(&self, pods: &BTreeSet<Uid>) -> BTreeSet<Uid> {
        if self.victims.len() < pods.len() {
            return self.victims.keys().filter(|uid| pods.contains(*uid)).cloned().collect();
        }
        pods.iter().filter(|uid| self.victims.contains_key(*uid)).cloned().collect()
    }

    /// Takes this out of what is nominated on the node.
    pub(super) fn uncount(&mut self, node: &Arc<str>, resources: &Resources) {
        subtract(&mut self.nodes, node, resources);
    }

    /// Returns a number that was never used.
    pub(in crate::cycle) fn next_number(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// No further pod is evicted for this number.
    pub(in crate::cycle) fn withdraw(&mut self, number: u64) {
        self.withdrawn.push(number);
    }

    fn forget_victim(&mut self, uid: &Uid, key: &GroupKey) {
        let Some(groups) = self.victims.get_mut(uid) else { return };
        groups.remove(key);
        if groups.is_empty() {
            self.victims.remove(uid);
        }
    }

    /// A pod has no charge any more.
    pub(in crate::cycle) fn gone(&mut self, uid: &Uid) {
        for key in self.victims.remove(uid).into_iter().flatten() {
            let Some(nomination) = self.gangs.get_mut(&key) else { continue };
            nomination.victims.remove(uid);
            if nomination.victims.is_empty() {
                self.changed.insert(key);
            }
        }
    }

    /// Something about a node changed.
    pub(in crate::cycle) fn node_changed(&mut self, node: &str) {
        if self.nodes.contains_key(node) {
            let there = |nomination: &Nomination| nomination.places.iter().any(|place| *place.node == *node);
            self.changed.extend(self.gangs.iter().filter(|(_, nomination)| there(nomination)).map(|(key, _)| key.clone()));
        }
    }

    /// Room was taken on some node, or in some queue. A nomination that waits for victims is looked at once they are gone.
    pub(in crate::cycle) fn room_taken(&mut self) {
        let unsettled: Vec<GroupKey> = self.unsettled().collect();
        self.changed.extend(unsettled);
    }

    fn unsettled(&self) -> impl Iterator<Item = GroupKey> {
        self.gangs.iter().filter(|(_, nomination)| nomination.victims.is_empty()).map(|(key, _)| key.clone())
    }

    /// Something about queues changed.
    pub(in crate::cycle) fn queues_changed(&mut self) {
        self.changed.extend(self.gangs.keys().cloned());
    }

    /// Takes the next nomination with a deadline that has passed, and returns its PodGroup; none if there is none.
    pub(in crate::cycle) fn take_due(&mut self, now: Duration) -> Option<GroupKey> {
        let (at, key) = self.deadlines.first().cloned().filter(|(at, _)| *at <= now)?;
        self.deadlines.remove(&(at, key.clone()));
        Some(key)
    }

    /// Takes the PodGroups with a nomination that may have changed, in the order in which they were nominated.
    pub(in crate::cycle) fn take_changed(&mut self, requeue: &Requeue) -> Vec<GroupKey> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.extend(requeue.to_try().iter().filter(|key| self.gangs.contains_key(*key)).cloned());
        if requeue.has_changes() {
            changed.extend(self.unsettled());
        }
        let mut in_order: Vec<(u64, GroupKey)> = changed.into_iter().filter_map(|key| Some((self.gangs.get(&key)?.id, key))).collect();
        in_order.sort();
        in_order.into_iter().map(|(_, key)| key).collect()
    }

    /// Whether a cycle has something to do here.
    pub(in crate::cycle) fn has_work(&self) -> bool {
        self.to_be_read || !self.changed.is_empty() || !self.failed.is_empty()
    }

    /// When the next nomination, or the time of a kept place, ends.
    pub(in crate::cycle) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(self.next_kept()).min()
    }

    /// The victims of all nominations; some are perhaps not terminating yet.
    pub(in crate::cycle) fn victims(&self) -> impl Iterator<Item = &Uid> {
        self.victims.keys()
    }
}

fn subtract(all: &mut BTreeMap<Arc<str>, Resources>, name: &Arc<str>, resources: &Resources) {
    let Some(nominated) = all.get_mut(name) else { return };
    nominated.sub(resources);
    if nominated.is_zero() {
        all.remove(name);
    }
}
