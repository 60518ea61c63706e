//! Row V21: the scheduler is killed at each of its requests for a gang with claims, and between two of its bindings. The next start takes
//! no volume twice.
//!
//! The fault proxy lets a number of writes through and cuts all that follows (as in row K27). kube-controller-manager's binder binds the
//! claims; the provisioner of a part of them is this case.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::Mutex;

use super::killed_at_requests::{Requests, draw};
use super::seen::{accounting_matches_api, bound};
use super::unbound_claims::{HOST, PROVISIONER, SELECTED_NODE, claims, make_claim, make_class, make_gang, make_local, reference, zoned};
use crate::faults::{Fault, HttpProxy, Rule, Verb};
use crate::objects::{NAMESPACE, podgroups};
use crate::say;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::pods_of;
use crate::world::World;

/// The members of a gang. The volumes of the first two are there, and those of the others are made.
const MEMBERS: usize = 4;

/// The volumes that are there for each gang: more than it takes.
const THERE: usize = 3;

/// V21. A start follows at once, without an election. It makes the gang whole within a minute, each pod beside its volume, and each claim
/// has one volume.
pub(super) async fn each(w: &mut World, requests: Requests) -> Result<()> {
    let client = w.client();
    zoned(&client, &["n1", "n2"]).await?;
    make_class(&client, "local", "kubernetes.io/no-provisioner", &[]).await?;
    make_class(&client, "made", PROVISIONER, &[]).await?;
    let scheduler = w.scheduler()?;
    scheduler.terminate().await?;
    scheduler.also("--leader-elect=false");
    // A binding without an answer would be sent again after ten seconds.
    scheduler.also("--request-timeout=60s");
    let mut provisioner = Provisioner::default();
    let all = writes_of_a_gang(w, &mut provisioner).await?;
    let (chosen, _) = draw(requests, all, w.seed);
    say::line(format!("        V21: a gang of {MEMBERS} with claims takes {all} writes; killed at {chosen:?}, and between two bindings"));
    for writes in chosen {
        crash(w, writes, &mut provisioner).await?;
    }
    between_two_bindings(w, &mut provisioner).await?;
    w.scheduler()?.restart().await
}

/// Makes volumes for the selected nodes of claims, each once.
#[derive(Default)]
struct Provisioner {
    /// By UID of the claim: the node.
    made: BTreeMap<String, String>,
}

impl Provisioner {
    /// Makes the volumes that claims ask for now.
    async fn act(&mut self, client: &Client) -> Result<()> {
        for claim in claims(client).list(&ListParams::default()).await? {
            let Some((uid, node)) = claim.uid().zip(claim.annotations().get(SELECTED_NODE).cloned()) else { continue };
            let (name, made_for) = (claim.name_any(), self.made.get(&uid).cloned());
            let Some(made_for) = made_for else {
                let of = reference(&name, Some(&uid));
                make_local(client, &format!("made-for-{name}-on-{node}"), "made", 2, (HOST, &node), of).await?;
                self.made.insert(uid, node);
                continue;
            };
            ensure!(made_for == node, "the volume of claim {name} was made for {made_for}, and it is tied to {node} now");
        }
        Ok(())
    }
}

/// Waits, as the provisioner, until this holds of the phase of the PodGroup.
async fn wait_phase(client: &Client, name: &str, provisioner: &mut Provisioner, seconds: u64, is: impl Fn(&str) -> bool) -> Result<()> {
    let provisioner = Mutex::new(provisioner);
    wait_until(secs(seconds), &format!("the PodGroup {name} goes on"), || async {
        provisioner.lock().await.act(client).await?;
        let phase = super::seen::phase(client, name).await?;
        Ok(Seen::when(is(&phase), || phase.clone()))
    })
    .await
}

/// Creates a gang, its claims and the volumes of some of them, while no scheduler runs.
async fn waiting_gang(client: &Client, name: &str) -> Result<()> {
    for number in 0..THERE {
        let node = if number % 2 == 0 { "n1" } else { "n2" };
        make_local(client, &format!("there-for-{name}-{number}-on-{node}"), "local", 1, (HOST, node), Value::Null).await?;
    }
    for number in 0..MEMBERS {
        make_claim(client, &format!("{name}-{number}"), if number < 2 { "local" } else { "made" }, 1).await?;
    }
    make_gang(client, name, MEMBERS).await.map(drop)
}

/// Binds a gang without a fault, and returns how many writes the scheduler made for it.
async fn writes_of_a_gang(w: &mut World, provisioner: &mut Provisioner) -> Result<u32> {
    let client = w.client();
    waiting_gang(&client, "whole").await?;
    w.scheduler_faults()?.cut_after(u32::MAX);
    w.scheduler()?.restart().await?;
    is_whole(&client, "whole", provisioner).await?;
    let all = w.scheduler_faults()?.cut_no_more();
    ensure!(usize::try_from(all)? >= 2 * MEMBERS, "only {all} writes were counted");
    w.scheduler()?.kill().await?;
    gone(&client, "whole").await?;
    Ok(all)
}

