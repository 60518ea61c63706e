//! How many pods are bound in a second when they are there before the scheduler?
//!
//! From the moment at which the API server took the first binding to the one at which it had answered the last, by the audit log. The raw flood posts the same bindings from a plain
//! client with as many requests under way as our scheduler has by default: more than that, nobody can bind.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::pods::{self, Kind, binds, clear, make_all, make_groups, until_bound};
use super::stage::Stage;
use crate::load::calls::span;
use crate::load::process;
use crate::load::stage::{AT_ONCE, each};
use crate::objects::NAMESPACE;
use crate::say;
use crate::wait::secs;

/// Who takes turns. The flood is first: what comes later is compared with it.
pub const WHO: [Kind; 4] = [Kind::Flood, Kind::Gangs, Kind::Single, Kind::Stock];

/// Between the making of the pods and the start: etcd and the watches get through with it.
const REST: std::time::Duration = secs(4);

/// One rate and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Pods bound per second.
    pub per_second: f64,
    /// Milliseconds of processor time per pod: of the API server and etcd, and of who bound (of the schedulers, their start with it).
    pub cost: [f64; 2],
}

/// `count` pods, bound by `who`; afterwards they are gone, and so is who bound them.
pub async fn measure(stage: &mut Stage, who: Kind, count: usize) -> Result<Rate> {
    make_groups(stage, who, count).await?;
    make_all(stage, who, count).await?;
    sleep(REST).await;
    let folder = stage.cluster().scratch().folder().to_owned();
    let before = process::all(&folder);
    let mut log = stage.log()?;
    match who {
        Kind::Flood => flood(stage, count).await?,
        Kind::Stock => stage.launch_stock().await?,
        Kind::Gangs | Kind::Single | Kind::Bare => stage.launch_scheduler().await?,
    }
    let calls = until_bound(&mut log, count).await?;
    let after = process::all(&folder);
    stage.stop().await?;
    clear(stage).await?;
    let took = span(calls.iter().filter(|call| binds(call))).context("no time passed")?.as_secs_f64();
    let spent = |names: &[&str]| {
        let of = |seconds: &std::collections::BTreeMap<String, f64>| names.iter().filter_map(|name| seconds.get(*name)).sum::<f64>();
        (of(&after) - of(&before)) * 1000.0 / count as f64
    };
    let maker = if who == Kind::Flood { "load" } else { "scheduler" };
    let cost = [spent(&["kube-apiserver", "etcd"]), spent(&[maker, "podgroup-scheduler", "kube-scheduler"])];
    let rate = Rate { per_second: count as f64 / took, cost };
    say::line(format!("    {}: {:.0}/s", who.name(), rate.per_second));
    Ok(rate)
}

/// Every pod to a node, in turn.
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
