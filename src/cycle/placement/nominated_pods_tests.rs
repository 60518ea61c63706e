//! What a pod with a nominated node means to other pods: to those of the same or a lower priority if it is of another scheduler, to all if
//! it is ours.

use crate::api::PodFacts;
use crate::api::pod_terms::PodTerms;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::other_pods::{asks, beside, foreign, key, none, of, runs, spread, with_port};
use crate::cycle::testing::steps::{empty_state, message};
use crate::cycle::testing::worlds::{ZONE, zoned};
use crate::cycle::testing::{PEACEFUL, group, keeps_away, node, running};
use crate::cycle::*;

/// A pod of another scheduler that waits for the room that is nominated for it on `n0`.
fn nominated(label: &str, terms: &Arc<PodTerms>) -> PodFacts {
    foreign(PodFacts { priority: 5, nominated_node: Some("n0".into()), ..of("theirs", label, 3, terms) })
}

fn waits(state: &mut SchedulingState, name: &str, priority: i32, facts: PodFacts) -> usize {
    state.apply_group(group("ns", name, 1, "default"));
    state.apply_pod(PodFacts { group: key(name), priority, ..facts });
    run(state, &PEACEFUL, Duration::ZERO).binds.len()
}

#[test]
fn room_that_another_scheduler_nominates_is_left_to_pods_of_the_same_or_a_higher_priority() {
    let one = |name: &str| of(name, "x", 2, &none());
    type End = fn(&mut SchedulingState);
    let ends: [End; 6] = [
        |state| state.apply_pod(PodFacts { nominated_node: None, ..nominated("y", &none()) }),
        |state| state.apply_pod(PodFacts { nominated_node: Some("n9".into()), ..nominated("y", &none()) }),
        |state| state.delete_pod(&"ns/theirs".into()),
        |state| state.apply_pod(PodFacts { deleting: true, ..nominated("y", &none()) }),
        |state| state.apply_pod(running(nominated("y", &none()), "n9")),
        |state| state.apply_pod(PodFacts { phase: crate::api::pod_facts::PodPhase::Failed, ..nominated("y", &none()) }),
    ];
    for end in ends {
        let mut state = empty_state();
        state.apply_node(zoned("n0", "a", 4));
        state.apply_pod(nominated("y", &none()));
        assert_eq!(waits(&mut state, "lower", 4, one("l")), 0);
        assert_eq!(waits(&mut state, "same", 5, one("s")), 0, "{}", message(&state, "same"));
        assert!(message(&state, "same").contains("Insufficient cpu"), "{}", message(&state, "same"));
        assert!(!state.has_work(Duration::ZERO));
        end(&mut state);
        assert!(state.has_work(Duration::ZERO));
        assert_eq!(run(&mut state, &PEACEFUL, Duration::ZERO).binds.len(), 2, "{}", message(&state, "same"));
        assert!(state.cache().accounting().audit().is_clean() && state.nominated_on("n0").is_none());
    }
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 4));
    state.apply_pod(nominated("y", &none()));
    assert_eq!(waits(&mut state, "higher", 6, one("h")), 1, "{}", message(&state, "higher"));
    // It is bound there: it counts once, and as a pod.
    state.apply_pod(running(nominated("y", &none()), "n0"));
    assert_eq!(state.cache().accounting().ledger().node("n0").unwrap().used.get("cpu"), crate::resources::Amount::from_units(5));
    assert!(state.nominated_on("n0").is_none() && state.cache().accounting().audit().is_clean());
}

#[test]
fn a_gang_respects_a_nomination_if_one_of_its_members_has_to() {
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 6));
    state.apply_pod(nominated("y", &none()));
    state.apply_group(group("ns", "g", 2, "default"));
    for (name, priority) in [("a", 9), ("b", 5)] {
        state.apply_pod(PodFacts { group: key("g"), priority, ..of(name, "x", 2, &none()) });
    }
    assert!(run(&mut state, &PEACEFUL, Duration::ZERO).binds.is_empty());
}

#[test]
fn a_pod_must_fit_with_and_without_what_is_nominated_beside_it() {
    let away = keeps_away("ns", ("app", "db"), ZONE);
    let (kept_away, keeps, ports) = (of("p", "db", 1, &none()), of("p", "x", 1, &away), of("p", "x", 1, &with_port()));
    let required = of("p", "x", 1, &beside("db", ZONE));
    for (theirs, ours, takes) in [
        (nominated("x", &away), &kept_away, 0),
        (nominated("db", &none()), &keeps, 0),
        (nominated("x", &with_port()), &ports, 0),
        (nominated("db", &none()), &required, 0),
        (nominated("x", &none()), &keeps, 1),
    ] {
        let mut state = empty_state();
        state.apply_node(zoned("n0", "a", 8));
        state.apply_pod(theirs);
        assert_eq!(waits(&mut state, "g", 0, ours.clone()), takes, "{}", message(&state, "g"));
    }
}

