//! Runs and judges a case: in a fresh world, within a time limit, and not by its own result alone.
//!
//! A fresh cluster costs 3 s, and no earlier case can affect it. A case has passed if it succeeds **and** nothing else is wrong with the run: see
//! `World::verdict`. A panic in a case is a failure like any other.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::faults::{Counts, Faults};
use crate::observer::JudgedConstraints;
use crate::order::longest_first;
use crate::report::{Outcome, compare_rights, sum_up};
use crate::rights::Rights;
use crate::scratch::Scratch;
use crate::wait::{DeadlinePassed, Nearest, in_time};
use crate::world::{Setup, World};
use crate::{artifacts, disk, programs, say, scratch};

/// The time limit of a case by default. Each case has shorter deadlines of its own.
pub const CASE_TIME: Duration = Duration::from_secs(300);

/// The steps of a case.
pub type Steps = for<'a> fn(&'a mut World) -> BoxFuture<'a, Result<()>>;

/// One row of the table of scenarios.
#[derive(Clone)]
pub struct Case {
    /// The row's id, and a variant after a dash: `L1`, `L1-no-policy`.
    pub id: String,
    /// What it tests, in half a line.
    pub title: &'static str,
    /// The world that it needs.
    pub setup: Setup,
    /// Its steps and expectations.
    pub steps: Steps,
    /// Its time limit.
    pub time: Duration,
    /// Whether it also runs as `ID-faults`, under a seeded mix of faults.
    pub under_faults: UnderFaults,
    /// Whether it runs only in the soak, and when it is named.
    pub only_in_soak: bool,
}

/// When a case also runs under faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderFaults {
    /// Never: it counts calls, injects its own faults, or tests the harness.
    Never,
    /// In the soak, and when it is named.
    InSoak,
    /// Whenever it runs without faults.
    Always,
}

impl Case {
    /// See [`UnderFaults::Always`].
    pub fn also_under_faults(self) -> Self {
        Self { under_faults: UnderFaults::Always, ..self }
    }

    /// See [`UnderFaults::InSoak`].
    pub fn under_faults_in_soak(self) -> Self {
        Self { under_faults: UnderFaults::InSoak, ..self }
    }

    /// See [`Case::only_in_soak`].
    pub fn only_in_soak(self) -> Self {
        Self { only_in_soak: true, ..self }
    }

    /// Makes it run the release programs, where there are any.
    pub fn as_shipped(self) -> Self {
        Self { setup: Setup { shipped: true, ..self.setup }, ..self }
    }

