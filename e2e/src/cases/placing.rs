//! Rows P1 to P7: pods with spread, affinity, anti-affinity and host ports are placed as kube-scheduler would, and gangs of them whole.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::label_keys;
use super::ledger::stays_unbound;
use super::plugin::{at, plugin};
use super::seen::{group_says, phase, pod_says, pods_wait_for};
use crate::objects::{Amounts, NAMESPACE, make_node};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::kinds::Order;
use crate::workloads::owner::{Kind, Owner, resize};
use crate::workloads::{Workload, pods_of, scale, wait_one_group, wait_running};
use crate::world::World;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";

/// Creates a node of 4 cpu in a zone, or with these amounts.
pub(super) async fn zoned(client: &Client, name: &str, zone: &str, amounts: Amounts<'_>) -> Result<()> {
    let amounts: Amounts<'_> = if amounts.is_empty() { &[("cpu", "4"), ("memory", "8Gi")] } else { amounts };
    make_node(client, name, amounts).await?;
    let labels = Patch::Merge(json!({"metadata": {"labels": {ZONE: zone}}}));
    Api::<Node>::all(client.clone()).patch(name, &PatchParams::default(), &labels).await?;
    Ok(())
}

/// Waits until the observer has judged so many bindings of pods with constraints, each by the filters of kube-scheduler. Without faults it
/// judges every binding: these clusters are small, and no watch misses versions.
async fn constraints_judged(w: &World, least: u64) -> Result<()> {
    wait_until(secs(20), "the observer judges the constraints", || async {
        let judged = w.watched()?.judged_constraints();
        Ok(Seen::when(judged.constrained >= least, || format!("{judged:?}, and {least} must be judged")))
    })
    .await?;
    let judged = w.watched()?.judged_constraints();
    ensure!(judged.unjudged == 0 || w.is_mixed(), "{judged}");
    Ok(())
}

/// Two nodes in each of three zones, of which one zone has one node.
async fn five_nodes(client: &Client) -> Result<()> {
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")] {
        zoned(client, name, zone, &[]).await?;
    }
    Ok(())
}

/// Required affinity or anti-affinity to the pods with the label `app`.
fn to(app: &str, topology_key: &str) -> Value {
    to_label("app", app, topology_key)
}

fn to_label(key: &str, value: &str, topology_key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {key: value}}, "topologyKey": topology_key}]})
}

fn spread(app: &str, topology_key: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": topology_key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}])
}

/// Returns how many pods of a workload are in each value of a label of their nodes.
pub(super) async fn by_domain(client: &Client, name: &str, key: &str) -> Result<BTreeMap<String, usize>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut counts = BTreeMap::new();
    for pod in pods_of(client, name).await? {
        let Some(node) = pod.spec.and_then(|spec| spec.node_name) else { continue };
        let value = nodes.get(&node).await?.labels().get(key).cloned().context("the node has no such label")?;
        *counts.entry(value).or_default() += 1;
    }
    Ok(counts)
}

/// Waits until the pods with a node are in these domains. Under faults the last binding may come later than a refusal of another pod.
async fn wait_by_domain(client: &Client, name: &str, key: &str, wanted: &[(&str, usize)]) -> Result<()> {
    wait_until(secs(10), &format!("the pods of {name} with a node are in {wanted:?}"), || async {
        let found = by_domain(client, name, key).await?;
        Ok(Seen::when(found == counts(wanted), || format!("{found:?}")))
    })
    .await
}

pub(super) fn counts(wanted: &[(&str, usize)]) -> BTreeMap<String, usize> {
    wanted.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect()
}

