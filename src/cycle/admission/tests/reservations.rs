//! What does an admitted PodGroup reserve, and which PodGroups does its queue then refuse?

use super::{at, cpus, reserved, team};
use crate::api::{GroupFacts, QueueFacts, Uid};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, gang, message, phase};
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};
use crate::cycle::*;

#[test]
fn a2_a_podgroup_without_nodes_reserves_its_minimum_in_its_queue_and_all_above() {
    let mut state = team();
    gang(&mut state, "big", 1, "a", 1, &[("cpu", 6)]);
    gang(&mut state, "small", 3, "b", 3, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(["a", "b", "team", "root"].map(|queue| reserved(&state, queue)), [6, 0, 6, 6].map(cpus));
    assert_eq!((phase(&state, "big"), phase(&state, "small")), (Phase::Inqueue, Phase::Pending));
    assert_eq!(
        message(&state, "small"),
        "queue \"team\" is over its quota: cpu requested 3, used 0, reserved 6, capability 8; reserved by PodGroup ns/big (6)"
    );
    gang(&mut state, "smaller", 2, "b", 2, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 2, "beside what is reserved there is room for two");
}

#[test]
fn a2_a_podgroup_of_the_controller_reserves_nothing_before_its_pods_are_there() {
    let mut state = team();
    let key = GroupKey::new("ns", "ours");
    // The label says who manages it. A PyTorchJob may have the name that a JobSet gets from the controller.
    let by_hand = "jobset-train-0";
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), managed: true, ..group("ns", &key.name, 2, "a") });
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", by_hand, 2, "b") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!((reserved(&state, "a"), phase(&state, &key.name)), (cpus(0), Phase::Pending));
    assert_eq!(
        (reserved(&state, "b"), phase(&state, by_hand)),
        (cpus(8), Phase::Inqueue),
        "whoever makes its pods may wait for the admission"
    );
    state.delete_group(&GroupKey::new("ns", by_hand));
    state.apply_pod(pod("ns", "p-0", &key.name, &[("cpu", 4)]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!((reserved(&state, "a"), phase(&state, &key.name)), (cpus(0), Phase::Pending), "the other member comes by itself");
    gang(&mut state, "rival", 1, "b", 1, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 2)).len(), 1);
    state.apply_pod(pod("ns", "p-1", &key.name, &[("cpu", 4)]));
    let _plan = at(&mut state, 3);
    assert_eq!((reserved(&state, "a"), phase(&state, &key.name)), (cpus(0), Phase::Pending), "the rival has its room");
    state.delete_pod(&Uid::from("ns/rival-0"));
    assert_eq!(bound(&at(&mut state, 4)).len(), 2);
}

#[test]
fn a4_a_gang_is_placed_into_its_own_reservation_and_nothing_counts_twice() {
    let mut state = team();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 2, "a") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!((reserved(&state, "team"), phase(&state, "g")), (cpus(8), Phase::Inqueue));
    for index in 0..2 {
        state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 3)]));
    }
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 2)]);
    assert_eq!((bound(&at(&mut state, 1)).len(), reserved(&state, "team")), (2, cpus(2)));
    let plans = [at(&mut state, 31), at(&mut state, 31)];
    assert_eq!(plans.iter().flat_map(bound).count(), 1, "what it asked for beyond its members is free after the time of an admission");
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn a4_an_earlier_refused_podgroup_gets_what_a_placed_gang_did_not_use() {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 10)]));
    state.apply_queue(QueueFacts { priority: 1, ..queue("first", Some("team"), &[]) });
    state.apply_queue(queue("then", Some("team"), &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 1, "then") });
    state.apply_pod(pod("ns", "g-0", "g", &[("cpu", 4)]));
    gang(&mut state, "s", 1, "first", 1, &[("cpu", 4)]);
    state.delete_group(&GroupKey::new("ns", "s"));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    state.apply_group(group("ns", "s", 1, "first"));
    state.apply_node(node("n", &[("cpu", 10)]));
    assert_eq!(bound(&at(&mut state, 1)), [("g-0", "n")]);
    assert!(at(&mut state, 30).binds.is_empty());
    assert!(at(&mut state, 31).binds.is_empty(), "what it states beyond its members is free from now on");
    assert_eq!(bound(&at(&mut state, 31)), [("s-0", "n")]);
}

