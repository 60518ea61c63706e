//! kube-scheduler's plugins VolumeBinding and NodeVolumeLimits and our predicates say the same of each node, for random claims without a
//! volume, free volumes, classes, and capacities and limits of drivers.
//!
//! Left out, because kube-scheduler takes any of several: claims, and volumes, of equal size. Left out as a difference that is meant
//! (docs/decisions/2026-11-23-claims-without-a-volume.md): a class that makes volumes, beside a volume that names the claim.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::clusters::named_node;
use super::compare::compare_each_node;
use super::ephemeral::{Owner, ephemeral_claims, ephemeral_volumes, owner, says_the_same};
use super::judge::CLAIM;
use super::pods::{named, without_nulls};

const CLAIMS: usize = 5;
const VOLUMES: usize = 6;
const PODS: usize = 3;
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn select(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(of).prop_map(str::to_owned)
}

fn maybe(weight: f64, of: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(weight, select(of))
}

fn affinity() -> impl Strategy<Value = Value> {
    let requirement = prop_oneof![
        4 => select(&["n0", "n1", "n2"]).prop_map(|host| json!({ "key": HOST, "operator": "In", "values": [host] })),
        3 => prop::collection::vec(select(&["a", "b"]), 1..3).prop_map(|zones| json!({ "key": ZONE, "operator": "In", "values": zones })),
        1 => select(&["a", "b"]).prop_map(|zone| json!({ "key": ZONE, "operator": "NotIn", "values": [zone] })),
        1 => Just(json!({ "key": "rack", "operator": "Exists" })),
    ];
    let term = prop::collection::vec(requirement, 0..3).prop_map(|all| json!({ "matchExpressions": all }));
    let terms = prop::collection::vec(term, 1..3).prop_map(|terms| json!({ "required": { "nodeSelectorTerms": terms } }));
    prop_oneof![1 => Just(Value::Null), 3 => terms]
}

fn modes() -> impl Strategy<Value = Value> {
    prop_oneof![5 => Just(json!(["ReadWriteOnce"])), 1 => Just(json!(["ReadWriteMany"])), 2 => Just(json!(["ReadWriteOnce", "ReadWriteMany"]))]
}

/// A volume but for its name and size. `names` says whether it names the claim of its number.
fn volume() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![12 => Just("Available"), 1 => Just("Released"), 1 => Just("Bound"), 1 => Just("")];
    let rest = (maybe(0.1, &["Block", "Filesystem"]), maybe(0.5, &["ssd", "hdd"]), maybe(0.1, &["gold"]));
    (
        affinity(),
        modes(),
        phase,
        select(&["local", "local", "made", "other"]),
        rest,
        (prop::bool::weighted(0.1), prop::bool::weighted(0.05)),
    )
        .prop_map(|(affinity, modes, phase, class, (mode, disk, attributes), (names, deleting))| {
            json!({
                "metadata": { "labels": { "disk": disk }, "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z") },
                "spec": {
                    "accessModes": modes, "nodeAffinity": affinity, "storageClassName": class, "volumeMode": mode,
                    "volumeAttributesClassName": attributes, "local": { "path": "/" },
                },
                "status": { "phase": phase },
                "names": names,
            })
        })
}

/// A claim but for its name and size.
fn claim() -> impl Strategy<Value = Value> {
    let selector = prop_oneof![
        3 => Just(Value::Null),
        1 => select(&["ssd", "hdd"]).prop_map(|disk| json!({ "matchLabels": { "disk": disk } })),
        1 => select(&["ssd", "hdd"]).prop_map(|disk| json!({ "matchExpressions": [{ "key": "disk", "operator": "NotIn", "values": [disk] }] })),
    ];
    let rest = (maybe(0.1, &["Block", "Filesystem"]), maybe(0.1, &["gold", ""]));
    (modes(), selector, select(&["local", "local", "made", "anywhere"]), maybe(0.15, &["n0", "n1", ""]), rest).prop_map(
        |(modes, selector, class, node, (mode, attributes))| {
            json!({
                "metadata": { "namespace": "x", "annotations": { "volume.kubernetes.io/selected-node": node } },
                "spec": {
                    "accessModes": modes, "selector": selector, "storageClassName": class, "volumeMode": mode,
                    "volumeAttributesClassName": attributes,
                },
                "status": { "phase": "Pending" },
            })
        },
    )
}

