//! Which pods are preempted for which PodGroups, from the attempt to the bind, as small scenarios (Q6, R1 to R7).

use crate::api::Uid;
use crate::api::{GroupFacts, PodFacts, PriorityClassFacts, QueueFacts};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, borrowed, bound, confirm, empty_state, gang, message, names, phase};
use crate::cycle::testing::{POLICY, class, group, limits, node, pod, queue, running};
use crate::cycle::*;

#[test]
fn q6_a_queue_reclaims_its_share_and_no_more() {
    let mut state = borrowed();
    gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
    gang(&mut state, "too-much", 1, "b", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    assert!(plan.binds.is_empty());
    let [eviction] = plan.evictions.as_slice() else { panic!("{:?}", plan.evictions) };
    assert_eq!((eviction.victims.len(), eviction.cause), (5, plan::EvictionCause::Reclaim));
    assert_eq!(phase(&state, "owed"), Phase::Inqueue);
    assert_eq!(
        message(&state, "owed"),
        "preempting 5 pods of queue \"a\"; their places are nominated for this PodGroup (Insufficient cpu on nodes)"
    );
    for second in 2..4 {
        let plan = at(&mut state, second);
        assert!(plan.binds.is_empty() && plan.evictions.is_empty(), "one attempt, and no other: {plan:?}");
    }
    let victims: Vec<_> = eviction.victims.iter().map(|victim| victim.uid.clone()).collect();
    for (count, uid) in victims.iter().enumerate() {
        assert!(at(&mut state, 5).binds.is_empty(), "{count} of 5 are gone");
        state.delete_pod(uid);
    }
    assert_eq!(at(&mut state, 6).binds.len(), 5);
    assert_eq!(phase(&state, "owed"), Phase::Running);
    // The evicted pods are recreated and do not preempt in turn (no ping-pong), and `b` has what it deserves.
    for index in 0..5 {
        state.apply_pod(pod("ns", &format!("again-{index}"), "borrows", &[("cpu", 1)]));
    }
    for second in 7..12 {
        let plan = at(&mut state, second);
        assert!(plan.binds.is_empty() && plan.evictions.is_empty(), "{plan:?}");
    }
}

#[test]
fn a_podgroup_whose_quota_others_use_says_what_protects_their_pods_and_only_while_its_queue_is_owed() {
    let mut state = empty_state();
    state.apply_node(node("n1", &[("cpu", 20)]));
    state.apply_queue(queue("p", None, &[("cpu", 10)]));
    for name in ["a", "b"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, Some("p"), &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 10, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    let (key, selector) = (crate::api::BudgetKey::new("ns", "all"), crate::api::label_selector::LabelSelector::everything());
    state.apply_budget(crate::api::BudgetFacts { key, selector, allowed: 0, frees_unready: false });
    gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
    gang(&mut state, "more", 2, "a", 2, &[("cpu", 1)]);
    // It is admitted by its right at first, asks in vain and rests. Then it is refused by the quota alone.
    for second in 1..4 {
        assert!(at(&mut state, second).evictions.is_empty() && phase(&state, "owed") == Phase::Pending);
        let said = message(&state, "owed");
        assert!(said.contains("no pod can be preempted: 10 protected by a PodDisruptionBudget"), "{second}: {said}");
        let other = message(&state, "more");
        assert!(other.starts_with("queue \"p\" is over its quota: cpu requested 2") && !other.contains("preempted"), "{second}: {other}");
        state.apply_group(group("ns", "owed", 4 - u32::try_from(second).unwrap(), "b"));
    }
}

#[test]
fn further_members_of_a_podgroup_reclaim_the_share_of_their_queue_as_many_as_can() {
    let mut state = borrowed();
    gang(&mut state, "deployment", 1, "b", 7, &[("cpu", 1)]);
    let mut binds = 0;
    for second in 1..9 {
        let plan = at(&mut state, second);
        binds += plan.binds.len();
        confirm(&mut state, &plan);
        let gone: Vec<_> = plan.evictions.iter().flat_map(|eviction| &eviction.victims).map(|victim| victim.uid.clone()).collect();
        gone.iter().for_each(|uid| state.delete_pod(uid));
    }
    assert_eq!(binds, 5, "its share, and no more");
}

#[test]
fn r1b_within_a_queue_the_higher_priority_preempts_the_lower_and_not_an_equal_one() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    for (name, value) in [("low", 1), ("high", 2)] {
        state.apply_priority_class(class(name, value));
    }
    let of = |class: &str, name: &str| GroupFacts { priority_class: Some(class.into()), ..group("ns", name, 1, "default") };
    state.apply_group(of("low", "l"));
    state.apply_pod(PodFacts { priority: 1, ..pod("ns", "l-0", "l", &[("cpu", 1)]) });
    state.apply_group(of("high", "h"));
    state.apply_pod(PodFacts { priority: 2, ..pod("ns", "h-0", "h", &[("cpu", 1)]) });
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 2);
    confirm(&mut state, &plan);
    state.apply_group(of("high", "next"));
    state.apply_pod(PodFacts { priority: 2, ..pod("ns", "next-0", "next", &[("cpu", 1)]) });
    let plan = at(&mut state, 1);
    assert_eq!(
        plan.evictions.iter().map(|eviction| (names(eviction), eviction.cause)).collect::<Vec<_>>(),
        [(vec!["l-0"], plan::EvictionCause::Preemption)]
    );
    state.delete_pod(&Uid::from("ns/l-0"));
    assert_eq!(bound(&at(&mut state, 2)), [("next-0", "n")]);
    state.apply_pod(PodFacts { priority: 1, ..pod("ns", "l-1", "l", &[("cpu", 1)]) });
    assert!(at(&mut state, 3).evictions.is_empty());
    assert!(message(&state, "l").starts_with("0/"), "{}", message(&state, "l"));
}

