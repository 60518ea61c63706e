//! The time that a scheduler needs to start, and its cost when there is nothing to do, both with many running pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::constraint::Constraint;
use super::pods::{Kind, binds, clear, make_all, make_groups, until_bound};
use super::stage::Stage;
use super::stock;
use crate::audit_log::tally;
use crate::chart;
use crate::load::process;
use crate::wait::secs;

/// The number of pods that wait for the start.
const PENDING: usize = 100;

/// Long enough for the statuses and Events after a start.
const CALM: std::time::Duration = secs(20);

/// The cost at rest.
#[derive(Clone, Debug)]
pub struct Rest {
    /// Whether it is kube-scheduler; otherwise our two programs.
    pub stock: bool,
    /// Seconds of processor time per minute.
    pub processor: f64,
    /// Resident memory in MiB, by program.
    pub memory: BTreeMap<&'static str, f64>,
    /// Calls per minute, by kind.
    pub calls: BTreeMap<String, f64>,
}

/// Returns the seconds from the start of the program until its first binding, and the last of [`PENDING`], was answered.
pub async fn first_bind(stage: &mut Stage, stock: bool) -> Result<[f64; 2]> {
    let kind = if stock { Kind::Stock } else { Kind::Gangs };
    make_groups(stage, kind, PENDING).await?;
    make_all(stage, kind, Constraint::Nothing, PENDING).await?;
    sleep(secs(4)).await;
    let mut log = stage.log()?;
    let start = now();
    if stock {
        stage.launch_stock().await?
    } else {
        stage.launch_scheduler().await?
    }
    let calls = until_bound(&mut log, PENDING).await?;
    stage.stop().await?;
    clear(stage).await?;
    let ends = || calls.iter().filter(|call| binds(call)).map(|call| call.answered);
    let since = |end: Timestamp| end.duration_since(start).as_secs_f64();
    Ok([since(ends().min().context("no binding")?), since(ends().max().context("no binding")?)])
}

/// Returns the present time by the clock of the audit log, which is on this machine, too.
#[expect(clippy::disallowed_methods, reason = "it is compared with the times in the audit log")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Measures `seconds` in which nothing happens.
pub async fn at_rest(stage: &mut Stage, stock: bool, seconds: u64) -> Result<Rest> {
    let programs: &[&'static str] = if stock { &[stock::NAME] } else { &[chart::SCHEDULER, chart::CONTROLLER] };
    if stock {
        stage.launch_stock().await?
    } else {
        stage.start_ours(&[]).await?
    }
    sleep(CALM).await;
    let folder = stage.cluster().scratch().folder().to_owned();
    let pids: Vec<u32> = programs.iter().map(|name| process::find(&folder, name)).collect::<Result<_>>()?;
    let used = || pids.iter().map(|pid| process::processor_seconds(*pid)).sum::<Result<f64>>();
    let (before, mut log, start) = (used()?, stage.log()?, Instant::now());
    sleep(secs(seconds)).await;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let processor = (used()? - before) / minutes;
    let made = log.fresh()?;
    let mut calls = BTreeMap::new();
    for name in programs {
        tally(made.iter().filter(|call| call.user == chart::user(name)))
            .into_iter()
            .for_each(|(kind, number)| *calls.entry(kind).or_default() += number as f64 / minutes);
    }
    let mut memory = BTreeMap::new();
    for (name, pid) in programs.iter().zip(&pids) {
        memory.insert(*name, process::memory(*pid)?.now);
    }
    stage.stop().await?;
    Ok(Rest { stock, processor, memory, calls })
}
