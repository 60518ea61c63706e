//! Histories in which the differential test showed an error of the cycle, each as a small test.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::pod_facts::PodPhase;
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, GroupKey, PodFacts, QueueFacts, Uid};
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, gang};
use crate::cycle::testing::{POLICY, amounts, class, group, limits, node, pod, queue, running};
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn reserved(state: &SchedulingState) -> Amount {
    state.cache().accounting().quota().queue("q").reserved.get("cpu")
}

fn cpus(count: i64) -> Amount {
    Amount::from_units(count)
}

/// Makes a state with the queue `q` and this number of nodes of 4 cpu.
fn small(nodes: usize, capability: i64, strategy: DequeueStrategy) -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(QueueFacts { dequeue_strategy: strategy, ..queue("q", None, &[("cpu", capability)]) });
    (0..nodes).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    state
}

#[test]
fn a5_what_a_refused_bind_gives_back_is_reserved_also_while_further_members_wait_behind_another_group() {
    let mut state = small(3, 10, DequeueStrategy::Fifo);
    gang(&mut state, "g", 2, "q", 2, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.apply_group(group("ns", "first", 2, "q"));
    for name in ["first-0", "first-1"] {
        state.apply_pod(PodFacts { priority: 9, ..pod("ns", name, "first", &[("cpu", 4)]) });
    }
    state.apply_pod(pod("ns", "g-2", "g", &[("cpu", 3)]));
    assert!(at(&mut state, 1).binds.is_empty());
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::from_secs(1), |_| Duration::from_secs(9));
    assert_eq!(reserved(&state), cpus(3));
}

#[test]
fn a5_a_group_with_its_minimum_stays_admitted_though_a_further_member_waits_behind_another_group() {
    let mut state = small(1, 100, DequeueStrategy::Fifo);
    gang(&mut state, "g", 1, "q", 2, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.apply_group(group("ns", "first", 1, "q"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "first-0", "first", &[("cpu", 3)]) });
    state.apply_pod(pod("ns", "g-2", "g", &[("cpu", 3)]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert!(state.cache().groups()[&GroupKey::new("ns", "g")].is_admitted());
}

#[test]
fn a5_a_gang_with_a_larger_min_member_is_not_partially_bound_after_an_update_of_a_member() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    state.apply_group(group("ns", "g", 2, "q"));
    let runs = |name: &str| PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", name, "g", &[("cpu", 1)]), "n0") };
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(runs(name)));
    let _plan = at(&mut state, 0);
    state.apply_group(group("ns", "g", 4, "q"));
    ["g-2", "g-3"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 3)])));
    state.apply_pod(PodFacts { grace: Duration::from_secs(5), ..runs("g-0") });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(6));
    let _plan = at(&mut state, 31);
    assert_eq!(reserved(&state), cpus(0), "the admission times out, as for every other gang");
}

#[test]
fn a5_when_a_queue_closes_the_reservation_for_a_retried_bind_ends() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    gang(&mut state, "g", 1, "q", 1, &[("cpu", 4)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.refuse_bind(&Uid::from("ns/g-0"), "test", Duration::ZERO, |_| Duration::from_secs(60));
    assert_eq!(reserved(&state), cpus(4));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) });
    let _plan = at(&mut state, 1);
    assert_eq!(reserved(&state), cpus(0));
}

#[test]
fn p1_queues_are_served_by_their_shares_also_after_a_reservation_ends() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 9)]));
    for name in ["q", "r"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 10), ("pods", 99)]), ..queue(name, None, &[]) });
    }
    state.apply_pod(PodFacts { charged_queue: Some("r".into()), ..running(pod("ns", "old", "x", &[("cpu", 1)]), "n") });
    gang(&mut state, "revoked", 2, "q", 2, &[("cpu", 12)]);
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(24));
    // The reservation is larger than the request of the remaining member, until the admission times out.
    state.delete_pod(&Uid::from("ns/revoked-1"));
    state.apply_pod(PodFacts { priority: 9, ..pod("ns", "revoked-0", "revoked", &[("cpu", 12)]) });
    for (name, queue) in [("a", "q"), ("b", "q"), ("c", "r")] {
        gang(&mut state, name, 1, queue, 1, &[("cpu", 2)]);
    }
    assert_eq!(bound(&at(&mut state, 30)), [("a-0", "n"), ("c-0", "n"), ("b-0", "n")]);
    assert_eq!(reserved(&state), cpus(0));
}

