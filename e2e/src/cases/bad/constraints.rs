//! Row P8: bad input among what pods require of each other. Each such pod says what is wrong, and no other pod waits for it.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cases::ledger::stays_unbound;
use crate::cases::placing::{HOST, ZONE, zoned};
use crate::cases::seen::{accounting_matches_api, group_says, pod_says, pods_wait_for, watched};
use crate::faults::{Fault, Rule, Verb};
use crate::load::process;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::{Kind, Owner};
use crate::workloads::{Workload, delete, pods_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, http, say};

/// A label that no node has.
pub(super) const RACK: &str = "example.com/rack";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The most terms of a pod, the most requirements and values in their selectors, and the most selectors of the pods of a namespace that are found in the same way.
const MOST_TERMS: usize = 100;
const MOST_REQUIREMENTS: usize = 1000;
pub(super) const MOST_ALIKE: usize = 256;
/// By how much the memory of the scheduler may grow, in MiB, and by how much more for each thousand of foreign pods and of their terms.
const MOST_GROWTH: (f64, f64) = (20.0, 8.0);
/// Concurrent requests of the case.
const AT_ONCE: usize = 32;

/// Foreign pods, and how many terms each of them has. No two terms are the same.
#[derive(Clone, Copy, Debug)]
pub(in crate::cases) struct Terms {
    pub(in crate::cases) pods: usize,
    pub(in crate::cases) each: usize,
}

pub(super) fn terms(selectors: impl IntoIterator<Item = Value>, topology_key: &str) -> Value {
    let term = |selector| json!({"labelSelector": selector, "topologyKey": topology_key});
    json!({ REQUIRED: selectors.into_iter().map(term).collect::<Vec<_>>() })
}