/// A node that is full of one pod of low priority, and a PodGroup of one member of high priority that waits for its room.
fn waits_for_a_lower_one(class_preempts: bool, pod_preempts: bool) -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    state.apply_priority_class(PriorityClassFacts { preempts: class_preempts, ..class("high", 5) });
    gang(&mut state, "low", 1, "default", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "high", 1, "default") });
    state.apply_pod(PodFacts { priority: 5, preempts: pod_preempts, ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    state
}

#[test]
fn r1c_a_podgroup_that_never_preempts_gets_no_victims_by_priority_and_the_refusal_names_the_source() {
    for (class_preempts, pod_preempts, says) in [
        (true, true, None),
        (false, true, Some("no pod is preempted: priority class \"high\" has preemptionPolicy: Never")),
        (true, false, Some("no pod is preempted: a member has preemptionPolicy: Never")),
    ] {
        let mut state = waits_for_a_lower_one(class_preempts, pod_preempts);
        let plan = at(&mut state, 1);
        assert_eq!(plan.evictions.is_empty(), says.is_some(), "{says:?}");
        assert!(says.is_none_or(|says| message(&state, "high").ends_with(says)), "{}", message(&state, "high"));
    }
    // The class changed: the PodGroup preempts again.
    let mut state = waits_for_a_lower_one(false, true);
    assert!(at(&mut state, 1).evictions.is_empty());
    state.apply_priority_class(class("high", 5));
    assert_eq!(at(&mut state, 2).evictions.len(), 1);
}

#[test]
fn r1c_a_podgroup_that_never_preempts_does_not_reclaim_and_gets_its_share_when_it_is_free() {
    let mut state = borrowed();
    state.apply_group(group("ns", "owed", 2, "b"));
    for (index, preempts) in [true, false].into_iter().enumerate() {
        state.apply_pod(PodFacts { preempts, ..pod("ns", &format!("owed-{index}"), "owed", &[("cpu", 1)]) });
    }
    assert!(at(&mut state, 1).evictions.is_empty());
    assert!(message(&state, "owed").contains("preemptionPolicy: Never"), "{}", message(&state, "owed"));
    // A pod that terminates by itself is waited for.
    let leaving: Vec<_> = state
        .cache()
        .pods()
        .values()
        .filter(|member| member.facts.node.is_some())
        .take(2)
        .map(|member| Arc::clone(&member.facts))
        .collect();
    leaving.iter().for_each(|facts| state.apply_pod(PodFacts { deleting: true, ..PodFacts::clone(facts) }));
    // Nothing is free yet, so it is retried only for another reason.
    state.apply_priority_class(class("wakes-all", 0));
    assert!(at(&mut state, 2).evictions.is_empty());
    assert!(!message(&state, "owed").contains("Never"), "{}", message(&state, "owed"));
    leaving.iter().for_each(|facts| state.delete_pod(&facts.uid));
    assert_eq!(at(&mut state, 3).binds.len(), 2);
}

#[test]
fn r1c_a_member_that_is_not_needed_now_does_not_prevent_a_preemption() {
    let mut state = waits_for_a_lower_one(true, true);
    state.apply_pod(PodFacts { priority: 1, preempts: false, ..pod("ns", "high-1", "high", &[("cpu", 1)]) });
    assert_eq!(at(&mut state, 1).evictions.len(), 1);
}

#[test]
fn r1b_in_a_full_queue_the_higher_priority_is_admitted_by_preempting_a_lower_one() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_queue(queue("q", None, &[("cpu", 2)]));
    gang(&mut state, "low", 1, "q", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    state.apply_group(group("ns", "high", 1, "q"));
    state.apply_pod(PodFacts { priority: 1, ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    let plan = at(&mut state, 1);
    let [eviction] = plan.evictions.as_slice() else { panic!("{}", message(&state, "high")) };
    assert_eq!((eviction.victims.len(), phase(&state, "high")), (1, Phase::Inqueue));
    state.delete_pod(&eviction.victims[0].uid);
    assert_eq!(bound(&at(&mut state, 2)), [("high-0", "n")]);
}

#[test]
fn a_changed_podgroup_preempts_again_after_an_attempt_in_vain() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    state.apply_priority_class(class("high", 1));
    gang(&mut state, "low", 1, "default", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    gang(&mut state, "rises", 1, "default", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 1).evictions.is_empty());
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "rises", 1, "default") });
    assert_eq!(at(&mut state, 2).evictions.len(), 1);
}

