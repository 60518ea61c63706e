//! What becomes of a PodGroup after refused binds, or with pods that change while their binds are under way (A5, N1)?

use crate::api::PodFacts;
use crate::api::label_selector::{LabelSelector, Requirement, ValueRequirement};
use crate::api::pod_terms::{AffinityTerm, PodSelector, PodTerms};
use crate::api::volumes::{ClaimFacts, PodClaim, VolumeFacts};
use crate::cycle::cache::Phase;
use crate::cycle::placement::topology::selection::MOST_ALIKE;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{at, bound, cycle, empty_state, gang, message, phase};
use crate::cycle::testing::{group, node, pod, queue, running};
use crate::cycle::*;
use crate::resources::Amount;

const TIMEOUT: u64 = 30;

/// Refuses all binds of the cycle for this PodGroup. Returns their number.
fn refuse_all(state: &mut SchedulingState, group: &str, seconds: u64, wait: u64) -> usize {
    let plan = at(state, seconds);
    let of_group: Vec<_> = plan.binds.iter().filter(|bind| *bind.group.name == *group).collect();
    of_group.iter().for_each(|bind| state.refuse_bind(&bind.uid, "test", Duration::from_secs(seconds), |_| Duration::from_secs(wait)));
    of_group.len()
}

fn reserved(state: &SchedulingState) -> Amount {
    state.cache().accounting().quota().queue("a").reserved.get("cpu")
}

/// Four members of a gang fill their queue, and all their binds are refused.
fn refused() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_queue(queue("a", None, &[("cpu", 4)]));
    gang(&mut state, "fails", 4, "a", 4, &[("cpu", 1)]);
    assert_eq!(refuse_all(&mut state, "fails", 0, 20), 4);
    state
}

#[test]
fn a5_a_podgroup_with_refused_binds_keeps_others_out_until_its_admission_timeout_and_no_longer() {
    let mut state = refused();
    gang(&mut state, "other", 1, "a", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 1).binds.is_empty());
    assert_eq!(reserved(&state), Amount::from_units(4), "what a refused bind gives back is its gang's");
    assert_eq!(refuse_all(&mut state, "fails", 20, 20), 4);
    assert!(at(&mut state, TIMEOUT - 1).binds.is_empty());
    assert_eq!(state.next_attempt(), Some(Duration::from_secs(TIMEOUT)), "nothing else may happen");
    let plan = at(&mut state, TIMEOUT);
    assert_eq!((plan.binds.len(), reserved(&state), phase(&state, "fails")), (0, Amount::ZERO, Phase::Pending));
    assert_eq!(at(&mut state, TIMEOUT).binds.len(), 1, "{}", message(&state, "other"));
}

#[test]
fn a5_a_gang_with_one_accepted_bind_is_finished_first() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 8)]));
    state.apply_queue(queue("a", None, &[("cpu", 4)]));
    gang(&mut state, "half", 4, "a", 4, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    state.confirm(&plan.binds[0].uid);
    for bind in &plan.binds[1..] {
        state.refuse_bind(&bind.uid, "test", Duration::ZERO, |_| Duration::from_secs(100));
    }
    gang(&mut state, "other", 1, "a", 1, &[("cpu", 1)]);
    for seconds in [1, TIMEOUT, TIMEOUT * 2] {
        assert!(at(&mut state, seconds).binds.is_empty());
        assert_eq!(reserved(&state), Amount::from_units(3));
    }
}

#[test]
fn all_that_is_refused_of_one_try_is_one_failure() {
    let mut state = refused();
    let failures = |state: &SchedulingState| state.cache().groups()[&GroupKey::new("ns", "fails")].retry.failures;
    assert_eq!(failures(&state), 1);
    assert_eq!(refuse_all(&mut state, "fails", 20, 20), 4);
    assert_eq!(failures(&state), 2);
}

#[test]
fn n1_a_pod_that_is_resized_while_its_bind_is_under_way_counts_with_what_it_asks_for_now() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    gang(&mut state, "grows", 1, "default", 1, &[("cpu", 1)]);
    assert_eq!(at(&mut state, 0).binds.len(), 1);
    let asks = |state: &mut SchedulingState, cpu| state.apply_pod(pod("ns", "grows-0", "grows", &[("cpu", cpu)]));
    asks(&mut state, 3);
    gang(&mut state, "other", 1, "default", 1, &[("cpu", 2)]);
    assert!(at(&mut state, 1).binds.is_empty(), "one cpu is left");
    asks(&mut state, 2);
    assert_eq!(at(&mut state, 2).binds.len(), 1, "{}", message(&state, "other"));
    assert_eq!(state.cache().accounting().quota().used("default").get("cpu"), Amount::from_units(4));
}