#[test]
fn a6_no_group_waits_behind_a_gang_with_members_larger_than_the_cluster_even_if_its_min_resources_fit() {
    let mut state = small(1, 6, DequeueStrategy::Fifo);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "a", 2, "q") });
    (0..2).for_each(|at| state.apply_pod(pod("ns", &format!("a-{at}"), "a", &[("cpu", 4)])));
    gang(&mut state, "b", 1, "q", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)), [("b-0", "n0")]);
}

/// The admission of `empty` timed out, and it has no member to place. The error: in every other cycle it took the reservation of the next
/// PodGroup, and returned it in the cycle after.
#[test]
fn a6_no_group_waits_behind_a_group_that_backs_off_and_has_no_members() {
    let mut state = small(1, 6, DequeueStrategy::Fifo);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "empty", 1, "q") });
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(1));
    let timeout = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, timeout);
    assert_eq!(reserved(&state), cpus(0));
    state.apply_group(group("ns", "train", 3, "q"));
    let younger = Timestamp::from_second(2_000_000_000).unwrap();
    for after in 1..5 {
        // The members of `train` are younger, and each time there is an update of them.
        for name in ["train-0", "train-1", "train-2"] {
            let member = pod("ns", name, "train", &[("cpu", 2)]);
            state.apply_pod(PodFacts { created: younger, grace: Duration::from_secs(after), ..member });
        }
        assert!(at(&mut state, timeout + after).binds.is_empty());
        assert_eq!(reserved(&state), cpus(6));
    }
}

/// `big` requests more than the cluster has, so it is refused while another queue has an unused guarantee. When `small` uses the guarantee
/// of `p`, `big` is tried again, although its own queue still has an unused guarantee.
#[test]
fn f3_a_group_that_unused_guarantees_of_others_exclude_is_tried_again_when_these_shrink() {
    let mut state = empty_state();
    (0..2).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    for name in ["p", "q"] {
        state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 3)]), ..queue(name, None, &[]) });
    }
    gang(&mut state, "big", 3, "q", 3, &[("cpu", 4)]);
    let _plan = at(&mut state, 0);
    gang(&mut state, "small", 1, "p", 1, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 1)).len(), 1);
    assert_eq!(reserved(&state), cpus(0));
    assert!(state.has_work(Duration::from_secs(2)));
    let _plan = at(&mut state, 2);
    assert_eq!(reserved(&state), cpus(12));
    // The reservation used the guarantee of its own queue, so the other refused PodGroups are tried once more.
    let _plan = at(&mut state, 3);
    assert!(!state.has_work(Duration::from_secs(1)));
}

/// No member of the PodGroup can be bound again. It lacks members, and requests its minResources like any other PodGroup.
#[test]
fn a5_a_group_backs_off_after_a_refused_bind_only_while_a_member_waits() {
    let mut state = small(1, 8, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "g", 1, "q") });
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 1)])));
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(60));
    ["ns/g-0", "ns/g-1"].iter().for_each(|uid| state.delete_pod(&Uid::from(*uid)));
    let _plan = at(&mut state, 1);
    assert_eq!(reserved(&state), cpus(2));
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) });
    let _plan = at(&mut state, 2);
    assert!(state.cache().groups().values().all(|group| !group.is_admitted()), "a closed queue admits no PodGroup");
}

