//! kube-scheduler's plugins for volumes and our predicates say the same of each node, for random claims, volumes, CSINodes and attachments.
//!
//! All claims that are not bound are of classes that bind immediately. The others have `unbound_claims.rs`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::clusters::named_node;
use super::compare::compare_each_node;
use super::ephemeral::{Owner, ephemeral_claims, ephemeral_volumes, owner, says_the_same};
use super::judge::CLAIM;
use super::pods::{named, without_nulls};

const ZONE: &str = "topology.kubernetes.io/zone";
const ZONE_BEFORE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const ZONES: [&str; 2] = ["us-east1-a", "us-east1-b"];
const DRIVERS: [&str; 6] = ["d", "e", "pd.csi.storage.gke.io", "ebs.csi.aws.com", "disk.csi.azure.com", "pxd.portworx.com"];
const VOLUMES: usize = 8;

fn select(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(of).prop_map(str::to_owned)
}

fn labels() -> impl Strategy<Value = Value> {
    let zone = || prop::option::weighted(0.8, select(&ZONES));
    (zone(), prop::option::weighted(0.2, select(&ZONES)), prop::option::weighted(0.3, select(&["us-east1", "us-west1"])), zone()).prop_map(
        |(zone, before, region, of_driver)| {
            let all = [(ZONE, zone), (ZONE_BEFORE, before), (REGION, region), ("topology.gke.io/zone", of_driver)];
            let all = all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
            Value::Object(all.collect())
        },
    )
}

fn node() -> impl Strategy<Value = Value> {
    labels().prop_map(
        |labels| json!({ "metadata": { "labels": labels }, "spec": {}, "status": { "allocatable": { "cpu": "4", "pods": "20" } } }),
    )
}

/// What a kubelet says; none where there is no CSINode.
fn csi_node() -> impl Strategy<Value = Option<Value>> {
    let driver = (prop::sample::select(&DRIVERS[..]), prop::option::weighted(0.8, 0..4_u8));
    let drivers = prop::collection::vec(driver, 0..7).prop_map(|all| {
        let all: BTreeMap<_, _> = all.into_iter().collect();
        let one = |(name, count): (&str, Option<u8>)| {
            let allocatable = count.map_or(Value::Null, |count| json!({ "count": count }));
            json!({ "name": name, "nodeID": "n", "topologyKeys": [], "allocatable": allocatable })
        };
        Value::Array(all.into_iter().map(one).collect())
    });
    let migrated = prop::option::of(select(&[
        "kubernetes.io/gce-pd",
        "kubernetes.io/gce-pd,kubernetes.io/aws-ebs",
        "kubernetes.io/cinder",
        "kubernetes.io/azure-disk,kubernetes.io/azure-file",
        "kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume",
        "",
    ]));
    let facts = (drivers, migrated).prop_map(|(drivers, migrated)| {
        let annotations = migrated.map_or(json!({}), |plugins| json!({ "storage.alpha.kubernetes.io/migrated-plugins": plugins }));
        json!({ "metadata": { "annotations": annotations }, "spec": { "drivers": drivers } })
    });
    prop::option::weighted(0.8, facts)
}

fn affinity() -> impl Strategy<Value = Value> {
    let key = select(&[ZONE, ZONE_BEFORE, REGION, "topology.gke.io/zone", "kubernetes.io/hostname"]);
    let values = prop::collection::vec(select(&["us-east1-a", "us-east1-b", "us-east1", "n0", "n1"]), 1..3);
    let requirement = (key, select(&["In", "In", "NotIn", "Exists", "DoesNotExist"]), values).prop_map(|(key, operator, values)| {
        let values = if operator.ends_with("In") { json!(values) } else { Value::Null };
        json!({ "key": key, "operator": operator, "values": values })
    });
    let named = (select(&["In", "NotIn"]), select(&["n0", "n1"]))
        .prop_map(|(operator, name)| json!([{ "key": "metadata.name", "operator": operator, "values": [name] }]));
    let term = (prop::collection::vec(requirement, 0..3), prop::option::weighted(0.1, named))
        .prop_map(|(expressions, fields)| json!({ "matchExpressions": expressions, "matchFields": fields }));
    let terms = prop::collection::vec(term, 1..3).prop_map(|terms| json!({ "required": { "nodeSelectorTerms": terms } }));
    prop_oneof![1 => Just(Value::Null), 1 => terms]
}

