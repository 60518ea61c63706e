//! What changes while pods are held for volumes, and what becomes of them then?

use super::*;
use crate::api::GroupFacts;
use crate::cycle::testing::{queue, running};

fn given_back(state: &SchedulingState, name: &str, why: &str) {
    let message = message(state, name);
    assert!(message.contains("the nodes were given back without volumes") && message.contains(why), "{message}");
}

/// One node, the volumes `v0` and `v1` there, and the claims `c0` and `c1`.
fn two_volumes() -> SchedulingState {
    let mut state = state(&[("n1", "a")]);
    for (volume_name, claim_name) in [("v0", "c0"), ("v1", "c1")] {
        apply_volume(&mut state, &volume(volume_name, 5, Some("n1")));
        apply_claim(&mut state, &claim(claim_name, "local", 5));
    }
    state
}

fn bind_one(state: &mut SchedulingState, volume_name: &str, claim_name: &str) {
    bind_claim(state, volume(volume_name, 5, Some("n1")), claim(claim_name, "local", 5));
}

#[test]
fn held_pods_are_not_bound_where_a_cycle_would_not_decide_on_it_any_more() {
    type Change = fn(&mut SchedulingState);
    let changes: [(&str, Change); 7] = [
        ("another scheduler has filled the node", |state| {
            let theirs = running(pod("theirs", "x", "theirs", &[("cpu", 3)]), "n1");
            state.apply_pod(PodFacts { scheduler: "another".into(), names_group: false, ..theirs });
        }),
        ("the capability is lowered", |state| state.apply_queue(queue("default", None, &[("cpu", 1)]))),
        ("the PodGroup is in another queue", |state| {
            state.apply_queue(queue("q", None, &[("cpu", 4)]));
            state.apply_group(group("ns", "g", 2, "q"));
        }),
        ("the node is gone", |state| state.delete_node("n1")),
        ("the node is cordoned", |state| state.apply_node(NodeFacts { unschedulable: true, ..in_zone("n1", "a") })),
        ("the PodGroup is being deleted", |state| state.apply_group(GroupFacts { deleting: true, ..group("ns", "g", 2, "default") })),
        ("nothing", |_| ()),
    ];
    for (name, change) in changes {
        let mut state = two_volumes();
        gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
        assert_eq!(ties(&cycle(&mut state)).len(), 2);
        change(&mut state);
        let _plan = cycle(&mut state);
        bind_one(&mut state, "v0", "c0");
        bind_one(&mut state, "v1", "c1");
        let plan = cycle(&mut state);
        assert_eq!(bound(&plan).len(), if name == "nothing" { 2 } else { 0 }, "{name}: {plan:?}");
        assert!(state.holds.is_empty(), "{name}");
    }
}

#[test]
fn a_further_member_is_not_bound_before_the_minimum_has_its_volumes() {
    for is_bound in [true, false] {
        let mut state = two_volumes();
        gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
        state.apply_pod(member("g-2", "g", 1, &[]));
        assert_eq!(bound(&cycle(&mut state)), []);
        assert_eq!(bound(&cycle(&mut state)), []);
        bind_one(&mut state, "v0", "c0");
        if is_bound {
            bind_one(&mut state, "v1", "c1");
            assert_eq!(bound(&cycle(&mut state)), [("g-0", "n1"), ("g-1", "n1"), ("g-2", "n1")]);
        } else {
            assert_eq!(bound(&cycle_at(&mut state, 600)), []);
            given_back(&state, "g", "persistentvolumeclaim \"c1\" was not bound in time");
            assert_eq!(state.cache().accounting().ledger().node("n1").unwrap().used.get("cpu"), crate::resources::Amount::ZERO);
        }
        assert!(state.holds.is_empty());
    }
}

#[test]
fn a_further_member_waits_for_no_other_one() {
    let mut state = two_volumes();
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    state.apply_group(group("ns", "g", 1, "default"));
    assert_eq!(ties(&cycle(&mut state)).len(), 2);
    bind_one(&mut state, "v1", "c1");
    assert_eq!(bound(&cycle(&mut state)), [("g-1", "n1")]);
}

#[test]
fn a_volume_that_is_lost_while_its_claim_waits_ends_the_attempt() {
    type Change = fn(&mut SchedulingState);
    let tied_to = |uid: &str| {
        let mut tied = volume("v0", 5, Some("n1"));
        tied["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "c0", "uid": uid });
        tied
    };
    let changes: [(&str, Change); 3] = [
        ("is not reserved for persistentvolumeclaim \"c0\" any more", |state| apply_volume(state, &volume("v0", 5, Some("n1")))),
        ("persistentvolume \"v0\" is gone", |state| state.delete_volume(&Arc::from("v0"))),
        ("is given to another claim", |state| {
            let mut theirs = volume("v0", 5, Some("n1"));
            theirs["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "theirs", "uid": "x" });
            apply_volume(state, &theirs);
        }),
    ];
    for (why, change) in changes {
        let mut state = two_volumes();
        gang(&mut state, "g", 1, &[&["c0"]]);
        assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "v0")]));
        apply_volume(&mut state, &tied_to("uid-c0"));
        let _plan = cycle(&mut state);
        assert!(!state.holds.is_empty());
        change(&mut state);
        let _plan = cycle(&mut state);
        given_back(&state, "g", why);
    }
    // The claim is made again before its volume was seen with it.
    let mut state = two_volumes();
    gang(&mut state, "g", 1, &[&["c0"]]);
    let _plan = cycle(&mut state);
    let mut again = claim("c0", "local", 5);
    again["metadata"]["uid"] = json!("second");
    apply_claim(&mut state, &again);
    apply_volume(&mut state, &tied_to("uid-c0"));
    let _plan = cycle(&mut state);
    given_back(&state, "g", "is given to another claim");
}

#[test]
fn a_claim_that_has_no_volume_any_more_ends_the_attempt() {
    let mut state = two_volumes();
    bind_one(&mut state, "v0", "c0");
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c1", "v1")]));
    // It is deleted and made again.
    apply_claim(&mut state, &claim("c0", "local", 5));
    bind_one(&mut state, "v1", "c1");
    assert_eq!(bound(&cycle(&mut state)), []);
    given_back(&state, "g", "persistentvolumeclaim \"c0\" has no volume any more");
}

#[test]
fn a_refused_write_ends_the_attempts_that_rely_on_it_after_its_own() {
    let mut state = two_volumes();
    gang(&mut state, "g", 1, &[&["c0"]]);
    let first = cycle(&mut state).volumes;
    gang(&mut state, "h", 1, &[&["c0"]]);
    assert_eq!(ties(&cycle(&mut state)), [], "it is tied once");
    state.delete_pod(&Uid::from("ns/g-0"));
    let _plan = cycle(&mut state);
    state.refuse_volume(first[0].binding, &ClaimKey::new("ns", "c0"), "conflict");
    let _plan = cycle(&mut state);
    given_back(&state, "h", "could not be tied to its volume or node: conflict");
    // An answer that comes late ends no attempt with a write of its own.
    assert_eq!(ties(&cycle_at(&mut state, 100)), tied(&[("c0", "v0")]));
    state.refuse_volume(first[0].binding, &ClaimKey::new("ns", "c0"), "conflict");
    let _plan = cycle_at(&mut state, 100);
    assert!(!state.holds.is_empty());
}