/// An earlier refusal of a further member does not answer the present request: the room of the terminating member is enough (R3).
#[test]
fn a5_a_reservation_by_reclaim_is_not_revoked_while_the_group_waits_for_a_terminating_pod() {
    let mut state = empty_state();
    [("n0", 4), ("n1", 7)].iter().for_each(|(name, cpu)| state.apply_node(node(name, &[("cpu", *cpu)])));
    for (name, cpu) in [("p", 0), ("q", 2)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", cpu), ("pods", 40)]), ..queue(name, None, &[]) });
    }
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 1)]), ..queue("r", None, &[]) });
    for (name, node) in [("p-0", "n0"), ("p-1", "n1"), ("p-2", "n1")] {
        state.apply_pod(PodFacts { charged_queue: Some("p".into()), ..running(pod("ns", name, "borrows", &[("cpu", 3)]), node) });
    }
    state.apply_group(group("ns", "g", 1, "q"));
    // The members do not preempt.
    let member = |name: &str| PodFacts { preempts: false, ..pod("ns", name, "g", &[("cpu", 1)]) };
    let runs = PodFacts { charged_queue: Some("q".into()), ..running(member("g-0"), "n0") };
    state.apply_pod(runs.clone());
    state.apply_pod(member("g-1"));
    assert!(at(&mut state, 0).binds.is_empty());
    state.apply_pod(PodFacts { deleting: true, ..runs });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(1));
    state.delete_pod(&Uid::from("ns/g-0"));
    assert_eq!(bound(&at(&mut state, 2)).len(), 1);
}

/// The reservation counts as use of the guarantee, so nothing else protected it. The error: when the reservation ended late in the cycle,
/// an earlier PodGroup had already used the guarantee (O1: a closed queue still has it).
#[test]
fn a5_a_reservation_in_a_closed_queue_ends_before_any_group_is_tried() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    let guaranteed = QueueFacts { guarantee: limits(&[("cpu", 4)]), ..queue("q", None, &[]) };
    state.apply_queue(guaranteed.clone());
    state.apply_queue(queue("other", None, &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "empty", 1, "q") });
    let _plan = at(&mut state, 0);
    assert_eq!(reserved(&state), cpus(4));
    gang(&mut state, "before", 1, "other", 1, &[("cpu", 4)]);
    state.apply_queue(QueueFacts { closed_by_hand: true, ..guaranteed });
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), cpus(0));
}

/// The back-off begins at the admission, so it ends when the admission would have timed out. The error: the PodGroup was not tried then,
/// because that timeout was no longer set.
#[test]
fn a5_a_group_that_finds_no_victims_at_its_admission_is_tried_again_after_its_back_off() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    let deserved = |cpu| limits(&[("cpu", cpu), ("pods", 9)]);
    state.apply_queue(QueueFacts { capability: limits(&[("cpu", 2)]), deserved: deserved(2), ..queue("top", None, &[]) });
    state.apply_queue(QueueFacts { deserved: deserved(0), ..queue("borrows", Some("top"), &[]) });
    state.apply_queue(QueueFacts { deserved: deserved(1), reclaimable: false, ..queue("q", Some("top"), &[]) });
    // `g` cannot preempt this pod, because its priority is higher.
    let high = PodFacts { priority: 9, charged_queue: Some("borrows".into()), ..pod("ns", "high", "x", &[("cpu", 2)]) };
    state.apply_pod(running(high, "n"));
    gang(&mut state, "g", 1, "q", 1, &[("cpu", 1)]);
    let timeout = POLICY.admission_timeout;
    for back_off in [timeout, timeout * 3, timeout * 7] {
        let mut cycles = 0;
        while state.has_work(back_off - Duration::from_secs(1)) {
            let now = state.next_attempt().unwrap();
            assert!(run(&mut state, &POLICY, now).binds.is_empty());
            cycles += 1;
            assert!(cycles < 20, "the cycles do not end, at {now:?}");
            assert_eq!(reserved(&state), cpus(0), "the PodGroup can reclaim, but finds no victims");
        }
        assert_eq!(state.next_attempt(), Some(back_off));
        let _plan = at(&mut state, back_off.as_secs());
    }
}

/// The PodGroup was satisfied and had a rest (A4). The error: from then on no reservation of it came before further members of others.
#[test]
fn a7_what_a_refused_bind_gives_back_comes_before_further_members_also_after_a_rest() {
    let mut state = small(1, 100, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 1, "q") });
    state.apply_pod(pod("ns", "g-0", "g", &[("cpu", 3)]));
    gang(&mut state, "other", 1, "q", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    assert_eq!(reserved(&state), cpus(1));
    state.apply_pod(pod("ns", "other-1", "other", &[("cpu", 2)]));
    state.refuse_bind(&Uid::from("ns/g-0"), "test", Duration::ZERO, |_| Duration::from_secs(5));
    assert_eq!(reserved(&state), cpus(4));
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(bound(&at(&mut state, 5)), [("g-0", "n0")]);
}