/// P1. A Deployment with a hard spread over zones has two pods in each; one more pod may go anywhere, and where the zone with the fewest is full, the next waits.
pub(super) async fn spread_over_zones(w: &mut World) -> Result<()> {
    let client = w.client();
    five_nodes(&client).await?;
    let web = Workload::new("web").replicas(6).asks(&[("cpu", "2")]).pod_spec("topologySpreadConstraints", spread("web", ZONE));
    web.make(&client).await?;
    wait_running(&client, "web", 6, 10).await?;
    let zones = by_domain(&client, "web", ZONE).await?;
    ensure!(zones == counts(&[("a", 2), ("b", 2), ("c", 2)]), "{zones:?}");
    // Zone c is full now: in a and b one more pod each is within the skew, a third is not.
    scale(&client, "web", 9).await?;
    pods_wait_for(&client, "web", 1, "Unschedulable").await?;
    wait_by_domain(&client, "web", ZONE, &[("a", 3), ("b", 3), ("c", 2)]).await?;
    pod_says(&client, "web", "didn't match pod topology spread constraints").await?;
    // A further node in zone c helps at once.
    zoned(&client, "c2", "c", &[]).await?;
    wait_running(&client, "web", 9, 10).await?;
    constraints_judged(w, 9).await
}

/// P2. The pods of a StatefulSet that keep each other away are on nodes of their own; the pod for which no node is left says why, and gets the node of the first one that leaves.
/// Then the keys of labels by which pods are apart, together or spread.
pub(super) async fn one_on_each_node(w: &mut World) -> Result<()> {
    let client = w.client();
    for name in ["n1", "n2", "n3"] {
        zoned(&client, name, "a", &[]).await?;
    }
    let db = Owner::stateful_set("db", Order::OrderedReady).replicas(3).with_pod("/metadata/labels", "tier", json!("db"));
    db.with_pod("/spec/affinity", "podAntiAffinity", to_label("tier", "db", HOST)).make(&client).await?;
    wait_running(&client, "db", 3, 30).await?;
    let nodes = by_domain(&client, "db", HOST).await?;
    ensure!(nodes == counts(&[("n1", 1), ("n2", 1), ("n3", 1)]), "{nodes:?}");
    // A pod that says nothing about others is kept away as well.
    Workload::new("db2").label("tier", "db").make(&client).await?;
    let group = wait_one_group(&client, "db2", 10).await?.name_any();
    group_says(&client, &group, "anti-affinity rules").await?;
    plugin(w, &format!("why pg/{group} --without-scheduler"))
        .await?
        .must(0, &["add a node, or wait for the pods that keep others away"])?;
    stays_unbound(w, "db2", 3).await?;
    resize(&client, Kind::StatefulSet, "db", 2).await?;
    wait_running(&client, "db2", 1, 10).await?;
    label_keys::each_kind(w, &client).await?;
    constraints_judged(w, 3 + label_keys::BINDINGS).await
}

/// P3. A gang with required affinity to itself is in one zone: the one that has room for all of it. No pod is bound while no zone has.
pub(super) async fn gang_in_one_zone(w: &mut World) -> Result<()> {
    let client = w.client();
    five_nodes(&client).await?;
    // Zone a has 5 cpu, zone b 8, zone c 4.
    Workload::new("filler").replicas(3).on_node("a1").make(&client).await?;
    wait_running(&client, "filler", 3, 10).await?;
    let train = Workload::new("train").replicas(4).gang("4").asks(&[("cpu", "2")]).affinity("podAffinity", to("train", ZONE));
    train.make(&client).await?;
    wait_running(&client, "train", 4, 10).await?;
    let zones = by_domain(&client, "train", ZONE).await?;
    ensure!(zones == counts(&[("b", 4)]), "{zones:?}");
    // A second one has no zone left: it waits as a whole.
    let more = Workload::new("more").replicas(3).gang("3").asks(&[("cpu", "2")]).affinity("podAffinity", to("more", ZONE));
    more.make(&client).await?;
    let group = wait_one_group(&client, "more", 10).await?.name_any();
    // It names the member after which there is no room, and says why, in the words of kube-scheduler.
    group_says(&client, &group, "2 of 3 members find a place; for more-").await?;
    let counts = "0/5 nodes are available: 1 node(s) didn't match pod affinity rules, 4 Insufficient cpu";
    pod_says(&client, "more", &format!("{counts}; cpu: requested 2, most free 1; pod affinity: {ZONE}")).await?;
    stays_unbound(w, "more", 3).await?;
    why_by_zone(w, &group).await?;
    ensure!(phase(&client, &group).await? != "Running", "it runs");
    constraints_judged(w, 4).await
}

