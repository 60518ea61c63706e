//! Which groups are another scheduler's?
//!
//! Beside another scheduler there are PodGroups whose pods name that one. Such a group is left alone, whoever made it: it is not admitted, reserves nothing, counts in no queue, and nothing is
//! written about it. A group is another's while a pod of another scheduler names it and none of ours does; one without any pod is nobody's yet, and is admitted, because
//! whoever makes its pods may wait for that.
//!
//! Only pods that name their group themselves are remembered: in a large cluster most pods of others have none.

use crate::api::{GroupKey, PodFacts, Uid};
use crate::by_key::ByKey;

use super::World;
use super::how_many::HowMany;

/// The pods of other schedulers that name a group.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    pods: ByKey<Uid, GroupKey>,
    /// How many there are of each group.
    groups: HowMany<GroupKey>,
}

impl Strangers {
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    /// The group that the pod named before, if it is another now.
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
    /// Whether the group is another scheduler's.
    #[must_use]
    pub fn is_strangers(&self, key: &GroupKey) -> bool {
        self.strangers.groups.has(key) && self.groups.get(key).is_none_or(|group| group.members.is_empty())
    }

    /// Nothing is said or kept of the group, which is another's.
    pub(in crate::cycle) fn leave_alone(&mut self, key: &GroupKey) {
        self.pend(key);
        self.judge_group(key, None);
        self.file(key, None);
        // It may have been taken for nobody's until now.
        self.demand_again(key);
    }

    /// A pod of another scheduler is there.
    pub(super) fn stranger_came(&mut self, facts: &PodFacts) {
        let group = facts.names_group.then_some(&facts.group);
        let before = self.strangers.put(&facts.uid, group);
        let whose: Vec<GroupKey> = before.into_iter().chain(group.cloned()).filter(|key| self.groups.contains_key(key)).collect();
        // Most events of a pod change nothing about that.
        for key in whose {
            let alone = self.groups.get(&key).is_some_and(|group| group.filed.is_none()) && !self.requeue.backlog().has(&key);
            if self.is_strangers(&key) != alone {
                self.look_at(&key);
            }
        }
    }

    /// A pod that may be another scheduler's is gone, or is ours.
    pub(super) fn stranger_left(&mut self, uid: &Uid) {
        if let Some(key) = self.strangers.put(uid, None)
            && self.groups.contains_key(&key)
        {
            self.look_at(&key);
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

    /// What the owner of the state does after a cycle: who was looked at is counted.
    fn looked_at(world: &mut World) -> Vec<GroupKey> {
        let plan = crate::cycle::run(world, &POLICY, Duration::ZERO);
        for key in &plan.looked_at {
            world.file(key, Some(Phase::Pending));
        }
        plan.looked_at
    }

    #[test]
    fn a_group_whose_pods_are_all_anothers_is_left_alone_until_it_is_nobodys_or_ours() {
        let mut world = world();
        world.apply_node(node("n", &[("cpu", 4)]));
        let facts = GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") };
        world.apply_group(facts);
        let key = GroupKey::new("ns", "theirs");
        assert_eq!(looked_at(&mut world), std::slice::from_ref(&key));
        assert_eq!(counted(&world), 1);
        // It was nobody's and is reserved for; then its pods come, and they are another's.
        assert!(!world.books().quota().queue("default").reserved.is_zero());
        world.apply_pod(of_volcano(running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n")));
        assert!(looked_at(&mut world).is_empty() && world.is_strangers(&key));
        assert_eq!((counted(&world), world.backlog().len(), world.demands.len()), (0, 0, 0));
        assert!(world.books().quota().queue("default").reserved.is_zero());
        // Whatever happens to its pods or to it.
        world.apply_pod(of_volcano(PodFacts { deleting: true, ..running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n") }));
        world.apply_group(group("ns", "theirs", 2, "default"));
        assert!(looked_at(&mut world).is_empty());
        // One of ours joins.
        world.apply_pod(pod("ns", "ours", "theirs", &[("cpu", 1)]));
        assert_eq!(looked_at(&mut world), std::slice::from_ref(&key));
        world.delete_pod(&"ns/ours".into());
        assert!(looked_at(&mut world).is_empty());
        // One that has no node is known, too, so that a list without it ends it.
        world.apply_pod(of_volcano(pod("ns", "q", "theirs", &[("cpu", 3)])));
        for uid in world.pod_uids().cloned().collect::<Vec<_>>() {
            world.delete_pod(&uid);
        }
        assert_eq!(looked_at(&mut world), [key]);
        assert_eq!((counted(&world), world.strangers.pods.len(), world.strangers.groups.lowest()), (1, 0, None));
    }

    #[test]
    fn a_group_that_was_another_schedulers_before_anybody_looked_wants_nothing() {
        let mut world = world();
        world.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        world.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert!(looked_at(&mut world).is_empty());
        assert!(world.demands.is_empty(), "{:?}", world.demands);
    }

    #[test]
    fn k9_a_group_that_turns_out_to_be_anothers_waits_for_nothing_though_no_cycle_runs() {
        let mut world = world();
        world.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        assert_eq!(world.backlog().len(), 1, "it is nobody's yet");
        world.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert_eq!((world.backlog().len(), world.demands.len()), (0, 0));
    }

    #[test]
    fn pods_of_others_that_name_no_group_are_not_remembered_and_ours_are_placed_beside_them() {
        let mut world = world();
        world.apply_node(node("n", &[("cpu", 4)]));
        world.apply_pod(of_volcano(PodFacts { names_group: false, ..running(pod("ns", "p", "x", &[("cpu", 3)]), "n") }));
        assert!(world.strangers.pods.is_empty());
        gang(&mut world, "g", 1, "default", 1, &[("cpu", 1)]);
        assert_eq!(cycle(&mut world).binds.len(), 1);
    }
}