/// A pod with some of the claims, and the owner of the claim of its ephemeral volume, where it has one.
fn pod() -> impl Strategy<Value = (Value, Owner)> {
    (prop::collection::btree_set(0..CLAIMS, 1..4), prop::bool::weighted(0.4), owner()).prop_map(|(claims, is_ephemeral, owner)| {
        let claims = claims
            .into_iter()
            .map(|claim| json!({ "name": format!("d{claim}"), "persistentVolumeClaim": { "claimName": format!("c{claim}") } }));
        let volumes: Vec<Value> = claims.chain(ephemeral_volumes(usize::from(is_ephemeral))).collect();
        let pod = json!({
            "metadata": { "namespace": "x" },
            "spec": { "schedulerName": "ours", "containers": [{ "name": "c" }], "volumes": volumes },
            "status": { "phase": "Pending" },
        });
        (pod, owner)
    })
}

/// What the driver of the classes publishes; none where it has no CSIDriver.
fn driver() -> impl Strategy<Value = Option<Value>> {
    let publishes = prop_oneof![4 => Just(json!(true)), 1 => Just(json!(false)), 1 => Just(Value::Null)];
    let driver = publishes.prop_map(|publishes| json!({ "metadata": { "name": "p" }, "spec": { "storageCapacity": publishes } }));
    prop::option::weighted(0.8, driver)
}

/// A capacity but for its name.
fn capacity() -> impl Strategy<Value = Value> {
    let expression = prop_oneof![
        2 => prop::collection::vec(select(&["a", "b"]), 1..3).prop_map(|zones| json!({ "key": ZONE, "operator": "In", "values": zones })),
        1 => select(&["a", "b"]).prop_map(|zone| json!({ "key": ZONE, "operator": "NotIn", "values": [zone] })),
        1 => Just(json!({ "key": "rack", "operator": "Exists" })),
    ];
    let topology = prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!({})),
        3 => select(&["n0", "n1", "n2"]).prop_map(|host| json!({ "matchLabels": { HOST: host } })),
        3 => prop::collection::vec(expression, 1..3).prop_map(|all| json!({ "matchExpressions": all })),
    ];
    // The second last is less than a byte below 2 Gi, and the last is one byte below.
    let size = || maybe(0.6, &["0", "1Gi", "2Gi", "3Gi", "5Gi", "2147483647500m", "2147483647"]);
    (topology, select(&["made", "made", "anywhere", "local"]), size(), size()).prop_map(|(topology, class, capacity, largest)| {
        json!({
            "metadata": { "namespace": "csi" }, "storageClassName": class, "nodeTopology": topology,
            "capacity": capacity, "maximumVolumeSize": largest,
        })
    })
}

fn sized(size: usize) -> Value {
    json!({ "storage": format!("{size}Gi") })
}