pub(super) fn label(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

pub(super) fn expression(key: &str, operator: &str, values: usize) -> Value {
    let values: Vec<String> = (0..values).map(|number| format!("v{number}")).collect();
    let values = if values.is_empty() { Value::Null } else { json!(values) };
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

/// A workload of one pod on this node.
fn on(node: &str, name: &str) -> Workload {
    Workload::new(name).asks(&[("cpu", "100m")]).pod_spec("nodeSelector", json!({HOST: node}))
}

/// P8. Selectors that are too large, operators that do not exist, topology keys that no node has, requirements that no placement can meet, 10,000 terms of other
/// pods, a namespace that is deleted, and labels that change while a binding is on its way.
pub(in crate::cases) async fn terms_of_pods(w: &mut World, foreign: Terms) -> Result<()> {
    let client = w.client();
    for (name, zone) in [("a1", "a"), ("b1", "b")] {
        zoned(&client, name, zone, &[("cpu", "16"), ("memory", "64Gi")]).await?;
    }
    refused_by_the_api_server(&client).await?;
    each_says_why(w, &client).await?;
    keeps_all_away(w, &client).await?;
    device_of_a_class(w, &client).await?;
    many_terms(w, &client, foreign).await?;
    a_namespace_goes(w, &client).await?;
    labels_change(w, &client).await?;
    accounting_matches_api(w).await
}

/// The API server accepts no operator that it does not know, of any scheduler's pod, so no such pod can be there.
async fn refused_by_the_api_server(client: &Client) -> Result<()> {
    let affinity = |selector: Value, key: &str| json!({"affinity": {"podAffinity": terms([selector], key)}});
    let of_namespace = json!({REQUIRED: [{"labelSelector": {}, "namespaceSelector": expression("k", "Gt", 1), "topologyKey": ZONE}]});
    let of_node = json!({REQUIRED: {"nodeSelectorTerms": [expression("k", "Matches", 1)]}});
    let spread =
        json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": expression("k", "Like", 1)});
    let keys_alone = |key: &str| json!({"matchLabelKeys": ["app"], "topologyKey": key});
    let hard = json!({"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for scheduler in [SCHEDULER_NAME, "another"] {
        for (what, spec) in [
            ("an unknown operator", affinity(expression("k", "Near", 1), ZONE)),
            ("an operator of nodes", affinity(expression("k", "Gt", 1), ZONE)),
            ("In without values", affinity(expression("k", "In", 0), ZONE)),
            ("Exists with values", affinity(expression("k", "Exists", 1), ZONE)),
            ("an unknown operator for namespaces", json!({"affinity": {"podAntiAffinity": of_namespace}})),
            ("an unknown operator for nodes", json!({"affinity": {"nodeAffinity": of_node}})),
            ("an unknown operator in a spread", json!({"topologySpreadConstraints": [spread]})),
            ("no topology key", affinity(label("app", "x"), "")),
            ("matchLabelKeys without a selector", json!({"affinity": {"podAffinity": {REQUIRED: [keys_alone(ZONE)]}}})),
            ("matchLabelKeys of a spread without a selector", json!({"topologySpreadConstraints": [merged(keys_alone(ZONE), &hard)]})),
            (
                "a port that does not exist",
                json!({"containers": [merged(container(&[]), &json!({"ports": [{"containerPort": 80, "hostPort": 65_536}]}))]}),
            ),
        ] {
            let mut pod = json!({"metadata": {"name": "invalid"}, "spec": {"schedulerName": scheduler, "containers": [container(&[])]}});
            merge(&mut pod, "/spec", &spec);
            let answer = pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &serde_json::from_value(pod)?).await;
            let code = answer.as_ref().err().and_then(|error| if let kube::Error::Api(status) = error { Some(status.code) } else { None });
            ensure!(code == Some(422), "{what}: the API server answers {answer:?}");
        }
    }
    Ok(())
}

/// What cannot be met or is too large waits with its reason, on the pods and on the PodGroup. What looks alike and can be met runs. Beside each, another PodGroup is
/// bound at once.
async fn each_says_why(w: &mut World, client: &Client) -> Result<()> {
    let anti = |name: &str, key: &str| json!({"podAntiAffinity": terms([label("app", name)], key)});
    let wide = |values: usize| json!({"podAntiAffinity": terms([expression("team", "NotIn", values)], RACK)});
    let contradiction = json!({"podAffinity": terms([label("app", "both")], HOST), "podAntiAffinity": terms([label("app", "both")], HOST)});
    let spread =
        json!([{"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": label("app", "in-racks")}]);
    let too_large = format!("spec.affinity \"{}\": is more than 1000 requirements and values in selectors", MOST_REQUIREMENTS + 1);
    let too_many = |count: usize| terms((0..count).map(|number| label("app", &format!("x-{number}"))), RACK);
    let spreads: Vec<Value> = (0..=MOST_TERMS).map(|number| spread_by(&format!("example.com/key-{number}"), "spreads", &[])).collect();
    let says_too_many =
        format!("spec.affinity \"{}\": is more than {MOST_TERMS} terms of affinity, anti-affinity and spread", MOST_TERMS + 1);
    // A key that the pod does not have adds nothing.
    let by_version = json!({REQUIRED: [{"labelSelector": label("app", "by-version"), "matchLabelKeys": ["version"], "topologyKey": HOST}]});
    // The name of the workload, its members, a field of its pods, and why it waits; nothing where it runs.
    let choosy = |values: usize| {
        let hosts: Vec<String> = (0..values).map(|number| format!("h{number}")).collect();
        let named = json!({"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": hosts}]});
        json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [named]}}})
    };
    let too_choosy = format!(
        "spec.affinity.nodeAffinity \"{}\": is more than {MOST_REQUIREMENTS} requirements and values in node selector and node affinity",
        MOST_REQUIREMENTS + 1
    );
    let tolerant: Vec<Value> = (0..=MOST_REQUIREMENTS).map(|number| json!({"key": format!("k{number}"), "operator": "Exists"})).collect();
    // The API server adds two tolerations to each pod.
    let too_tolerant = format!("spec.tolerations \"{}\": is more than {MOST_REQUIREMENTS} tolerations", tolerant.len() + 2);
    let bad: [(&str, u32, &str, Value, Option<&str>); 16] = [
        ("too-choosy", 1, "affinity", choosy(MOST_REQUIREMENTS), Some(&too_choosy)),
        ("choosy", 1, "affinity", choosy(MOST_REQUIREMENTS - 1), None),
        ("tolerant", 1, "tolerations", json!(tolerant), Some(&too_tolerant)),
        ("too-many", 1, "affinity", json!({"podAntiAffinity": too_many(MOST_TERMS + 1)}), Some(&says_too_many)),
        ("many", 1, "affinity", json!({"podAntiAffinity": too_many(MOST_TERMS)}), None),
        ("spreads", 1, "topologySpreadConstraints", json!(spreads), Some(&says_too_many)),
        ("by-version", 2, "affinity", json!({"podAffinity": by_version}), None),
        (
            "by-key",
            2,
            "topologySpreadConstraints",
            json!([spread_by(RACK, "by-key", &["pod-template-hash"])]),
            Some("didn't match pod topology spread constraints (missing required label)"),
        ),
        ("too-wide", 1, "affinity", wide(MOST_REQUIREMENTS), Some(&too_large)),
        ("wide", 1, "affinity", wide(MOST_REQUIREMENTS - 1), None),
        ("no-rack", 1, "affinity", json!({"podAffinity": terms([label("app", "no-rack")], RACK)}), Some("didn't match pod affinity rules")),
        ("in-racks", 1, "topologySpreadConstraints", spread, Some("didn't match pod topology spread constraints")),
        ("apart", 2, "affinity", anti("apart", RACK), None),
        (
            "three",
            3,
            "affinity",
            anti("three", ZONE),
            Some("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules; pod anti-affinity: topology.kubernetes.io/zone"),
        ),
        ("both", 2, "affinity", contradiction, Some("1 of 2 members find a place")),
        ("itself", 2, "affinity", json!({"podAffinity": terms([label("app", "itself")], HOST)}), None),
    ];
    let mut slowest = 0.0_f64;
    for (name, members, field, value, why) in bad {
        let workload = Workload::new(name).asks(&[("cpu", "100m")]).replicas(members).gang(&members.to_string());
        workload.pod_spec(field, value).make(client).await?;
        let beside = format!("beside-{name}");
        let start = Instant::now();
        Workload::new(&beside).asks(&[("cpu", "100m")]).make(client).await?;
        wait_running(client, &beside, 1, 10).await?;
        slowest = slowest.max(start.elapsed().as_secs_f64());
        match why {
            Some(why) => {
                let group = wait_one_group(client, name, 10).await?.name_any();
                group_says(client, &group, why).await?;
                pod_says(client, name, why).await?;
            }
            None => wait_running(client, name, usize::try_from(members)?, 10).await?,
        }
    }
    say::line(format!("        P8: a PodGroup beside one that cannot be placed runs after at most {slowest:.1} s"));
    for name in ["too-wide", "too-many", "spreads", "too-choosy", "tolerant"] {
        pods_wait_for(client, name, 1, "InvalidField").await?;
    }
    stays_unbound(w, "three", 0).await?;
    stays_unbound(w, "both", 0).await?;
    // The next nodes are of no zone at first, and a node without a zone takes all three.
    delete(client, "three").await?;
    wait_running(client, "three", 0, 10).await
}

