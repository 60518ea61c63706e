//! Row P2: what do `matchLabelKeys` and `mismatchLabelKeys` mean, as the API server stores them? It adds their values to the selectors.

use anyhow::{Result, ensure};
use kube::Client;
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::{HOST, ZONE, by_domain, constraints_judged, counts, zoned};
use super::seen::{pod_says, pods_wait_for};
use crate::workloads::{Workload, scale, wait_running};
use crate::world::World;

/// How many bindings of pods with constraints there are.
const BINDINGS: u64 = 13;

/// Required anti-affinity to the pods that the selector and these keys select.
fn away(selector: &Value, field: &str, keys: &[&str], topology_key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, field: keys, "topologyKey": topology_key}]})
}

fn small(name: &str, replicas: u32) -> Workload {
    Workload::new(name).asks(&[("cpu", "100m")]).replicas(replicas)
}

/// P2. Three nodes in zone a, to which a fourth comes in zone b. Each of these would end otherwise if the keys were not read.
pub(super) async fn each_kind(w: &mut World) -> Result<()> {
    let client = w.client();
    for name in ["n1", "n2", "n3"] {
        zoned(&client, name, "a", &[]).await?;
    }
    pods_of_the_same_version(&client).await?;
    pods_of_other_tenants(w, &client).await?;
    spread_of_one_version(&client).await?;
    pods_without_the_key(&client).await?;
    constraints_judged(w, BINDINGS).await
}

/// A key that the pods do not have adds nothing: the second is beside the first.
async fn pods_without_the_key(client: &Client) -> Result<()> {
    let selector = json!({"matchLabels": {"app": "keyless"}});
    let beside = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "matchLabelKeys": ["version"], "topologyKey": HOST}],
    });
    small("keyless", 2).gang("2").affinity("podAffinity", beside).make(client).await?;
    wait_running(client, "keyless", 2, 10).await?;
    ensure!(by_domain(client, "keyless", HOST).await?.len() == 1, "they are not together");
    Ok(())
}

/// The pods of one version keep each other away, and none of the other version. Without the key, the new version would find no node.
async fn pods_of_the_same_version(client: &Client) -> Result<()> {
    let apart = away(&json!({"matchLabels": {"role": "api"}}), "matchLabelKeys", &["version"], HOST);
    for (name, version) in [("api-old", "1"), ("api-new", "2")] {
        small(name, 3).label("role", "api").label("version", version).affinity("podAntiAffinity", apart.clone()).make(client).await?;
        wait_running(client, name, 3, 10).await?;
    }
    // A fourth one of a version has no node left.
    scale(client, "api-new", 4).await?;
    pods_wait_for(client, "api-new", 1, "Unschedulable").await?;
    pod_says(client, "api-new", "3 node(s) didn't match pod anti-affinity rules").await?;
    scale(client, "api-new", 3).await?;
    wait_running(client, "api-new", 3, 10).await
}

/// The pods of one tenant are together in a zone, and keep those of other tenants out of it. Without the key, they would keep each other away.
async fn pods_of_other_tenants(w: &mut World, client: &Client) -> Result<()> {
    let tenants = json!({"matchExpressions": [{"key": "tenant", "operator": "Exists"}]});
    let alone = away(&tenants, "mismatchLabelKeys", &["tenant"], ZONE);
    let of = |name: &str, replicas: u32| small(name, replicas).label("tenant", name).affinity("podAntiAffinity", alone.clone());
    of("tenant-a", 2).make(client).await?;
    wait_running(client, "tenant-a", 2, 10).await?;
    of("tenant-b", 1).make(client).await?;
    pod_says(client, "tenant-b", "3 node(s) didn't match pod anti-affinity rules").await?;
    stays_unbound(w, "tenant-b", 1).await?;
    zoned(client, "n4", "b", &[]).await?;
    wait_running(client, "tenant-b", 1, 10).await?;
    let zones = by_domain(client, "tenant-b", ZONE).await?;
    ensure!(zones == counts(&[("b", 1)]), "{zones:?}");
    Ok(())
}

/// The pods of the new version are spread over the zones by themselves. With those of the old version, which are all in zone a, both would
/// be in zone b.
async fn spread_of_one_version(client: &Client) -> Result<()> {
    let of = |name: &str, version: &str| small(name, 2).label("role", "web").label("version", version);
    of("web-old", "1").on_node("n1").make(client).await?;
    wait_running(client, "web-old", 2, 10).await?;
    let selector = json!({"matchLabels": {"role": "web"}});
    let even = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, "matchLabelKeys": ["version"],
    }]);
    of("web-new", "2").pod_spec("topologySpreadConstraints", even).make(client).await?;
    wait_running(client, "web-new", 2, 10).await?;
    let zones = by_domain(client, "web-new", ZONE).await?;
    ensure!(zones == counts(&[("a", 1), ("b", 1)]), "{zones:?}");
    Ok(())
}