/// The error: with a waiting further member the PodGroup was Pending in a broken queue, and Inqueue in a closed one.
#[test]
fn a5_a_group_with_its_minimum_stays_admitted_though_a_further_member_waits_in_a_broken_queue() {
    let mut state = small(1, 100, DequeueStrategy::Traverse);
    gang(&mut state, "g", 1, "q", 2, &[("cpu", 3)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.apply_queue(queue("q", Some("missing"), &[]));
    assert!(at(&mut state, 1).binds.is_empty());
    assert!(state.cache().groups()[&GroupKey::new("ns", "g")].is_admitted());
}

/// The error: a PodGroup that needs no member any more went on to back off.
#[test]
fn a5_a_min_member_of_0_ends_the_back_off() {
    let mut state = small(1, 100, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "g", 1, "q") });
    let _plan = at(&mut state, 0);
    let timeout = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, timeout);
    let until = |state: &SchedulingState| state.cache().groups()[&GroupKey::new("ns", "g")].admission.backoff.until;
    assert_eq!(until(&state), POLICY.admission_timeout * 2);
    state.apply_group(group("ns", "g", 0, "q"));
    let _plan = at(&mut state, timeout + 1);
    assert_eq!(until(&state), Duration::ZERO);
}

/// The error: the next back-off of a PodGroup that had ended was as long as if it had not.
#[test]
fn a5_an_end_ends_the_count_of_back_offs() {
    let mut state = small(1, 100, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 1)])), ..group("ns", "g", 2, "q") });
    let _plan = at(&mut state, 0);
    let timeout = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, timeout);
    let backoff = |state: &SchedulingState| state.cache().groups()[&GroupKey::new("ns", "g")].admission.backoff;
    assert_eq!(backoff(&state).times, 1);
    let failed = PodFacts { phase: crate::api::pod_facts::PodPhase::Failed, ..running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n0") };
    state.apply_pod(failed);
    let _plan = at(&mut state, timeout + 1);
    assert_eq!((backoff(&state).times, backoff(&state).until), (0, Duration::ZERO));
}

/// A refused bind is reserved again, and a further member leaves room for it. With a smaller minimum the PodGroup is satisfied: what is left
/// of its minResources stays reserved in its queue, and a further member of another PodGroup does not wait for it any more.
#[test]
fn a7_a_further_member_is_tried_again_when_a_reservation_becomes_a_rest() {
    let mut state = small(0, 9, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 3)]));
    let stated = |minimum| GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "g", minimum, "q") };
    state.apply_group(stated(2));
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 1)])));
    gang(&mut state, "other", 1, "q", 1, &[("cpu", 1)]);
    assert_eq!(bound(&at(&mut state, 0)).len(), 3);
    state.refuse_bind(&Uid::from("ns/g-1"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    state.apply_pod(pod("ns", "other-1", "other", &[("cpu", 1)]));
    assert!(at(&mut state, 1).binds.is_empty(), "it leaves room for g-1");
    state.apply_group(stated(1));
    assert_eq!(bound(&at(&mut state, 2)), [("other-1", "n0")]);
    assert_eq!(reserved(&state), cpus(1));
}

/// With a minimum of 0 the time of the rest begins with the first member. The error: behind a closed queue it began with the first node.
#[test]
fn a4_the_time_of_the_rest_begins_with_a_minimum_of_0_also_in_a_closed_queue() {
    let mut state = small(1, 9, DequeueStrategy::Traverse);
    state.apply_queue(QueueFacts { closed_by_hand: true, ..queue("q", None, &[]) });
    state.apply_group(group("ns", "g", 0, "q"));
    state.apply_pod(pod("ns", "g-0", "g", &[("cpu", 1)]));
    assert!(at(&mut state, 0).binds.is_empty());
    state.apply_queue(queue("q", None, &[]));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", "g", 1, "q") });
    let timeout = POLICY.admission_timeout.as_secs();
    assert_eq!(bound(&at(&mut state, timeout)), [("g-0", "n0")]);
    assert_eq!(reserved(&state), cpus(0));
}

/// The first member leaves, so the next one is needed, and the one after it uses the rest. The error: what it used stayed reserved.
#[test]
fn a4_what_a_further_member_uses_of_the_rest_is_reserved_no_more() {
    let mut state = small(1, 9, DequeueStrategy::Traverse);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 3)])), ..group("ns", "g", 1, "q") });
    let member = |name: &str| pod("ns", name, "g", &[("cpu", 1)]);
    state.apply_pod(member("g-0"));
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    assert_eq!(reserved(&state), cpus(2));
    let runs = PodFacts { charged_queue: Some("q".into()), ..running(member("g-0"), "n0") };
    state.apply_pod(runs.clone());
    state.apply_pod(PodFacts { deleting: true, ..runs });
    ["g-1", "g-2"].iter().for_each(|name| state.apply_pod(member(name)));
    assert_eq!(bound(&at(&mut state, 1)).len(), 2);
    assert_eq!(reserved(&state), cpus(0));
}

