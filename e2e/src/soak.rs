//! Runs every case that runs under faults, each time with the mix of another seed, and the cases that are too long for every day, again and again for
//! an hour.
//!
//! Each round has its own order, so that an hour covers another part of the table each time and the few cases of ten minutes do not come together.
//!
//! One seed determines all seeds and orders, so a soak can be repeated. A single failed run is repeated with `run --case ID --seed SEED` and its
//! printed seed. A run that has begun before the end is completed.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::case::{Case, collect, run_one};
use crate::faults::Faults;
use crate::proxy::SeededRandom;
use crate::report::{Outcome, sum_up};
use crate::say;

/// The cases, and the time.
#[derive(Clone, Debug)]
pub struct Plan {
    /// No run begins after this time.
    pub time: Duration,
    /// The seed of all seeds.
    pub seed: u64,
    /// How many cases run at once.
    pub jobs: usize,
    /// Only these cases; empty means all that run under faults and all long ones.
    pub cases: Vec<String>,
}

/// Runs the plan; returns whether every run passed.
pub async fn run(table: &[Case], plan: &Plan) -> Result<bool> {
    let wanted = |case: &&Case| plan.cases.is_empty() || plan.cases.iter().any(|name| name.eq_ignore_ascii_case(&case.id));
    let mut chosen: Vec<Case> =
        table.iter().filter(|case| case.setup.faults == Faults::Mix || case.only_in_soak).filter(wanted).cloned().collect();
    ensure!(!chosen.is_empty(), "none of these cases is part of the soak");
    say::line(format!("soak of {} cases for {:?}, seed {}, {} at once", chosen.len(), plan.time, plan.seed, plan.jobs.max(1)));
    let (start, mut random) = (Instant::now(), SeededRandom(plan.seed));
    let (mut running, mut outcomes): (JoinSet<Outcome>, Vec<Outcome>) = (JoinSet::new(), Vec::new());
    for round in 1_u32.. {
        for last in (1..chosen.len()).rev() {
            let other = usize::try_from(random.draw_number() % (last as u64 + 1))?;
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
            running.spawn(run_one(case.clone(), format!("{}#{round}", case.id), random.draw_number()));
        }
    }
    Ok(false)
}
