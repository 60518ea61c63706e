//! Which PodGroups preempt, when, and what is reported, as small scenarios.

use crate::api::Uid;
use crate::api::pod::PodCondition;
use crate::api::podgroup::PodGroupStatus;
use crate::api::{BudgetFacts, BudgetKey, GroupFacts, QueueFacts};
use crate::cycle::cache::Phase;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, borrowed, bound, confirm, empty_state, gang, message, names, phase};
use crate::cycle::testing::{PEACEFUL, POLICY, amounts, group, node, pod, queue, running};
use crate::cycle::*;
use crate::resources::Amount;

fn reserved(state: &SchedulingState, queue: &str) -> Amount {
    state.cache().accounting().quota().queue(queue).reserved.get("cpu")
}

/// Runs cycles until there is nothing to do at once. Returns the time.
fn settle(state: &mut SchedulingState, policy: &Policy, mut now: Duration) -> Duration {
    let began = now;
    while let Some(next) = state.next_attempt().filter(|next| *next < now + Duration::from_secs(5)) {
        now = now.max(next);
        assert!(now < began + Duration::from_secs(9), "it comes to rest");
        let _plan = run(state, policy, now);
        assert!(state.cache().accounting().audit().is_clean());
    }
    now - began
}

#[test]
fn no_pod_is_evicted_for_a_reclaiming_podgroup_that_no_eviction_can_help() {
    let mut state = borrowed();
    state.apply_queue(queue("root", None, &[("cpu", 10)]));
    state.apply_group(group("ns", "hopeless", 1, "b"));
    let mut picky = pod("ns", "hopeless-0", "hopeless", &[("cpu", 3)]);
    picky.constraints.node_selector.insert("zone".into(), "none".into());
    state.apply_pod(picky);
    gang(&mut state, "small", 2, "b", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    let [eviction] = plan.evictions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((eviction.victims.len(), &*eviction.group.name), (2, "small"), "and not five");
    assert_eq!((phase(&state, "hopeless"), reserved(&state, "b")), (Phase::Pending, Amount::ZERO));
    assert!(message(&state, "hopeless").contains("over its quota"), "{}", message(&state, "hopeless"));
    // After its back-off it is admitted once more, and preempts in vain once more.
    eviction.victims.iter().for_each(|victim| state.delete_pod(&victim.uid));
    let plan = at(&mut state, 2);
    confirm(&mut state, &plan);
    for second in [31, 60, 91] {
        let plan = at(&mut state, second);
        assert!(plan.evictions.is_empty() && plan.binds.is_empty());
        assert_eq!(reserved(&state, "b"), Amount::ZERO);
    }
}

/// `a` uses all that there is, `b` can reclaim a half, and the binds are under way.
pub(super) fn being_bound() -> (SchedulingState, Plan) {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    state.apply_queue(queue("root", None, &[("cpu", 2)]));
    ["a", "b"].iter().for_each(|name| state.apply_queue(queue(name, None, &[])));
    gang(&mut state, "borrows", 1, "a", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    gang(&mut state, "owed", 1, "b", 1, &[("cpu", 1)]);
    (state, plan)
}

#[test]
fn a_podgroup_that_can_reclaim_once_a_bind_has_ended_keeps_its_reservation() {
    let (mut state, plan) = being_bound();
    assert!(at(&mut state, 1).evictions.is_empty(), "a pod that is not bound yet cannot be evicted");
    assert_eq!((phase(&state, "owed"), reserved(&state, "b")), (Phase::Inqueue, Amount::from_units(1)));
    for bind in &plan.binds {
        state.confirm(&bind.uid);
    }
    assert!(state.has_work(Duration::from_secs(2)));
    assert_eq!(at(&mut state, 2).evictions.len(), 1);
}

#[test]
fn all_podgroups_that_a_new_share_lets_reclaim_are_retried_in_a_quiet_cluster_and_then_it_is_idle() {
    for policy in [POLICY, PEACEFUL] {
        let mut state = empty_state();
        state.apply_node(node("n", &[("cpu", 10)]));
        state.apply_queue(queue("root", None, &[("cpu", 10)]));
        for (name, weight) in [("a", 1), ("b", 1), ("c", 8)] {
            state.apply_queue(QueueFacts { weight, ..queue(name, None, &[]) });
        }
        gang(&mut state, "borrows", 1, "a", 10, &[("cpu", 1)]);
        let plan = run(&mut state, &policy, Duration::ZERO);
        confirm(&mut state, &plan);
        let asks = |name: &str, queue, cpu| GroupFacts { min_resources: Some(amounts(&[("cpu", cpu)])), ..group("ns", name, 1, queue) };
        state.apply_group(asks("large", "c", 9));
        for index in 0..60 {
            state.apply_group(asks(&format!("w-{index:02}"), "b", if index == 59 { 2 } else { 6 }));
        }
        settle(&mut state, &policy, Duration::from_secs(1));
        assert_eq!((phase(&state, "large"), phase(&state, "w-59")), (Phase::Pending, Phase::Pending));
        state.delete_group(&GroupKey::new("ns", "large"));
        let took = settle(&mut state, &policy, Duration::from_secs(11));
        assert_eq!(phase(&state, "w-59"), Phase::Inqueue, "its queue has a share of 5 now");
        assert!(took > Duration::from_millis(200) && took < Duration::from_secs(2), "a few at a time: {took:?}");
        assert!(state.next_attempt().is_some_and(|at| at >= Duration::from_secs(40)), "only the admission timeout is waited for");
    }
}

#[test]
fn a_podgroup_that_its_quota_refuses_says_which_borrower_is_not_reclaimable() {
    let mut state = borrowed();
    state.apply_queue(queue("root", None, &[("cpu", 10)]));
    let borrower = (*state.cache().queues()["a"]).clone();
    state.apply_queue(QueueFacts { reclaimable: false, ..borrower });
    gang(&mut state, "owed", 2, "b", 2, &[("cpu", 1)]);
    settle(&mut state, &POLICY, Duration::from_secs(1));
    assert_eq!(phase(&state, "owed"), Phase::Pending);
    let told = message(&state, "owed");
    assert!(told.contains("queue \"a\" is over its share and not reclaimable"), "{told}");
}

#[test]
fn an_outcome_stands_until_something_changes_and_our_own_writes_change_nothing() {
    let mut state = borrowed();
    gang(&mut state, "greedy", 2, "b", 2, &[("cpu", 3)]);
    settle(&mut state, &POLICY, Duration::from_secs(1));
    let told = message(&state, "greedy");
    assert!(told.contains("no pod can be preempted: queue \"b\" would exceed its share (cpu requested 6"), "{told}");
    let status = PodGroupStatus { phase: Some("Inqueue".into()), ..PodGroupStatus::default() };
    state.apply_group(GroupFacts { status, resource_version: "2".into(), ..group("ns", "greedy", 2, "b") });
    assert!(state.has_work(Duration::from_secs(2)));
    let _plan = at(&mut state, 2);
    assert_eq!(message(&state, "greedy"), told);
    let uid = Uid::from("ns/greedy-0");
    let _told = state.take_dirty();
    let condition = PodCondition { kind: "PodScheduled".into(), status: "False".into(), reason: None, message: Some(told.clone()) };
    let facts = (*state.cache().pods()[&uid].facts).clone();
    state.apply_pod(crate::api::PodFacts { scheduled_condition: Some(condition.clone()), ..facts });
    assert!(!state.has_work(Duration::from_secs(2)), "that is our own word");
    assert_eq!(state.cache().pods()[&uid].facts.scheduled_condition, Some(condition));
    assert_eq!((message(&state, "greedy"), state.take_dirty().pods.contains(&uid)), (told, true));
}

#[test]
fn a_changed_member_lets_its_podgroup_preempt_again() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 2)]));
    gang(&mut state, "low", 1, "default", 2, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    confirm(&mut state, &plan);
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 9), ("pods", 9)])), ..group("ns", "rises", 2, "default") });
    for index in 0..2 {
        state.apply_pod(pod("ns", &format!("rises-{index}"), "rises", &[("cpu", 1)]));
    }
    settle(&mut state, &POLICY, Duration::from_secs(1));
    state.apply_pod(crate::api::PodFacts { priority: 1, ..pod("ns", "rises-0", "rises", &[("cpu", 1)]) });
    assert_eq!(at(&mut state, 3).evictions.len(), 1);
}

