//! Foreign pods and foreign PodGroups, which belong to other schedulers.
//!
//! Another scheduler in the cluster may have PodGroups for its pods. Such a PodGroup is ignored: it is not admitted, reserves nothing, counts in
//! no queue, and its status is not written.
//!
//! A PodGroup is foreign while a foreign pod names it and none of our pods does. A PodGroup without pods is admitted, because the creator
//! of its pods may wait for that.
//!
//! Only foreign pods that name their PodGroup themselves are remembered: in a large cluster most foreign pods have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{GroupKey, PodFacts, Uid};
use crate::by_key::ByKey;
use crate::cycle::placement::nominated_by_others::Nominated;
use crate::cycle::placement::topology::place::Place;

use super::counter::Counter;
use super::{Cache, Change};

/// The foreign pods that are charged to a node or name a PodGroup.
#[derive(Debug, Default)]
pub(super) struct ForeignPods {
    /// Nominated nodes included.
    on_nodes: BTreeSet<Uid>,
    /// Those that name a PodGroup.
    pods: ByKey<Uid, GroupKey>,
    /// The number of foreign pods of each PodGroup.
    groups: Counter<GroupKey>,
}

impl ForeignPods {
    /// Their UIDs; some come twice.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.on_nodes.iter().chain(self.pods.keys())
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

impl Cache {
    /// Whether the PodGroup is foreign.
    #[must_use]
    pub fn is_foreign(&self, key: &GroupKey) -> bool {
        self.foreign.groups.has(key) && self.groups.get(key).is_none_or(|group| group.members.is_empty())
    }

    /// Notes which PodGroup a foreign pod names.
    pub(super) fn foreign_pod_applied(&mut self, facts: &PodFacts) {
        self.foreign_pod_names(&facts.uid, facts.names_group.then_some(&facts.group));
    }

    /// Forgets a pod that is gone.
    pub(super) fn foreign_pod_gone(&mut self, uid: &Uid) {
        self.foreign_pod_names(uid, None);
        self.nominated_by_others.remove(uid);
        self.foreign.on_nodes.remove(uid);
    }

    fn foreign_pod_names(&mut self, uid: &Uid, group: Option<&GroupKey>) {
        let was_foreign = group.map(|key| self.is_foreign(key));
        let before = self.foreign.put(uid, group);
        // Most events of a pod do not change whether its PodGroup is foreign.
        if let Some(key) = group.filter(|key| was_foreign != Some(self.is_foreign(key))) {
            self.changed(Change::Group(key.clone()));
        }
        if let Some(key) = before.filter(|key| !self.is_foreign(key)) {
            self.changed(Change::Group(key));
        }
    }

    /// Charges a foreign pod to its node, or takes that back.
    pub(super) fn charge_foreign(&mut self, facts: &PodFacts) {
        self.nominate_foreign(facts);
        let node = facts.node.as_ref().filter(|_| !facts.phase.ended());
        match node {
            Some(node) => self.count_on(facts, Some(Place::on(node))),
            None if self.nominated_by_others.get(&facts.uid).is_some() => {
                self.count_on(facts, facts.nominated_node.as_deref().map(Place::nominated))
            }
            None => self.count_no_more(&facts.uid),
        }
        if node.is_some() && facts.deleting {
            if self.leaving.insert(facts.uid.clone(), facts.grace).is_none() {
                self.termination_began();
            }
        } else {
            self.leaving.remove(&facts.uid);
        }
        if let Some(node) = node {
            let before = self.accounting.pod(&facts.uid).map(|pod| (pod.node.map(Arc::<str>::from), pod.resources.clone()));
            if before.as_ref().is_some_and(|(at, asked)| at.as_deref() == Some(&**node) && *asked == facts.request) {
                return;
            }
            let total = self.accounting.ledger().total().clone();
            self.accounting.charge_observed(&facts.uid, Some(node), None, &facts.request);
            // A smaller total makes shares and floors smaller, so that more pods may be preempted, or less is kept for guarantees.
            if !self.accounting.ledger().total().covers(&total) {
                self.changed(Change::Victims);
            }
            let (old_node, freed) = before.map_or((None, false), |(node, _)| (node, true));
            self.charge_changed(old_node.as_deref(), None, freed);
            self.charge_changed(Some(node), None, false);
            self.foreign.on_nodes.insert(facts.uid.clone());
        } else if self.nominated_by_others.get(&facts.uid).is_none() {
            self.release(&facts.uid);
            self.foreign.on_nodes.remove(&facts.uid);
        }
    }

