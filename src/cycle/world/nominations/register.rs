//! Which nominations are there, who waits for whom, and how much is kept on which node?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::{GroupKey, Uid};
use crate::cycle::explain::Refusal;
use crate::resources::Resources;

/// All that is kept for gangs.
#[derive(Debug, Default)]
pub(in crate::cycle::world) struct Nominations {
    pub(super) gangs: BTreeMap<GroupKey, Nomination>,
    pub(super) deadlines: BTreeSet<(Duration, GroupKey)>,
    /// Who waits for this pod to go.
    pub(super) victims: BTreeMap<Uid, BTreeSet<GroupKey>>,
    /// What is kept on each node; none where nothing is.
    pub(super) nodes: BTreeMap<Arc<str>, Resources>,
    /// The same by the queue that it is charged to.
    pub(super) queues: BTreeMap<Arc<str>, Resources>,
    /// Those for which something changed.
    pub(super) look: BTreeSet<GroupKey>,
    /// Those that were taken back since the last cycle, and why, of a bounded set.
    pub(super) failed: BTreeMap<GroupKey, &'static str>,
    /// The same by number, so that nobody more is evicted for them.
    pub(super) withdrawn: Vec<u64>,
    /// The number of the last one.
    pub(super) last: u64,
}

/// The places of one gang.
#[derive(Debug)]
pub(in crate::cycle::world) struct Nomination {
    pub(super) id: u64,
    pub(super) places: Vec<Placement>,
    /// The victims that still hold something.
    pub(super) victims: BTreeSet<Uid>,
    pub(super) until: Duration,
    pub(super) refusal: Arc<Refusal>,
}

impl Nominations {
    pub(super) fn insert(&mut self, key: &GroupKey, nomination: Nomination) {
        for uid in &nomination.victims {
            self.victims.entry(uid.clone()).or_default().insert(key.clone());
        }
        for place in &nomination.places {
            self.nodes.entry(Arc::clone(&place.node)).or_default().add(&place.resources);
            self.queues.entry(Arc::clone(&place.queue)).or_default().add(&place.resources);
        }
        self.deadlines.insert((nomination.until, key.clone()));
        self.look.insert(key.clone());
        self.gangs.insert(key.clone(), nomination);
    }

    pub(super) fn remove(&mut self, key: &GroupKey) -> Option<Nomination> {
        let nomination = self.gangs.remove(key)?;
        self.deadlines.remove(&(nomination.until, key.clone()));
        self.look.remove(key);
        for uid in &nomination.victims {
            self.forget_victim(uid, key);
        }
        for place in &nomination.places {
            for (all, name) in [(&mut self.nodes, &place.node), (&mut self.queues, &place.queue)] {
                let Some(kept) = all.get_mut(name) else { continue };
                kept.sub(&place.resources);
                if kept.is_zero() {
                    all.remove(name);
                }
            }
        }
        Some(nomination)
    }

    /// A number that was never given.
    pub(in crate::cycle::world) fn next_number(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// Nobody more is evicted for this number.
    pub(in crate::cycle::world) fn withdraw(&mut self, number: u64) {
        self.withdrawn.push(number);
    }

    fn forget_victim(&mut self, uid: &Uid, key: &GroupKey) {
        let Some(groups) = self.victims.get_mut(uid) else { return };
        groups.remove(key);
        if groups.is_empty() {
            self.victims.remove(uid);
        }
    }

    /// A pod holds nothing any more.
    pub(in crate::cycle::world) fn gone(&mut self, uid: &Uid) {
        for key in self.victims.remove(uid).into_iter().flatten() {
            let Some(nomination) = self.gangs.get_mut(&key) else { continue };
            nomination.victims.remove(uid);
            if nomination.victims.is_empty() {
                self.look.insert(key);
            }
        }
    }

    /// Something about a node changed.
    pub(in crate::cycle::world) fn node_changed(&mut self, node: &str) {
        if self.nodes.contains_key(node) {
            let there = |nomination: &Nomination| nomination.places.iter().any(|place| *place.node == *node);
            self.look.extend(self.gangs.iter().filter(|(_, nomination)| there(nomination)).map(|(key, _)| key.clone()));
        }
    }

    /// Something about queues changed.
    pub(in crate::cycle::world) fn queues_changed(&mut self) {
        self.look.extend(self.gangs.keys().cloned());
    }

    /// Whether a cycle has something to do here.
    pub(in crate::cycle::world) fn has_work(&self) -> bool {
        !self.look.is_empty() || !self.failed.is_empty()
    }

    /// When the next one is over.
    pub(in crate::cycle::world) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The pods that are to go and do perhaps not know it yet.
    pub(in crate::cycle::world) fn victims(&self) -> impl Iterator<Item = &Uid> {
        self.victims.keys()
    }
}