/// Checks that `why` shows the gang `more` of P3 by zone: two members find places in one zone, and zone b is full.
async fn why_by_zone(w: &World, group: &str) -> Result<()> {
    let shown = plugin(w, &format!("why pg/{group} --without-scheduler")).await?;
    let title = format!("By {ZONE}:");
    shown.must(0, &[title.as_str(), "DOMAIN  NODES  PLACED  REFUSED BY", "need one domain"])?;
    let value = plugin(w, &format!("why pg/{group} --without-scheduler -o json")).await?.json()?;
    let zones = at(&value, "/nodes/byTopology/0/domains").as_array().cloned().unwrap_or_default();
    let number = |zone: &Value, path: &str| at(zone, path).as_u64().unwrap_or_default();
    let placed: Vec<u64> = zones.iter().map(|zone| number(zone, "/placed")).collect();
    ensure!(placed == [2, 0, 0], "{value}");
    let of_b = zones.iter().find(|zone| at(zone, "/value") == "b").context("zone b is not shown")?;
    ensure!(number(of_b, "/nodes") == 2 && number(of_b, "/reasons/0/nodes") == 2, "{of_b}");
    ensure!(at(of_b, "/reasons/0/reason") == "Insufficient cpu", "{of_b}");
    Ok(())
}

/// P4. A gang of two with members that need each other beside them, in either order of their creation.
pub(super) async fn members_that_need_each_other(w: &mut World) -> Result<()> {
    let client = w.client();
    five_nodes(&client).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    crate::objects::make_podgroup(&client, "pair", json!({"minMember": 2})).await?;
    // The follower is older: it is tried first, and nothing is there that it could follow.
    for (name, app, affinity) in [("follower", "follower", to("leader", HOST)), ("leader", "leader", Value::Null)] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": app}, "annotations": {"scheduling.k8s.io/group-name": "pair"}},
            "spec": {
                "schedulerName": crate::objects::SCHEDULER_NAME, "affinity": {"podAffinity": affinity},
                "containers": [crate::objects::container(&[("cpu", "1")])],
            },
        }))?;
        pods.create(&kube::api::PostParams::default(), &pod).await?;
        tokio::time::sleep(secs(1)).await;
    }
    for name in ["leader", "follower"] {
        wait_running(&client, name, 1, 10).await?;
    }
    let node = |pod: Pod| pod.spec.and_then(|spec| spec.node_name);
    let (one, other) = (node(pods.get("follower").await?), node(pods.get("leader").await?));
    ensure!(one.is_some() && one == other, "{one:?}, {other:?}");
    pods.delete("follower", &DeleteParams::default()).await?;
    constraints_judged(w, 1).await
}

/// P5. Pods with the same host port are on nodes of their own; a plain init container's port blocks nothing.
pub(super) async fn host_ports(w: &mut World) -> Result<()> {
    let client = w.client();
    for name in ["n1", "n2"] {
        zoned(&client, name, "a", &[]).await?;
    }
    let with_port = |name: &str, address: &str| {
        let ports = json!([{"containerPort": 80, "hostPort": 8080, "hostIP": address}]);
        Workload::new(name).asks(&[("cpu", "500m")]).container_field("ports", ports)
    };
    with_port("web", "").replicas(3).make(&client).await?;
    pods_wait_for(&client, "web", 1, "Unschedulable").await?;
    wait_by_domain(&client, "web", HOST, &[("n1", 1), ("n2", 1)]).await?;
    pod_says(&client, "web", "didn't have free ports").await?;
    // Another address is no other port where a pod has all addresses.
    with_port("one", "10.0.0.1").make(&client).await?;
    stays_unbound(w, "one", 3).await?;
    scale(&client, "web", 0).await?;
    wait_running(&client, "one", 1, 10).await?;
    with_port("two", "10.0.0.2").replicas(2).make(&client).await?;
    wait_running(&client, "two", 2, 10).await?;
    constraints_judged(w, 5).await
}