#[test]
fn a_member_that_fits_nowhere_does_not_keep_the_others_from_reclaiming() {
    let fits_nowhere = [[("cpu", 50)].as_slice(), &[("cpu", 1), ("memory", 4)]];
    for asks in fits_nowhere {
        let mut state = borrowed();
        // There is memory, but a foreign pod uses it.
        state.apply_node(node("n3", &[("memory", 4), ("cpu", 1)]));
        let other = running(pod("ns", "other", "none", &[("memory", 4), ("cpu", 1)]), "n3");
        state.apply_pod(crate::api::PodFacts { scheduler: "other".into(), ..other });
        state.apply_group(group("ns", "owed", 2, "b"));
        state.apply_pod(pod("ns", "owed-0", "owed", asks));
        for index in 1..3 {
            state.apply_pod(pod("ns", &format!("owed-{index}"), "owed", &[("cpu", 1)]));
        }
        let plan = at(&mut state, 1);
        let [eviction] = plan.evictions.as_slice() else { panic!("{asks:?}: {}", message(&state, "owed")) };
        assert_eq!(eviction.victims.len(), 2, "{asks:?}");
        eviction.victims.iter().for_each(|victim| state.delete_pod(&victim.uid));
        let plan = at(&mut state, 2);
        let mut placed: Vec<_> = bound(&plan).into_iter().map(|(name, _)| name).collect();
        placed.sort_unstable();
        assert_eq!(placed, ["owed-1", "owed-2"]);
    }
}