fn question() -> impl Strategy<Value = Value> {
    let node = (maybe(0.9, &["a", "b"]), maybe(0.3, &["1"]));
    // Of all claims, and of all volumes, no two are of equal size.
    let sizes = || Just((1..=CLAIMS + PODS).collect::<Vec<usize>>()).prop_shuffle();
    let nodes = prop::collection::vec(node, 1..5);
    let claims = (prop::collection::vec(claim(), CLAIMS + PODS), sizes());
    let volumes = (prop::collection::vec(volume(), VOLUMES), sizes());
    let zones = prop::collection::vec(select(&["a", "b"]), 0..2);
    // How many volumes of the driver a node takes, where it says so.
    let limits = prop::collection::vec(prop::option::weighted(0.4, 0..3_u8), 5);
    let made = (zones, driver(), prop::collection::vec(capacity(), 0..6), limits);
    (nodes, claims, volumes, prop::collection::vec(pod(), 1..=PODS), made).prop_map(
        |(nodes, (claims, sizes), (volumes, volume_sizes), pods, (zones, driver, capacities, limits))| {
            let node = |(number, (zone, rack)): (usize, (Option<String>, Option<String>))| {
                let labels = json!({ HOST: format!("n{number}"), ZONE: zone, "rack": rack });
                let allocatable = json!({ "cpu": "4", "pods": "20" });
                named_node(json!({ "metadata": { "labels": labels }, "spec": {}, "status": { "allocatable": allocatable } }), number)
            };
            let csi_node = |(number, limit): (usize, Option<u8>)| {
                let driver = json!({ "name": "p", "nodeID": "n", "topologyKeys": [], "allocatable": { "count": limit? } });
                Some(json!({ "metadata": { "name": format!("n{number}") }, "spec": { "drivers": [driver] } }))
            };
            let csi_nodes: Vec<Value> = limits.into_iter().take(nodes.len()).enumerate().filter_map(csi_node).collect();
            let nodes: Vec<Value> = nodes.into_iter().enumerate().map(node).collect();
            let named_claim = |(number, (mut claim, size)): (usize, (Value, usize))| {
                claim["metadata"]["name"] = json!(format!("c{number}"));
                claim["metadata"]["uid"] = json!(format!("uid-{number}"));
                claim["spec"]["resources"] = json!({ "requests": sized(size) });
                claim
            };
            let mut claims: Vec<Value> = claims.into_iter().zip(sizes).enumerate().map(named_claim).collect();
            // The last of them are those of ephemeral volumes.
            let of_pods = claims.split_off(CLAIMS);
            let named_volume = |(number, (mut volume, size)): (usize, (Value, usize))| {
                volume["metadata"]["name"] = json!(format!("v{number}"));
                volume["spec"]["capacity"] = sized(size);
                let names = volume["names"].take() == json!(true);
                if names && claims.get(number).is_some_and(|claim| claim["spec"]["storageClassName"] == "local") {
                    volume["spec"]["storageClassName"] = json!("local");
                    volume["spec"]["claimRef"] = json!({ "namespace": "x", "name": format!("c{number}") });
                }
                volume
            };
            let volumes: Vec<Value> = volumes.into_iter().zip(volume_sizes).enumerate().map(named_volume).collect();
            let (pending, owners): (Vec<Value>, Vec<Owner>) =
                pods.into_iter().enumerate().map(|(number, (pod, owner))| (named(pod, &format!("pending-{number}")), owner)).unzip();
            for ((pod, owner), claim) in pending.iter().zip(&owners).zip(&of_pods) {
                claims.extend(ephemeral_claims(pod, &[*owner], |_| claim.clone()));
            }
            let terms: Vec<Value> =
                zones.iter().map(|zone| json!({ "matchLabelExpressions": [{ "key": ZONE, "values": [zone] }] })).collect();
            let class = |name: &str, provisioner: &str, terms: &[Value]| {
                let mode = "WaitForFirstConsumer";
                json!({ "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": terms })
            };
            let classes = [class("local", "kubernetes.io/no-provisioner", &[]), class("made", "p", &terms), class("anywhere", "p", &[])];
            let named_capacity = |(number, mut capacity): (usize, Value)| {
                capacity["metadata"]["name"] = json!(format!("capacity-{number}"));
                capacity
            };
            let capacities: Vec<Value> = capacities.into_iter().enumerate().map(named_capacity).collect();
            let drivers: Vec<Value> = driver.into_iter().collect();
            without_nulls(json!({
                "nodes": nodes, "pods": [], "pending": pending, "namespaces": [],
                "claims": claims, "volumes": volumes, "classes": classes, "csiNodes": csi_nodes, "attachments": [], "drivers": drivers, "capacities": capacities,
            }))
        },
    )
}

#[test]
fn property_kube_scheduler_and_our_predicate_say_the_same_of_claims_without_a_volume() {
    compare_each_node(question(), &["takes", CLAIM, "VolumeBinding", "NodeVolumeLimits"], 500, says_the_same);
}
