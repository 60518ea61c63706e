//! What a PodGroup has reserved, until when, and its back-off (A4, A5).

use super::*;

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