#[test]
fn pods_that_say_no_task_are_of_the_task_without_a_name_whether_they_wait_or_run() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4)]));
    state.apply_group(crate::api::GroupFacts { min_task_member: [(String::new(), 2)].into(), ..group("ns", "g", 2, "default") });
    for index in 0..2 {
        state.apply_pod(pod("ns", &format!("g-{index}"), "g", &[("cpu", 1)]));
    }
    assert_eq!(at(&mut state, 0).binds.len(), 2, "{}", message(&state, "g"));
}

#[test]
fn a5_a_partially_bound_gang_keeps_its_reservation_though_no_pod_is_evicted_for_it_after_all() {
    let mut state = empty_state();
    for (name, cpu) in [("n1", 1), ("n2", 2)] {
        state.apply_node(node(name, &[("cpu", cpu)]));
    }
    state.apply_queue(queue("a", None, &[("cpu", 4)]));
    state.apply_group(group("ns", "low", 0, "a"));
    (0..2).for_each(|index| state.apply_pod(running(pod("ns", &format!("low-{index}"), "low", &[("cpu", 1)]), "n2")));
    state.apply_group(group("ns", "half", 2, "a"));
    let of_half = |index| PodFacts { priority: 9, ..pod("ns", &format!("half-{index}"), "half", &[("cpu", 1)]) };
    state.apply_pod(running(of_half(0), "n1"));
    state.apply_pod(of_half(1));
    let plan = at(&mut state, 0);
    let [eviction] = plan.evictions.as_slice() else { panic!("{}", message(&state, "half")) };
    state.refuse_eviction(&eviction.group, eviction.nomination, "disruption_budget");
    state.apply_node(node("n3", &[("cpu", 1)]));
    gang(&mut state, "other", 1, "a", 1, &[("cpu", 1)]);
    assert!(at(&mut state, 0).binds.is_empty(), "it is tried again a second later, and its queue has room for one more");
    assert_eq!(reserved(&state), Amount::from_units(1));
    assert_eq!(at(&mut state, 2).binds.len(), 1);
}

#[test]
fn a5_without_an_admission_timeout_a_podgroup_with_refused_binds_keeps_others_out_for_ever() {
    let policy = policy::Policy { admission_timeout: Duration::ZERO, ..crate::cycle::testing::POLICY };
    let mut state = refused();
    gang(&mut state, "other", 1, "a", 1, &[("cpu", 1)]);
    for seconds in [1, 19] {
        assert!(run(&mut state, &policy, Duration::from_secs(seconds)).binds.is_empty());
        assert_eq!(reserved(&state), Amount::from_units(4));
    }
}

/// Anti-affinity against all pods of the namespace but those with this label.
fn against_all_but(number: usize) -> Arc<PodTerms> {
    let others = Requirement { key: "index".into(), value: ValueRequirement::NotIn([number.to_string()].into()) };
    let labels = LabelSelector::Requirements([others].into());
    let pods = PodSelector { namespaces: [Arc::from("ns")].into(), namespace_selector: LabelSelector::Nothing, labels };
    let term = AffinityTerm { pods, topology_key: Arc::from("kubernetes.io/hostname") };
    Arc::new(PodTerms { namespace: Arc::from("ns"), anti_affinity: vec![term], ..PodTerms::default() })
}

#[test]
fn a_pod_with_one_selector_too_many_is_refused_and_no_other_podgroup_waits_for_it() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1_000)]));
    gang(&mut state, "many", 1, "default", 0, &[]);
    for number in 0..=MOST_ALIKE {
        state.apply_pod(PodFacts { terms: against_all_but(number), ..pod("ns", &format!("p-{number:03}"), "many", &[("cpu", 1)]) });
    }
    gang(&mut state, "other", 1, "default", 1, &[("cpu", 1)]);
    let plan = cycle(&mut state);
    assert!(bound(&plan).contains(&("other-0", "n")), "{:?}", bound(&plan));
    let last = pod("ns", &format!("p-{MOST_ALIKE:03}"), "many", &[]).uid;
    let said = state.cache().pods()[&last].blocked().unwrap().to_string();
    assert!(said.contains("more than 256 different selectors"), "{said}");
    let first = pod("ns", "p-000", "many", &[]).uid;
    assert_eq!(state.cache().pods()[&first].blocked(), None);
    state.delete_pod(&first);
    assert!(bound(&cycle(&mut state)).len() <= 1);
    state.delete_pod(&pod("ns", "p-001", "many", &[]).uid);
    assert_eq!(state.cache().pods()[&last].blocked(), None, "a selector went");
}