#[test]
fn a4_another_scheduler_binds_a_member_and_the_reservation_shrinks_by_it() {
    let mut state = team();
    gang(&mut state, "g", 2, "a", 2, &[("cpu", 4)]);
    state.delete_node("n2");
    state.delete_node("n3");
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    state.apply_pod(running(pod("ns", "g-0", "g", &[("cpu", 4)]), "n1"));
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 1_000).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(4), "a gang of which a part runs keeps what it needs to be finished");
    state.apply_node(node("n2", &[("cpu", 4)]));
    assert_eq!(bound(&at(&mut state, 1_001)), [("g-1", "n2")]);
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn a4_a_running_pod_becomes_a_member_and_what_is_reserved_no_more_is_used() {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 8)]));
    state.apply_node(node("n", &[("cpu", 10)]));
    let charged_queue = Some("elsewhere".to_owned());
    let loner = crate::api::PodFacts { charged_queue, ..running(pod("ns", "p", "alone", &[("cpu", 4)]), "n") };
    state.apply_queue(queue("elsewhere", None, &[]));
    state.apply_group(group("ns", "alone", 1, "elsewhere"));
    state.apply_pod(loner.clone());
    gang(&mut state, "g", 2, "team", 2, &[("cpu", 4)]);
    for index in 0..2 {
        let mut picky = pod("ns", &format!("g-{index}"), "g", &[("cpu", 4)]);
        picky.constraints.node_selector.insert("zone".into(), "none".into());
        state.apply_pod(picky);
    }
    gang(&mut state, "late", 1, "team", 1, &[("cpu", 4)]);
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!((reserved(&state, "team"), phase(&state, "late")), (cpus(8), Phase::Pending));
    state.apply_pod(crate::api::PodFacts { group: GroupKey::new("ns", "g"), ..loner });
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert_eq!(bound(&at(&mut state, 1)), [("late-0", "n")]);
}

#[test]
fn a4_the_charge_of_a_refused_bind_stays_reserved_for_its_gang() {
    let mut state = team();
    gang(&mut state, "g", 2, "a", 2, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    gang(&mut state, "late", 1, "b", 1, &[("cpu", 1)]);
    state.confirm(&Uid::from("ns/g-0"));
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    assert_eq!(reserved(&state, "team"), cpus(4));
    assert!(at(&mut state, 1).binds.is_empty(), "no PodGroup takes what the gang is about to use");
    assert!(message(&state, "late").contains("queue \"team\" is over its quota"));
    assert_eq!(bound(&at(&mut state, 9)).len(), 1);
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn q6_beside_a_borrower_a_queue_within_its_share_is_admitted_and_no_queue_borrows_more() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    state.apply_queue(queue("team", None, &[("cpu", 10)]));
    for name in ["a", "b"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, Some("team"), &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 11, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 10);
    gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
    gang(&mut state, "greedy", 6, "b", 6, &[("cpu", 1)]);
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!((phase(&state, "owed"), reserved(&state, "b")), (Phase::Inqueue, cpus(5)));
    assert_eq!(phase(&state, "greedy"), Phase::Pending, "more than its share is not owed to it");
    state.delete_pod(&Uid::from("ns/borrows-0"));
    assert!(at(&mut state, 2).binds.is_empty(), "what the borrower gives back it does not get again");
    for index in 1..5 {
        state.delete_pod(&Uid::from(format!("ns/borrows-{index}").as_str()));
    }
    assert_eq!(bound(&at(&mut state, 3)).len(), 5);
    assert_eq!(phase(&state, "owed"), Phase::Running);
}

#[test]
fn a_gang_that_requests_more_than_all_nodes_offer_says_so() {
    let mut state = empty_state();
    (1..=3).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 8)])));
    gang(&mut state, "huge", 4, "default", 4, &[("cpu", 7)]);
    assert!(at(&mut state, 0).binds.is_empty());
    let says = "3 of 4 members find a place; for huge-3: 0/3 nodes are available: 3 Insufficient cpu; cpu: requested 7, most free 1; the gang requests cpu 28 together, and all nodes offer 24";
    assert_eq!(message(&state, "huge"), says);
    state.apply_node(node("n4", &[("cpu", 8)]));
    assert_eq!(at(&mut state, 1).binds.len(), 4);
}

