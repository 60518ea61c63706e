//! Keeps a standby replica ready, where no cycle runs, and bounds its memory.
//!
//! It keeps the places of lost members as the leader does, from the same events: at a takeover they are known, and the members are not
//! there to be read any more.
//!
//! Work for a cycle is collected, so that the first cycle after a takeover does all of it. A standby lives for months, and every pod and
//! every generated PodGroup has a name of its own. So the collected work keeps only objects that still exist.

use std::time::Duration;

use super::SchedulingState;

/// The collected work is cleaned only beyond this size, so that each cleaning is paid for by new events.
const COLLECTED: usize = 1024;

impl SchedulingState {
    /// Ends what has had its time, and keeps the collected work small, while another replica is the leader and no cycle runs here. `now` is
    /// of the monotonic clock; `timeout` is the admission timeout.
    pub fn stand_by(&mut self, now: Duration, timeout: Duration) {
        self.end_kept_places_in_standby(now, timeout);
        let groups = self.cache.groups();
        let most = groups.len().saturating_mul(2).saturating_add(COLLECTED);
        self.requeue.stand_by(most, |key| groups.contains_key(key));
        self.cache.forget_unused_places();
        self.cache.bound_dirty(|collected, there| collected > there.saturating_mul(2).saturating_add(COLLECTED));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::api::names::DEFAULT_SCHEDULER;
    use crate::api::pod_facts::PodPhase;
    use crate::api::podgroup::PodGroupStatus;
    use crate::api::queue::DequeueStrategy;
    use crate::api::{GroupFacts, GroupKey, PodFacts, QueueFacts};
    use crate::cycle::testing::{group, pod, queue, running};

    use super::super::SchedulingState;
    use super::COLLECTED;

    /// A replica that has just started, or stands by, has seen no cycle admit the PodGroups.
    #[test]
    fn k9_a_podgroup_with_all_its_nodes_waits_for_nothing_though_no_cycle_ran_yet() {
        let mut state = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
        let runs = |name: &str, group: &str| running(pod("ns", name, group, &[("cpu", 1)]), "n");
        state.apply_group(group("ns", "runs", 2, "default"));
        ["runs-0", "runs-1"].into_iter().for_each(|name| state.apply_pod(runs(name, "runs")));
        state.apply_group(group("ns", "succeeded", 1, "default"));
        state.apply_pod(PodFacts { phase: PodPhase::Succeeded, ..runs("succeeded-0", "succeeded") });
        let over = PodGroupStatus { phase: Some("Completed".to_owned()), ..PodGroupStatus::default() };
        state.apply_group(GroupFacts { status: over, ..group("ns", "over", 1, "default") });
        assert_eq!(state.backlog().iter().collect::<Vec<_>>(), Vec::<&GroupKey>::new());

        state.apply_group(group("ns", "lost", 2, "default"));
        state.apply_pod(runs("lost-0", "lost"));
        state.apply_group(group("ns", "new", 1, "default"));
        assert_eq!(state.backlog().iter().map(|key| &*key.name).collect::<Vec<_>>(), ["lost", "new"]);
    }

    #[test]
    fn a_standby_forgets_deleted_objects_and_the_first_cycle_tries_the_others() {
        let mut state = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
        state.apply_group(group("ns", "stays", 1, "default"));
        state.apply_pod(pod("ns", "stays", "stays", &[("cpu", 1)]));
        for number in 0..i64::try_from(COLLECTED * 4).unwrap() {
            let name = format!("pod-{number}");
            // A queue and a class of its own each.
            let facts = pod("ns", &name, &name, &[("cpu", number + 2)]);
            let uid = facts.uid.clone();
            state.apply_queue(QueueFacts { dequeue_strategy: DequeueStrategy::Fifo, ..queue(&name, None, &[]) });
            state.apply_group(group("ns", &name, 1, &name));
            state.apply_pod(facts);
            state.apply_pod(running(state.cache().pods()[&uid].facts.as_ref().clone(), &name));
            state.delete_pod(&uid);
            state.delete_group(&GroupKey::new("ns", &name));
            state.delete_queue(&name);
            state.stand_by(Duration::ZERO, Duration::from_secs(30));
        }
        let limit = COLLECTED + 10;
        let names = state.requeue.names();
        assert!(names <= limit, "{names} names of nodes and queues");
        assert!(!state.cache.tidy_classes(), "unused classes are left");
        let dirty = state.take_dirty();
        assert!(dirty.pods.len() <= limit && dirty.queues.len() <= limit, "{} pods, {} queues", dirty.pods.len(), dirty.queues.len());
        let candidates = state.take_candidates(Duration::ZERO);
        assert!(candidates.len() <= limit, "{} groups", candidates.len());
        assert!(candidates.iter().any(|key| &*key.name == "stays"), "an existing PodGroup is tried");
    }
}