    /// Sets its time limit.
    pub fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Returns the case, and its variant under faults if it has one.
    pub fn with_variant(self) -> Vec<Self> {
        if self.under_faults == UnderFaults::Never {
            return vec![self];
        }
        let variant = Self {
            id: format!("{}-faults", self.id),
            setup: Setup { faults: Faults::Mix, ..self.setup.clone() },
            // Waits are longer, and there may be several.
            time: self.time.saturating_mul(2),
            only_in_soak: self.only_in_soak || self.under_faults == UnderFaults::InSoak,
            ..self.clone()
        };
        vec![self, variant]
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Case ids, in any case of letters; empty means all except those of the soak.
    pub cases: Vec<String>,
    /// How often the whole list runs.
    pub repeat: u32,
    /// How many cases run at once.
    pub jobs: usize,
    /// The seed of every world; random for each if not given.
    pub seed: Option<u64>,
    /// See [`Setup::stock_places`].
    pub stock_places: bool,
}

/// Runs the selected cases of `table`, prints how each went and the sum. Returns whether all passed, and of all cases also whether they
/// used each right of the chart.
///
/// The whole list begins with its longest cases, so that no long one is left over at the end. While cases run, the cluster of the next one boots.
pub async fn run(table: &[Case], selection: &Selection) -> Result<bool> {
    let mut chosen = choose(table, &selection.cases)?;
    if selection.cases.is_empty() {
        longest_first(&mut chosen, |case| &case.id);
    }
    chosen.iter_mut().for_each(|case| case.setup.stock_places |= selection.stock_places);
    let of_release = chosen.iter().filter(|case| case.setup.shipped).count();
    if of_release > 0 {
        say::line(match programs::shipped() {
            Some(folder) => format!("{of_release} of the cases run the release programs in {}", folder.display()),
            None => format!("{of_release} of the cases would run the release programs, if there were any: SHIPPED=1"),
        });
    }
    disk::watch();
    let (start, jobs) = (Instant::now(), selection.jobs.max(1));
    let mut outcomes = Vec::new();
    for round in 1..=selection.repeat {
        if selection.repeat > 1 {
            say::headline(format!("round {round} of {}", selection.repeat));
        }
        let mut left = chosen.iter();
        let (mut ahead, mut running) = (JoinSet::new(), JoinSet::new());
        // A round ends before the next begins, so that its headline is true.
        loop {
            if ahead.is_empty()
                && let Some(case) = left.next()
            {
                let name = if selection.repeat > 1 { format!("{}#{round}", case.id) } else { case.id.clone() };
                ahead.spawn(prepare(case.clone(), name, selection.seed.unwrap_or_else(scratch::random)));
            }
            if running.len() < jobs
                && let Some(prepared) = ahead.join_next().await
            {
                running.spawn(play(prepared?));
            } else if !running.is_empty() {
                collect(&mut running, &mut outcomes).await?;
            } else {
                break;
            }
        }
    }
    let passed = sum_up(&outcomes, start.elapsed());
    // A case that failed may not have come to its use of a right.
    Ok(passed && (!selection.cases.is_empty() || compare_rights(outcomes)))
}

/// Returns the cases that `wanted` names. An unknown name is an error with the known names.
pub fn choose(table: &[Case], wanted: &[String]) -> Result<Vec<Case>> {
    if wanted.is_empty() {
        return Ok(table.iter().filter(|case| !case.only_in_soak).cloned().collect());
    }
    let mut chosen: Vec<Case> = Vec::new();
    for name in wanted {
        let exact: Vec<&Case> = table.iter().filter(|case| case.id.eq_ignore_ascii_case(name)).collect();
        if exact.is_empty() {
            let known: Vec<&str> = table.iter().map(|case| case.id.as_str()).collect();
            return Err(anyhow!("no case is called {name}; there are {}", known.join(", ")));
        }
        chosen.extend(exact.into_iter().cloned());
    }
    Ok(chosen)
}

/// Waits for the next run that ends.
pub(crate) async fn collect(running: &mut JoinSet<Outcome>, outcomes: &mut Vec<Outcome>) -> Result<()> {
    if let Some(outcome) = running.join_next().await {
        let outcome = outcome?;
        outcome.tell();
        outcomes.push(outcome);
    }
    Ok(())
}

/// A case with a running cluster, in which nothing has been done yet.
pub(crate) struct Prepared {
    case: Case,
    name: String,
    seed: u64,
    world: Result<World>,
    /// How long the cluster took to boot.
    booted: Duration,
}

/// Starts the cluster of a case, and does nothing in it.
pub(crate) async fn prepare(case: Case, name: String, seed: u64) -> Prepared {
    let start = Instant::now();
    let world = match Scratch::new(&case.id) {
        Ok(scratch) => World::bare(scratch, &case.id.to_lowercase(), &case.setup, seed).await,
        Err(error) => Err(error),
    };
    Prepared { case, name, seed, world, booted: start.elapsed() }
}

/// Runs a case in the cluster that was started for it.
pub(crate) async fn play(prepared: Prepared) -> Outcome {
    let Prepared { case, name, seed, world, booted } = prepared;
    let start = Instant::now();
    say::line(format!("        {name}: {}", case.title));
    let Judged { reasons, nearest, artifacts, faults, rights, constraints } = match world {
        Ok(world) => judge(&case, &name, world).await,
        Err(error) => Judged { reasons: vec![say::brief(&error)], ..Judged::default() },
    };
    let faults = (case.setup.faults == Faults::Mix).then_some(faults);
    let took = booted + start.elapsed();
    Outcome { name, reasons, took, nearest, artifacts, seed, faults, rights, constraints }
}

/// Runs one case in a world of its own.
pub(crate) async fn run_one(case: Case, name: String, seed: u64) -> Outcome {
    play(prepare(case, name, seed).await).await
}

/// What is known of a case after it ran; the fields are those of [`Outcome`].
#[derive(Default)]
struct Judged {
    reasons: Vec<String>,
    nearest: Option<Nearest>,
    artifacts: Option<std::path::PathBuf>,
    faults: Counts,
    rights: Rights,
    constraints: JudgedConstraints,
}

async fn judge(case: &Case, name: &str, mut world: World) -> Judged {
    let (mut reasons, mut late) = (Vec::new(), false);
    let patience = world.patience();
    let whole = async {
        world.install(&case.setup).await?;
        (case.steps)(&mut world).await
    };
    match AssertUnwindSafe(in_time(case.time, "the case", patience.clone().over(whole))).catch_unwind().await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(error))) => {
            late = error.downcast_ref::<DeadlinePassed>().is_some();
            reasons.push(say::brief(&error));
        }
        Ok(None) => {
            late = true;
            reasons.push(format!("it took over {:?}", case.time));
        }
        Err(panic) => reasons.push(format!("panicked: {}", panic_text(panic.as_ref()))),
    }
    // The objects of a failed case are kept before the observer waits for rest.
    let run = format!("{}-{:08x}", name.replace('#', "-"), scratch::random() >> 32);
    let mut kept = None;
    if !reasons.is_empty() {
        kept = artifacts::keep(&mut world, &run).await.ok();
    }
    // The rules of a cluster at rest hold only without faults.
    if let Err(error) = world.end_faults().await {
        reasons.push(say::brief(&error));
    }
    // After a failure some faults may not have had their turn.
    if reasons.is_empty() {
        reasons.extend(world.never_injected().into_iter().map(|fault| format!("a fault was ordered and never injected: {fault}")));
    }
    // A wait that was late has left the case in its middle, where the rules of a cluster at rest need not hold.
    reasons.extend(world.verdict(!late).await);
    if !reasons.is_empty() && kept.is_none() {
        kept = artifacts::keep(&mut world, &run).await.ok();
    }
    if let Some(folder) = &kept
        && let Err(error) = artifacts::tell_why(folder, world.seed, &reasons)
    {
        reasons.push(say::brief(&error));
    }
    world.started_again().iter().for_each(|text| say::line(format!("        {name}: {text}")));
    let (faults, rights, constraints) = (world.faults(), world.rights().await, world.judged_constraints());
    // Ending a world waits for its processes, so it must not block a thread that other cases need.
    let ended = tokio::task::spawn_blocking(move || drop(world)).await;
    if ended.is_err() {
        reasons.push("the world could not be ended".to_owned());
    }
    Judged { reasons, nearest: patience.nearest(), artifacts: kept, faults, rights, constraints }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}