#[test]
fn the_selectors_of_a_refused_pod_take_no_room_from_those_of_others() {
    let all = |numbers: std::ops::RangeInclusive<usize>| {
        let anti_affinity = numbers.flat_map(|number| against_all_but(number).anti_affinity.clone()).collect();
        Arc::new(PodTerms { namespace: Arc::from("ns"), anti_affinity, ..PodTerms::default() })
    };
    let fault = crate::api::fault::Fault::new("spec.affinity", "x", "is wrong");
    let too_many = PodFacts { terms: all(1_000..=1_000 + MOST_ALIKE), ..pod("ns", "bad", "many", &[("cpu", 1)]) };
    let wrong = PodFacts { terms: all(1_000..=1_100), faults: vec![fault], ..pod("ns", "bad", "many", &[("cpu", 1)]) };
    for bad in [too_many, wrong] {
        let mut state = empty_state();
        gang(&mut state, "many", 1, "default", 0, &[]);
        let uid = bad.uid.clone();
        state.apply_pod(bad);
        assert!(state.cache().pods()[&uid].blocked().is_some());
        for number in 1..=MOST_ALIKE {
            let facts = PodFacts { terms: against_all_but(number), ..pod("ns", &format!("p-{number:03}"), "many", &[("cpu", 1)]) };
            state.apply_pod(facts.clone());
            assert_eq!(state.cache().pods()[&facts.uid].blocked(), None, "{number}");
        }
    }
}

#[test]
fn a_pod_that_was_refused_for_its_selectors_is_placed_when_bound_pods_with_others_are_gone() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1_000)]));
    let with = |name: &str, numbers: std::ops::Range<usize>| {
        let anti_affinity = numbers.flat_map(|number| against_all_but(number).anti_affinity.clone());
        // No node has the label, so that they keep no pod away.
        let anti_affinity = anti_affinity.map(|term| AffinityTerm { topology_key: Arc::from("none"), ..term }).collect();
        PodFacts {
            terms: Arc::new(PodTerms { namespace: Arc::from("ns"), anti_affinity, ..PodTerms::default() }),
            ..pod("ns", name, name, &[("cpu", 1)])
        }
    };
    for (name, numbers) in [("half", 0..MOST_ALIKE / 2), ("other-half", MOST_ALIKE / 2..MOST_ALIKE), ("late", MOST_ALIKE..MOST_ALIKE + 1)] {
        state.apply_group(group("ns", name, 1, "default"));
        state.apply_pod(with(name, numbers.clone()));
        let plan = cycle(&mut state);
        assert_eq!(plan.binds.len(), usize::from(name != "late"), "{name}");
        if name != "late" {
            state.confirm(&plan.binds[0].uid);
            state.apply_pod(running(with(name, numbers), "n"));
        }
    }
    state.delete_pod(&"ns/half".into());
    assert_eq!(bound(&cycle(&mut state)), [("late", "n")]);
}

#[test]
fn the_claims_of_a_pod_that_was_refused_for_its_selectors_are_read_when_there_is_room() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 1_000)]));
    gang(&mut state, "many", 1, "default", 0, &[]);
    let facts = |number: usize, claims: Vec<PodClaim>| {
        let terms = Arc::new(PodTerms { claims, ..PodTerms::clone(&against_all_but(number)) });
        PodFacts { terms, ..pod("ns", &format!("p-{number:03}"), "many", &[("cpu", 1)]) }
    };
    (0..MOST_ALIKE).for_each(|number| state.apply_pod(facts(number, Vec::new())));
    let last = facts(MOST_ALIKE, vec![PodClaim { name: Arc::from("data"), is_ephemeral: false }]);
    let uid = last.uid.clone();
    state.apply_pod(last);
    let said = |state: &SchedulingState| state.cache().pods()[&uid].blocked().map(|refusal| refusal.to_string()).unwrap_or_default();
    assert!(said(&state).contains("different selectors"), "{}", said(&state));
    // While the pod is refused, its claim comes and is bound.
    let claim = serde_json::json!({
        "metadata": { "namespace": "ns", "name": "data", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "disk" },
    });
    state.apply_claim(ClaimFacts::of(&serde_json::from_value(claim).unwrap()));
    state.apply_volume(VolumeFacts::of(&serde_json::from_value(serde_json::json!({ "metadata": { "name": "disk" } })).unwrap()));
    state.delete_pod(&"ns/p-000".into());
    let plan = cycle(&mut state);
    assert_eq!(said(&state), "", "the claim is bound");
    assert!(bound(&plan).iter().all(|(_, node)| *node == "n"));
}
