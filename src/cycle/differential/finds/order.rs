//! Which PodGroup comes before which (A6, A7, P1, F3).

use super::*;

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