#[test]
fn a5_what_a_gang_states_beyond_its_members_is_reserved_for_one_admission_timeout_after_it_has_its_nodes() {
    let mut state = team();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 8)])), ..group("ns", "g", 2, "a") });
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state, "team"), cpus(8));
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 2)]);
    for (name, on) in [("g-0", "n1"), ("g-1", "n2")] {
        state.apply_pod(running(pod("ns", name, "g", &[("cpu", 3)]), on));
    }
    assert_eq!(reserved(&state, "team"), cpus(2));
    assert!(at(&mut state, 1).binds.is_empty());
    assert!(at(&mut state, 30).binds.is_empty());
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(31)));
    let plans = [at(&mut state, 31), at(&mut state, 31)];
    assert_eq!(plans.iter().flat_map(bound).count(), 1, "{}", message(&state, "other"));
    assert_eq!(reserved(&state, "team"), cpus(0));
}

#[test]
fn a4_a_refused_bind_of_a_further_member_reserves_nothing() {
    let mut state = team();
    gang(&mut state, "g", 1, "a", 2, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.confirm(&Uid::from("ns/g-0"));
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    assert_eq!(reserved(&state, "team"), cpus(0), "its gang is satisfied");
    gang(&mut state, "other", 1, "b", 1, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 1, "{}", message(&state, "other"));
}

#[test]
fn the_request_of_a_podgroup_and_every_amount_for_which_its_queue_refuses_it_are_listed() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9), ("memory", 9)]));
    state.apply_queue(queue("q", None, &[("cpu", 3), ("memory", 3)]));
    gang(&mut state, "g", 2, "q", 2, &[("cpu", 2), ("memory", 2)]);
    let key = GroupKey::new("ns", "g");
    let short = |state: &SchedulingState| {
        let all = super::admission::admit::shortages(state.cache(), &key, &mut None);
        all.into_iter().filter_map(|short| short.resource).collect::<Vec<_>>()
    };
    assert!(at(&mut state, 0).binds.is_empty());
    let asked = amounts(&[("cpu", 4), ("memory", 4), ("pods", 2)]);
    assert_eq!((super::admission::admit::requested(state.cache(), &key), short(&state)), (asked, vec!["cpu".into(), "memory".into()]));
    state.apply_queue(queue("q", None, &[]));
    state.apply_node(node("n", &[("cpu", 3), ("memory", 9)]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(short(&state), Vec::<String>::new(), "it waits for nodes");
}

/// A queue of 20 cpus that `borrows` of queue `a` fills, and the PodGroup `empty` of queue `b`, which is owed 10 of them and has no pods.
fn empty_within_its_entitlement() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 24)]));
    state.apply_queue(queue("team", Some("root"), &[("cpu", 20)]));
    for (name, deserved) in [("a", 5), ("b", 10), ("c", 5)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, Some("team"), &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 20, &[("cpu", 1)]);
    let binds = at(&mut state, 0).binds;
    binds.iter().for_each(|bind| state.confirm(&bind.uid));
    assert_eq!(binds.len(), 20);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 10)])), ..group("ns", "empty", 3, "b") });
    let _admitted = at(&mut state, 1);
    assert_eq!((phase(&state, "empty"), reserved(&state, "team")), (Phase::Inqueue, cpus(0)));
    assert!(!state.has_work(Duration::from_secs(1)));
    state
}

/// Found by trying: a pod of 1 cpu evicted eleven pods, to have room beside what a PodGroup without pods had reserved.
#[test]
fn a3_without_its_members_a_podgroup_reserves_nothing_within_its_entitlement() {
    let mut state = empty_within_its_entitlement();
    gang(&mut state, "small", 1, "c", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 2);
    let victims: usize = plan.evictions.iter().map(|eviction| eviction.victims.len()).sum();
    assert_eq!(victims, 1, "{}", message(&state, "small"));
    // Once its members exist, room for it is reclaimed.
    gang(&mut state, "empty", 3, "b", 3, &[("cpu", 1)]);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 10)])), ..group("ns", "empty", 3, "b") });
    let plan = at(&mut state, 3);
    assert_eq!(plan.evictions.iter().map(|eviction| &*eviction.group.name).collect::<Vec<_>>(), ["empty"]);
}