/// A spread constraint that must hold, with these `matchLabelKeys`.
fn spread_by(topology_key: &str, app: &str, keys: &[&str]) -> Value {
    json!({
        "maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": label("app", app), "matchLabelKeys": keys,
    })
}

/// A pod that keeps all pods of all namespaces away takes a node of its own. Another such pod waits, and keeps no pod from any node. What is kept away says so.
async fn keeps_all_away(w: &mut World, client: &Client) -> Result<()> {
    zoned(client, "alone", "a", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    let away = json!({REQUIRED: [{"labelSelector": {}, "namespaceSelector": {}, "topologyKey": HOST}]});
    let of = |name: &str| Workload::new(name).asks(&[("cpu", "100m")]);
    of("loner").affinity("podAntiAffinity", away.clone()).make(client).await?;
    wait_running(client, "loner", 1, 10).await?;
    of("loner-2").affinity("podAntiAffinity", away).make(client).await?;
    on("alone", "beside-loner").make(client).await?;
    pod_says(client, "loner-2", "didn't match pod anti-affinity rules").await?;
    pod_says(client, "beside-loner", "didn't satisfy existing pods anti-affinity rules").await?;
    of("elsewhere").replicas(4).gang("4").make(client).await?;
    wait_running(client, "elsewhere", 4, 10).await?;
    stays_unbound(w, "loner-2", 0).await?;
    for name in ["beside-loner", "loner-2", "loner"] {
        delete(client, name).await?;
        wait_running(client, name, 0, 10).await?;
    }
    Api::<Node>::all(client.clone()).delete("alone", &DeleteParams::default()).await?;
    Ok(())
}

/// A device that only a DeviceClass offers is one that the nodes lack: only what device plugins report counts.
async fn device_of_a_class(w: &mut World, client: &Client) -> Result<()> {
    let class = json!({"metadata": {"name": "by-class"}, "spec": {"extendedResourceName": "example.com/by-class"}});
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("resource.k8s.io", "v1", "DeviceClass"), "deviceclasses");
    let classes: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await.context("creating a DeviceClass")?;
    Workload::new("by-class").asks(&[("cpu", "100m"), ("example.com/by-class", "1")]).make(client).await?;
    pod_says(client, "by-class", "Insufficient example.com/by-class").await?;
    stays_unbound(w, "by-class", 0).await?;
    delete(client, "by-class").await
}