#[test]
fn a_class_counts_for_preemptors_and_for_victims_so_no_preemption_is_reversed() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1)]));
    state.apply_priority_class(class("high", 100));
    state.apply_group(group("ns", "l", 1, "default"));
    state.apply_pod(PodFacts { priority: 5, ..pod("ns", "l-0", "l", &[("cpu", 1)]) });
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "h", 1, "default") });
    state.apply_pod(pod("ns", "h-0", "h", &[("cpu", 1)]));
    assert_eq!(at(&mut state, 1).evictions.iter().map(names).collect::<Vec<_>>(), [["l-0"]]);
    state.delete_pod(&Uid::from("ns/l-0"));
    let plan = at(&mut state, 2);
    assert_eq!(bound(&plan), [("h-0", "n")]);
    confirm(&mut state, &plan);
    state.apply_pod(PodFacts { priority: 5, ..pod("ns", "l-1", "l", &[("cpu", 1)]) });
    assert!(at(&mut state, 3).evictions.is_empty(), "its pod says 0, and its class 100");
}

#[test]
fn a_refused_eviction_withdraws_the_nomination_and_the_gang_preempts_again_later() {
    let mut state = borrowed();
    gang(&mut state, "owed", 2, "b", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    let eviction = plan.evictions[0].clone();
    state.refuse_eviction(&eviction.group, eviction.nomination, "budget");
    assert!(at(&mut state, 1).evictions.is_empty());
    assert_eq!(
        message(&state, "owed"),
        "the preemption was given up: budget; Insufficient cpu on nodes (1 in a row); it is retried after a back-off"
    );
    let again = at(&mut state, 60);
    assert_eq!(again.evictions.len(), 1);
}

#[test]
fn a_nomination_in_a_queue_that_requires_node_groups_since_is_withdrawn() {
    let mut state = borrowed();
    gang(&mut state, "owed", 2, "b", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    assert_eq!(plan.evictions.len(), 1);
    state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), node_groups: Some("spec.affinity"), ..queue("b", None, &[]) });
    for victim in &plan.evictions[0].victims {
        state.delete_pod(&victim.uid);
    }
    assert!(at(&mut state, 2).binds.is_empty());
    assert!(message(&state, "owed").contains("spec.affinity of queue \"b\""), "{}", message(&state, "owed"));
}

