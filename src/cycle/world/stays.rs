//! Whose eviction was refused a moment ago? Others are looked for first.
//!
//! What the API server refuses (a budget that is spent by now, a webhook, a right that is lacking) it will mostly refuse again, and a search would choose the same pod
//! each time. So the pod rests: it counts as one that stays, twice as long each time. It is forgotten with the pod, so there are never more than there are pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::Uid;
use crate::backoff::Backoff;

use super::World;

/// How long nobody asks for such a pod.
const REST: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(300));

/// Those who stayed.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Stays {
    /// How often in a row, and until when it rests.
    pods: BTreeMap<Uid, (u32, Duration)>,
    /// Those who rest.
    ends: BTreeSet<(Duration, Uid)>,
}

impl Stays {
    /// Whether nobody asks for the pod at this moment.
    pub(in crate::cycle) fn rests(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|(_, until)| self.ends.contains(&(*until, uid.clone())))
    }

    pub(super) fn forget(&mut self, uid: &Uid) {
        if let Some((_, until)) = self.pods.remove(uid) {
            self.ends.remove(&(until, uid.clone()));
        }
    }

    /// When the next has rested.
    pub(super) fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Whether any has rested by now.
    pub(super) fn wake(&mut self, now: Duration) -> bool {
        let rested: Vec<_> = self.ends.iter().take_while(|(at, _)| *at <= now).cloned().collect();
        rested.iter().for_each(|end| _ = self.ends.remove(end));
        !rested.is_empty()
    }

    /// Something about budgets changed, so nothing is known of anybody.
    pub(super) fn clear(&mut self) {
        self.pods.clear();
        self.ends.clear();
    }
}

impl World {
    /// The pod was to be evicted, and the API server said no.
    pub fn stays(&mut self, uid: &Uid, now: Duration) {
        if !self.pods.contains_key(uid) {
            return;
        }
        let times = self.stays.pods.get(uid).map_or(0, |(times, _)| *times).saturating_add(1);
        self.stays.forget(uid);
        let until = now.saturating_add(REST.delay(times));
        self.stays.pods.insert(uid.clone(), (times, until));
        self.stays.ends.insert((until, uid.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{BudgetFacts, BudgetKey};
    use crate::cycle::testing::{pod, running};
    use crate::cycle::tests::world;

    #[test]
    fn who_stays_rests_twice_as_long_each_time_and_is_forgotten_when_it_goes_or_a_budget_allows_more() {
        let (mut world, uid) = (world(), Uid::from("ns/p"));
        world.stays(&uid, Duration::ZERO);
        assert!(!world.stays.rests(&uid) && world.stays.pods.is_empty(), "nobody knows it");
        world.apply_pod(running(pod("ns", "p", "g", &[]), "n"));
        let mut now = Duration::ZERO;
        for seconds in [5, 10, 20, 40] {
            world.stays(&uid, now);
            assert!(world.stays.rests(&uid));
            now += Duration::from_secs(seconds);
            assert_eq!(world.stays.next(), Some(now));
            assert!(!world.stays.wake(now.saturating_sub(Duration::from_millis(1))) && world.stays.wake(now));
            assert!(!world.stays.rests(&uid));
        }
        let budget = |allowed| BudgetFacts { key: BudgetKey::new("ns", "b"), selector: None, allowed, frees_unready: false };
        world.stays(&uid, now);
        world.apply_budget(budget(0));
        assert!(world.stays.rests(&uid));
        world.apply_budget(budget(1));
        assert!(!world.stays.rests(&uid) && world.stays.pods.is_empty());
        world.stays(&uid, now);
        world.delete_pod(&uid);
        assert!(world.stays.pods.is_empty() && world.stays.ends.is_empty());
    }
}
