//! `make bench-e2e` (`e2e bench`): how fast pods are bound, compared with kube-scheduler and with a client that only binds.
//!
//! There is one control plane with many simulated nodes, and the measured schedulers take turns on it, so only results of one run are compared. In
//! reading order: `stage` (the cluster), `stock` (kube-scheduler as a process), `pods` (the pods and their binding), `constraint` (what the pods
//! require), `claims` (their claims and volumes), `rate` (pods first, then the scheduler), `trickle` (some pods a second), `rest` (start, and nothing to do), `writes` (API requests for Deployments), `table`. Results are
//! printed and never judged: nothing here asserts a speed. The results of one run are in `docs/performance.md`, which is not written here.

pub mod claims;
pub mod constraint;
pub mod pods;
pub mod rate;
pub mod rest;
pub mod stage;
pub mod stock;
pub mod table;
pub mod trickle;
pub mod writes;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::say;
use constraint::Constraint;
use pods::{GANG, Kind};
use stage::Stage;
use table::Tables;

/// The sizes of a run.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// The number of simulated nodes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=5000))]
    nodes: u32,
    /// The number of pods that exist before the scheduler starts.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=30_000))]
    pods: u32,
    /// The number of running pods in the parts that have them.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    running: u32,
    /// How often the schedulers take turns at the pods that exist first.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Pods per second in the trickle.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    per_second: u32,
    /// Seconds of each trickle, and at rest.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// The number of Deployments, of three pods each, whose requests are counted.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    deployments: u32,
    /// Runs only this part; may be repeated.
    #[arg(long)]
    only: Vec<Part>,
}

/// The parts of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pods first, then the scheduler.
    Rate,
    /// The same for pods with constraints among pods, ours and kube-scheduler's.
    Constraints,
    /// Some pods a second, in an empty cluster.
    Trickle,
    /// The API requests for Deployments.
    Writes,
    /// The trickle of pods with a claim each, ours and kube-scheduler's.
    Claims,
    /// Start, trickle and rest with many running pods.
    Full,
    /// The same with a bound claim for each running pod, without the trickle. Only where it is named: binding the claims takes minutes.
    FullClaims,
}

/// Runs the parts and prints the tables. An error is one of the run itself; results from before it are printed, too.
pub async fn run(sizes: Sizes) -> Result<bool> {
    let mut tables = Tables::default();
    let outcome = parts(&sizes, &mut tables).await;
    tables.say();
    outcome.map(|()| true)
}

async fn parts(sizes: &Sizes, tables: &mut Tables) -> Result<()> {
    let wants = |part| sizes.only.is_empty() || sizes.only.contains(&part);
    let mut stage = Stage::start(usize::try_from(sizes.nodes)?).await?;
    // Whole gangs only: an incomplete gang would wait for ever.
    let pods = usize::try_from(sizes.pods)? / GANG * GANG;
    for round in (1..=sizes.rounds).filter(|_| wants(Part::Rate)) {
        say::line(format!("  {pods} pods first, then the scheduler: round {round} of {}", sizes.rounds));
        for kind in rate::TURNS {
            tables.rates.push((kind, rate::measure(&mut stage, kind, Constraint::Nothing, pods).await?));
        }
    }
    if wants(Part::Constraints) {
        constraint::label_zones(&stage, usize::try_from(sizes.nodes)?).await?;
        for constraint in Constraint::AMONG_PODS {
            say::line(format!("  {pods} pods first, then the scheduler: {}", constraint.name()));
            for kind in [Kind::Gangs, Kind::Stock] {
                tables.constraints.push((constraint, kind, rate::measure(&mut stage, kind, constraint, pods).await?));
            }
        }
    }
    let full_claims = sizes.only.contains(&Part::FullClaims);
    if wants(Part::Claims) || full_claims {
        claims::prepare(&stage).await?;
    }
    if wants(Part::Trickle) {
        trickles(&mut stage, sizes, 0, tables).await?;
    }
    if wants(Part::Writes) {
        say::line(format!("  {} Deployments of three pods", sizes.deployments));
        for by in writes::Counted::TURNS {
            tables.writes.push(writes::measure(&mut stage, usize::try_from(sizes.deployments)?, by).await?);
        }
    }
    if wants(Part::Claims) {
        for constraint in [Constraint::Nothing, Constraint::BoundClaim, Constraint::UnboundClaim] {
            for kind in [Kind::Single, Kind::Stock] {
                trickle(&mut stage, kind, constraint, sizes, 0, tables).await?;
            }
        }
    }
    if wants(Part::Full) || full_claims {
        ensure!(!(full_claims && sizes.only.contains(&Part::Full)), "full and full-claims need a run each");
        say::line(format!("  {} running pods are created", sizes.running));
        let constraint = if full_claims { Constraint::BoundClaim } else { Constraint::Nothing };
        pods::run_many(&stage, usize::try_from(sizes.running)?, constraint).await?;
        tables.running = sizes.running;
        // The API server is still busy with the new pods for the first one, so both come twice.
        for stock in [false, true, true, false] {
            say::line(format!("  start of {}", if stock { "kube-scheduler" } else { "podgroup-scheduler" }));
            tables.starts.push((stock, rest::first_bind(&mut stage, stock).await?));
        }
        if !full_claims {
            trickles(&mut stage, sizes, sizes.running, tables).await?;
        }
        for stock in [false, true] {
            say::line("  at rest");
            tables.rests.push(rest::at_rest(&mut stage, stock, sizes.seconds).await?);
        }
    }
    let ended = stage.ended();
    ensure!(ended.is_empty(), "{}", ended.join("; "));
    Ok(())
}

async fn trickles(stage: &mut Stage, sizes: &Sizes, running: u32, tables: &mut Tables) -> Result<()> {
    for kind in [Kind::Single, Kind::Bare, Kind::Stock] {
        trickle(stage, kind, Constraint::Nothing, sizes, running, tables).await?;
    }
    Ok(())
}

async fn trickle(stage: &mut Stage, kind: Kind, constraint: Constraint, sizes: &Sizes, running: u32, tables: &mut Tables) -> Result<()> {
    say::line(format!("  {} pods a second ({}, {}) beside {running}", sizes.per_second, kind.name(), constraint.name()));
    let times = trickle::measure(stage, kind, constraint, sizes.per_second, sizes.seconds).await?;
    tables.trickles.push((running, kind, constraint, times));
    Ok(())
}
