//! `make bench-e2e` (`e2e bench`): how fast pods are bound, compared with kube-scheduler and with a client that only binds.
//!
//! There is one control plane with many simulated nodes, and the measured schedulers take turns on it. Nothing here asserts a speed.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::constraint::{self, Constraint};
use super::pods::{self, GANG, Kind};
use super::rate::{self, Rate};
use super::stage::{Side, Stage};
use super::table::Tables;
use super::{claims, rest, trickle, writes};
use crate::say;

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

/// The columns of the rates of pods with constraints.
const CONSTRAINTS: &[&str] = &["each pod has", "program", "pods bound per second", "CPU ms each: API server and etcd", "binding program"];

/// The columns of the rates: in each row the values of all rounds.
const RATES: &[&str] =
    &["program", "rounds, 1/s", "divided by the flood of the same round", "CPU ms each: API server and etcd", "binding program"];

/// Runs the parts and prints the tables. An error is one of the run itself; results from before it are printed, too.
pub async fn run(sizes: Sizes) -> Result<bool> {
    let mut tables = Tables::default();
    let outcome = parts(&sizes, &mut tables).await;
    tables.say();
    outcome.map(|()| true)
}

async fn parts(sizes: &Sizes, tables: &mut Tables) -> Result<()> {
    let wants = |part| sizes.only.is_empty() || sizes.only.contains(&part);
    let nodes = usize::try_from(sizes.nodes)?;
    let mut stage = Stage::start("bench", nodes).await?;
    // Whole gangs only: an incomplete gang would wait for ever.
    let pods = usize::try_from(sizes.pods)? / GANG * GANG;
    if wants(Part::Rate) {
        rates(&mut stage, sizes.rounds, pods, tables).await?;
    }
    if wants(Part::Constraints) {
        constraint::label_zones(&stage, nodes).await?;
        for constraint in Constraint::AMONG_PODS {
            say::line(format!("  {pods} pods first, then the scheduler: {}", constraint.name()));
            for kind in [Kind::Gangs, Kind::Stock] {
                let rate = rate::measure(&mut stage, kind, constraint, pods).await?;
                let [server, program] = costs(kind, &rate);
                let row = [constraint.name().to_owned(), kind.name().to_owned(), format!("{:.0}", rate.per_second), server, program];
                tables.add("pods first, then the scheduler: pods with constraints among pods", CONSTRAINTS, row.into());
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
        writes::measure(&mut stage, usize::try_from(sizes.deployments)?, tables).await?;
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
        let running = sizes.running;
        say::line(format!("  {running} running pods are created"));
        let constraint = if full_claims { Constraint::BoundClaim } else { Constraint::Nothing };
        pods::run_many(&stage, usize::try_from(running)?, constraint).await?;
        let title = format!("start, with {running} running pods and {} waiting pods", rest::PENDING);
        // The API server is still busy with the new pods for the first one, so both come twice.
        for kind in [Kind::Gangs, Kind::Stock, Kind::Stock, Kind::Gangs] {
            say::line(format!("  start for {}", kind.name()));
            tables.add(&title, rest::STARTS, rest::first_bind(&mut stage, kind).await?);
        }
        if !full_claims {
            trickles(&mut stage, sizes, running, tables).await?;
        }
        for side in [Side::Ours, Side::Stock] {
            say::line("  at rest");
            let row = rest::at_rest(&mut stage, side, sizes.seconds).await?;
            tables.add(&format!("at rest, with {running} running pods"), rest::RESTS, row);
        }
    }
    let ended = stage.ended();
    ensure!(ended.is_empty(), "{}", ended.join("; "));
    Ok(())
}

/// Adds a row for each kind, with the values of all rounds.
async fn rates(stage: &mut Stage, rounds: u32, pods: usize, tables: &mut Tables) -> Result<()> {
    let mut cells = rate::TURNS.map(|kind| (kind, [const { Vec::new() }; 4]));
    for round in 1..=rounds {
        say::line(format!("  {pods} pods first, then the scheduler: round {round} of {rounds}"));
        let mut flood = f64::NAN;
        for (kind, cells) in &mut cells {
            let rate = rate::measure(stage, *kind, Constraint::Nothing, pods).await?;
            if *kind == Kind::Flood {
                flood = rate.per_second;
            }
            let [server, program] = costs(*kind, &rate);
            let values = [format!("{:.0}", rate.per_second), format!("{:.2}", rate.per_second / flood), server, program];
            cells.iter_mut().zip(values).for_each(|(cell, value)| cell.push(value));
        }
    }
    for (kind, cells) in cells {
        let row = std::iter::once(kind.name().to_owned()).chain(cells.map(|values| values.join(", ")));
        tables.add("pods first, then the scheduler: pods bound per second", RATES, row.collect());
    }
    Ok(())
}

/// Returns the columns `CPU ms each`.
fn costs(kind: Kind, rate: &Rate) -> [String; 2] {
    // The flood is sent by this program.
    let maker = kind.side().map_or(&["load"][..], Side::programs);
    [&["kube-apiserver", "etcd"][..], maker].map(|programs| format!("{:.2}", rate.cost_of(programs)))
}

async fn trickles(stage: &mut Stage, sizes: &Sizes, running: u32, tables: &mut Tables) -> Result<()> {
    for kind in [Kind::Single, Kind::Bare, Kind::Stock] {
        trickle(stage, kind, Constraint::Nothing, sizes, running, tables).await?;
    }
    Ok(())
}

async fn trickle(stage: &mut Stage, kind: Kind, constraint: Constraint, sizes: &Sizes, running: u32, tables: &mut Tables) -> Result<()> {
    let (per_second, program, has) = (sizes.per_second, kind.name(), constraint.name());
    say::line(format!("  {per_second} pods a second ({program}, {has}) beside {running}"));
    let figures = trickle::measure(stage, kind, constraint, per_second, sizes.seconds).await?;
    let row = [running.to_string(), has.to_owned(), program.to_owned()].into_iter().chain(figures);
    tables.add("some pods a second: creation to binding", trickle::COLUMNS, row.collect());
    Ok(())
}