#[test]
fn a_nominated_pod_opens_no_domain_of_a_spread() {
    // The only pod of the least domain is nominated: it may never come.
    for (nominated_node, takes) in [(Some("n0".into()), 0), (None, 1)] {
        let mut state = empty_state();
        [zoned("n0", "a", 8), zoned("n1", "b", 8)].into_iter().for_each(|node| state.apply_node(node));
        state.apply_pod(foreign(running(of("there", "x", 1, &none()), "n1")));
        let least = PodFacts { nominated_node, ..nominated("x", &none()) };
        state.apply_pod(if takes == 0 { least } else { running(least, "n0") });
        let mut facts = of("p", "x", 1, &spread("x"));
        facts.terms = without_node_policies(&facts.terms);
        facts.constraints.node_selector.insert(ZONE.into(), "b".into());
        assert_eq!(waits(&mut state, "g", 0, facts), takes, "{}", message(&state, "g"));
    }
}

/// All nodes count.
fn without_node_policies(terms: &PodTerms) -> Arc<PodTerms> {
    let mut terms = terms.clone();
    terms.spread.iter_mut().for_each(|spread| spread.honors_node_affinity = false);
    Arc::new(terms)
}

#[test]
fn a_pod_of_a_higher_priority_is_tried_when_there_is_room_but_for_what_is_nominated() {
    let mut state = empty_state();
    state.apply_node(node("n0", &[("cpu", 4)]));
    state.apply_pod(nominated("y", &none()));
    state.apply_pod(foreign(running(of("leaves", "y", 3, &none()), "n0")));
    assert_eq!(waits(&mut state, "higher", 6, of("h", "x", 3, &none())), 0);
    state.delete_pod(&"ns/leaves".into());
    assert_eq!(run(&mut state, &PEACEFUL, Duration::ZERO).binds.len(), 1, "{}", message(&state, "higher"));
}

/// The pod `g-0` with these terms is nominated on the only node, for which `victim` is being evicted.
fn ours_is_nominated(label: &str, terms: &Arc<PodTerms>) -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(zoned("n0", "a", 8));
    runs(&mut state, 0, of("victim", "y", 6, &none()), "n0");
    let (bound, victims) = asks(&mut state, of("g-0", label, 4, terms));
    assert_eq!((bound, victims), (0, vec!["victim".to_owned()]), "{}", message(&state, "g"));
    state
}

#[test]
fn our_nominated_pods_count_for_pods_that_are_decided_meanwhile() {
    let away = keeps_away("ns", ("app", "db"), ZONE);
    let required = of("p", "x", 0, &beside("db", ZONE));
    for (label, terms, other, takes, takes_then) in [
        ("g", &with_port(), of("p", "x", 0, &with_port()), 0, 1),
        ("g", &away, of("p", "db", 0, &none()), 0, 1),
        ("db", &none(), of("p", "x", 0, &away), 0, 1),
        ("db", &none(), required, 0, 0),
        ("g", &none(), of("p", "x", 0, &away), 1, 0),
    ] {
        let mut state = ours_is_nominated(label, terms);
        assert_eq!(waits(&mut state, "other", 0, other), takes, "{}", message(&state, "other"));
        // It is given up.
        state.delete_pod(&"ns/g-0".into());
        assert_eq!(run(&mut state, &PEACEFUL, Duration::ZERO).binds.len(), takes_then, "{}", message(&state, "other"));
    }
}

#[test]
fn a_nomination_waits_for_a_terminating_pod_that_is_in_its_way_and_is_given_up_for_one_that_stays() {
    let way = |deleting| foreign(PodFacts { deleting, ..running(of("in-the-way", "y", 0, &with_port()), "n0") });
    for leaves in [true, false] {
        let mut state = ours_is_nominated("g", &with_port());
        state.apply_pod(way(leaves));
        state.delete_pod(&"ns/victim".into());
        assert!(run(&mut state, &PEACEFUL, Duration::ZERO).binds.is_empty());
        assert_eq!(state.nominated(&key("g")).is_some(), leaves);
        state.delete_pod(&"ns/in-the-way".into());
        let plan = run(&mut state, &PEACEFUL, Duration::ZERO);
        assert_eq!(plan.binds.len(), usize::from(leaves), "{}", message(&state, "g"));
        assert!(state.cache().accounting().audit().is_clean());
    }
}
