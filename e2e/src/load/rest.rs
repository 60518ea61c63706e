//! The time that a scheduler needs to start, and its cost when there is nothing to do, both with many running pods.

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::constraint::Constraint;
use super::pods::{Kind, binds, clear, make_all, make_groups, until_bound};
use super::process;
use super::stage::{Side, Stage};
use crate::audit_log::tally;
use crate::wait::secs;

/// The number of pods that wait for the start.
pub const PENDING: usize = 100;

/// Long enough for the statuses and Events after a start.
const CALM: std::time::Duration = secs(20);

/// The columns of the table of starts.
pub const STARTS: &[&str] = &["program", "to the first binding, s", "to the last, s"];

/// The columns of the table of programs at rest.
pub const RESTS: &[&str] = &["program", "CPU, s per minute", "memory, MiB", "calls in a minute"];

/// Measures the seconds from the start of the program until its first binding, and the last of [`PENDING`], was answered. Returns the row.
pub async fn first_bind(stage: &mut Stage, kind: Kind) -> Result<Vec<String>> {
    let side = kind.side().context("no program binds these pods")?;
    make_groups(stage, kind, PENDING).await?;
    make_all(stage, kind, Constraint::Nothing, PENDING).await?;
    sleep(secs(4)).await;
    let mut log = stage.log()?;
    let start = now();
    stage.launch(side, &[]).await?;
    let calls = until_bound(stage, &mut log, PENDING).await?;
    stage.stop().await?;
    clear(stage).await?;
    let ends = || calls.iter().filter(|call| binds(call)).map(|call| call.answered);
    let since = |end: Option<Timestamp>| anyhow::Ok(format!("{:.2}", end.context("no binding")?.duration_since(start).as_secs_f64()));
    Ok(vec![side.name().to_owned(), since(ends().min())?, since(ends().max())?])
}

/// Returns the present time by the clock of the audit log, which is on this machine, too.
#[expect(clippy::disallowed_methods, reason = "it is compared with the times in the audit log")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Measures `seconds` in which nothing happens. Returns the row.
pub async fn at_rest(stage: &mut Stage, side: Side, seconds: u64) -> Result<Vec<String>> {
    stage.start_side(side, &[]).await?;
    sleep(CALM).await;
    let pids: Vec<u32> = side.programs().iter().map(|name| stage.pid(name)).collect::<Result<_>>()?;
    let used = || pids.iter().map(|pid| process::processor_seconds(*pid)).sum::<Result<f64>>();
    let (before, mut log, start) = (used()?, stage.log()?, Instant::now());
    sleep(secs(seconds)).await;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let processor = (used()? - before) / minutes;
    let calls = tally(log.fresh()?.iter().filter(|call| side.sent(call)));
    let calls: Vec<String> = calls.iter().map(|(kind, number)| format!("{:.1} {kind}", *number as f64 / minutes)).collect();
    let mut memory = Vec::new();
    for (name, pid) in side.programs().iter().zip(&pids) {
        memory.push(format!("{name} {:.0}", process::memory(*pid)?.now));
    }
    stage.stop().await?;
    Ok(vec![side.name().to_owned(), format!("{processor:.2}"), memory.join(", "), calls.join(", ")])
}
