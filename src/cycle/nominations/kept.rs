//! The places of members that a gang has lost: they stay charged on their nodes for it (A8).
//!
//! A kept place is a nomination for a pod that does not exist yet. It is charged on its node in the same way, and is in the same index of the nodes. Its
//! amount in the queue is the reservation of the PodGroup, which is not in the PodGroup's own way either.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupKey, Uid};
use crate::resources::Resources;

use super::Nominations;

/// The place of a lost member.
#[derive(Clone, Debug)]
pub(in crate::cycle) struct KeptPlace {
    /// The name of the charge: no pod has this UID.
    pub(in crate::cycle) uid: Uid,
    /// The node.
    pub(in crate::cycle) node: Arc<str>,
    /// What the member requested.
    pub(in crate::cycle) resources: Resources,
    /// Until when it is kept (monotonic); none before the next cycle.
    until: Option<Duration>,
}

impl Nominations {
    /// Adds the place of a lost pod. Returns it, or none if it is kept already.
    pub(in crate::cycle) fn keep(&mut self, key: &GroupKey, lost: &Uid, node: &Arc<str>, resources: &Resources) -> Option<KeptPlace> {
        let uid = Uid::from(format!("{} (kept)", lost.as_str()).as_str());
        let places = self.kept.entry(key.clone()).or_default();
        if places.iter().any(|place| place.uid == uid) {
            return None;
        }
        let place = KeptPlace { uid, node: Arc::clone(node), resources: resources.clone(), until: None };
        places.push(place.clone());
        self.nodes.entry(Arc::clone(node)).or_default().add(resources);
        Some(place)
    }

    /// The places that are kept for the PodGroup.
    pub(in crate::cycle) fn kept_for(&self, key: &GroupKey) -> &[KeptPlace] {
        self.kept.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Removes the places for which this holds, and returns them.
    pub(in crate::cycle) fn drop_kept(&mut self, key: &GroupKey, mut which: impl FnMut(&KeptPlace) -> bool) -> Vec<KeptPlace> {
        let Some(places) = self.kept.remove(key) else { return Vec::new() };
        let (dropped, left): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| which(place));
        if !left.is_empty() {
            self.kept.insert(key.clone(), left);
        }
        dropped.iter().for_each(|place| self.uncount(&place.node, &place.resources));
        dropped
    }

    /// The PodGroups for which places on the node are kept.
    pub(in crate::cycle) fn kept_on(&self, node: &str) -> Vec<GroupKey> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        let there = |(_, places): &(&GroupKey, &Vec<KeptPlace>)| places.iter().any(|place| *place.node == *node);
        self.kept.iter().filter(there).map(|(key, _)| key.clone()).collect()
    }

    /// Begins the time of new places, and returns the PodGroups with places of which the time is over. Without a timeout they are kept until the gang has its minimum.
    pub(in crate::cycle) fn kept_too_long(&mut self, now: Duration, timeout: Duration) -> Vec<GroupKey> {
        let until = if timeout.is_zero() { Duration::MAX } else { now.saturating_add(timeout) };
        self.kept.values_mut().flatten().for_each(|place| _ = place.until.get_or_insert(until));
        let is_over = |(_, places): &(&GroupKey, &Vec<KeptPlace>)| places.iter().any(|place| place.is_over(now));
        self.kept.iter().filter(is_over).map(|(key, _)| key.clone()).collect()
    }

    /// When the time of the first kept place is over; zero if the time of one has not begun.
    pub(super) fn next_kept(&self) -> Option<Duration> {
        self.kept.values().flatten().map(|place| place.until.unwrap_or_default()).min().filter(|at| *at < Duration::MAX)
    }
}

impl KeptPlace {
    /// Whether its time is over.
    pub(in crate::cycle) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}