#[test]
fn a3_a_podgroup_without_a_reservation_reserves_once_there_is_room_and_backs_off_as_others_do() {
    let mut state = empty_within_its_entitlement();
    for at in 0..10 {
        state.delete_pod(&format!("ns/borrows-{at}").as_str().into());
    }
    let _reserves = at(&mut state, 2);
    assert_eq!((phase(&state, "empty"), reserved(&state, "team")), (Phase::Inqueue, cpus(10)));
    // Its queue is full again, and its time is over: for the time of its back-off it is not admitted within its entitlement either.
    state.apply_queue(queue("team", Some("root"), &[("cpu", 10)]));
    let _times_out = at(&mut state, 33);
    assert_eq!((phase(&state, "empty"), reserved(&state, "team")), (Phase::Pending, cpus(0)));
}

#[test]
fn a3_a_podgroup_without_a_reservation_stays_admitted_until_its_queue_closes() {
    let mut state = empty_within_its_entitlement();
    // Another PodGroup of its queue uses what it is owed.
    gang(&mut state, "other", 10, "b", 10, &[("cpu", 1)]);
    let evictions = at(&mut state, 2).evictions;
    evictions.iter().flat_map(|eviction| &eviction.victims).for_each(|victim| state.delete_pod(&victim.uid));
    assert_eq!(at(&mut state, 3).binds.len(), 10);
    assert_eq!((phase(&state, "empty"), reserved(&state, "team")), (Phase::Inqueue, cpus(0)));
    state.apply_queue(QueueFacts { closed_by_hand: true, deserved: limits(&[("cpu", 10)]), ..queue("b", Some("team"), &[]) });
    let _closed = at(&mut state, 4);
    assert_eq!(phase(&state, "empty"), Phase::Pending);
}

#[test]
fn a3_podgroups_without_a_reservation_are_admitted_only_as_far_as_their_queue_is_owed_all_of_them() {
    let mut state = empty_within_its_entitlement();
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "second", 3, "b") });
    let _refused = at(&mut state, 2);
    assert_eq!((phase(&state, "empty"), phase(&state, "second")), (Phase::Inqueue, Phase::Pending));
    // The pods of the first never come: the time of its admission ends as if it had a reservation.
    let _ends = at(&mut state, 31);
    (0..2).for_each(|_| _ = at(&mut state, 32));
    assert_eq!((phase(&state, "empty"), phase(&state, "second")), (Phase::Pending, Phase::Inqueue));
}

/// What pods have filled of a guarantee is kept free no more, though no queue has more left.
#[test]
fn a3_a_podgroup_without_a_reservation_reserves_once_the_guarantee_of_another_queue_is_filled() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 30)]));
    state.apply_queue(queue("root", None, &[]));
    for (name, deserved, guarantee) in [("a", 8, 0), ("b", 10, 0), ("g", 2, 2)] {
        let limits = |cpu| limits(&[("cpu", cpu)]);
        state.apply_queue(QueueFacts { deserved: limits(deserved), guarantee: limits(guarantee), ..queue(name, None, &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 18, &[("cpu", 1)]);
    assert_eq!(at(&mut state, 0).binds.len(), 18);
    (0..18).for_each(|pod| state.confirm(&format!("ns/borrows-{pod}").as_str().into()));
    state.apply_node(node("n", &[("cpu", 20)]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 10)])), ..group("ns", "empty", 3, "b") });
    let _admitted = at(&mut state, 1);
    assert_eq!((phase(&state, "empty"), reserved(&state, "b")), (Phase::Inqueue, cpus(0)));
    gang(&mut state, "fills", 2, "g", 2, &[("cpu", 1)]);
    assert_eq!(at(&mut state, 2).binds.len(), 2);
    assert!(state.has_work(Duration::from_secs(2)));
    let _reserves = at(&mut state, 2);
    assert_eq!((phase(&state, "empty"), reserved(&state, "b")), (Phase::Inqueue, cpus(10)));
}