    /// Charges a foreign pod to the node that is nominated for it, or takes that back.
    fn nominate_foreign(&mut self, facts: &PodFacts) {
        let waits = facts.node.is_none() && !facts.phase.ended() && !facts.deleting;
        let nominated = facts.nominated_node.clone().filter(|_| waits);
        let nominated = nominated.map(|node| Nominated { node, priority: facts.priority, request: facts.request.clone() });
        if self.nominated_by_others.get(&facts.uid) == nominated.as_ref() {
            return;
        }
        if self.nominated_by_others.remove(&facts.uid).is_some() {
            self.release(&facts.uid);
        }
        if let Some(nominated) = nominated {
            // No pod uses it yet, so it is in no queue and lessens no total.
            self.accounting.keep(&facts.uid, &nominated.node, &nominated.request);
            self.charge_changed(Some(&nominated.node), None, false);
            self.foreign.on_nodes.insert(facts.uid.clone());
            self.nominated_by_others.insert(&facts.uid, nominated);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::api::GroupFacts;
    use crate::cycle::cache::Phase;
    use crate::cycle::state::SchedulingState;
    use crate::cycle::testing::steps::{cycle, empty_state, gang};
    use crate::cycle::testing::{POLICY, amounts, group, node, pod, running};

    fn of_volcano(facts: PodFacts) -> PodFacts {
        PodFacts { scheduler: Arc::from("volcano"), ..facts }
    }

    fn counted(state: &SchedulingState) -> i32 {
        [Phase::Pending, Phase::Inqueue, Phase::Running].map(|phase| state.cache().in_phase("default", phase)).iter().sum()
    }

    /// Runs a cycle and counts the PodGroups that it tried, as the owner of the state does.
    fn tried(state: &mut SchedulingState) -> Vec<GroupKey> {
        let plan = crate::cycle::run(state, &POLICY, Duration::ZERO);
        for key in &plan.tried {
            state.file(key, Some(Phase::Pending));
        }
        plan.tried
    }

    #[test]
    fn a_podgroup_is_ignored_while_all_its_pods_are_foreign() {
        let mut state = empty_state();
        state.apply_node(node("n", &[("cpu", 4)]));
        let facts = GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") };
        state.apply_group(facts);
        let key = GroupKey::new("ns", "theirs");
        assert_eq!(tried(&mut state), std::slice::from_ref(&key));
        assert_eq!(counted(&state), 1);
        // It had no pods and a reservation; then its pods come, and they are foreign.
        assert!(!state.cache().accounting().quota().queue("default").reserved.is_zero());
        state.apply_pod(of_volcano(running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n")));
        assert!(tried(&mut state).is_empty() && state.cache().is_foreign(&key));
        assert_eq!((counted(&state), state.backlog().len(), state.cache.sharing.demands.len()), (0, 0, 0));
        assert!(state.cache().accounting().quota().queue("default").reserved.is_zero());
        // Later changes of its pods or of itself change nothing.
        state.apply_pod(of_volcano(PodFacts { deleting: true, ..running(pod("ns", "p", "theirs", &[("cpu", 3)]), "n") }));
        state.apply_group(group("ns", "theirs", 2, "default"));
        assert!(tried(&mut state).is_empty());
        // One of ours joins.
        state.apply_pod(pod("ns", "ours", "theirs", &[("cpu", 1)]));
        assert_eq!(tried(&mut state), std::slice::from_ref(&key));
        state.delete_pod(&"ns/ours".into());
        assert!(tried(&mut state).is_empty());
        // A foreign pod without a node is remembered, too, so that a list without it removes it.
        state.apply_pod(of_volcano(pod("ns", "q", "theirs", &[("cpu", 3)])));
        for uid in state.cache().pod_uids().cloned().collect::<Vec<_>>() {
            state.delete_pod(&uid);
        }
        assert_eq!(tried(&mut state), [key]);
        assert_eq!((counted(&state), state.cache.foreign.pods.len(), state.cache.foreign.groups.lowest()), (1, 0, None));
    }

    #[test]
    fn a_podgroup_that_is_foreign_before_the_first_cycle_has_no_demand() {
        let mut state = empty_state();
        state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        state.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert!(tried(&mut state).is_empty());
        assert!(state.cache.sharing.demands.is_empty(), "{:?}", state.cache.sharing.demands);
    }

    #[test]
    fn k9_a_podgroup_that_becomes_foreign_leaves_the_backlog_though_no_cycle_runs() {
        let mut state = empty_state();
        state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "theirs", 1, "default") });
        assert_eq!(state.backlog().len(), 1, "it has no pods yet");
        state.apply_pod(of_volcano(pod("ns", "p", "theirs", &[("cpu", 3)])));
        assert_eq!((state.backlog().len(), state.cache.sharing.demands.len()), (0, 0));
    }

    #[test]
    fn foreign_pods_without_a_podgroup_are_not_remembered_and_ours_are_placed_beside_them() {
        let mut state = empty_state();
        state.apply_node(node("n", &[("cpu", 4)]));
        state.apply_pod(of_volcano(PodFacts { names_group: false, ..running(pod("ns", "p", "x", &[("cpu", 3)]), "n") }));
        assert!(state.cache.foreign.pods.is_empty());
        gang(&mut state, "g", 1, "default", 1, &[("cpu", 1)]);
        assert_eq!(cycle(&mut state).binds.len(), 1);
    }
}