/// Foreign pods with 10,000 distinct terms, and with more selectors of one kind than are told apart: they keep away what they select, and others are bound at once.
/// The memory of the scheduler stays bounded.
async fn many_terms(w: &mut World, client: &Client, foreign: Terms) -> Result<()> {
    let port = w.scheduler()?.port();
    for (name, zone) in [("crowd", "a"), ("crowd-2", "b"), ("crowd-3", "a")] {
        zoned(client, name, zone, &[("cpu", "16"), ("memory", "64Gi"), ("pods", "20000")]).await?;
    }
    let pid = process::find(w.cluster().scratch().folder(), chart::SCHEDULER)?;
    let (before, busy) = (process::memory(pid)?.now, process::processor_seconds(pid)?);
    let own = |pod: usize| (0..foreign.each).map(move |term| label("of", &format!("t-{pod}-{term}")));
    let alike = |pod: usize| (0..MOST_TERMS).map(move |term| expression(&format!("k-{pod}-{term}"), "Exists", 0));
    // Together they have more selectors than are told apart.
    let alike_pods = MOST_ALIKE / MOST_TERMS + 1;
    let mut all = Vec::new();
    for pod in 0..foreign.pods {
        all.push(keeper(client.clone(), NAMESPACE, format!("foreign-{pod}"), "crowd", terms(own(pod), HOST)));
    }
    for pod in 0..alike_pods {
        all.push(keeper(client.clone(), NAMESPACE, format!("alike-{pod}"), "crowd-2", terms(alike(pod), HOST)));
    }
    let beyond = (0..=MOST_TERMS).map(|term| label("of", &format!("beyond-{term}")));
    all.push(keeper(client.clone(), NAMESPACE, "beyond".to_owned(), "crowd-3", terms(beyond, HOST)));
    stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    wait_until(secs(120), "the scheduler knows the foreign pods", || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let nodes = ledger.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
        let on = |name: &str| {
            nodes.iter().find(|node| node.get("name").is_some_and(|is| is == name)).and_then(|node| node.get("pods")?.as_u64())
        };
        let seen = ["crowd", "crowd-2", "crowd-3"].map(|name| on(name).unwrap_or_default());
        let all = [u64::try_from(foreign.pods)?, u64::try_from(alike_pods)?, 1];
        Ok(Seen::when(seen == all, || format!("{seen:?}")))
    })
    .await?;
    let start = Instant::now();
    let last = format!("t-{}-{}", foreign.pods.saturating_sub(1), foreign.each.saturating_sub(1));
    on("crowd", "selected").label("of", &last).make(client).await?;
    // One selector is not told apart from those that select every pod of the namespace.
    on("crowd-2", "crowded-out").make(client).await?;
    // Nor are the terms of a pod with too many.
    on("crowd-3", "beyond-reading").make(client).await?;
    on("crowd", "not-selected").label("of", "none").make(client).await?;
    Workload::new("anywhere").asks(&[("cpu", "100m")]).replicas(4).gang("4").make(client).await?;
    wait_running(client, "not-selected", 1, 10).await?;
    wait_running(client, "anywhere", 4, 10).await?;
    let took = start.elapsed().as_secs_f64();
    for name in ["selected", "crowded-out", "beyond-reading"] {
        pod_says(client, name, "didn't satisfy existing pods anti-affinity rules").await?;
        stays_unbound(w, name, 0).await?;
    }
    let (after, busy) = (process::memory(pid)?.now, process::processor_seconds(pid)? - busy);
    say::line(format!(
        "        P8: {} terms of {} foreign pods: memory {before:.1} MiB, then {after:.1}; {busy:.1} s of processor time; the next pods run after {took:.1} s",
        foreign.pods * foreign.each,
        foreign.pods
    ));
    let thousands = f64::from(u32::try_from(foreign.pods * (foreign.each + 1))?) / 1000.0;
    pods_wait_for(client, "too-wide", 1, "InvalidField").await?;
    ensure!(after < before + MOST_GROWTH.0 + MOST_GROWTH.1 * thousands, "memory grew from {before:.1} to {after:.1} MiB");
    Ok(())
}

/// Creates a pod of another scheduler that is on a node already and has these terms of anti-affinity.
async fn keeper(client: Client, namespace: &'static str, name: String, node: &'static str, anti: Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"role": "keeper"}, "finalizers": if namespace == NAMESPACE { json!([]) } else { json!(["example.com/held"]) }},
        "spec": {
            "schedulerName": "another", "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container(&[])],
            "affinity": {"podAntiAffinity": anti},
        },
    }))?;
    Api::<Pod>::namespaced(client, namespace).create(&PostParams::default(), &pod).await.context("creating a foreign pod")?;
    Ok(())
}

