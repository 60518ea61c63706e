//! Where PodGroups are admitted by what the nodes offer: which wait, and until when (A2)?

use super::{cpus, reserved};
use crate::api::{GroupFacts, PodFacts};
use crate::cycle::cache::Phase;
use crate::cycle::policy::Policy;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, message, phase};
use crate::cycle::testing::{POLICY, amounts, group, node, pod, running};
use crate::cycle::*;

fn by_nodes(state: &mut SchedulingState, seconds: u64) -> Plan {
    run(state, &Policy { admit_within_nodes: true, ..POLICY }, Duration::from_secs(seconds))
}

/// A group whose minimum is its leader, and whose minResources are those of four pods of 1 cpu. Only the leader is there.
fn leader(state: &mut SchedulingState) {
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 1, "default") });
    state.apply_pod(pod("ns", "leader", "g", &[("cpu", 1)]));
}

#[test]
fn a2_a_leader_waits_until_the_nodes_have_room_for_its_workers() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 3)]));
    leader(&mut state);
    assert!(by_nodes(&mut state, 0).binds.is_empty());
    assert_eq!((phase(&state, "g"), reserved(&state, "root")), (Phase::Pending, cpus(0)));
    assert_eq!(message(&state, "g"), "queue \"root\": the cluster is full: cpu requested 4, used 0, available to queues in the cluster 3");
    state.apply_node(node("n2", &[("cpu", 1)]));
    assert_eq!(by_nodes(&mut state, 1).binds.len(), 1);
    // By the quota alone it starts at once.
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 3)]));
    leader(&mut state);
    assert_eq!(run(&mut state, &POLICY, Duration::ZERO).binds.len(), 1);
}

#[test]
fn a2_what_others_use_and_have_reserved_is_not_there() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 6)]));
    // Admitted, and without pods.
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "first", 1, "default") });
    assert!(by_nodes(&mut state, 0).binds.is_empty());
    assert_eq!((phase(&state, "first"), reserved(&state, "root")), (Phase::Inqueue, cpus(2)));
    state.apply_pod(PodFacts { scheduler: "other".into(), ..running(pod("ns", "foreign", "f", &[("cpu", 1)]), "n1") });
    leader(&mut state);
    assert!(by_nodes(&mut state, 1).binds.is_empty());
    assert_eq!(phase(&state, "g"), Phase::Pending);
    state.delete_pod(&"ns/foreign".into());
    assert_eq!(bound(&by_nodes(&mut state, 2)), [("leader", "n1")]);
}

#[test]
fn a2_pods_are_preempted_for_a_podgroup_that_the_nodes_have_no_room_for() {
    let mut state = empty_state();
    state.apply_priority_class(crate::cycle::testing::class("high", 10));
    state.apply_node(node("n1", &[("cpu", 4)]));
    state.apply_group(group("ns", "low", 1, "default"));
    for name in ["l-0", "l-1", "l-2", "l-3"] {
        state.apply_pod(PodFacts { charged_queue: Some("default".into()), ..running(pod("ns", name, "low", &[("cpu", 1)]), "n1") });
    }
    assert!(by_nodes(&mut state, 0).binds.is_empty());
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "urgent", 2, "default") });
    for name in ["u-0", "u-1"] {
        state.apply_pod(PodFacts { priority: 10, ..pod("ns", name, "urgent", &[("cpu", 1)]) });
    }
    let plan = by_nodes(&mut state, 1);
    assert_eq!(plan.evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>(), 2);
}
