//! The time that a pod waits for its binding when the scheduler has nothing else to do.
//!
//! Some pods are created per second, each on time, whether or not the earlier pods are bound. The time is from the moment at which the API server had
//! answered the creation until it had answered the binding, by the audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::calls::until_calm;
use super::claims;
use super::constraint::Constraint;
use super::pods::{Kind, binds, clear, make, make_groups, until_bound};
use super::stage::Stage;
use super::table::percentiles;
use super::writes::writes_per_pod;
use crate::audit_log::Entry;
use crate::objects::NAMESPACE;
use crate::say;
use crate::wait::secs;

/// The pause between the start of the scheduler and the first pod, in which it writes its first statuses.
const REST: Duration = secs(4);

/// The columns of the table.
pub const COLUMNS: &[&str] = &["running pods", "each pod has", "program", "median, ms", "99 %, ms", "longest, ms", "writes per pod"];

/// Creates `per_second` pods with this constraint for `seconds` seconds; afterwards the pods and their claims are deleted and the scheduler
/// has ended. Returns the figures of the row.
pub async fn measure(stage: &mut Stage, kind: Kind, constraint: Constraint, per_second: u32, seconds: u64) -> Result<[String; 4]> {
    let count = usize::try_from(u64::from(per_second) * seconds)?;
    make_groups(stage, kind, count).await?;
    claims::make(stage, NAMESPACE, constraint, count).await?;
    let side = kind.side().context("no program binds these pods")?;
    stage.launch(side, &[]).await?;
    sleep(REST).await;
    let mut log = stage.log()?;
    let pods = Api::<Pod>::namespaced(stage.client(), NAMESPACE);
    let mut clock = interval(Duration::from_secs(1) / per_second);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut making = JoinSet::new();
    for number in 0..count {
        clock.tick().await;
        let pods = pods.clone();
        making.spawn(async move { make(&pods, kind, constraint, number).await });
    }
    while let Some(made) = making.join_next().await {
        made??;
    }
    let mut calls = until_bound(stage, &mut log, count).await?;
    calls.extend(until_calm(&mut log, side).await?);
    stage.stop().await?;
    clear(stage).await?;
    claims::clear(stage, NAMESPACE).await?;
    let mut created = BTreeMap::new();
    for call in calls.iter().filter(|call| call.kind() == "create pods" && call.code == 201) {
        created.insert(&call.name, call.answered);
    }
    let wait = |call: &Entry| Some(call.answered.duration_since(*created.get(&call.name)?).as_secs_f64() * 1000.0);
    let millis: Vec<f64> = calls.iter().filter(|call| binds(call)).filter_map(wait).collect();
    ensure!(millis.len() == count, "the log shows creation and binding of {} of {count} pods", millis.len());
    let written = side.tally(&calls);
    let [median, most, longest] = percentiles(millis).context("no pods")?.map(|millis| format!("{millis:.0}"));
    say::line(format!("    {median} ms, 99 %: {most}, longest {longest}; {written:?}"));
    Ok([median, most, longest, format!("{:.2}", writes_per_pod(&written, count))])
}
