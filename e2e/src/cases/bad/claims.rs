//! Row V20: what the API server refuses of claims and volumes, and very many of them. No PodGroup waits for those of another one.
//!
//! Each bad claim alone is a text scenario (`scenarios/volumes/`).

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::constraints::expression;
use crate::cases::ledger::stays_unbound;
use crate::cases::placing::{ZONE, zoned};
use crate::cases::seen::{accounting_matches_api, group_says};
use crate::cases::unbound_claims::{claims, make_class};
use crate::load::process;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::workloads::{Workload, wait_running};
use crate::world::World;
use crate::{chart, say};

/// The class of most claims. Nothing makes volumes for it.
const LOCAL: &str = "local";
/// The most requirements and values in the selectors of the claims of a pod.
const MOST_REQUIREMENTS: usize = 1000;
/// The claims of one pod of the crowd. The scheduler reads 256.
const OF_ONE_POD: usize = 250;
/// By how much the memory of the scheduler may grow with a crowd, in MiB, and by how much more for each thousand of its claims.
const MOST_GROWTH: (f64, f64) = (20.0, 8.0);
/// Concurrent requests of the case.
const AT_ONCE: usize = 32;

/// V20. Sizes that cannot be read, large selectors of one pod, and a crowd of claims without a volume in one namespace.
pub(in crate::cases) async fn of_claims(w: &mut World, crowd: usize) -> Result<()> {
    let client = w.client();
    zoned(&client, "a1", "a", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_class(&client, LOCAL, "kubernetes.io/no-provisioner", &[]).await?;
    refused_by_the_api_server(&client).await?;
    large_selectors_of_one_pod(w, &client).await?;
    many_claims(w, &client, crowd).await?;
    accounting_matches_api(w).await
}

fn claim(name: &str, class: &str, size: &str, more: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}},
    });
    super::constraints::merge(&mut claim, "/spec", more);
    claim
}

/// A volume of the class for the nodes that one of these terms selects.
fn volume(name: &str, class: &str, size: &str, terms: &[Value]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "capacity": {"storage": size},
            "nfs": {"server": "nfs.example.com", "path": format!("/{name}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    })
}

fn in_zones(zones: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]})
}

/// A selector that a volume without labels meets, with so many requirements.
fn requirements(count: usize) -> Value {
    let all: Vec<Value> = (0..count).map(|at| json!({"key": format!("example.com/k-{at}"), "operator": "DoesNotExist"})).collect();
    json!({"selector": {"matchExpressions": all}})
}

async fn make_claim(client: &Client, claim: Value) -> Result<()> {
    make_all(&claims(client), vec![claim]).await
}

async fn make_volume(client: &Client, volume: Value) -> Result<()> {
    make_all(&Api::<PersistentVolume>::all(client.clone()), vec![volume]).await
}

/// Creates these objects, many at once.
async fn make_all<K>(api: &Api<K>, objects: Vec<Value>) -> Result<()>
where
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let mut all = Vec::new();
    for object in objects {
        let object: K = serde_json::from_value(object)?;
        all.push(async move { api.create(&PostParams::default(), &object).await.map(drop).context("creating a claim or a volume") });
    }
    stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
}

/// Creates a PodGroup of one pod with these claims.
async fn make_group(client: &Client, name: &str, claims: &[String]) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": 1})).await?;
    let volume = |(at, claim): (usize, &String)| json!({"name": format!("v-{at}"), "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().enumerate().map(volume).collect();
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container(&[("cpu", "100m")])], "volumes": volumes},
        }),
    )
    .await
}

/// Creates a PodGroup without claims, and waits until it runs. Returns the seconds.
async fn runs_beside(client: &Client, name: &str) -> Result<f64> {
    let (name, start) = (format!("beside-{name}"), Instant::now());
    Workload::new(&name).asks(&[("cpu", "100m")]).make(client).await?;
    wait_running(client, &name, 1, 10).await?;
    Ok(start.elapsed().as_secs_f64())
}

/// The API server accepts no amount that cannot be read, and no affinity without a meaning. So no such object can be there.
async fn refused_by_the_api_server(client: &Client) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let capacities: Api<CSIStorageCapacity> = Api::namespaced(client.clone(), NAMESPACE);
    for size in ["a lot", "", "1Qi", "-1Gi"] {
        refused(&claims(client), size, claim("invalid", LOCAL, size, &json!({}))).await?;
        refused(&volumes, size, volume("invalid", LOCAL, size, &[in_zones(&["a"])])).await?;
        let capacity = json!({"metadata": {"name": "invalid"}, "storageClassName": LOCAL, "capacity": size});
        refused(&capacities, size, capacity).await?;
    }
    for (operator, values) in [("Near", 1), ("In", 0)] {
        let selector = json!({"selector": expression("k", operator, values)});
        refused(&claims(client), operator, claim("invalid", LOCAL, "1Gi", &selector)).await?;
        refused(&volumes, operator, volume("invalid", LOCAL, "1Gi", &[expression("k", operator, values)])).await?;
    }
    refused(&volumes, "no term", volume("invalid", LOCAL, "1Gi", &[])).await
}

