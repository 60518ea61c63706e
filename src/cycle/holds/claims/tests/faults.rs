//! Nodes, claims and provisioners that do other than decided: no pod of the gang is bound where its volume is not, and no claim is tied twice.

use super::*;
use crate::cycle::testing::running;

/// A claim `ns/name` of the class `made` that is tied to the node.
fn tied_claim(name: &str, node: &str) -> Value {
    let mut claim = claim(name, "made", 5);
    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!(node);
    claim
}

/// A gang of two with the claims `c0` and `c1` of the class `made`, which are tied to the node `a1`, where 2 cpu of 4 are left beside it.
fn tied_gang(nodes: &[(&str, &str)]) -> SchedulingState {
    let mut state = state(nodes);
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &claim(name, "made", 5));
    }
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "@a1"), ("c1", "@a1")]));
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &tied_claim(name, "a1"));
    }
    assert_eq!(bound(&cycle(&mut state)), []);
    state
}

fn bind_on(state: &mut SchedulingState, claim: &str, node: &str) {
    bind_claim(state, volume(&format!("made-for-{claim}"), 5, Some(node)), tied_claim(claim, "a1"));
}

#[test]
fn a_node_that_goes_while_volumes_are_made_there_takes_the_whole_gang_along_when_it_is_back() {
    let mut state = tied_gang(&[("a1", "a")]);
    bind_on(&mut state, "c0", "a1");
    assert_eq!(bound(&cycle(&mut state)), []);
    state.delete_node("a1");
    assert_eq!(bound(&cycle(&mut state)), []);
    let kept =
        "persistentvolumeclaim \"c0\" keeps persistentvolume \"made-for-c0\" (kubernetes.io/hostname=a1), and 1 further claim is like it";
    assert!(message(&state, "g").contains(kept), "{}", message(&state, "g"));
    assert!(state.holds.is_empty());
    // Another node of the zone mounts neither.
    state.apply_node(in_zone("a2", "a"));
    let plan = cycle_at(&mut state, 100);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![]));
    // The last volume is made after all, and the node is back.
    bind_on(&mut state, "c1", "a1");
    assert_eq!(bound(&cycle_at(&mut state, 100)), []);
    state.apply_node(in_zone("a1", "a"));
    assert_eq!(bound(&cycle_at(&mut state, 100)), [("g-0", "a1"), ("g-1", "a1")]);
}

#[test]
fn a_volume_that_is_made_elsewhere_gives_the_gang_back_and_the_other_claims_stay_tied() {
    for (made_on, placed) in [("a2", true), ("nowhere", false)] {
        let mut state = tied_gang(&[("a1", "a"), ("a2", "b")]);
        bind_on(&mut state, "c0", made_on);
        assert_eq!(bound(&cycle(&mut state)), [], "{made_on}");
        let kept = format!("persistentvolumeclaim \"c0\" keeps persistentvolume \"made-for-c0\" (kubernetes.io/hostname={made_on})");
        assert!(message(&state, "g").contains(&kept), "{}", message(&state, "g"));
        bind_on(&mut state, "c1", "a1");
        let plan = cycle_at(&mut state, 100);
        assert_eq!(ties(&plan), []);
        assert_eq!(bound(&plan), if placed { vec![("g-0", "a2"), ("g-1", "a1")] } else { vec![] }, "{}", message(&state, "g"));
    }
}

#[test]
fn a_claim_that_is_deleted_and_made_again_is_tied_again_and_the_others_are_not() {
    let mut state = tied_gang(&[("a1", "a")]);
    bind_on(&mut state, "c0", "a1");
    state.delete_claim(&ClaimKey::new("ns", "c1"));
    assert_eq!(bound(&cycle(&mut state)), []);
    let said = message(&state, "g");
    assert!(
        said.contains("persistentvolumeclaim \"c1\" not found") && said.contains("\"c0\" keeps persistentvolume \"made-for-c0\""),
        "{said}"
    );
    let mut again = claim("c1", "made", 5);
    again["metadata"]["uid"] = json!("second");
    apply_claim(&mut state, &again);
    let plan = cycle_at(&mut state, 100);
    assert_eq!((ties(&plan), &plan.volumes[0].claim_uid), (tied(&[("c1", "@a1")]), &Uid::from("second")));
    assert_eq!(bound(&plan), []);
    // A volume that names the first claim of this name is not for the second.
    let mut first = volume("made-for-the-first", 5, Some("a1"));
    first["spec"]["claimRef"] = json!({ "namespace": "ns", "name": "c1", "uid": "uid-c1" });
    apply_volume(&mut state, &first);
    assert_eq!(bound(&cycle_at(&mut state, 100)), []);
    bind_claim(&mut state, volume("made-for-the-second", 5, Some("a1")), again);
    assert_eq!(bound(&cycle_at(&mut state, 100)), [("g-0", "a1"), ("g-1", "a1")]);
}

#[test]
fn a_claim_that_another_client_changed_first_is_tied_in_the_next_attempt_with_its_new_version() {
    let mut state = state(&[("a1", "a")]);
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &claim(name, "made", 5));
    }
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    let plan = cycle(&mut state);
    // The API server has taken the write of c0, and refused that of c1.
    apply_claim(&mut state, &tied_claim("c0", "a1"));
    let mut changed = claim("c1", "made", 5);
    changed["metadata"]["resourceVersion"] = json!("6");
    apply_claim(&mut state, &changed);
    let of_c1 = plan.volumes.iter().find(|write| &*write.claim.name == "c1").unwrap();
    state.refuse_volume(of_c1.binding, &of_c1.claim, "conflict");
    assert_eq!(bound(&cycle(&mut state)), []);
    let (why, kept) =
        ("\"c1\" could not be tied to its volume or node: conflict", "; persistentvolumeclaim \"c0\" gets its volume on node \"a1\" only");
    assert!(message(&state, "g").contains(why) && message(&state, "g").ends_with(kept), "{}", message(&state, "g"));
    let plan = cycle_at(&mut state, 100);
    assert_eq!(ties(&plan), tied(&[("c1", "@a1")]));
    assert!(matches!(plan.volumes[0].tie, Tie::Node { resource_version: 6, .. }), "{plan:?}");
}

#[test]
fn after_a_restart_between_two_bindings_the_rest_of_the_gang_follows_its_volumes() {
    let mut state = state(&[("a1", "a"), ("a2", "a")]);
    for (name, node) in [("c0", "a1"), ("c1", "a2"), ("c2", "a2")] {
        bind_on(&mut state, name, node);
    }
    gang(&mut state, "g", 1, &[&["c0"], &["c1"], &["c2"]]);
    state.apply_pod(running(member("g-0", "g", 1, &["c0"]), "a1"));
    let plan = cycle(&mut state);
    assert_eq!((ties(&plan), bound(&plan)), (vec![], vec![("g-1", "a2"), ("g-2", "a2")]));
}
