//! Tests of the facts about a Queue.

use super::*;
use crate::resources::Amount;
use serde_json::{Value, from_value, json};

fn facts(annotations: Value, spec: Value) -> QueueFacts {
    QueueFacts::of(&from_value(json!({ "metadata": { "name": "q", "annotations": annotations }, "spec": spec })).unwrap())
}

#[test]
fn unset_fields_have_their_defaults_and_unset_is_not_0() {
    let facts = facts(json!({}), json!({}));
    assert_eq!((&facts.deserved, &facts.guarantee, facts.weight), (&Limits::new(), &Limits::new(), 1));
    assert!(facts.reclaimable && !facts.closed_by_hand && facts.faults.is_empty());
    assert_eq!(facts.dequeue_strategy, DequeueStrategy::Traverse);
}

#[test]
fn set_fields_are_read_and_a_weight_below_1_is_1() {
    let of_weight = |weight: i32| facts(json!({}), json!({ "weight": weight })).weight;
    let spec = json!({
        "deserved": { "cpu": 4 }, "guarantee": { "resource": { "cpu": "0", "memory": "1Gi" } },
        "weight": 7, "reclaimable": false, "dequeueStrategy": "fifo",
    });
    let facts = facts(json!({ QUEUE_DESIRED_STATE: "Closed" }), spec);
    assert_eq!(facts.deserved, Limits::new().with("cpu", Amount::from_units(4)));
    assert_eq!(facts.guarantee, Limits::new().with("cpu", Amount::ZERO).with("memory", Amount::from_units(1 << 30)));
    assert_eq!((facts.weight, facts.reclaimable, facts.closed_by_hand), (7, false, true));
    assert_eq!((facts.dequeue_strategy, facts.faults.len()), (DequeueStrategy::Fifo, 0));
    for weight in [0, -3] {
        assert_eq!(of_weight(weight), 1);
    }
}

#[test]
fn o1_an_unknown_desired_state_counts_as_open_and_is_a_fault() {
    let spec = json!({ "deserved": { "cpu": "x" }, "guarantee": { "resource": { "cpu": "-1" } }, "dequeueStrategy": "lifo" });
    let facts = facts(json!({ QUEUE_DESIRED_STATE: "closed" }), spec);
    assert!(!facts.closed_by_hand);
    let messages: Vec<_> = facts.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "spec.deserved.cpu \"x\": not a quantity; it counts as unset",
            "spec.guarantee.resource.cpu \"-1\": below 0; it counts as unset",
            "spec.dequeueStrategy \"lifo\": neither fifo nor traverse; it counts as traverse",
            "scheduling.volcano.sh/queue-desired-state \"closed\": neither Open nor Closed; it counts as Open",
        ]
    );
}

#[test]
fn an_amount_of_another_kind_than_its_resource_is_a_slip() {
    let of = |name: &str, amount: Value| {
        let facts = facts(json!({}), json!({ "capability": { name: amount } }));
        facts.faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (name, amount, why) in [
        ("cpu", json!("4Mi"), "a million CPUs and more: most likely another unit is meant"),
        ("memory", json!(16), "less than a mebibyte: most likely a unit is missing, as Gi"),
        ("nvidia.com/gpu", json!("8Gi"), "a billion and more of what is counted: most likely no unit is meant"),
    ] {
        let said = of(name, amount);
        assert!(said.len() == 1 && said[0].ends_with(why), "{name}: {said:?}");
    }
    for (name, amount) in [("cpu", json!("999k")), ("memory", json!("1Mi")), ("memory", json!(0)), ("volcano.sh/vgpu-memory", json!("80M"))]
    {
        assert_eq!(of(name, amount.clone()), [""; 0], "{name} {amount}");
    }
}

#[test]
fn a_guarantee_or_deserved_amount_above_the_capability_is_a_fault() {
    let promised = json!({ "cpu": 5, "memory": "1Gi" });
    let of = |capability: Value| {
        let facts = facts(json!({}), json!({ "capability": capability, "deserved": promised, "guarantee": { "resource": promised } }));
        facts.faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(of(json!({ "cpu": 5 })), Vec::<String>::new());
    let above = "\"5\": above the capability of the queue, 1500m; it counts as 1500m";
    let want = [format!("spec.guarantee.resource.cpu {above}"), format!("spec.deserved.cpu {above}")];
    assert_eq!(of(json!({ "cpu": "1500m", "memory": "1Gi" })), want);
    assert_eq!(of(json!({ "cpu": 1, "memory": "1Mi" })).len(), 4, "each dimension of both");
}

#[test]
fn required_node_groups_are_the_first_fault_and_preferred_ones_are_none() {
    let names = |names: &[&str]| json!({ "requiredDuringSchedulingIgnoredDuringExecution": names });
    let soft = json!({ "preferredDuringSchedulingIgnoredDuringExecution": ["a"] });
    for affinity in
        [json!({}), json!({ "nodeGroupAffinity": soft }), json!({ "nodeGroupAffinity": names(&[]), "nodeGroupAntiAffinity": {} })]
    {
        let facts = facts(json!({}), json!({ "affinity": affinity }));
        assert_eq!((facts.node_groups, facts.faults.len()), (None, 0), "{affinity}");
    }
    for name in ["nodeGroupAffinity", "nodeGroupAntiAffinity"] {
        let facts = facts(json!({}), json!({ "affinity": { name: names(&["a", "b"]) }, "dequeueStrategy": "lifo" }));
        let field = format!("spec.affinity.{name}.requiredDuringSchedulingIgnoredDuringExecution");
        assert_eq!((facts.node_groups, facts.faults.len()), (Some(field.as_str()), 2));
        let message = format!("{field} \"a, b\": groups of nodes cannot be honoured yet; nothing is placed in this queue");
        assert_eq!(facts.faults[0].to_string(), message);
    }
}
