//! Row P8: what the API server refuses of what pods require of each other, and very much of it. No pod waits for those that it does not select.
//!
//! Each bad requirement alone is a text scenario (`scenarios/placement/`).

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cases::ledger::stays_unbound;
use crate::cases::placing::{HOST, ZONE, zoned};
use crate::cases::seen::{accounting_matches_api, pod_says};
use crate::load::process;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, delete, wait_running};
use crate::world::World;
use crate::{chart, http, say};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The most terms of a pod, and the most selectors of the pods of a namespace that are found in the same way.
const MOST_TERMS: usize = 100;
const MOST_ALIKE: usize = 256;
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

fn terms(selectors: impl IntoIterator<Item = Value>, topology_key: &str) -> Value {
    let term = |selector| json!({"labelSelector": selector, "topologyKey": topology_key});
    json!({ REQUIRED: selectors.into_iter().map(term).collect::<Vec<_>>() })
}

fn label(key: &str, value: &str) -> Value {
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

/// P8. Operators that do not exist, a device of a DeviceClass, and 10,000 terms of other pods.
pub(in crate::cases) async fn terms_of_pods(w: &mut World, foreign: Terms) -> Result<()> {
    let client = w.client();
    for (name, zone) in [("a1", "a"), ("b1", "b")] {
        zoned(&client, name, zone, &[("cpu", "16"), ("memory", "64Gi")]).await?;
    }
    refused_by_the_api_server(&client).await?;
    device_of_a_class(w, &client).await?;
    many_terms(w, &client, foreign).await?;
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

/// Foreign pods with 10,000 distinct terms, and with more selectors of one kind than are told apart: they keep away what they select, and
/// others are bound at once. The memory of the scheduler stays bounded.
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
        all.push(keeper(client.clone(), format!("foreign-{pod}"), "crowd", terms(own(pod), HOST)));
    }
    for pod in 0..alike_pods {
        all.push(keeper(client.clone(), format!("alike-{pod}"), "crowd-2", terms(alike(pod), HOST)));
    }
    let beyond = (0..=MOST_TERMS).map(|term| label("of", &format!("beyond-{term}")));
    all.push(keeper(client.clone(), "beyond".to_owned(), "crowd-3", terms(beyond, HOST)));
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
    ensure!(after < before + MOST_GROWTH.0 + MOST_GROWTH.1 * thousands, "memory grew from {before:.1} to {after:.1} MiB");
    Ok(())
}

/// Creates a pod of another scheduler that is on a node already and has these terms of anti-affinity.
async fn keeper(client: Client, name: String, node: &'static str, anti: Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "another", "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container(&[])],
            "affinity": {"podAntiAffinity": anti},
        },
    }))?;
    Api::<Pod>::namespaced(client, NAMESPACE).create(&PostParams::default(), &pod).await.context("creating a foreign pod")?;
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
