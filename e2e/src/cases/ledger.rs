//! What the ledger of the scheduler shows, and pods that stay without a node.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::http;
use crate::objects::milli_of;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{phases, pods_of};
use crate::world::World;

/// The resource of the device plugin of the case's node.
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// Waits until the scheduler's ledger says that `node` is overcommitted by `units` of `dimension`; 0 means not overcommitted.
pub(crate) async fn wait_overcommitted(port: u16, node: &str, dimension: &str, units: i64) -> Result<()> {
    wait_until(secs(10), &format!("the ledger reports {node} overcommitted by {units} of {dimension}"), || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let nodes = ledger.get("nodes").and_then(Value::as_array).context("the ledger has no nodes")?;
        let Some(entry) = nodes.iter().find(|each| each.get("name").is_some_and(|name| name == node)) else {
            return Ok(Seen::NotYet(format!("the ledger has no node {node}")));
        };
        let amount = entry.get("overcommitted").and_then(|all| all.get(dimension));
        let over = milli_of(amount).with_context(|| format!("an invalid amount: {entry}"))?;
        Ok(Seen::when(over == units * 1000, || entry.to_string()))
    })
    .await
}

/// Waits until the scheduler knows so many nodes. A watch may be slow, and a spread over zones is over those that are known.
pub(crate) async fn wait_known_nodes(port: u16, count: usize) -> Result<()> {
    wait_until(secs(10), &format!("the scheduler knows {count} nodes"), || async {
        let ledger = http::json(port, "/debug/ledger").await?;
        let known = ledger.get("nodes").and_then(Value::as_array).map_or(0, Vec::len);
        Ok(Seen::when(known == count, || format!("{known} nodes")))
    })
    .await
}

/// Fails as soon as a pod of `name` is bound within `seconds`, or the scheduler ends.
pub(crate) async fn stays_unbound(w: &mut World, name: &str, seconds: u64) -> Result<()> {
    let client = w.client();
    holds_for(secs(seconds), &format!("no pod of {name} is bound"), || {
        let ended = w.programs().find_map(|program| program.unexpected_end());
        let client = client.clone();
        async move {
            if let Some(end) = ended {
                return Ok(Seen::NotYet(end));
            }
            let phases = phases(&pods_of(&client, name).await?);
            Ok(Seen::when(phases.keys().all(|phase| phase.ends_with("unbound")), || format!("{phases:?}")))
        }
    })
    .await
}

/// Returns the message of the pod's condition PodScheduled=False, if it has this condition.
pub(crate) fn why_unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|each| each.type_ == "PodScheduled" && each.status == "False")?.message.clone()
}
