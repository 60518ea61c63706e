//! Random terms of affinity, spread constraints and node affinity.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::pods::NAMESPACES;

pub(super) fn labels() -> impl Strategy<Value = Value> {
    let value = || prop::option::weighted(0.7, 0..2_u8);
    (value(), value()).prop_map(|(app, tier)| {
        let label = |key: &str, value: Option<u8>| value.map(|value| (key.to_owned(), json!(value.to_string())));
        Value::Object(label("app", app).into_iter().chain(label("tier", tier)).collect())
    })
}

/// A label selector, sometimes empty or missing.
fn selector() -> impl Strategy<Value = Value> {
    let values = || prop::collection::btree_set((0..2_u8).prop_map(|value| value.to_string()), 1..3);
    let key = || prop_oneof![Just("app"), Just("tier")];
    let expression = prop_oneof![
        (key(), values()).prop_map(|(key, values)| json!({ "key": key, "operator": "In", "values": values })),
        (key(), values()).prop_map(|(key, values)| json!({ "key": key, "operator": "NotIn", "values": values })),
        key().prop_map(|key| json!({ "key": key, "operator": "Exists" })),
        key().prop_map(|key| json!({ "key": key, "operator": "DoesNotExist" })),
    ];
    prop_oneof![
        6 => (labels(), prop::collection::vec(expression, 0..2))
            .prop_map(|(labels, expressions)| json!({ "matchLabels": labels, "matchExpressions": expressions })),
        1 => Just(json!({})),
        1 => Just(Value::Null),
    ]
}

fn topology_key() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just("zone"), 4 => Just("kubernetes.io/hostname"), 3 => Just("rack"), 1 => Just("nowhere")]
}

fn label_keys(most: usize) -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("app"), Just("tier"), Just("none")];
    let keys = prop::collection::btree_set(key, 1..=most).prop_map(|keys| json!(keys));
    prop_oneof![4 => Just(Value::Null), 1 => keys]
}

/// The selectors of namespaces by which ours and kube-scheduler differ are in `differences`.
fn namespace_selector() -> impl Strategy<Value = Value> {
    let is_in = |values: &[&str]| json!({ "matchExpressions": [{ "key": "team", "operator": "In", "values": values }] });
    prop_oneof![
        4 => Just(Value::Null),
        1 => Just(json!({})),
        1 => Just(json!({ "matchExpressions": [{ "key": "team", "operator": "Exists" }] })),
        1 => Just(json!({ "matchLabels": { "team": "a" } })),
        1 => Just(is_in(&["b", "c"])),
    ]
}

pub(super) fn terms() -> impl Strategy<Value = Value> {
    let names = prop::collection::btree_set(prop::sample::select(&NAMESPACES[..]), 0..3);
    let term = (selector(), topology_key(), namespace_selector(), names, label_keys(2), label_keys(1)).prop_map(
        |(selector, topology_key, of_namespaces, names, matching, mismatching)| {
            json!({
                "labelSelector": selector, "topologyKey": topology_key, "namespaceSelector": of_namespaces, "namespaces": names,
                "matchLabelKeys": matching, "mismatchLabelKeys": mismatching,
            })
        },
    );
    prop::collection::vec(term, 0..3).prop_map(|terms| json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms }))
}

pub(super) fn spread() -> impl Strategy<Value = Value> {
    let policy = || prop::option::of(prop_oneof![Just("Honor"), Just("Ignore")]);
    let keys = prop::collection::btree_set(prop_oneof![Just("app"), Just("tier"), Just("none")], 0..2);
    // Most of them count many pods, so that domains differ by more than the skew.
    let key = || prop_oneof![Just("app"), Just("tier")];
    let broad = prop_oneof![
        key().prop_map(|key| json!({ "matchExpressions": [{ "key": key, "operator": "Exists" }] })),
        key().prop_map(|key| json!({ "matchLabels": { key: "0" } })),
        key().prop_map(|key| json!({ "matchExpressions": [{ "key": key, "operator": "NotIn", "values": ["1"] }] })),
    ];
    let selector = prop_oneof![3 => broad, 1 => selector()];
    let (skew, domains) = (prop_oneof![3 => Just(1), 1 => Just(2)], prop::option::of(1..4_i32));
    let constraint = (selector, topology_key(), skew, domains, policy(), policy(), keys, prop::bool::weighted(0.8)).prop_map(
        |(selector, topology_key, max_skew, min_domains, affinity, taints, keys, hard)| {
            json!({
                "labelSelector": selector, "topologyKey": topology_key, "maxSkew": max_skew,
                "minDomains": if hard { json!(min_domains) } else { Value::Null },
                "nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints, "matchLabelKeys": keys,
                "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
            })
        },
    );
    prop::collection::vec(constraint, 0..3).prop_map(Value::Array)
}

/// Bounds of `Gt` and `Lt`: the smallest and the largest, and one with zeros before it.
const BOUNDS: [&str; 5] = ["0", "1", "2", "007", "9223372036854775807"];

pub(super) fn node_affinity() -> impl Strategy<Value = Value> {
    let label = prop_oneof![Just("zone"), Just("rack"), Just("gen"), Just("none")];
    let requirement = prop_oneof![
        (label.clone(), prop::collection::btree_set(0..3_u8, 1..3), any::<bool>()).prop_map(|(key, values, is_in)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            json!({ "key": key, "operator": if is_in { "In" } else { "NotIn" }, "values": values })
        }),
        (label.clone(), any::<bool>())
            .prop_map(|(key, exists)| json!({ "key": key, "operator": if exists { "Exists" } else { "DoesNotExist" } })),
        (prop_oneof![2 => Just("gen"), 1 => label], prop::sample::select(&BOUNDS[..]), any::<bool>())
            .prop_map(|(key, bound, gt)| json!({ "key": key, "operator": if gt { "Gt" } else { "Lt" }, "values": [bound] })),
    ];
    let field = (0..4_u8, any::<bool>()).prop_map(
        |(node, is_in)| json!({ "key": "metadata.name", "operator": if is_in { "In" } else { "NotIn" }, "values": [format!("n{node}")] }),
    );
    let term = (prop::collection::vec(requirement, 0..3), prop::collection::vec(field, 0..3))
        .prop_map(|(expressions, fields)| json!({ "matchExpressions": expressions, "matchFields": fields }));
    prop_oneof![
        3 => Just(Value::Null),
        1 => prop::collection::vec(term, 1..3)
            .prop_map(|terms| json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } })),
    ]
}