/// P6. Two nodes with 16 cpu and 8 devices, a gang of two helpers without a device and a worker with all of a node: the worker gets a node of its own, though the helpers
/// are older. In the order of the members it would get none: each helper goes to the emptiest node, so the two take both. (Helpers with a device are packed by it, so
/// they would share a node in any order.)
pub(super) async fn helpers_and_a_worker(w: &mut World) -> Result<()> {
    let client = w.client();
    let amounts = [("cpu", "16"), ("memory", "64Gi"), ("nvidia.com/gpu", "8")];
    zoned(&client, "n1", "a", &amounts).await?;
    zoned(&client, "n2", "a", &amounts).await?;
    crate::objects::make_podgroup(&client, "mixed", json!({"minMember": 3})).await?;
    let members: [(&str, Amounts<'_>); 3] =
        [("helper-1", &[("cpu", "1")]), ("helper-2", &[("cpu", "1")]), ("worker", &[("cpu", "16"), ("nvidia.com/gpu", "8")])];
    for (name, requests) in members {
        member(&client, "mixed", name, requests, &Value::Null).await?;
        tokio::time::sleep(secs(1)).await;
    }
    wait_running(&client, "worker", 1, 10).await?;
    wait_running(&client, "helper-1", 1, 10).await?;
    wait_running(&client, "helper-2", 1, 10).await
}

/// P7. A member without constraints takes the only node of the zone that another member selects; and of three members of whom two are needed, the largest takes
/// all. Both gangs are placed.
pub(super) async fn members_in_a_better_order(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, "a1", "a", &[("cpu", "2"), ("memory", "8Gi")]).await?;
    zoned(&client, "b1", "b", &[("cpu", "4"), ("memory", "8Gi")]).await?;
    Workload::new("filler").replicas(3).on_node("b1").make(&client).await?;
    wait_running(&client, "filler", 3, 10).await?;
    // a1 is the emptiest node; b1 has 1 cpu left.
    crate::objects::make_podgroup(&client, "choosy", json!({"minMember": 2})).await?;
    member(&client, "choosy", "anywhere", &[("cpu", "1")], &Value::Null).await?;
    tokio::time::sleep(secs(1)).await;
    member(&client, "choosy", "in-a", &[("cpu", "2")], &json!({ZONE: "a"})).await?;
    wait_running(&client, "in-a", 1, 10).await?;
    wait_running(&client, "anywhere", 1, 10).await?;
    zoned(&client, "c1", "c", &[("cpu", "6"), ("memory", "8Gi")]).await?;
    crate::objects::make_podgroup(&client, "sizes", json!({"minMember": 2})).await?;
    for (name, cpu) in [("large", "6"), ("small-1", "3"), ("small-2", "3")] {
        member(&client, "sizes", name, &[("cpu", cpu)], &Value::Null).await?;
        tokio::time::sleep(secs(1)).await;
    }
    wait_running(&client, "small-1", 1, 10).await?;
    wait_running(&client, "small-2", 1, 10).await?;
    // The one with a node selector.
    constraints_judged(w, 1).await
}

/// Creates a member of a PodGroup, with the label `app` of its name.
async fn member(client: &Client, group: &str, name: &str, requests: Amounts<'_>, node_selector: &Value) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {
            "schedulerName": crate::objects::SCHEDULER_NAME, "nodeSelector": node_selector,
            "containers": [crate::objects::container(requests)],
        },
    }))?;
    Api::<Pod>::namespaced(client.clone(), NAMESPACE).create(&kube::api::PostParams::default(), &pod).await?;
    Ok(())
}
