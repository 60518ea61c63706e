//! Rows V22 and V24: nodes, claims and volumes that change while a gang waits for its volumes. No pod of it is bound where its volume is not.
//!
//! This case is the provisioner of the class `made`. kube-controller-manager's binder binds the claims.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::ledger::stays_unbound;
use super::placing::ZONE;
use super::plugin::plugin;
use super::seen::{accounting_matches_api, group_says};
use super::unbound_claims::{
    HOST, PROVISIONER, SELECTED_NODE, claims, make_claim, make_class, make_gang, make_local, node_of, provide, selected_node, volume_of,
    wait_tied,
};
use super::volumes::zoned;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;

const CLASS: &str = "made";

/// Creates a gang with a claim for each member, and returns the node that each claim is tied to.
async fn tied_gang(client: &Client, name: &str, members: usize) -> Result<Vec<String>> {
    for number in 0..members {
        make_claim(client, &format!("{name}-{number}"), CLASS, 1).await?;
    }
    let mut nodes = Vec::new();
    for member in make_gang(client, name, members).await? {
        nodes.push(selected_node(client, &member).await?);
    }
    Ok(nodes)
}

/// V22. The only node of the allowed zone goes while the second of two volumes is not made. No pod is bound. The PodGroup says which claim keeps its volume. A
/// new node of the zone comes, and the provisioner gives the claim without a volume free: the gang runs there.
pub(super) async fn zone_goes(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "b1"]).await?;
    make_class(&client, CLASS, PROVISIONER, &["b"]).await?;
    let asked = tied_gang(&client, "g", 2).await?;
    ensure!(asked == ["b1", "b1"], "the claims are tied to {asked:?}");
    provide(&client, "g-0", (ZONE, "b")).await?;
    group_says(&client, "g", "WaitingForVolumes: waiting for 1 persistentvolumeclaim(s) to be bound, the first is \"g-1\"").await?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("b1", &DeleteParams::default()).await?;
    let keeps = "persistentvolumeclaim \"g-0\" keeps persistentvolume \"made-for-g-0\" (topology.kubernetes.io/zone=b)";
    group_says(&client, "g", keeps).await?;
    let why = plugin(w, "why g").await?;
    ensure!(why.out.contains(keeps), "{}", why.out);
    stays_unbound(w, "g", 2).await?;
    accounting_matches_api(w).await?;
    // A node of the zone is not that of the other claim.
    zoned(&client, &["b2"]).await?;
    stays_unbound(w, "g", 2).await?;
    let is_tied = claims(&client).get("g-1").await?.annotations().get(SELECTED_NODE).cloned();
    ensure!(is_tied.as_deref() == Some("b1"), "claim g-1 was tied to b1, and now to {is_tied:?}");
    // What provisioners do where the selected node does not exist.
    let free = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
    claims(&client).patch("g-1", &PatchParams::default(), &Patch::Merge(free)).await?;
    let node = selected_node(&client, "g-1").await?;
    ensure!(node == "b2", "claim g-1 is tied to {node}");
    stays_unbound(w, "g", 1).await?;
    provide(&client, "g-1", (HOST, "b2")).await?;
    wait_running(&client, "g", 2, 60).await?;
    for pod in ["g-0", "g-1"] {
        let on = node_of(&client, "g", pod).await?;
        ensure!(on == "b2", "pod {pod} is on {on}");
    }
    accounting_matches_api(w).await
}

/// V24. A volume is made elsewhere than asked, or where no node is; a claim is deleted and made again; a volume is given to another claim. Each time no pod of the gang is bound
/// until all of it can be, and each pod is where its volume is.
pub(super) async fn other_than_decided(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["a1", "a2"]).await?;
    make_class(&client, CLASS, PROVISIONER, &[]).await?;
    made_elsewhere(w, &client).await?;
    made_nowhere(w, &client).await?;
    claim_made_again(w, &client).await?;
    volume_taken(w, &client).await?;
    accounting_matches_api(w).await
}

async fn made_elsewhere(w: &mut World, client: &Client) -> Result<()> {
    let asked = tied_gang(client, "elsewhere", 2).await?;
    let first = asked.first().context("no claim")?;
    let other = if first == "a1" { "a2" } else { "a1" };
    provide(client, "elsewhere-0", (HOST, other)).await?;
    stays_unbound(w, "elsewhere", 2).await?;
    let second = selected_node(client, "elsewhere-1").await?;
    ensure!(Some(&second) == asked.get(1), "claim elsewhere-1 was tied to {asked:?}, and now to {second}");
    provide(client, "elsewhere-1", (HOST, &second)).await?;
    wait_running(client, "elsewhere", 2, 60).await?;
    are_on(client, "elsewhere", &[other, &second]).await
}

