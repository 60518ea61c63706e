//! For which kinds of devices are nodes kept free, and for how long?

use crate::api::PodFacts;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state};
use crate::cycle::testing::{PEACEFUL, group, node, pod, running};
use crate::cycle::*;

const GPU: &str = "example.com/gpu";

/// A node with devices, which is emptier, and one without.
fn two_nodes() -> SchedulingState {
    let mut state = empty_state();
    state.apply_node(node("with-devices", &[("cpu", 64), (GPU, 8)]));
    state.apply_node(node("without", &[("cpu", 8)]));
    state
}

fn comes(state: &mut SchedulingState, name: &str, asks: &[(&str, i64)]) -> PodFacts {
    state.apply_group(group("ns", name, 1, "default"));
    let facts = pod("ns", name, name, asks);
    state.apply_pod(facts.clone());
    facts
}

/// The node of a pod that requests no device.
fn node_of_another(state: &mut SchedulingState, name: &str) -> String {
    comes(state, name, &[("cpu", 1)]);
    let plan = run(state, &PEACEFUL, Duration::ZERO);
    bound(&plan).into_iter().find(|(pod, _)| *pod == name).map(|(_, node)| node.to_owned()).unwrap()
}

#[test]
fn kinds_of_devices_that_no_node_has_take_no_room_from_other_kinds() {
    for stay in [false, true] {
        let mut state = two_nodes();
        for number in 0..300 {
            let name = format!("unknown-{number}");
            let facts = comes(&mut state, &name, &[("cpu", 1), (&format!("unknown.example.com/kind-{number}"), 1)]);
            if !stay {
                state.delete_pod(&facts.uid);
            }
        }
        state.apply_pod(PodFacts { scheduler: "other".into(), ..running(pod("ns", "trains", "none", &[(GPU, 1)]), "with-devices") });
        assert_eq!(node_of_another(&mut state, "serves"), "without", "they stay: {stay}");
    }
}

#[test]
fn nodes_stay_free_for_a_kind_while_one_has_it() {
    let mut state = two_nodes();
    assert_eq!(node_of_another(&mut state, "first"), "with-devices", "no pod has requested one yet");
    let facts = comes(&mut state, "trains", &[(GPU, 1)]);
    state.delete_pod(&facts.uid);
    assert_eq!(node_of_another(&mut state, "second"), "without");
    // The kind is forgotten with the last node that has it.
    state.delete_node("with-devices");
    state.apply_node(node("with-devices", &[("cpu", 64), (GPU, 8)]));
    assert_eq!(node_of_another(&mut state, "third"), "with-devices");
    // It is not while a pod requests it, as one does that waits for a node.
    state.delete_node("with-devices");
    comes(&mut state, "waits", &[(GPU, 9)]);
    state.apply_node(node("with-devices", &[("cpu", 64), (GPU, 8)]));
    assert_eq!(node_of_another(&mut state, "fourth"), "without");
    // Or while another node has it, in whatever order they come and change.
    state.delete_pod(&"ns/waits".into());
    state.apply_node(node("more", &[("cpu", 64), (GPU, 8)]));
    state.apply_node(node("with-devices", &[("cpu", 64)]));
    state.delete_node("with-devices");
    assert_eq!(node_of_another(&mut state, "fifth"), "without");
}