/// A namespace is deleted while a pod in it keeps pods of another namespace away, and is kept away from by its namespace's label. Until that pod is gone they wait.
async fn a_namespace_goes(w: &mut World, client: &Client) -> Result<()> {
    let leaving = Owner::namespace("leaving").with("/metadata", "labels", json!({"team": "leaving"}));
    watched(w, "namespaces", "added", async { leaving.make(client).await.map(drop) }).await?;
    let kept = json!({REQUIRED: [{"labelSelector": label("app", "kept"), "namespaces": [NAMESPACE], "topologyKey": HOST}]});
    keeper(client.clone(), "leaving", "keeper".to_owned(), "a1", kept).await?;
    let away = json!([{"labelSelector": label("role", "keeper"), "namespaceSelector": label("team", "leaving"), "topologyKey": HOST}]);
    on("a1", "kept").make(client).await?;
    on("a1", "avoids").affinity("podAntiAffinity", json!({ REQUIRED: away })).make(client).await?;
    pod_says(client, "kept", "didn't satisfy existing pods anti-affinity rules").await?;
    pod_says(client, "avoids", "didn't match pod anti-affinity rules").await?;
    Kind::Namespace.api(client).delete("leaving", &DeleteParams::default()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "leaving");
    wait_until(secs(30), "the pod of the namespace is being deleted", || async {
        let leaves = pods.get("keeper").await?.metadata.deletion_timestamp.is_some();
        Ok(Seen::when(leaves, || "it is not".to_owned()))
    })
    .await?;
    stays_unbound(w, "kept", 1).await?;
    stays_unbound(w, "avoids", 1).await?;
    pods.patch("keeper", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    wait_running(client, "kept", 1, 10).await?;
    wait_running(client, "avoids", 1, 10).await
}

/// The labels of a pod and of its node change while its binding is on its way. It is bound, and counts by its new labels, in the new domain of its node.
async fn labels_change(w: &mut World, client: &Client) -> Result<()> {
    let held = Fault::HoldRequest(secs(9));
    let hits = w.hits("delay-request")?;
    w.aim(Rule { verb: Some(Verb::Create), resource: "pods/binding", name: Some("moved"), fault: held, times: 1 })?;
    make_podgroup(client, "moved", json!({"minMember": 1})).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    // The only node of zone b.
    let spec = json!({"schedulerName": SCHEDULER_NAME, "nodeSelector": {HOST: "b1"}, "containers": [container(&[("cpu", "100m")])]});
    let metadata = json!({"name": "moved", "labels": {"app": "moved"}, "annotations": {"scheduling.k8s.io/group-name": "moved"}});
    make_pod(client, json!({"metadata": metadata, "spec": spec})).await?;
    wait_until(secs(10), "the binding is on its way", || async {
        let seen = w.hits("delay-request")?;
        Ok(Seen::when(seen > hits, || seen.to_string()))
    })
    .await?;
    let labels = |labels: Value| Patch::Merge(json!({"metadata": {"labels": labels}}));
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.patch("moved", &PatchParams::default(), &labels(json!({"state": "new"}))).await?;
    nodes.patch("b1", &PatchParams::default(), &labels(json!({ZONE: "c"}))).await?;
    let near = || terms([label("state", "new")], ZONE);
    // Decided while the binding is on its way.
    on("b1", "away").affinity("podAntiAffinity", near()).make(client).await?;
    pod_says(client, "away", "didn't match pod anti-affinity rules").await?;
    w.let_go()?;
    wait_running(client, "moved", 1, 10).await?;
    Workload::new("in-its-zone").asks(&[("cpu", "100m")]).affinity("podAffinity", near()).make(client).await?;
    wait_running(client, "in-its-zone", 1, 10).await?;
    stays_unbound(w, "away", 1).await?;
    for name in ["moved", "in-its-zone"] {
        let node = pods_of(client, name).await?.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        ensure!(node.as_deref() == Some("b1"), "{name} is on {node:?}");
    }
    Ok(())
}

/// Returns the object with the fields of another one.
fn merged(mut object: Value, fields: &Value) -> Value {
    merge(&mut object, "", fields);
    object
}

/// Adds the fields of an object to the object at this place.
pub(super) fn merge(object: &mut Value, place: &str, fields: &Value) {
    if let (Some(Value::Object(at)), Value::Object(fields)) = (object.pointer_mut(place), fields) {
        at.extend(fields.clone());
    }
}