#[test]
fn a_member_that_a_task_needs_cannot_be_replaced() {
    let mut state = borrowed();
    state.apply_group(GroupFacts { min_task_member: [("chief".into(), 1)].into(), ..group("ns", "owed", 2, "b") });
    state.apply_pod(crate::api::PodFacts { task: Some("chief".into()), ..pod("ns", "owed-0", "owed", &[("cpu", 50)]) });
    for index in 1..3 {
        state.apply_pod(pod("ns", &format!("owed-{index}"), "owed", &[("cpu", 1)]));
    }
    assert!(at(&mut state, 1).evictions.is_empty());
}

#[test]
fn while_victims_terminate_for_some_members_the_rest_of_a_running_podgroup_is_placed_as_usual() {
    let mut state = borrowed();
    gang(&mut state, "deployment", 1, "b", 1, &[("cpu", 1)]);
    let plan = at(&mut state, 1);
    plan.evictions[0].victims.iter().for_each(|victim| state.delete_pod(&victim.uid));
    let plan = at(&mut state, 2);
    confirm(&mut state, &plan);
    state.apply_pod(pod("ns", "deployment-1", "deployment", &[("cpu", 1)]));
    let plan = at(&mut state, 3);
    assert_eq!((plan.evictions.len(), plan.binds.len()), (1, 0));
    state.apply_pod(pod("ns", "deployment-2", "deployment", &[("cpu", 1)]));
    state.apply_node(node("n3", &[("cpu", 1)]));
    assert_eq!(bound(&at(&mut state, 4)), [("deployment-2", "n3")]);
    assert!(message(&state, "deployment").starts_with("preempting 1 pod"), "{}", message(&state, "deployment"));
    plan.evictions[0].victims.iter().for_each(|victim| state.delete_pod(&victim.uid));
    assert_eq!(at(&mut state, 5).binds.len(), 1);
}

#[test]
fn a_pod_with_a_refused_eviction_is_the_last_choice() {
    let mut state = borrowed();
    gang(&mut state, "owed", 1, "b", 1, &[("cpu", 1)]);
    let mut asked = std::collections::BTreeSet::new();
    for now in [1, 2, 4] {
        let plan = at(&mut state, now);
        let [eviction] = plan.evictions.as_slice() else { panic!("{}", message(&state, "owed")) };
        asked.insert(names(eviction).concat());
        state.back_off_eviction(&eviction.victims[0].uid, Duration::from_secs(now));
        state.refuse_eviction(&eviction.group, eviction.nomination, "webhook");
        let _backs_off = at(&mut state, now);
    }
    assert_eq!(asked.len(), 3, "another each time");
}

#[test]
fn a_pod_that_becomes_unready_and_that_its_budget_frees_is_preempted_in_a_quiet_cluster() {
    for frees_unready in [true, false] {
        let mut state = borrowed();
        let (key, selector) = (BudgetKey::new("ns", "b"), crate::api::label_selector::LabelSelector::everything());
        state.apply_budget(BudgetFacts { key, selector, allowed: 0, frees_unready });
        gang(&mut state, "owed", 1, "b", 1, &[("cpu", 1)]);
        let took = settle(&mut state, &POLICY, Duration::from_secs(1));
        assert!(message(&state, "owed").contains("PodDisruptionBudget"), "{}", message(&state, "owed"));
        let now = Duration::from_secs(2) + took;
        assert!(!state.has_work(now));
        let facts = crate::api::PodFacts::clone(&state.cache().pods()[&Uid::from("ns/borrows-3")].facts);
        state.apply_pod(crate::api::PodFacts { ready: false, ..facts.clone() });
        assert_eq!(state.has_work(now), frees_unready);
        let plan = run(&mut state, &POLICY, now);
        let victims: Vec<_> = plan.evictions.iter().flat_map(names).collect();
        assert_eq!(victims, if frees_unready { vec!["borrows-3"] } else { vec![] });
        // A pod that is ready again changes nothing.
        let plain = state.next_attempt();
        state.apply_pod(crate::api::PodFacts { ready: true, ..facts });
        assert_eq!(state.next_attempt(), plain);
    }
}
