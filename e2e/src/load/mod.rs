//! What does the controller cost under load, and what limits it? `make load` (`e2e load`), and one small case of it for every test run.
//!
//! In reading order: `stage` (what is loaded), `calls` and `counters` (the two witnesses of what was asked of the API server), `process` (memory and processor time),
//! `look` (is it over?), `burst` with `wave` (Deployments at once, to 0, back; at rest), `race` (creations against a flood), `check` (is everything right at the
//! end?), `table` (the figures), `case` (counts alone, within `make test`). The figures of one run stand in `docs/performance.md`, which nothing here writes.

pub mod burst;
pub mod calls;
pub mod case;
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

/// What to run, and how large.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// Deployments (of one replica) of the burst, and PodGroups of each flood.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    deployments: u32,
    /// How often flood and controller create in turn.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Pods of another scheduler.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    crowd: u32,
    /// Seconds at rest.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle: u64,
    /// In the race: the controller with this number of workers in the place of its default; may be repeated, and then they take turns.
    #[arg(long)]
    workers: Vec<u16>,
    /// Only this part.
    #[arg(long)]
    only: Option<Part>,
    /// A further flag for the controller, as in --controller-flag=--workers=16; may be repeated.
    #[arg(long = "controller-flag", allow_hyphen_values = true)]
    flags: Vec<String>,
}

/// The parts of a load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Creations against a flood.
    Race,
    /// Deployments at once, to 0 and back; at rest; beside a crowd.
    Burst,
}

/// Runs it, says the tables and what speaks against the run; whether nothing does. Figures that depend on the machine speak against nothing.
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
    say::line(if wrong.is_empty() { "\nall counts are as they must be" } else { "" });
    Ok(wrong.is_empty())
}