/// Kills the scheduler after this many writes, starts it again, and checks that the gang becomes whole.
async fn crash(w: &mut World, writes: u32, provisioner: &mut Provisioner) -> Result<()> {
    let client = w.client();
    let name = format!("gang-{writes}");
    waiting_gang(&client, &name).await?;
    w.scheduler_faults()?.cut_after(writes);
    w.scheduler()?.launch()?;
    // A start can do with one or two statuses fewer than the first one.
    let cut = || w.scheduler_faults().is_ok_and(HttpProxy::is_cut);
    wait_phase(&client, &name, provisioner, 60, |phase| phase == "Running" || cut()).await?;
    // A part of the gang may be bound for longer than the observer forgives; this case has its own minute.
    w.watched()?.excuse(&[6]);
    w.scheduler()?.kill().await?;
    w.scheduler_faults()?.cut_no_more();
    let already = bound(&client, &name).await?;
    w.scheduler()?.restart().await?;
    is_whole(&client, &name, provisioner).await?;
    say::line(format!("        V21: killed after {writes} writes, with {already} of {MEMBERS} pods bound"));
    w.watched()?.insist(&[6]);
    accounting_matches_api(w).await?;
    w.scheduler()?.kill().await?;
    gone(&client, &name).await
}

/// The binding of one member is on its way when the scheduler is killed; those of the others are done. It arrives when the gang is whole.
async fn between_two_bindings(w: &mut World, provisioner: &mut Provisioner) -> Result<()> {
    let client = w.client();
    waiting_gang(&client, "between").await?;
    let fault = Fault::HoldRequest(secs(120));
    w.inject(Rule { verb: Some(Verb::Create), resource: "pods/binding", name: Some("between-1"), fault, times: 1 })?;
    w.scheduler()?.launch()?;
    wait_phase(&client, "between", provisioner, 60, |_| w.hits("delay-request").is_ok_and(|hits| hits > 0)).await?;
    w.watched()?.excuse(&[6]);
    wait_until(secs(10), "the other members are bound", || async {
        let count = bound(&client, "between").await?;
        Ok(Seen::when(count == MEMBERS - 1, || count.to_string()))
    })
    .await?;
    w.scheduler()?.kill().await?;
    w.scheduler()?.restart().await?;
    is_whole(&client, "between", provisioner).await?;
    w.watched()?.insist(&[6]);
    w.let_go()?;
    accounting_matches_api(w).await?;
    has_its_volumes(&client, "between").await?;
    w.scheduler()?.kill().await?;
    gone(&client, "between").await
}

/// Within a minute the whole gang runs, each pod beside its volume.
async fn is_whole(client: &Client, name: &str, provisioner: &mut Provisioner) -> Result<()> {
    wait_phase(client, name, provisioner, 60, |phase| phase == "Running").await?;
    let count = bound(client, name).await?;
    ensure!(count == MEMBERS, "{name} is Running, and {count} pods are bound");
    has_its_volumes(client, name).await
}

/// Checks that each claim of the gang has one volume, and that each pod is where that is.
async fn has_its_volumes(client: &Client, name: &str) -> Result<()> {
    let mut volumes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for volume in Api::<PersistentVolume>::all(client.clone()).list(&ListParams::default()).await? {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.name.clone()).unwrap_or_default();
        if claim.strip_suffix(|last: char| last.is_ascii_digit()).is_some_and(|of| of == format!("{name}-")) {
            volumes.entry(claim).or_default().insert(volume.name_any());
        }
    }
    ensure!(volumes.len() == MEMBERS && volumes.values().all(|of| of.len() == 1), "the volumes of {name}: {volumes:?}");
    for pod in pods_of(client, name).await? {
        let volume = volumes.get(&pod.name_any()).and_then(BTreeSet::first).context("no volume")?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        ensure!(volume.ends_with(&format!("-on-{node}")), "pod {} is on {node:?}, and its volume is {volume}", pod.name_any());
    }
    Ok(())
}

/// Deletes the gang while no scheduler runs, with its claims and volumes, and returns when its pods are gone.
async fn gone(client: &Client, name: &str) -> Result<()> {
    let (pods, params) = (Api::<Pod>::namespaced(client.clone(), NAMESPACE), DeleteParams::default());
    for pod in pods_of(client, name).await? {
        pods.delete(&pod.name_any(), &params.clone().grace_period(0)).await?;
    }
    podgroups(client).delete(name, &params).await?;
    wait_until(secs(10), &format!("no pod of {name} is left"), || async {
        let count = pods_of(client, name).await?.len();
        Ok(Seen::when(count == 0, || count.to_string()))
    })
    .await?;
    let claims: Api<PersistentVolumeClaim> = claims(client);
    for number in 0..MEMBERS {
        claims.delete(&format!("{name}-{number}"), &params).await?;
    }
    // Free ones would serve the next gang.
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&ListParams::default()).await? {
        if volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none()) {
            volumes.delete(&volume.name_any(), &params).await?;
        }
    }
    Ok(())
}
