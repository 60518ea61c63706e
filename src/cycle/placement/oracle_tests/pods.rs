//! Random pods, as the API server stores them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::terms::{labels, node_affinity, spread, terms};

pub(super) const NAMESPACES: [&str; 3] = ["x", "y", "z"];

fn some(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), value]
}

fn ports() -> impl Strategy<Value = Value> {
    let address = prop_oneof![2 => Just(""), 1 => Just("0.0.0.0"), 1 => Just("10.0.0.1"), 1 => Just("10.0.0.2")];
    let port = (0..3_u16, address, prop::option::of(prop_oneof![Just("TCP"), Just("UDP"), Just("SCTP")]))
        .prop_map(|(port, address, protocol)| json!({ "containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol }));
    prop_oneof![5 => Just(json!([])), 1 => prop::collection::vec(port, 1..3).prop_map(Value::Array)]
}

/// The requests of a container; often none.
fn requests() -> impl Strategy<Value = Value> {
    prop_oneof![4 => Just(json!({})), 1 => some_requests()]
}

/// One to three requests. A request of nothing is one that no node lacks.
pub(super) fn some_requests() -> impl Strategy<Value = Value> {
    let one = |name: &'static str, amounts: &'static [&'static str]| (Just(name), prop::sample::select(amounts));
    let amount = prop_oneof![
        4 => one("cpu", &["0", "500m", "1", "2", "3"]),
        2 => one("memory", &["0", "1Gi", "1500Mi", "2G"]),
        1 => one("ephemeral-storage", &["0", "1Gi", "2Gi"]),
        1 => one("example.com/gpu", &["0", "1", "2"]),
        1 => one("hugepages-2Mi", &["2Mi", "4Mi"]),
    ];
    prop::collection::vec(amount, 1..4)
        .prop_map(|all| Value::Object(all.into_iter().map(|(name, amount)| (name.to_owned(), json!(amount))).collect()))
}

/// The resources of the pod as a whole (`spec.resources`); mostly none. Names other than cpu, memory and huge pages do not count there.
/// None is 0: the API server refuses less than the containers request together.
fn of_the_whole() -> impl Strategy<Value = Value> {
    let positive = some_requests().prop_map(|requests| {
        let requests: Map<String, Value> = requests.as_object().unwrap().clone().into_iter().filter(|(_, amount)| *amount != "0").collect();
        json!({ "requests": requests })
    });
    prop_oneof![5 => Just(Value::Null), 1 => positive]
}

fn tolerations() -> impl Strategy<Value = Value> {
    let effect = prop_oneof![Just(Value::Null), Just(json!("NoSchedule")), Just(json!("NoExecute")), Just(json!("PreferNoSchedule"))];
    let key = || prop_oneof![Just("k"), Just("l")];
    let cordoned = "node.kubernetes.io/unschedulable";
    let toleration = prop_oneof![
        (prop_oneof![Just(json!("k")), Just(json!("l")), Just(json!(cordoned)), Just(json!("")), Just(Value::Null)], effect.clone())
            .prop_map(|(key, effect)| json!({ "key": key, "operator": "Exists", "effect": effect })),
        (key(), prop_oneof![Just("v"), Just("w"), Just("")], effect, prop_oneof![Just(json!("Equal")), Just(Value::Null)])
            .prop_map(|(key, value, effect, operator)| json!({ "key": key, "operator": operator, "value": value, "effect": effect })),
        key().prop_map(|key| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60 })),
    ];
    prop::collection::vec(toleration, 0..3).prop_map(Value::Array)
}

fn container() -> impl Strategy<Value = Value> {
    (ports(), requests(), prop::bool::weighted(0.1)).prop_map(|(ports, requests, restarts)| {
        let rules = if restarts {
            json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [1] } }])
        } else {
            json!([])
        };
        json!({ "ports": ports, "resources": { "requests": requests }, "restartPolicyRules": rules })
    })
}

