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

use super::claims;
use super::constraint::Constraint;
use super::pods::{Kind, binds, clear, make, make_groups, until_bound};
use super::stage::Stage;
use super::stock;
use super::writes::writes_per_pod;
use crate::audit_log::Entry;
use crate::load::calls::{Tally, until_calm};
use crate::objects::NAMESPACE;
use crate::wait::secs;
use crate::{chart, say};

/// The pause between the start of the scheduler and the first pod, in which it writes its first statuses.
const REST: Duration = secs(4);

/// Milliseconds from creation to binding, and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The writes of the scheduler (and of the controller, where it makes the PodGroups) for each pod.
    pub writes: f64,
    /// Of at most half of the pods.
    pub median: f64,
    /// The 99th percentile.
    pub most: f64,
    /// The longest.
    pub longest: f64,
}

impl Times {
    /// Computes the values from times in any order; `None` without times.
    pub fn of(mut millis: Vec<f64>) -> Option<Self> {
        millis.sort_by(f64::total_cmp);
        let at = |percent: usize| millis.get((millis.len() * percent / 100).min(millis.len().saturating_sub(1))).copied();
        Some(Self { writes: 0.0, median: at(50)?, most: at(99)?, longest: at(100)? })
    }
}

/// Creates `per_second` pods with this constraint for `seconds` seconds; afterwards the pods and their claims are deleted and the scheduler has ended.
pub async fn measure(stage: &mut Stage, kind: Kind, constraint: Constraint, per_second: u32, seconds: u64) -> Result<Times> {
    let count = usize::try_from(u64::from(per_second) * seconds)?;
    make_groups(stage, kind, count).await?;
    claims::make(stage, NAMESPACE, constraint, count).await?;
    match kind {
        Kind::Stock => stage.launch_stock().await?,
        Kind::Bare => stage.start_ours(&[]).await?,
        Kind::Gangs | Kind::Single | Kind::Flood => stage.launch_scheduler().await?,
    }
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
    let mut calls = until_bound(&mut log, count).await?;
    let programs: &[&str] = match kind {
        Kind::Stock => &[stock::NAME],
        Kind::Bare => &[chart::SCHEDULER, chart::CONTROLLER],
        Kind::Gangs | Kind::Single | Kind::Flood => &[chart::SCHEDULER],
    };
    for name in programs {
        calls.extend(until_calm(&mut log, &chart::user(name)).await?);
    }
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
    let mut written = BTreeMap::new();
    for name in programs {
        Tally::of(&calls, &chart::user(name)).all.into_iter().for_each(|(kind, number)| *written.entry(kind).or_default() += number);
    }
    let times = Times { writes: writes_per_pod(&written, count), ..Times::of(millis).context("no pods")? };
    say::line(format!("    {:.0} ms, 99 %: {:.0}, longest {:.0}; {written:?}", times.median, times.most, times.longest));
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_of_a_hundred_times_is_found() {
        let times = Times::of((0..100).rev().map(f64::from).collect()).unwrap();
        assert_eq!((times.median, times.most, times.longest), (50.0, 99.0, 99.0));
        let times = Times::of((0..1000).map(f64::from).collect()).unwrap();
        assert_eq!((times.median, times.most, times.longest), (500.0, 990.0, 999.0));
        assert!(Times::of(Vec::new()).is_none());
    }
}