/// The oldest member of a PodGroup that has reserved something leaves, so the reservation comes later. The error: nobody was tried for that.
#[test]
fn a4_a_reservation_gives_way_when_its_oldest_member_leaves() {
    let second = |second| Timestamp::from_second(second).unwrap_or_default();
    let mut state = small(1, 4, DequeueStrategy::Traverse);
    let member =
        |name: &str, group: &str, cpu: i64, created: i64| PodFacts { created: second(created), ..pod("ns", name, group, &[("cpu", cpu)]) };
    state.apply_group(GroupFacts { created: second(32), ..group("ns", "young", 1, "q") });
    state.apply_group(group("ns", "old", 0, "q"));
    state.apply_pod(member("young-0", "young", 1, 1));
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.apply_pod(member("old-0", "old", 4, 0));
    state.refuse_bind(&Uid::from("ns/young-0"), "test", Duration::ZERO, |_| Duration::from_secs(9));
    assert!(at(&mut state, 0).binds.is_empty(), "what is satisfied counts as 30 s younger");
    state.delete_pod(&Uid::from("ns/young-0"));
    assert_eq!(bound(&at(&mut state, 0)), [("old-0", "n0")]);
}

/// One of its additional members is bound, and another member is lost. The error: it was partly bound no more, and lost its reservation.
#[test]
fn a5_a_gang_that_asks_for_more_stays_partly_bound_when_a_member_is_lost() {
    let mut state = small(1, 9, DequeueStrategy::Traverse);
    gang(&mut state, "g", 1, "q", 2, &[("cpu", 1)]);
    let runs = |name: &str| PodFacts { charged_queue: Some("q".into()), ..running(pod("ns", name, "g", &[("cpu", 1)]), "n0") };
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
    ["g-0", "g-1"].iter().for_each(|name| state.apply_pod(runs(name)));
    state.apply_pod(pod("ns", "g-2", "g", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 1)), [("g-2", "n0")]);
    state.apply_group(group("ns", "g", 5, "q"));
    ["g-3", "g-4", "g-5"].iter().for_each(|name| state.apply_pod(pod("ns", name, "g", &[("cpu", 4)])));
    let key = GroupKey::new("ns", "g");
    assert!(at(&mut state, 2).binds.is_empty() && state.cache().is_partially_bound(&key));
    state.delete_pod(&Uid::from("ns/g-0"));
    assert!(at(&mut state, 3).binds.is_empty() && state.cache().is_partially_bound(&key));
}

/// A3 alone admits a PodGroup, and its own terminating pod is enough. Then no queue is over its share any more. The error: nobody looked for
/// what is terminating then, and the PodGroup backed off.
#[test]
fn a3_what_is_terminating_is_waited_for_though_no_queue_is_over_its_share() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 3), ("other", 0)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, Some("q"), &[]) });
    }
    gang(&mut state, "g", 1, "owed", 1, &[("cpu", 1)]);
    let rest = Some(amounts(&[("cpu", 5)]));
    state.apply_group(GroupFacts { min_resources: rest, ..group("ns", "other", 1, "other") });
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    let runs = PodFacts { charged_queue: Some("owed".into()), ..running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n0") };
    state.apply_pod(PodFacts { deleting: true, ..runs });
    state.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
    state.apply_pod(pod("ns", "other-0", "other", &[("cpu", 3)]));
    assert_eq!(bound(&at(&mut state, 1)), [("other-0", "n0")]);
    let owed = |state: &SchedulingState| state.cache().accounting().quota().queue("owed").reserved.get("cpu");
    assert_eq!(owed(&state), cpus(1));
    state.refuse_bind(&Uid::from("ns/other-0"), "test", Duration::from_secs(1), |_| Duration::from_secs(9));
    assert!(at(&mut state, 2).binds.is_empty());
    assert_eq!(owed(&state), cpus(1), "it waits for its terminating pod");
    state.delete_pod(&Uid::from("ns/g-0"));
    assert_eq!(bound(&at(&mut state, 3)), [("g-1", "n0")]);
}

