//! Which pods had an eviction refused a short time ago? Other victims are preferred.
//!
//! When the API server refuses an eviction (a budget, a webhook, a missing permission), it will probably refuse it again, and a search
//! would choose the same pod each time. So the pod backs off: it is no candidate for some time, twice as long each time. Where its
//! namespace is being deleted, all pods of the namespace back off. The entry is deleted with the pod, so there are never more entries than pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::Uid;
use crate::backoff::Backoff;

/// How long such a pod is no candidate for a preemption.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(300));

/// The back-off of the pods with a refused eviction.
#[derive(Debug, Default)]
pub(super) struct EvictionBackoff {
    /// The number of refusals in a row, and the end of the back-off.
    pods: BTreeMap<Uid, (u32, Duration)>,
    /// The pods that back off now, by the end of the back-off.
    ends: BTreeSet<(Duration, Uid)>,
}

impl EvictionBackoff {
    /// Whether the pod backs off at this moment, and so is not chosen as a victim.
    pub(in crate::cycle) fn is_active(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|(_, until)| self.ends.contains(&(*until, uid.clone())))
    }

    /// Records that the API server refused to evict the pod.
    pub(in crate::cycle) fn refused(&mut self, uid: &Uid, now: Duration) {
        let times = self.pods.get(uid).map_or(0, |(times, _)| *times).saturating_add(1);
        self.forget(uid);
        let until = now.saturating_add(BACKOFF.delay(times));
        self.pods.insert(uid.clone(), (times, until));
        self.ends.insert((until, uid.clone()));
    }

    /// The pod is gone, or may be evicted otherwise than before.
    pub(in crate::cycle) fn forget(&mut self, uid: &Uid) {
        if let Some((_, until)) = self.pods.remove(uid) {
            self.ends.remove(&(until, uid.clone()));
        }
    }

    /// When the next back-off ends.
    pub(super) fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Ends the back-offs that are over by now. Returns whether there was one.
    pub(in crate::cycle) fn end_due(&mut self, now: Duration) -> bool {
        let ended: Vec<_> = self.ends.iter().take_while(|(at, _)| *at <= now).cloned().collect();
        ended.iter().for_each(|end| _ = self.ends.remove(end));
        !ended.is_empty()
    }

    /// A budget changed, so earlier refusals mean nothing.
    pub(super) fn clear(&mut self) {
        self.pods.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{BudgetFacts, BudgetKey};
    use crate::cycle::testing::steps::empty_state;
    use crate::cycle::testing::{pod, running};

    #[test]
    fn each_refusal_doubles_the_back_off_and_a_deleted_pod_or_a_changed_budget_ends_it() {
        let (mut state, uid) = (empty_state(), Uid::from("ns/p"));
        state.back_off_eviction(&uid, Duration::ZERO);
        assert!(!state.eviction_backoff.is_active(&uid) && state.eviction_backoff.pods.is_empty(), "the pod is unknown");
        state.apply_pod(running(pod("ns", "p", "g", &[]), "n"));
        let mut now = Duration::ZERO;
        for seconds in [5, 10, 20, 40] {
            state.back_off_eviction(&uid, now);
            assert!(state.eviction_backoff.is_active(&uid));
            now += Duration::from_secs(seconds);
            assert_eq!(state.eviction_backoff.next(), Some(now));
            assert!(!state.eviction_backoff.end_due(now.saturating_sub(Duration::from_millis(1))) && state.eviction_backoff.end_due(now));
            assert!(!state.eviction_backoff.is_active(&uid));
        }
        let budget = |allowed| BudgetFacts {
            key: BudgetKey::new("ns", "b"),
            selector: crate::api::label_selector::LabelSelector::Nothing,
            allowed,
            frees_unready: false,
        };
        state.back_off_eviction(&uid, now);
        state.apply_budget(budget(0));
        assert!(state.eviction_backoff.is_active(&uid));
        state.apply_budget(budget(1));
        assert!(!state.eviction_backoff.is_active(&uid) && state.eviction_backoff.pods.is_empty());
        state.back_off_eviction(&uid, now);
        state.delete_pod(&uid);
        assert!(state.eviction_backoff.pods.is_empty() && state.eviction_backoff.ends.is_empty());
    }

    #[test]
    fn all_pods_of_a_namespace_that_is_being_deleted_back_off() {
        let mut state = empty_state();
        for (namespace, name) in [("ns", "a"), ("ns", "b"), ("other", "c")] {
            state.apply_pod(running(pod(namespace, name, "g", &[]), "n"));
        }
        state.back_off_evictions_beside(&Uid::from("ns/unknown"), Duration::ZERO);
        assert!(state.eviction_backoff.pods.is_empty());
        state.back_off_evictions_beside(&Uid::from("ns/a"), Duration::ZERO);
        let active = ["ns/a", "ns/b", "other/c"].map(|uid| state.eviction_backoff.is_active(&Uid::from(uid)));
        assert_eq!(active, [true, true, false]);
    }
}