/// Checks that the API server does not accept the object.
async fn refused<K>(api: &Api<K>, what: &str, object: Value) -> Result<()>
where
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let answer = api.create(&dry_run, &serde_json::from_value(object)?).await;
    let code = answer.as_ref().err().and_then(|error| if let kube::Error::Api(status) = error { Some(status.code) } else { None });
    // 400 where a text is no amount, and 422 where an amount or an operator may not be.
    ensure!(matches!(code, Some(400 | 422)), "{what}: the API server answers {answer:?}");
    Ok(())
}

/// One pod has as many claims as a pod may have, each with a selector that is not too large by itself. There are many free volumes to
/// compare them with.
async fn large_selectors_of_one_pod(w: &mut World, client: &Client) -> Result<()> {
    let names: Vec<String> = (0..OF_ONE_POD).map(|at| format!("selects-{at}")).collect();
    let selector = requirements(MOST_REQUIREMENTS);
    make_all(&claims(client), names.iter().map(|name| claim(name, LOCAL, "1Gi", &selector)).collect()).await?;
    let volumes = (0..OF_ONE_POD - 1).map(|at| volume(&format!("selected-{at}"), LOCAL, "1Gi", &[in_zones(&["a"])]));
    make_all(&Api::<PersistentVolume>::all(client.clone()), volumes.collect()).await?;
    make_group(client, "selects", &names).await?;
    let took = runs_beside(client, "selects").await?;
    say::line(format!("        V20: a PodGroup beside {OF_ONE_POD} large selectors of one pod runs after {took:.1} s"));
    group_says(client, "selects", "requirements and values").await?;
    stays_unbound(w, "selects", 0).await
}

/// A crowd of claims without a volume, each named by a pod. Every pod says why it waits; PodGroups beside it run at once, also one with a
/// claim of its own.
async fn many_claims(w: &mut World, client: &Client, crowd: usize) -> Result<()> {
    let pid = process::find(w.cluster().scratch().folder(), chart::SCHEDULER)?;
    let (before, busy) = (process::memory(pid)?.now, process::processor_seconds(pid)?);
    let names: Vec<String> = (0..crowd).map(|at| format!("crowd-{at}")).collect();
    let start = Instant::now();
    make_all(&claims(client), names.iter().map(|name| claim(name, LOCAL, "2Gi", &json!({}))).collect()).await?;
    let made = start.elapsed().as_secs_f64();
    let pods: Vec<(String, &[String])> =
        names.chunks(OF_ONE_POD).enumerate().map(|(at, claims)| (format!("crowd-pod-{at}"), claims)).collect();
    for (name, claims) in &pods {
        make_group(client, name, claims).await?;
    }
    let took = runs_beside(client, "crowd").await?;
    for (name, _) in &pods {
        group_says(client, name, "didn't find available persistent volumes to bind").await?;
    }
    // Of the free volumes of the class this one alone is large enough for it, and too small for the crowd.
    make_volume(client, volume("of-its-own", LOCAL, "1536Mi", &[in_zones(&["a"])])).await?;
    make_claim(client, claim("of-its-own", LOCAL, "1200Mi", &json!({}))).await?;
    make_group(client, "of-its-own", &["of-its-own".to_owned()]).await?;
    let later = runs_beside(client, "crowd-that-waits").await?;
    wait_running(client, "of-its-own", 1, 60).await?;
    let (after, busy) = (process::memory(pid)?.now, process::processor_seconds(pid)? - busy);
    say::line(format!(
        "        V20: {crowd} claims of {} pods, made in {made:.0} s: memory {before:.1} MiB, then {after:.1}; {busy:.1} s of processor time; a PodGroup beside them runs after {took:.1} s, and later {later:.1} s",
        pods.len(),
    ));
    let thousands = f64::from(u32::try_from(crowd)?) / 1000.0;
    ensure!(after < before + MOST_GROWTH.0 + MOST_GROWTH.1 * thousands, "memory grew from {before:.1} to {after:.1} MiB");
    for (name, _) in &pods {
        stays_unbound(w, name, 0).await?;
    }
    Ok(())
}