/// In the turn of a PodGroup the other queue is not far enough over its share, and then another pod is placed there. The error: nobody asked
/// again whether it is admitted.
#[test]
fn a3_is_asked_again_after_what_was_placed_later_in_the_cycle() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 4), ("other", 2)] {
        let of_q = queue(name, Some("q"), &[]);
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), reclaimable: true, ..of_q });
    }
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "first", 3, "other") });
    (0..4).for_each(|at| state.apply_pod(pod("ns", &format!("first-{at}"), "first", &[("cpu", 1)])));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 2, "owed") });
    assert_eq!(bound(&at(&mut state, 0)).len(), 4);
    let _plan = at(&mut state, 0);
    assert!(state.cache().groups()[&GroupKey::new("ns", "g")].is_admitted());
}

/// Of two that A3 alone admits one backs off, and what is terminating is enough for the other then. The error: it went by what it had found
/// when the reservation of the first was in its way, and backed off as well.
#[test]
fn a3_what_is_terminating_is_looked_for_again_when_a_reservation_has_ended() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 3), ("other", 3)] {
        let of_q = queue(name, Some("q"), &[]);
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), reclaimable: true, ..of_q });
    }
    let keeps = |name: &str, group: &str, cpu| PodFacts { preemptable: false, ..pod("ns", name, group, &[("cpu", cpu)]) };
    state.apply_group(group("ns", "runs", 1, "other"));
    let runs = |name: &str| PodFacts { charged_queue: Some("other".into()), ..running(keeps(name, "runs", 1), "n0") };
    let names: Vec<String> = (0..6).map(|at| format!("runs-{at}")).collect();
    names.iter().for_each(|name| state.apply_pod(runs(name)));
    assert!(at(&mut state, 0).binds.is_empty());
    for (name, cpu) in [("small", 1), ("large", 2)] {
        state.apply_group(group("ns", name, 1, "owed"));
        state.apply_pod(pod("ns", &format!("{name}-0"), name, &[("cpu", cpu)]));
    }
    names[..2].iter().for_each(|name| state.apply_pod(PodFacts { deleting: true, ..runs(name) }));
    (0..3).for_each(|_| assert!(at(&mut state, 1).binds.is_empty()));
    let times = |state: &SchedulingState| state.cache().groups()[&GroupKey::new("ns", "large")].admission.backoff.times;
    assert_eq!((reserved(&state), times(&state)), (cpus(1), 1), "the small one waits for what is terminating");
    let timeout = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, timeout + 1);
    assert_eq!((reserved(&state), times(&state)), (cpus(2), 1), "now the large one does");
}

/// A PodGroup of a minimum of 0 asks for nothing while it has no pods. The error: the queue above it had its turn by its priority, and in that
/// turn the pods of another queue were placed.
#[test]
fn p1_a_podgroup_that_asks_for_nothing_does_not_bring_its_queue_forward() {
    let mut state = small(0, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 1)]));
    for (name, parent, priority) in [("b", "q", 0), ("up", "q", 0), ("a", "up", 0), ("c", "up", 1)] {
        state.apply_queue(QueueFacts { priority, ..queue(name, Some(parent), &[]) });
    }
    state.apply_priority_class(class("high", 9));
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "empty", 0, "a") });
    for (name, priority, queue) in [("low", 0, "c"), ("middle", 1, "b")] {
        state.apply_group(group("ns", name, 1, queue));
        state.apply_pod(PodFacts { priority, ..pod("ns", name, name, &[("cpu", 1)]) });
    }
    assert_eq!(bound(&at(&mut state, 0)), [("middle", "n0")]);
    assert!(state.cache().groups()[&GroupKey::new("ns", "empty")].is_admitted());
}