fn containers() -> impl Strategy<Value = [Value; 2]> {
    let init = (container(), any::<bool>()).prop_map(|(mut container, sidecar)| {
        container["restartPolicy"] = if sidecar { json!("Always") } else { Value::Null };
        container
    });
    let named = |kind: &'static str| {
        move |mut all: Vec<Value>| {
            all.iter_mut().enumerate().for_each(|(at, container)| container["name"] = json!(format!("{kind}{at}")));
            Value::Array(all)
        }
    };
    let (plain, init) = (prop::collection::vec(container(), 1..3), prop::collection::vec(init, 0..3));
    (plain.prop_map(named("c")), init.prop_map(named("i"))).prop_map(|(plain, init)| [plain, init])
}

/// A pod without a name. Each kind of constraint is there or not, so that each pair of kinds comes alone, too.
pub(super) fn pod() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![4 => Just(json!({})), 1 => (0..2_u8).prop_map(|zone| json!({ "zone": zone.to_string() }))];
    let overhead = prop_oneof![9 => Just(Value::Null), 1 => Just(json!({ "cpu": "250m", "memory": "1Gi" }))];
    let constraints = (some(terms()), some(terms()), some(spread()), node_affinity(), tolerations(), selector);
    let host = (prop::bool::weighted(0.1), prop::option::weighted(0.2, any::<bool>()), of_the_whole());
    let namespace = prop_oneof![4 => Just("x"), 1 => prop::sample::select(&NAMESPACES[..])];
    (namespace, labels(), containers(), overhead, constraints, host).prop_map(
        |(namespace, labels, [containers, init_containers], overhead, constraints, (network, users, whole))| {
            let (affinity, anti_affinity, spread, node_affinity, tolerations, selector) = constraints;
            let pod = json!({
                "metadata": { "namespace": namespace, "labels": labels },
                "spec": {
                    "schedulerName": "ours", "hostNetwork": network, "hostUsers": users, "nodeSelector": selector, "tolerations": tolerations,
                    "containers": containers, "initContainers": init_containers, "overhead": overhead, "resources": whole, "topologySpreadConstraints": spread,
                    "affinity": { "podAffinity": affinity, "podAntiAffinity": anti_affinity, "nodeAffinity": node_affinity },
                },
                "status": { "phase": "Pending" },
            });
            without_nulls(stored(pod))
        },
    )
}

/// Merges the label keys of affinity terms into their selectors, as the API server does when a pod is created. Those of spread constraints
/// stay as they are: the API server merges them too, and kube-scheduler merges them for pods that were created before it did.
pub(super) fn stored(mut pod: Value) -> Value {
    let labels = pod["metadata"]["labels"].clone();
    for (kind, required) in ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let terms = &mut pod["spec"]["affinity"][kind];
        let terms = if required {
            terms["requiredDuringSchedulingIgnoredDuringExecution"].as_array_mut().map(|all| all.iter_mut().collect())
        } else {
            let preferred = terms["preferredDuringSchedulingIgnoredDuringExecution"].as_array_mut();
            preferred.map(|all| all.iter_mut().map(|one| &mut one["podAffinityTerm"]).collect())
        };
        let terms: Vec<&mut Value> = terms.unwrap_or_default();
        for term in terms.into_iter().filter(|term| !term["labelSelector"].is_null()) {
            for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
                let keys = term[field].as_array().cloned().unwrap_or_default();
                for key in keys.iter().filter(|key| labels.get(key.as_str().unwrap()).is_some()) {
                    let more = json!({ "key": key, "operator": operator, "values": [labels[key.as_str().unwrap()]] });
                    if !term["labelSelector"]["matchExpressions"].is_array() {
                        term["labelSelector"]["matchExpressions"] = json!([]);
                    }
                    term["labelSelector"]["matchExpressions"].as_array_mut().unwrap().push(more);
                }
            }
        }
    }
    pod
}

/// Gives the pod its name, which is its UID too.
pub(super) fn named(mut pod: Value, name: &str) -> Value {
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(name);
    pod
}

/// Takes the fields away that are null, as the API server does.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, without_nulls(value))).collect(),
        ),
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
