//! Pods bound per second when the pods exist before the scheduler.
//!
//! The time is from the moment at which the API server received the first binding until it had answered the last, by the audit log. The raw flood
//! sends the same bindings from a plain client, with as many concurrent requests as our scheduler has by default. No scheduler with this limit can be
//! faster.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::constraint::Constraint;
use super::pods::{self, Kind, binds, clear, make_all, make_groups, until_bound};
use super::stage::{AT_ONCE, Stage, each};
use crate::audit_log::{Entry, span};
use crate::objects::NAMESPACE;
use crate::say;
use crate::wait::secs;

/// The kinds in the order of their turns. The flood is first, because the others are compared with it.
pub const TURNS: [Kind; 4] = [Kind::Flood, Kind::Gangs, Kind::Single, Kind::Stock];

/// The pause between the creation of the pods and the start, for etcd and the watches.
const REST: std::time::Duration = secs(4);

/// One rate and its cost.
#[derive(Clone, Debug)]
pub struct Rate {
    /// Objects per second.
    pub per_second: f64,
    /// Milliseconds of processor time for each object, by program (for a scheduler including its start).
    pub cost: BTreeMap<String, f64>,
}

impl Rate {
    /// Returns the rate of these requests, one for each object.
    pub fn of<'a>(made: impl Iterator<Item = &'a Entry> + Clone, cost: BTreeMap<String, f64>) -> Result<Self> {
        let count = made.clone().count() as f64;
        Ok(Self { per_second: count / span(made).context("there are fewer than two requests")?.as_secs_f64(), cost })
    }

    /// Returns the cost of these programs together.
    pub fn cost_of(&self, programs: &[&str]) -> f64 {
        programs.iter().filter_map(|name| self.cost.get(*name)).sum()
    }
}

/// Binds `count` pods of a kind; afterwards the pods are deleted and the scheduler has ended.
pub async fn measure(stage: &mut Stage, kind: Kind, constraint: Constraint, count: usize) -> Result<Rate> {
    make_groups(stage, kind, count).await?;
    make_all(stage, kind, constraint, count).await?;
    sleep(REST).await;
    let (meter, mut log) = (stage.meter(), stage.log()?);
    match kind.side() {
        None => flood(stage, count).await?,
        // The PodGroups exist, so that the controller has nothing to do.
        Some(side) => stage.launch(side, &[]).await?,
    }
    let calls = until_bound(stage, &mut log, count).await?;
    let cost = meter.millis_each(count);
    stage.stop().await?;
    clear(stage).await?;
    let rate = Rate::of(calls.iter().filter(|call| binds(call)), cost)?;
    say::line(format!("    {}: {:.0}/s", kind.name(), rate.per_second));
    Ok(rate)
}

/// Binds every pod to a node, in turn.
async fn flood(stage: &Stage, count: usize) -> Result<()> {
    let client = stage.client();
    let nodes = super::look::count(&Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())).await?;
    let pods = Api::<Pod>::namespaced(client, NAMESPACE);
    each(count, AT_ONCE, |number| {
        let pods = &pods;
        async move {
            let name = pods::name(number);
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": format!("node-{:04}", number % nodes)},
            });
            pods.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await?;
            Ok(())
        }
    })
    .await
}