/// What a PodGroup has reserved is in the way of a young member, and gives way to an older one of the same PodGroup. The error: the young one
/// was not asked again in that cycle.
#[test]
fn a7_a_further_member_is_asked_again_when_what_it_left_room_for_has_given_way() {
    let mut state = small(2, 6, DequeueStrategy::Traverse);
    state.apply_queue(queue("elsewhere", None, &[]));
    state.apply_group(group("ns", "runs", 1, "elsewhere"));
    let runs = pod("ns", "runs", "runs", &[("cpu", 1)]);
    state.apply_pod(PodFacts { charged_queue: Some("elsewhere".into()), ..running(runs, "n0") });
    let created = |second| Timestamp::from_second(second).unwrap();
    state.apply_group(GroupFacts { created: created(32), ..group("ns", "reserves", 3, "q") });
    let of = |name: &str, group: &str, second, priority, amounts: &[(&str, i64)]| PodFacts {
        created: created(second),
        priority,
        ..pod("ns", name, group, amounts)
    };
    (0..3).for_each(|at| state.apply_pod(of(&format!("r-{at}"), "reserves", 32, 0, &[("cpu", 2), ("memory", 1)])));
    assert!(at(&mut state, 0).binds.is_empty());
    assert_eq!(reserved(&state), cpus(6));
    state.apply_group(group("ns", "g", 0, "q"));
    for (name, second, priority) in [("old", 1, 0), ("young", 32, 1)] {
        state.apply_pod(of(name, "g", second, priority, &[("cpu", 2)]));
    }
    assert_eq!(bound(&at(&mut state, 0)).len(), 2);
}

/// A gang was satisfied once, lost all members, and has one again. The error: the place of one that is lost then was not kept.
#[test]
fn a8_the_place_of_a_lost_member_is_kept_also_after_no_member_was_charged_for_a_while() {
    let mut state = small(2, 8, DequeueStrategy::Traverse);
    state.apply_group(group("ns", "g", 0, "q"));
    let [a, b] = ["a", "b"].map(|name| pod("ns", name, "g", &[("cpu", 3)]));
    state.apply_pod(a.clone());
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.apply_pod(running(a.clone(), "n0"));
    // It is terminating, so no member is charged for its gang.
    state.apply_pod(PodFacts { deleting: true, ..running(a, "n0") });
    state.apply_pod(b);
    assert_eq!(bound(&at(&mut state, 0)), [("b", "n1")]);
    state.apply_group(group("ns", "g", 2, "q"));
    state.delete_pod(&Uid::from("ns/a"));
    assert_eq!(reserved(&state), cpus(3));
}

/// A reservation comes first for one admission timeout from the first since its PodGroup was satisfied. The error: that it was satisfied did
/// not count where no cycle ran before it lost that member.
#[test]
fn a7_a_podgroup_that_was_satisfied_between_two_cycles_comes_first_anew() {
    let mut state = small(0, 100, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 4)]));
    state.apply_group(group("ns", "further", 0, "q"));
    state.apply_group(group("ns", "reserves", 1, "q"));
    let created = Timestamp::from_second(1).unwrap();
    let of = |name: &str, group: &str, amounts: &[(&str, i64)]| PodFacts { created, ..pod("ns", name, group, amounts) };
    let [first, second] = ["first", "second"].map(|name| of(name, "reserves", &[("cpu", 1), ("memory", 1)]));
    state.apply_pod(first.clone());
    state.apply_pod(second);
    for name in ["a", "b"] {
        state.apply_pod(of(name, "further", &[("cpu", 2)]));
    }
    assert_eq!(bound(&at(&mut state, 0)), [("a", "n0")]);
    // Another scheduler binds a member, which fails.
    state.apply_pod(running(first.clone(), "n0"));
    state.apply_pod(PodFacts { phase: PodPhase::Failed, ..running(first, "n0") });
    assert!(at(&mut state, 30).binds.is_empty());
    assert!(at(&mut state, 60).binds.is_empty());
    assert_eq!(bound(&at(&mut state, 60)), [("b", "n0")], "what that changed");
}