async fn made_nowhere(w: &mut World, client: &Client) -> Result<()> {
    let asked = tied_gang(client, "nowhere", 2).await?;
    provide(client, "nowhere-0", (HOST, "later")).await?;
    let keeps = "persistentvolumeclaim \"nowhere-0\" keeps persistentvolume \"made-for-nowhere-0\" (kubernetes.io/hostname=later)";
    group_says(client, "nowhere", keeps).await?;
    let second = asked.get(1).context("no claim")?;
    provide(client, "nowhere-1", (HOST, second)).await?;
    stays_unbound(w, "nowhere", 2).await?;
    group_says(client, "nowhere", "didn't match PersistentVolume's node affinity").await?;
    zoned(client, &["later"]).await?;
    wait_running(client, "nowhere", 2, 60).await?;
    are_on(client, "nowhere", &["later", second]).await
}

async fn claim_made_again(w: &mut World, client: &Client) -> Result<()> {
    let asked = tied_gang(client, "again", 2).await?;
    let first = asked.first().context("no claim")?;
    provide(client, "again-0", (HOST, first)).await?;
    group_says(client, "again", "waiting for 1 persistentvolumeclaim(s) to be bound, the first is \"again-1\"").await?;
    claims(client).delete("again-1", &DeleteParams::default()).await?;
    group_says(client, "again", "persistentvolumeclaim \"again-1\" not found").await?;
    group_says(client, "again", "persistentvolumeclaim \"again-0\" keeps persistentvolume \"made-for-again-0\"").await?;
    stays_unbound(w, "again", 1).await?;
    make_claim(client, "again-1", CLASS, 1).await?;
    let second = selected_node(client, "again-1").await?;
    stays_unbound(w, "again", 1).await?;
    provide(client, "again-1", (HOST, &second)).await?;
    wait_running(client, "again", 2, 60).await?;
    are_on(client, "again", &[first, &second]).await
}

/// The binder stands still, so that the claim is not bound before its volume is taken.
async fn volume_taken(w: &mut World, client: &Client) -> Result<()> {
    make_class(client, "local", "kubernetes.io/no-provisioner", &[]).await?;
    for (name, node) in [("first", "a1"), ("second", "a2")] {
        make_local(client, name, "local", 1, (HOST, node), Value::Null).await?;
    }
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for name in ["first", "second"] {
        wait_until(secs(10), &format!("volume {name} is available"), || async {
            let phase = volumes.get(name).await?.status.and_then(|status| status.phase);
            Ok(Seen::when(phase.as_deref() == Some("Available"), || format!("{phase:?}")))
        })
        .await?;
    }
    make_claim(client, "taken-0", "local", 1).await?;
    w.cluster().signal("kube-controller-manager", "STOP").await?;
    make_gang(client, "taken", 1).await?;
    wait_tied(client, "first").await?;
    group_says(client, "taken", "WaitingForVolumes").await?;
    let theirs =
        json!({"spec": {"claimRef": {"namespace": "default", "name": "theirs", "uid": "of-another-claim", "resourceVersion": null}}});
    volumes.patch("first", &PatchParams::default(), &Patch::Merge(theirs)).await?;
    let claim = wait_tied(client, "second").await?;
    ensure!(claim == "taken-0", "volume second names {claim}");
    let claim = wait_tied(client, "first").await?;
    ensure!(claim == "theirs", "volume first names {claim}");
    w.cluster().signal("kube-controller-manager", "CONT").await?;
    wait_running(client, "taken", 1, 60).await?;
    let volume = volume_of(client, "taken-0").await?;
    ensure!(volume == "second", "the claim is bound to {volume}");
    are_on(client, "taken", &["a2"]).await
}

/// Checks the nodes of the members.
async fn are_on(client: &Client, group: &str, nodes: &[&str]) -> Result<()> {
    for (number, wanted) in nodes.iter().enumerate() {
        let on = node_of(client, group, &format!("{group}-{number}")).await?;
        ensure!(on == *wanted, "pod {group}-{number} is on {on}, and its volume on {wanted}");
    }
    Ok(())
}
