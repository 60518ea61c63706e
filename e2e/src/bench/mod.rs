//! How fast does a pod come to its node, beside kube-scheduler and beside a client that only binds? `make bench-e2e` (`e2e bench`).
//!
//! One control plane, many simulated nodes, and whoever is measured takes turns on it, so that only figures of one run are compared. In reading order: `stage` (what it
//! happens on), `stock` (kube-scheduler as one who takes part), `pods` (what is to be bound, and since when it is), `rate` (pods first, then the scheduler), `trickle`
//! (some pods a second), `rest` (start, and nothing to do), `writes` (what Deployments cost in requests), `table`. Figures are told and never judged: nothing here asserts
//! a speed. They stand in `docs/performance.md`, which nothing here writes.

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
use pods::{GANG, Kind};
use stage::Stage;
use table::Tables;

/// What to run, and how large.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// Simulated nodes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=5000))]
    nodes: u32,
    /// Pods that are there before the scheduler starts.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u32).range(10..=30_000))]
    pods: u32,
    /// Pods that run already, where some do.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    running: u32,
    /// How often those who are measured take turns at the pods that are there first.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Pods a second, while they trickle.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    per_second: u32,
    /// Seconds of each trickle, and at rest.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Deployments, of three pods each, whose requests are counted.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    deployments: u32,
    /// Only this part; may be repeated.
    #[arg(long)]
    only: Vec<Part>,
}

/// The parts of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pods first, then the scheduler.
    Rate,
    /// Some pods a second, in an empty cluster.
    Trickle,
    /// The requests that Deployments cost.
    Writes,
    /// Start, trickle and rest where many pods run already.
    Full,
}

/// Runs it and says the tables. An error is one of the run itself: whatever was measured before it is said all the same.
pub async fn run(sizes: Sizes) -> Result<bool> {
    let mut tables = Tables::default();
    let outcome = parts(&sizes, &mut tables).await;
    tables.say();
    outcome.map(|()| true)
}

async fn parts(sizes: &Sizes, tables: &mut Tables) -> Result<()> {
    let wants = |part| sizes.only.is_empty() || sizes.only.contains(&part);
    let mut stage = Stage::start(usize::try_from(sizes.nodes)?).await?;
    // Whole gangs: the rest of one would wait for ever.
    let pods = usize::try_from(sizes.pods)? / GANG * GANG;
    for round in (1..=sizes.rounds).filter(|_| wants(Part::Rate)) {
        say::line(format!("  {pods} pods first, then the scheduler: round {round} of {}", sizes.rounds));
        for who in rate::WHO {
            tables.rates.push((who, rate::measure(&mut stage, who, pods).await?));
        }
    }
    if wants(Part::Trickle) {
        trickles(&mut stage, sizes, 0, tables).await?;
    }
    if wants(Part::Writes) {
        say::line(format!("  {} Deployments of three pods", sizes.deployments));
        for stock in [false, true] {
            tables.writes.push(writes::measure(&mut stage, usize::try_from(sizes.deployments)?, stock).await?);
        }
    }
    if wants(Part::Full) {
        say::line(format!("  {} pods are made that run", sizes.running));
        pods::run_many(&stage, usize::try_from(sizes.running)?).await?;
        tables.running = sizes.running;
        // Who comes first finds an API server that is still busy with the pods just made.
        for stock in [false, true, true, false] {
            say::line(format!("  start of {}", if stock { "kube-scheduler" } else { "podgroup-scheduler" }));
            tables.starts.push((stock, rest::first_bind(&mut stage, stock).await?));
        }
        trickles(&mut stage, sizes, sizes.running, tables).await?;
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
        say::line(format!("  {} {} pods a second beside {running}", sizes.per_second, kind.name()));
        let times = trickle::measure(stage, kind, sizes.per_second, sizes.seconds).await?;
        tables.trickles.push((running, kind, times));
    }
    Ok(())
}
