//! Which PodGroups are foreign, because their pods name another scheduler?
//!
//! Beside another scheduler there are PodGroups for its pods. Such a PodGroup is ignored: it is not admitted, reserves nothing, counts in
//! no queue, and its status is not written.
//!
//! A PodGroup is foreign while a foreign pod names it and none of our pods does. A PodGroup without pods is admitted, because the creator
//! of its pods may wait for that.
//!
//! Only foreign pods that name their PodGroup themselves are remembered: in a large cluster most foreign pods have none.

use crate::api::{GroupKey, PodFacts, Uid};
use crate::by_key::ByKey;

use super::World;
use super::counter::Counter;

/// The foreign pods that name a PodGroup.
#[derive(Debug, Default)]
pub(super) struct ForeignPods {
    pods: ByKey<Uid, GroupKey>,
    /// The number of foreign pods of each PodGroup.
    groups: Counter<GroupKey>,
}

impl ForeignPods {
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    /// Sets the PodGroup of a pod. Returns the PodGroup that it named before, if that is another one.
    fn put(&mut self, uid: &Uid, now: Option<&GroupKey>) -> Option<GroupKey> {
        let before = self.pods.get(uid).cloned();
        if before.as_ref() == now {
            return None;
        }
        if let Some(before) = &before {
            self.pods.remove(uid);
            self.groups.leave(before);
        }
        if let Some(now) = now {
            self.pods.insert(uid.clone(), now.clone());
            self.groups.join(now.clone());
        }
        before
    }
}

impl World {
    /// Whether the PodGroup is foreign.
    #[must_use]
    pub fn is_foreign(&self, key: &GroupKey) -> bool {
        self.foreign.groups.has(key) && self.groups.get(key).is_none_or(|group| group.members.is_empty())
    }

    /// Removes all decisions about a foreign PodGroup.
    pub(in crate::cycle) fn ignore_foreign(&mut self, key: &GroupKey) {
        self.revoke_admission(key);
        self.judge_group(key, None);
        self.file(key, None);
        // It may have counted as ours until now.
        self.update_demand(key);
    }

    /// Adds or updates a foreign pod.
    pub(super) fn foreign_pod_applied(&mut self, facts: &PodFacts) {
        let group = facts.names_group.then_some(&facts.group);
        let before = self.foreign.put(&facts.uid, group);
        let affected: Vec<GroupKey> = before.into_iter().chain(group.cloned()).filter(|key| self.groups.contains_key(key)).collect();
        // Most events of a pod do not change whether its PodGroup is foreign.
        for key in affected {
            let ignored = self.groups.get(&key).is_some_and(|group| group.filed.is_none()) && !self.requeue.backlog().has(&key);
            if self.is_foreign(&key) != ignored {
                self.retry_group(&key);
            }
        }
    }

    /// Forgets a pod that is gone or that is ours now.
    pub(super) fn foreign_pod_gone(&mut self, uid: &Uid) {
        if let Some(key) = self.foreign.put(uid, None)
            && self.groups.contains_key(&key)
        {
            self.retry_group(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::api::GroupFacts;
    use crate::cycle::testing::{POLICY, amounts, group, node, pod, running};
    use crate::cycle::tests::{cycle, gang, world};
    use crate::cycle::world::Phase;

    fn of_volcano(facts: PodFacts) -> PodFacts {
        PodFacts { scheduler: Arc::from("volcano"), ..facts }
    }

    fn counted(world: &World) -> i32 {
        [Phase::Pending, Phase::Inqueue, Phase::Running].map(|phase| world.in_phase("default", phase)).iter().sum()
    }

    /// Runs a cycle and counts the PodGroups that it tried, as the owner of the state does.
    fn tried(world: &mut World) -> Vec<GroupKey> {
        let plan = crate::cycle::run(world, &POLICY, Duration::ZERO);
        for key in &plan.tried {
            world.file(key, Some(Phase::Pending));
        }
        plan.tried
    }

    #[test]
    fn a_podgroup_is_ignored_while_all_its_pods_are_foreign() {
        let mut world = world();
        world.apply_node(node("n", &[("cpu", 4)]));
        let facts = GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") };
        world.apply_group(facts);
        let key = GroupKey::new("ns", "theirs");
        assert_eq!(tried(&mut world), std::slice::from_ref(&key));
        assert_eq!(counted(&world), 1);
        // It had no pods and a reservation; then its pods come, and they are foreign.
        assert!(!world.books().quota().queue("default").reserved.is_zero());
        world.apply_pod(of_volcano(running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n")));
        assert!(tried(&mut world).is_empty() && world.is_foreign(&key));
        assert_eq!((counted(&world), world.backlog().len(), world.demands.len()), (0, 0, 0));
        assert!(world.books().quota().queue("default").reserved.is_zero());
        // Later changes of its pods or of itself change nothing.
        world.apply_pod(of_volcano(PodFacts { deleting: true, ..running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n") }));
        world.apply_group(group("ns", "theirs", 2, "default"));
        assert!(tried(&mut world).is_empty());
        // One of ours joins.
        world.apply_pod(pod("ns", "ours", "theirs", &[("cpu", 1)]));
        assert_eq!(tried(&mut world), std::slice::from_ref(&key));
        world.delete_pod(&"ns/ours".into());
        assert!(tried(&mut world).is_empty());
        // A foreign pod without a node is remembered, too, so that a list without it removes it.
        world.apply_pod(of_volcano(pod("ns", "q", "theirs", &[("cpu", 3)])));
        for uid in world.pod_uids().cloned().collect::<Vec<_>>() {
            world.delete_pod(&uid);
        }
        assert_eq!(tried(&mut world), [key]);
        assert_eq!((counted(&world), world.foreign.pods.len(), world.foreign.groups.lowest()), (1, 0, None));
    }

    #[test]
    fn a_podgroup_that_is_foreign_before_the_first_cycle_has_no_demand() {
        let mut world = world();
        world.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        world.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert!(tried(&mut world).is_empty());
        assert!(world.demands.is_empty(), "{:?}", world.demands);
    }

    #[test]
    fn k9_a_podgroup_that_becomes_foreign_leaves_the_backlog_though_no_cycle_runs() {
        let mut world = world();
        world.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        assert_eq!(world.backlog().len(), 1, "it has no pods yet");
        world.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert_eq!((world.backlog().len(), world.demands.len()), (0, 0));
    }

    #[test]
    fn foreign_pods_without_a_podgroup_are_not_remembered_and_ours_are_placed_beside_them() {
        let mut world = world();
        world.apply_node(node("n", &[("cpu", 4)]));
        world.apply_pod(of_volcano(PodFacts { names_group: false, ..running(pod("ns", "p", "x", &[("cpu", 3)]), "n") }));
        assert!(world.foreign.pods.is_empty());
        gang(&mut world, "g", 1, "default", 1, &[("cpu", 1)]);
        assert_eq!(cycle(&mut world).binds.len(), 1);
    }
}