fn volume() -> impl Strategy<Value = Value> {
    let handle = || select(&["h0", "h1", "h2"]);
    let source = prop_oneof![
        2 => Just(json!({ "nfs": { "server": "s", "path": "/" } })),
        8 => (select(&["d", "d", "e"]), handle()).prop_map(|(driver, handle)| json!({ "csi": { "driver": driver, "volumeHandle": handle } })),
        1 => handle().prop_map(|name| json!({ "gcePersistentDisk": { "pdName": name } })),
        1 => select(&["vol-1", "aws://us-east1-a/vol-1", "aws:///vol-2"]).prop_map(|id| json!({ "awsElasticBlockStore": { "volumeID": id } })),
        1 => handle().prop_map(|id| json!({ "cinder": { "volumeID": id } })),
        // kube-scheduler has no answer for one of kind Dedicated, which is not translated.
        1 => (handle(), prop::option::of(select(&["Managed", "managed"])))
            .prop_map(|(uri, kind)| json!({ "azureDisk": { "diskName": "a", "diskURI": uri, "kind": kind } })),
        1 => handle().prop_map(|id| json!({ "portworxVolume": { "volumeID": id } })),
        1 => handle().prop_map(|name| json!({ "azureFile": { "secretName": "s", "secretNamespace": "x", "shareName": name } })),
        1 => handle().prop_map(|path| json!({ "vsphereVolume": { "volumePath": path } })),
    ];
    let zones = || prop::option::weighted(0.3, select(&["us-east1-a", "us-east1-b", "us-east1-a__us-east1-b"]));
    let region = prop::option::weighted(0.2, select(&["us-east1", "us-west1", "us-east1__", ""]));
    (source, affinity(), zones(), zones(), region).prop_map(|(mut spec, affinity, zone, before, region)| {
        spec["nodeAffinity"] = affinity;
        let all = [(ZONE, zone), (ZONE_BEFORE, before), (REGION, region)];
        let labels: serde_json::Map<String, Value> =
            all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))).collect();
        json!({ "metadata": { "labels": labels }, "spec": spec })
    })
}

/// A claim on the volume of its number, or with a fault.
fn claim() -> impl Strategy<Value = Value> {
    let mode = prop_oneof![3 => Just("ReadWriteOnce"), 1 => Just("ReadWriteOncePod")];
    let fault = prop_oneof![14 => Just(""), 1 => Just("lost"), 1 => Just("deleting"), 1 => Just("unbound"), 1 => Just("half"), 1 => Just("no volume")];
    (mode, fault, prop::option::of(select(&["now", "none", ""])))
        .prop_map(|(mode, fault, class)| json!({ "mode": mode, "fault": fault, "class": class }))
}

