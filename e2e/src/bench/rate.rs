//! Pods bound per second when the pods exist before the scheduler.
//!
//! The time is from the moment at which the API server received the first binding until it had answered the last, by the audit log. The raw flood
//! sends the same bindings from a plain client, with as many concurrent requests as our scheduler has by default. No scheduler with this limit can be
//! faster.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::constraint::Constraint;
use super::pods::{self, Kind, binds, clear, make_all, make_groups, until_bound};
use super::stage::Stage;
use crate::audit_log::span;
use crate::load::process;
use crate::load::stage::{AT_ONCE, each};
use crate::objects::NAMESPACE;
use crate::say;
use crate::wait::secs;

/// The kinds in the order of their turns. The flood is first, because the others are compared with it.
pub const TURNS: [Kind; 4] = [Kind::Flood, Kind::Gangs, Kind::Single, Kind::Stock];

/// The pause between the creation of the pods and the start, for etcd and the watches.
const REST: std::time::Duration = secs(4);

/// One rate and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Pods bound per second.
    pub per_second: f64,
    /// Milliseconds of processor time for each pod: of the API server and etcd, and of the binding program (for a scheduler including its start).
    pub cost: [f64; 2],
}

/// Binds `count` pods of a kind; afterwards the pods are deleted and the scheduler has ended.
pub async fn measure(stage: &mut Stage, kind: Kind, constraint: Constraint, count: usize) -> Result<Rate> {
    make_groups(stage, kind, count).await?;
    make_all(stage, kind, constraint, count).await?;
    sleep(REST).await;
    let folder = stage.cluster().scratch().folder().to_owned();
    let before = process::all(&folder);
    let mut log = stage.log()?;
    match kind {
        Kind::Flood => flood(stage, count).await?,
        Kind::Stock => stage.launch_stock().await?,
        Kind::Gangs | Kind::Single | Kind::Bare => stage.launch_scheduler().await?,
    }
    let calls = until_bound(&mut log, count).await?;
    let after = process::all(&folder);
    stage.stop().await?;
    clear(stage).await?;
    let took = span(calls.iter().filter(|call| binds(call))).context("there are fewer than two bindings")?.as_secs_f64();
    let spent = |names: &[&str]| {
        let of = |seconds: &std::collections::BTreeMap<String, f64>| names.iter().filter_map(|name| seconds.get(*name)).sum::<f64>();
        (of(&after) - of(&before)) * 1000.0 / count as f64
    };
    let maker = if kind == Kind::Flood { "load" } else { "scheduler" };
    let cost = [spent(&["kube-apiserver", "etcd"]), spent(&[maker, "podgroup-scheduler", "kube-scheduler"])];
    let rate = Rate { per_second: count as f64 / took, cost };
    say::line(format!("    {}: {:.0}/s", kind.name(), rate.per_second));
    Ok(rate)
}

/// Binds every pod to a node, in turn.
async fn flood(stage: &Stage, count: usize) -> Result<()> {
    let client = stage.client();
    let nodes = crate::load::look::count(&Api::<k8s_openapi::api::core::v1::Node>::all(client.clone())).await?;
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