#[test]
fn many_waiting_podgroups_preempt_a_few_at_a_time_and_come_to_rest() {
    let mut state = borrowed();
    for index in 0..40 {
        gang(&mut state, &format!("big-{index}"), 1, "b", 1, &[("cpu", 6)]);
    }
    let mut now = Duration::from_secs(1);
    let mut cycles = 0;
    while state.has_work(now) {
        assert!(run(&mut state, &POLICY, now).evictions.is_empty(), "a node has 5");
        cycles += 1;
        assert!(cycles < 20, "it comes to rest");
        now += Duration::from_millis(100);
    }
    assert!(cycles >= 3, "in {cycles} cycles");
}

#[test]
fn a_pod_that_volcano_protects_is_never_a_victim_and_borrows_like_any_other() {
    for (pod_says, group_says) in [(true, false), (false, true)] {
        let mut state = borrowed();
        let facts: Vec<PodFacts> = state.cache().pods().iter().map(|(_, member)| PodFacts::clone(&member.facts)).collect();
        facts.into_iter().for_each(|facts| state.apply_pod(PodFacts { protected: pod_says, ..facts }));
        state.apply_group(GroupFacts { protected: group_says, ..group("ns", "borrows", 1, "a") });
        gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
        assert!(at(&mut state, 1).evictions.is_empty(), "pods {pod_says}, group {group_says}");
        assert!(message(&state, "owed").contains("10 not preemptable"), "{}", message(&state, "owed"));
        let facts: Vec<PodFacts> = state.cache().pods().iter().map(|(_, member)| PodFacts::clone(&member.facts)).collect();
        facts.into_iter().for_each(|facts| state.apply_pod(PodFacts { protected: false, ..facts }));
        state.apply_group(group("ns", "borrows", 1, "a"));
        assert_eq!(at(&mut state, 2).evictions.len(), 1, "once nothing protects them any more, they go");
    }
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 10)]));
    for name in ["a", "b"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, None, &[]) });
    }
    gang(&mut state, "borrows", 8, "a", 8, &[("cpu", 1)]);
    let facts: Vec<PodFacts> = state.cache().pods().iter().map(|(_, member)| PodFacts::clone(&member.facts)).collect();
    facts.into_iter().for_each(|facts| state.apply_pod(PodFacts { protected: true, ..facts }));
    assert_eq!(at(&mut state, 0).binds.len(), 8);
}

#[test]
fn a_new_leader_counts_the_pods_that_leave_and_evicts_only_what_is_missing() {
    // The leader before has evicted pods of queue a for a gang of five in queue b. Its nomination is lost. Where all of them leave, nothing
    // is nominated: the gang waits for the room, and takes it in its turn.
    for leaving in [5, 3, 0] {
        let mut state = empty_state();
        for name in ["n1", "n2"] {
            state.apply_node(node(name, &[("cpu", 5)]));
        }
        for name in ["a", "b"] {
            state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, None, &[]) });
        }
        state.apply_group(group("ns", "borrows", 1, "a"));
        for index in 0..10 {
            let facts = running(pod("ns", &format!("borrows-{index}"), "borrows", &[("cpu", 1)]), if index < 5 { "n1" } else { "n2" });
            state.apply_pod(PodFacts { deleting: index < leaving, charged_queue: Some("a".into()), ..facts });
        }
        gang(&mut state, "owed", 5, "b", 5, &[("cpu", 1)]);
        let plan = at(&mut state, 0);
        let victims: usize = plan.evictions.iter().map(|eviction| eviction.victims.len()).sum();
        assert_eq!((plan.binds.len(), victims), (0, 5 - leaving), "{leaving} pods leave");
        assert_eq!(state.nominated(&GroupKey::new("ns", "owed")).is_some(), leaving < 5, "{leaving} pods leave");
        let evicted = plan.evictions.iter().flat_map(|eviction| &eviction.victims);
        let mut left: Vec<Uid> = evicted.map(|victim| victim.uid.clone()).collect();
        left.extend((0..leaving).map(|index| Uid::from(format!("ns/borrows-{index}").as_str())));
        left.iter().for_each(|uid| state.delete_pod(uid));
        let plan = at(&mut state, 1);
        assert_eq!(plan.binds.iter().filter(|bind| &*bind.group.name == "owed").count(), 5, "{leaving} pods leave");
    }
}