fn claim_of(seed: &Value, number: usize) -> Value {
    let fault = seed["fault"].as_str().unwrap();
    let mut claim = json!({
        "metadata": { "namespace": "x", "name": format!("c{number}"), "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "accessModes": [seed["mode"]], "volumeName": format!("v{number}"), "storageClassName": seed["class"] },
        "status": { "phase": if fault == "lost" { "Lost" } else { "Bound" } },
    });
    match fault {
        "deleting" => claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        "unbound" => claim["spec"]["volumeName"] = json!(""),
        "half" => claim["metadata"]["annotations"] = json!({}),
        "no volume" => claim["spec"]["volumeName"] = json!("gone"),
        _ => {}
    }
    claim
}

/// A pod with some of the claims, of which one more is there than exist, and with a few ephemeral volumes.
fn pod() -> impl Strategy<Value = Value> {
    (prop::collection::btree_set(0..=VOLUMES, 0..4), 0..4_usize).prop_map(|(claims, ephemeral)| {
        let claims = claims
            .into_iter()
            .map(|claim| json!({ "name": format!("d{claim}"), "persistentVolumeClaim": { "claimName": format!("c{claim}") } }));
        // Most pods have none.
        json!({
            "metadata": { "namespace": "x" },
            "spec": {
                "schedulerName": "ours", "containers": [{ "name": "c" }], "volumes": claims.chain(ephemeral_volumes(ephemeral.saturating_sub(1))).collect::<Vec<_>>(),
            },
            "status": { "phase": "Pending" },
        })
    })
}

fn question() -> impl Strategy<Value = Value> {
    let nodes = prop::collection::vec((node(), csi_node()), 1..6);
    let volumes = prop::collection::vec((volume(), claim()), VOLUMES);
    let placed = prop::collection::vec((pod(), any::<prop::sample::Index>()), 0..8);
    let attachments = prop::collection::vec((select(&["d", "d", "e"]), 0..VOLUMES, any::<prop::sample::Index>()), 0..6);
    let pending = prop::collection::vec((pod(), prop::collection::vec(owner(), 2)), 1..4);
    (nodes, volumes, placed, pending, attachments).prop_map(|(nodes, volumes, placed, pending, attachments)| {
        let name = |number: usize| format!("n{number}");
        let csi_nodes = nodes.iter().enumerate().filter_map(|(number, (_, csi))| {
            let mut csi = csi.clone()?;
            csi["metadata"]["name"] = json!(name(number));
            Some(csi)
        });
        let csi_nodes: Vec<Value> = csi_nodes.collect();
        let count = nodes.len();
        let nodes: Vec<Value> = nodes.into_iter().enumerate().map(|(number, (node, _))| named_node(node, number)).collect();
        let on_node = |(number, (pod, node)): (usize, (Value, prop::sample::Index))| {
            let mut pod = named(pod, &format!("placed-{number}"));
            pod["spec"]["nodeName"] = json!(name(node.index(count)));
            pod["spec"]["schedulerName"] = json!("theirs");
            pod["status"]["phase"] = json!("Running");
            pod
        };
        let pods: Vec<Value> = placed.into_iter().enumerate().map(on_node).collect();
        let (pending, owners): (Vec<Value>, Vec<_>) =
            pending.into_iter().enumerate().map(|(number, (pod, owners))| (named(pod, &format!("pending-{number}")), owners)).unzip();
        // The claims of a pod that runs were its own when it was bound: kube-scheduler takes any other for an error of its own.
        let own = [Owner::Pod, Owner::Pod];
        let ephemeral = pods.iter().map(|pod| (pod, &own[..])).chain(pending.iter().zip(owners.iter().map(Vec::as_slice)));
        let of_pod = |(number, (pod, owners)): (usize, (&Value, &[Owner]))| {
            let seed = |at: usize| claim_of(&volumes[(number + at) % VOLUMES].1, (number + at) % VOLUMES);
            ephemeral_claims(pod, owners, seed)
        };
        let ephemeral = ephemeral.enumerate().flat_map(of_pod);
        let claims: Vec<Value> = volumes.iter().enumerate().map(|(number, (_, seed))| claim_of(seed, number)).chain(ephemeral).collect();
        let volumes = volumes.into_iter().enumerate().map(|(number, (mut volume, _))| {
            volume["metadata"]["name"] = json!(format!("v{number}"));
            volume
        });
        let volumes: Vec<Value> = volumes.collect();
        let attachment = |(number, (driver, volume, node)): (usize, (String, usize, prop::sample::Index))| {
            let source = json!({ "persistentVolumeName": format!("v{volume}") });
            json!({ "metadata": { "name": format!("a{number}") }, "spec": { "attacher": driver, "nodeName": name(node.index(count)), "source": source } })
        };
        let attachments: Vec<Value> = attachments.into_iter().enumerate().map(attachment).collect();
        let classes = json!([{ "metadata": { "name": "now" }, "provisioner": "d", "volumeBindingMode": "Immediate" }]);
        without_nulls(json!({
            "nodes": nodes, "pods": pods, "pending": pending, "namespaces": [],
            "claims": claims, "volumes": volumes, "classes": classes, "csiNodes": csi_nodes, "attachments": attachments,
        }))
    })
}

#[test]
fn property_kube_scheduler_and_our_predicates_say_the_same_of_volumes() {
    let plugins = ["takes", CLAIM, "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
    compare_each_node(question(), &plugins, 150, says_the_same);
}
