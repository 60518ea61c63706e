//! Random nodes, namespaces and pods on nodes.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::pods::{NAMESPACES, named, pod, some_requests};

/// Values of the label `gen`, which `Gt` and `Lt` compare: some are no numbers of 64 bits.
const GENERATIONS: [&str; 7] = ["0", "1", "2", "007", "x", "9223372036854775807", "9223372036854775808"];

/// A node without a name.
pub(super) fn node() -> impl Strategy<Value = Value> {
    let taint = (
        prop_oneof![Just("k"), Just("l")],
        prop_oneof![Just("v"), Just("w"), Just("")],
        prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")],
    )
        .prop_map(|(key, value, effect)| json!({ "key": key, "value": value, "effect": effect }));
    let taints = prop_oneof![3 => Just(json!([])), 1 => prop::collection::vec(taint, 1..3).prop_map(Value::Array)];
    let label = || prop::option::weighted(0.8, prop_oneof![Just("0"), Just("1")]);
    let generation = prop::option::weighted(0.8, prop::sample::select(&GENERATIONS[..]));
    let offer = |name: &'static str, amounts: &'static [&'static str]| {
        prop::option::weighted(0.7, prop::sample::select(amounts)).prop_map(move |amount| amount.map(|amount| (name, amount)))
    };
    let offers = (
        prop::sample::select(&["0", "2", "3500m", "8", "16"][..]),
        prop_oneof![1 => Just("1"), 1 => Just("3"), 4 => Just("9")],
        offer("memory", &["1Gi", "4Gi", "16Gi"]),
        offer("ephemeral-storage", &["1Gi", "8Gi"]),
        offer("example.com/gpu", &["0", "1", "4"]),
        offer("hugepages-2Mi", &["2Mi", "8Mi"]),
    )
        .prop_map(|(cpu, pods, memory, storage, gpu, pages)| {
            let all = [Some(("cpu", cpu)), Some(("pods", pods)), memory, storage, gpu, pages];
            Value::Object(all.into_iter().flatten().map(|(name, amount)| (name.to_owned(), json!(amount))).collect())
        });
    (label(), label(), generation, taints, prop::bool::weighted(0.1), offers, any::<bool>()).prop_map(
        |(zone, rack, generation, taints, unschedulable, offers, features)| {
            let labels: Map<String, Value> = [("zone", zone), ("rack", rack), ("gen", generation)]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), json!(value?))))
                .collect();
            let features =
                if features { json!(["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]) } else { json!([]) };
            json!({
                "metadata": { "labels": labels },
                "spec": { "taints": taints, "unschedulable": unschedulable },
                "status": { "allocatable": offers, "declaredFeatures": features },
            })
        },
    )
}

/// Gives the node its name, which is its UID and its hostname too.
pub(super) fn named_node(mut node: Value, number: usize) -> Value {
    let name = format!("n{number}");
    node["metadata"]["name"] = json!(name);
    node["metadata"]["uid"] = json!(name);
    node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
    node
}

/// The labels of a namespace; none where it is gone.
pub(super) fn namespace_labels() -> impl Strategy<Value = Option<Value>> {
    let team = |team: &str| Some(json!({ "team": team }));
    prop_oneof![2 => Just(Some(json!({}))), 2 => Just(team("a")), 1 => Just(team("b")), 1 => Just(None)]
}

pub(super) fn namespace(name: &str, labels: &Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels } })
}

/// A resize in place: what the kubelet has allocated to each container and to the pod as a whole, what is in force, and why the rest is pending.
#[derive(Clone, Debug)]
struct Resize {
    /// Allocated and in force.
    given: Vec<[Value; 2]>,
    pending: Option<&'static str>,
}

fn resize() -> impl Strategy<Value = Option<Resize>> {
    let given = prop::collection::vec((some_requests(), some_requests()).prop_map(|(one, other)| [one, other]), 5);
    let resize = (given, prop::sample::select(&[None, Some("Infeasible"), Some("Deferred")][..]));
    prop::option::weighted(0.3, resize.prop_map(|(given, pending)| Resize { given, pending }))
}

impl Resize {
    /// Writes it to the status of the pod. A pod has at most two containers and two init containers.
    fn apply(&self, pod: &mut Value) {
        let with = |mut status: Value, [allocated, in_force]: &[Value; 2]| {
            status["allocatedResources"] = allocated.clone();
            status["resources"] = json!({ "requests": in_force });
            status
        };
        let mut given = self.given.iter();
        for (list, statuses) in [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")] {
            let containers = pod["spec"][list].as_array().cloned().unwrap_or_default();
            let of = |(container, given): (&Value, &[Value; 2])| with(json!({ "name": container["name"] }), given);
            pod["status"][statuses] = containers.iter().zip(&mut given).map(of).collect();
        }
        if let Some(given) = given.next() {
            pod["status"] = with(pod["status"].take(), given);
        }
        if let Some(reason) = self.pending {
            pod["status"]["conditions"] = json!([{ "type": "PodResizePending", "status": "True", "reason": reason }]);
        }
    }
}

/// A pod that is on a node: of any scheduler, running, terminating or ended.
pub(super) fn placed() -> impl Strategy<Value = Value> {
    let scheduler = prop_oneof![2 => Just("theirs"), 1 => Just("default-scheduler"), 1 => Just("ours")];
    let phase = prop_oneof![6 => Just("Running"), 2 => Just("Pending"), 1 => Just("Succeeded"), 1 => Just("Failed")];
    (pod(), scheduler, phase, prop::bool::weighted(0.2), resize()).prop_map(|(mut pod, scheduler, phase, leaving, resize)| {
        if let Some(resize) = &resize {
            resize.apply(&mut pod);
        }
        pod["spec"]["schedulerName"] = json!(scheduler);
        pod["status"]["phase"] = json!(phase);
        if leaving {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    })
}

/// A cluster and pods that wait.
pub(super) fn question() -> impl Strategy<Value = Value> {
    question_of(prop::collection::vec(node(), 1..7), placed(), pod())
}

/// A cluster of these nodes and of such pods on them, and pods that wait.
pub(super) fn question_of(
    nodes: impl Strategy<Value = Vec<Value>>,
    placed: impl Strategy<Value = Value>,
    pending: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    let placed = prop::collection::vec((placed, any::<Index>()), 0..14);
    let namespaces = prop::collection::vec(namespace_labels(), NAMESPACES.len());
    (nodes, placed, prop::collection::vec(pending, 1..4), namespaces).prop_map(|(nodes, placed, pending, namespaces)| {
        let nodes: Vec<Value> = nodes.into_iter().enumerate().map(|(number, node)| named_node(node, number)).collect();
        let on_node = |(number, (pod, node)): (usize, (Value, Index))| {
            let mut pod = named(pod, &format!("placed-{number}"));
            pod["spec"]["nodeName"] = nodes[node.index(nodes.len())]["metadata"]["name"].clone();
            pod
        };
        let pods: Vec<Value> = placed.into_iter().enumerate().map(on_node).collect();
        let pending: Vec<Value> = pending.into_iter().enumerate().map(|(number, pod)| named(pod, &format!("pending-{number}"))).collect();
        let namespaces: Vec<Value> =
            NAMESPACES.iter().zip(namespaces).filter_map(|(name, labels)| Some(namespace(name, &labels?))).collect();
        json!({ "nodes": nodes, "pods": pods, "pending": pending, "namespaces": namespaces })
    })
}