/// Each of three further members has room for itself beside what is reserved, and needs a victim and the rest of a node. All three together
/// would take a part of what another PodGroup has reserved.
#[test]
fn a7_further_members_do_not_preempt_for_more_than_the_minimum_of_others_leaves() {
    let mut state = empty_state();
    let zone = || [("zone".to_owned(), "z".to_owned())].into();
    state.apply_node(node("n0", &[("cpu", 3)]));
    state.apply_group(group("ns", "low", 1, "default"));
    for index in 1..=3 {
        let name = format!("n{index}");
        state.apply_node(crate::api::NodeFacts { labels: zone(), ..node(&name, &[("cpu", 2)]) });
        state.apply_pod(PodFacts { priority: -1, ..running(pod("ns", &format!("low-{index}"), "low", &[("cpu", 1)]), &name) });
    }
    state.apply_group(group("ns", "further", 1, "default"));
    state.apply_pod(running(pod("ns", "further-0", "further", &[("cpu", 1)]), "n0"));
    let minimum = crate::cycle::testing::amounts(&[("cpu", 3)]);
    state.apply_group(GroupFacts { min_resources: Some(minimum), ..group("ns", "minimum", 1, "default") });
    assert!(at(&mut state, 0).binds.is_empty());
    for index in 1..=3 {
        let mut facts = PodFacts { priority: 9, ..pod("ns", &format!("further-{index}"), "further", &[("cpu", 2)]) };
        facts.constraints.node_selector = zone();
        state.apply_pod(facts);
    }
    let plan = at(&mut state, 1);
    let victims: usize = plan.evictions.iter().map(|eviction| eviction.victims.len()).sum();
    assert_eq!(victims, 1, "{}", message(&state, "further"));
}

/// Found by an hour of faults: the gang had lost its minimum to another PodGroup, and its waiting member was bound on a node that had
/// become free meanwhile.
#[test]
fn r2_no_further_member_of_a_gang_is_placed_while_its_minimum_is_preempted() {
    let mut state = empty_state();
    state.apply_priority_class(class("high", 5));
    state.apply_node(node("n1", &[("cpu", 3)]));
    gang(&mut state, "low", 3, "default", 4, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 3);
    confirm(&mut state, &plan);
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "high", 3, "default") });
    (0..3).for_each(|index| state.apply_pod(PodFacts { priority: 5, ..pod("ns", &format!("high-{index}"), "high", &[("cpu", 1)]) }));
    let plan = at(&mut state, 1);
    let [eviction] = plan.evictions.as_slice() else { panic!("{:?}", plan.evictions) };
    assert_eq!(names(eviction), ["low-1", "low-2", "low-0"], "the oldest goes last");
    // Room for one.
    state.apply_node(node("n2", &[("cpu", 1)]));
    assert!(at(&mut state, 2).binds.is_empty(), "a quarter of a gang is bound");
    assert_eq!(message(&state, "low"), "the gang needs 3 members, 1 exist");
    // The evictions are refused: the gang keeps its minimum, and its further member is placed.
    let (high, number) = (GroupKey::new("ns", "high"), eviction.nomination);
    state.refuse_eviction(&high, number, "refused");
    let plan = at(&mut state, 3);
    assert_eq!(plan.binds.iter().map(|bind| bind.uid.to_string()).collect::<Vec<_>>(), ["ns/low-3"]);
}

/// Found by random histories: it kept its admission until something else changed.
#[test]
fn a_gang_of_which_members_become_victims_is_tried_again() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 3)]));
    state.apply_priority_class(class("high", 5));
    gang(&mut state, "low", 3, "default", 4, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 3);
    confirm(&mut state, &plan);
    assert!(at(&mut state, 1).binds.is_empty());
    state.apply_group(GroupFacts { priority_class: Some("high".into()), ..group("ns", "high", 1, "default") });
    state.apply_pod(PodFacts { priority: 5, ..pod("ns", "high-0", "high", &[("cpu", 1)]) });
    assert_eq!(at(&mut state, 2).evictions.len(), 1);
    assert!(at(&mut state, 2).tried.contains(&GroupKey::new("ns", "low")));
}
