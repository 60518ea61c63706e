//! The places of members that a gang has lost: they stay charged on their nodes for it (A8).
//!
//! A kept place is a nomination for a pod that does not exist yet. It is charged on its node in the same way, and is in the same index of
//! the nodes. Its amount in the queue is the reservation of the PodGroup, which is not in the PodGroup's own way either.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{GroupKey, Uid};
use crate::cycle::cache::LostMember;
use crate::resources::Resources;

use super::Nominations;

/// The place of a lost member.
#[derive(Clone, Debug)]
pub(in crate::cycle) struct KeptPlace {
    /// The name of the charge: no pod has this UID.
    pub(in crate::cycle) uid: Uid,
    /// The member, with its node and what it requested.
    pub(in crate::cycle) lost: LostMember,
    /// Until when it is kept (monotonic); none before the next cycle.
    until: Option<Duration>,
}

impl Nominations {
    /// Adds the place of a lost pod, until then. Returns it, or none if it is kept already.
    pub(in crate::cycle) fn keep(&mut self, lost: &LostMember, until: Option<Duration>) -> Option<KeptPlace> {
        let (key, node) = (&lost.facts.group, &lost.node);
        let uid = Uid::from(format!("{} (kept)", lost.facts.uid.as_str()).as_str());
        let places = self.kept.entry(key.clone()).or_default();
        if places.iter().any(|place| place.uid == uid) {
            return None;
        }
        let place = KeptPlace { uid, lost: lost.clone(), until };
        places.push(place.clone());
        self.kept_on.entry(Arc::clone(node)).or_default().insert(key.clone());
        self.nodes.entry(Arc::clone(node)).or_default().add(place.resources());
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
        for place in dropped.iter().filter(|place| left.iter().all(|left| left.node() != place.node())) {
            self.kept_no_longer_on(place.node(), key);
        }
        if !left.is_empty() {
            self.kept.insert(key.clone(), left);
        }
        dropped.iter().for_each(|place| self.uncount(place.node(), place.resources()));
        dropped
    }

    /// The PodGroups for which places on the node are kept.
    pub(in crate::cycle) fn kept_on(&self, node: &str) -> impl Iterator<Item = &GroupKey> {
        self.kept_on.get(node).into_iter().flatten()
    }

    fn kept_no_longer_on(&mut self, node: &str, key: &GroupKey) {
        let Some(groups) = self.kept_on.get_mut(node) else { return };
        groups.remove(key);
        if groups.is_empty() {
            self.kept_on.remove(node);
        }
    }

    /// Begins the time of new places, and returns the PodGroups with places of which the time is over. Without a timeout they are kept
    /// until the gang has its minimum.
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
    pub(in crate::cycle) const fn node(&self) -> &Arc<str> {
        &self.lost.node
    }

    /// What the member requested.
    pub(in crate::cycle) fn resources(&self) -> &Resources {
        &self.lost.facts.request
    }

    /// Until when it is kept (monotonic); none before the next cycle.
    pub(in crate::cycle) const fn until(&self) -> Option<Duration> {
        self.until
    }

    /// Whether its time is over.
    pub(in crate::cycle) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::pod;

    #[test]
    fn a_node_names_the_podgroups_for_which_places_there_are_kept_until_the_last_one_is_dropped() {
        let mut nominations = Nominations::default();
        let [a, b] = ["a", "b"].map(|name| GroupKey::new("ns", name));
        let [one, other]: [Arc<str>; 2] = ["one".into(), "other".into()];
        for (group, name, node) in [("a", "a-0", &one), ("a", "a-1", &one), ("a", "a-2", &other), ("b", "b-0", &one)] {
            let facts = Arc::new(pod("ns", name, group, &[("cpu", 1)]));
            assert!(nominations.keep(&LostMember { facts, node: Arc::clone(node), queue: "q".into() }, None).is_some());
        }
        let on = |nominations: &Nominations, node: &str| nominations.kept_on(node).cloned().collect::<Vec<_>>();
        assert_eq!((on(&nominations, "one"), on(&nominations, "other")), (vec![a.clone(), b.clone()], vec![a.clone()]));
        let drop = |nominations: &mut Nominations, key: &GroupKey, lost: &str| {
            nominations.drop_kept(key, |place| place.lost.facts.name.starts_with(lost)).len()
        };
        assert_eq!((drop(&mut nominations, &a, "a-0"), drop(&mut nominations, &a, "a-2")), (1, 1));
        assert_eq!((on(&nominations, "one"), on(&nominations, "other")), (vec![a.clone(), b.clone()], vec![]));
        assert_eq!((drop(&mut nominations, &a, "a"), drop(&mut nominations, &b, "b")), (1, 1));
        assert!(nominations.kept_on.is_empty() && nominations.nodes.is_empty());
    }
}
