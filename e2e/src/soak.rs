//! Does it hold for an hour? Every case that is run under faults, each time under the mix of another seed, and those that are too long for every day, again and
//! again until the time is over.
//!
//! Each round has an order of its own, so that an hour meets another part of the table each time and the few that take ten minutes do not come together.
//!
//! All seeds come from one, and so do the orders, so that a soak can be run again; a single red run is run again by `run --case ID --seed SEED`, with the seed that it printed. A run
//! that has begun when the time is over is run to its end.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::case::{Case, collect, run_one};
use crate::faults::Faults;
use crate::proxy::Dice;
use crate::report::{Outcome, sum_up};
use crate::say;

/// What to run, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// No run begins after this.
    pub time: Duration,
    /// What all seeds come from.
    pub seed: u64,
    /// How many runs at once.
    pub jobs: usize,
    /// Only these; none is all that are run under faults, and all long ones.
    pub cases: Vec<String>,
}

/// Runs the plan; whether every run passed.
pub async fn run(table: &[Case], plan: &Plan) -> Result<bool> {
    let wanted = |case: &&Case| plan.cases.is_empty() || plan.cases.iter().any(|name| name.eq_ignore_ascii_case(&case.id));
    let mut chosen: Vec<Case> =
        table.iter().filter(|case| case.setup.faults == Faults::Mix || case.only_in_soak).filter(wanted).cloned().collect();
    ensure!(!chosen.is_empty(), "none of these is run in the soak");
    say::line(format!("soak of {} cases for {:?}, seed {}, {} at once", chosen.len(), plan.time, plan.seed, plan.jobs.max(1)));
    let (start, mut dice) = (Instant::now(), Dice(plan.seed));
    let (mut running, mut outcomes): (JoinSet<Outcome>, Vec<Outcome>) = (JoinSet::new(), Vec::new());
    for round in 1_u32.. {
        for last in (1..chosen.len()).rev() {
            let other = usize::try_from(dice.roll() % (last as u64 + 1))?;
            chosen.swap(last, other);
        }
        for case in &chosen {
            if running.len() >= plan.jobs.max(1) {
                collect(&mut running, &mut outcomes).await?;
            }
            if start.elapsed() >= plan.time {
                while !running.is_empty() {
                    collect(&mut running, &mut outcomes).await?;
                }
                return Ok(sum_up(&outcomes, start.elapsed()));
            }
            running.spawn(run_one(case.clone(), format!("{}#{round}", case.id), dice.roll()));
        }
    }
    Ok(false)
}
