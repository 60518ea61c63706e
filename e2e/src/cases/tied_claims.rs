//! Row V23: writes that tie claims to volumes and nodes fail, each in another way. The gang gets all its volumes in the end, each once, where they were first asked for.
//!
//! This case is the provisioner of the class `made`. kube-controller-manager's binder binds the claims.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;
use tokio::sync::Mutex;

use super::seen::accounting_matches_api;
use super::unbound_claims::{
    HOST, PROVISIONER, SELECTED_NODE, claims, make_claim, make_class, make_gang, make_local, node_of, provide, volume_of,
};
use super::volumes::zoned;
use crate::faults::{Fault, Refusal, Rule, Verb};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;

/// The fault of the write of each claim of the class `made`.
const OF_CLAIMS: [(&str, Fault); 8] = [
    ("g-0", Fault::CutBefore),
    ("g-1", Fault::CutMiddle),
    ("g-2", Fault::LoseReply),
    ("g-3", Fault::Late(secs(2))),
    ("g-4", Fault::Refuse(Refusal::Conflict)),
    ("g-5", Fault::Refuse(Refusal::Internal)),
    ("g-6", Fault::Refuse(Refusal::TooMany { after: 1, plain: false })),
    ("g-7", Fault::Refuse(Refusal::Timeout)),
];

/// The fault of the write of each volume, of which there is one for each claim of the class `local`.
const OF_VOLUMES: [(&str, Fault); 4] = [
    ("v-8", Fault::LoseReply),
    ("v-9", Fault::Late(secs(2))),
    ("v-10", Fault::Refuse(Refusal::Conflict)),
    ("v-11", Fault::Refuse(Refusal::Unavailable)),
];

/// V23. See above.
pub(super) async fn each_fails_differently(w: &mut World) -> Result<()> {
    let client = w.client();
    zoned(&client, &["n1", "n2", "n3", "n4", "n5"]).await?;
    make_class(&client, "made", PROVISIONER, &[]).await?;
    make_class(&client, "local", "kubernetes.io/no-provisioner", &[]).await?;
    for (resource, faults) in [("persistentvolumeclaims", &OF_CLAIMS[..]), ("persistentvolumes", &OF_VOLUMES[..])] {
        for (name, fault) in faults {
            w.aim(Rule { verb: Some(Verb::Patch), resource, name: Some(name), fault: *fault, times: 1 })?;
        }
    }
    for (volume, _) in OF_VOLUMES {
        make_local(&client, volume, "local", 1, (HOST, "n1"), Value::Null).await?;
    }
    let all = OF_CLAIMS.len() + OF_VOLUMES.len();
    for number in 0..all {
        make_claim(&client, &format!("g-{number}"), if number < OF_CLAIMS.len() { "made" } else { "local" }, 1).await?;
    }
    let members = make_gang(&client, "g", all).await?;
    // A late write takes effect after its answer, so the first node of each claim is kept and compared in the end.
    let seen: Mutex<BTreeMap<String, String>> = Mutex::default();
    let first = wait_until(secs(60), "every claim of the class has a selected node", || async {
        let all = claims(&client).list(&ListParams::default()).await?;
        let mut seen = seen.lock().await;
        for claim in all {
            if let Some(node) = claim.annotations().get(SELECTED_NODE) {
                seen.entry(claim.name_any()).or_insert_with(|| node.clone());
            }
        }
        Ok(if seen.len() == OF_CLAIMS.len() { Seen::Yes(seen.clone()) } else { Seen::NotYet(format!("{seen:?}")) })
    })
    .await?;
    for (claim, node) in &first {
        provide(&client, claim, (HOST, node)).await?;
    }
    wait_running(&client, "g", all, 60).await?;
    for member in &members {
        let node = node_of(&client, "g", member).await?;
        let volume = volume_of(&client, member).await?;
        let (wanted, of) = first.get(member).map_or(("n1", "v-".to_owned()), |node| (node, format!("made-for-{member}")));
        ensure!(node == wanted && volume.starts_with(&of), "pod {member} is on {node} with {volume}");
        let now = claims(&client).get(member).await?.annotations().get(SELECTED_NODE).cloned();
        ensure!(now.as_ref() == first.get(member), "claim {member} was tied to {:?}, and now to {now:?}", first.get(member));
    }
    let hit: u64 = w.faults().values().sum();
    ensure!(hit == u64::try_from(all)?, "{hit} writes went wrong: {:?}", w.faults());
    accounting_matches_api(w).await
}
