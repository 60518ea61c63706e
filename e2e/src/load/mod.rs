//! `make load` (`e2e load`): the cost of the controller under load, and its limits.
//!
//! In reading order: `stage` (the cluster), `calls` and `counters` (two sources for the number of API requests), `process` (memory and processor time),
//! `look` (the end of a load), `burst` with `wave` (Deployments at once, to 0, back; at rest), `race` (creations compared with a flood), `check` (the final
//! state), `table` (the output). The results of one run are in `docs/performance.md`, which is not written here.

pub mod burst;
pub mod calls;
pub mod check;
pub mod counters;
pub mod look;
pub mod process;
pub mod race;
pub mod stage;
pub mod table;
pub mod wave;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::say;

/// The sizes of a run.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// The number of Deployments (of one replica) of the burst, and of PodGroups of each flood.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    deployments: u32,
    /// The number of rounds in which flood and controller create in turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// The number of pods of another scheduler.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    crowd: u32,
    /// Seconds at rest.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle: u64,
    /// For the race: the controller with this number of workers instead of its default; may be repeated, then they take turns.
    #[arg(long)]
    workers: Vec<u16>,
    /// Runs only this part.
    #[arg(long)]
    only: Option<Part>,
    /// A further flag for the controller, as in --controller-flag=--workers=16; may be repeated.
    #[arg(long = "controller-flag", allow_hyphen_values = true)]
    flags: Vec<String>,
}

/// The parts of a load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Creations compared with a flood.
    Race,
    /// Deployments at once, to 0 and back; at rest; beside foreign pods.
    Burst,
}

/// Runs the parts, prints the tables and all violations, and returns whether there are none. Measured times are never violations.
pub async fn run(sizes: Sizes) -> Result<bool> {
    let deployments = usize::try_from(sizes.deployments)?;
    let wants = |part| sizes.only.is_none_or(|only| only == part);
    let mut wrong = Vec::new();
    if wants(Part::Race) {
        let race = race::run(deployments, usize::try_from(sizes.rounds)?, &sizes.workers, &sizes.flags).await?;
        table::race(&race);
    }
    if wants(Part::Burst) {
        let burst = burst::run(deployments, usize::try_from(sizes.crowd)?, sizes.idle, &sizes.flags).await?;
        table::burst(&burst);
        wrong.extend(burst.waves.into_iter().flat_map(|wave| wave.wrong.into_iter().map(move |why| format!("{}: {why}", wave.name))));
        wrong.extend(burst.idle.wrong.into_iter().chain(burst.crowd.wrong).chain(burst.wrong));
    }
    wrong.iter().for_each(|why| say::line(format!("WRONG: {why}")));
    say::line(if wrong.is_empty() { "\nall counts are correct" } else { "" });
    Ok(wrong.is_empty())
}
