//! Volumes that are made only where their driver has enough storage, as small scenarios: which node is chosen, why none is, and what wakes the pods.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::GroupKey;
use crate::api::volumes::{CapacityFacts, CapacityKey, CsiDriverFacts};
use crate::cycle::explain::Code;
use crate::cycle::holds::claims::tests::{HOST, apply_claim, claim, cycle, gang, state, tied, ties};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, message};

/// The driver of the class `made` says whether it publishes its capacity.
fn publishes(state: &mut SchedulingState, publishes: bool) {
    state.apply_csi_driver(CsiDriverFacts { name: "p.example.com".into(), publishes_capacity: publishes });
}

/// So many Gi are left for the class on nodes with these labels.
fn left(state: &mut SchedulingState, name: &str, class: &str, labels: &Value, size: u32) {
    let capacity = json!({
        "metadata": { "namespace": "csi", "name": name }, "storageClassName": class,
        "nodeTopology": { "matchLabels": labels }, "capacity": format!("{size}Gi"),
    });
    state.apply_capacity(CapacityFacts::of(&serde_json::from_value(capacity).unwrap()));
}

fn is_tried(state: &SchedulingState) -> bool {
    state.has_work(Duration::ZERO)
}

/// A gang of one pod with a claim of the class `made`, of 5 Gi, which found no storage.
fn refused() -> SchedulingState {
    let mut state = state(&[("n1", "a"), ("n2", "a"), ("n3", "b")]);
    publishes(&mut state, true);
    apply_claim(&mut state, &claim("data", "made", 5));
    gang(&mut state, "g", 1, &[&["data"]]);
    assert!(bound(&cycle(&mut state)).is_empty());
    let says = "0/3 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 2 node(s) did not have enough free \
                storage; no node has a volume for claim \"data\"";
    assert_eq!(message(&state, "g"), says);
    let refusal = state.cache().groups()[&GroupKey::new("ns", "g")].refusal.clone().unwrap();
    assert_eq!(refusal.code(), Code::NotEnoughStorage);
    assert!(!is_tried(&state));
    state
}

#[test]
fn a_gang_waits_until_its_class_has_enough_storage_on_a_node() {
    let mut state = refused();
    left(&mut state, "other", "local", &json!({}), 50);
    assert!(!is_tried(&state), "it is of another class");
    left(&mut state, "one", "made", &json!({ HOST: "n2" }), 4);
    assert!(is_tried(&state) && ties(&cycle(&mut state)).is_empty());
    left(&mut state, "one", "made", &json!({ HOST: "n2" }), 3);
    assert!(!is_tried(&state), "it has less than before");
    left(&mut state, "one", "made", &json!({ HOST: "n2" }), 5);
    assert!(is_tried(&state));
    assert_eq!(ties(&cycle(&mut state)), tied(&[("data", "@n2")]));
}

#[test]
fn a_driver_that_publishes_its_capacity_no_more_keeps_no_volume_away() {
    for is_deleted in [true, false] {
        let mut state = refused();
        if is_deleted {
            state.delete_csi_driver(&"p.example.com".into());
        } else {
            publishes(&mut state, false);
        }
        assert!(is_tried(&state));
        assert_eq!(ties(&cycle(&mut state)).len(), 1);
    }
}

#[test]
fn capacity_that_is_gone_is_not_counted() {
    let mut state = refused();
    left(&mut state, "one", "made", &json!({}), 5);
    state.delete_capacity(&CapacityKey::new("csi", "one"));
    assert!(ties(&cycle(&mut state)).is_empty());
}

/// As in kube-scheduler: the driver publishes what is left when it has made the volume, and its provisioner refuses what does not fit.
#[test]
fn capacity_is_not_reserved() {
    let mut state = state(&[("n1", "a")]);
    publishes(&mut state, true);
    left(&mut state, "one", "made", &json!({}), 5);
    for name in ["c0", "c1"] {
        apply_claim(&mut state, &claim(name, "made", 5));
    }
    gang(&mut state, "g", 1, &[&["c0"], &["c1"]]);
    assert_eq!(ties(&cycle(&mut state)), tied(&[("c0", "@n1"), ("c1", "@n1")]));
}
