//! Tests that the cycle admits, reserves, places and orders as the rules require, after every step of a random history.
//!
//! ```text
//!  history ──▶ SchedulingState ─▶ cycles, until nothing is left to do ─▶ Plans ─╮  the rules leave open which PodGroups
//!     │                                                                         ▼  are tried, and which nodes are used
//!     ╰──────▶ CycleModel: the rules, slow and plain ◀─ the same cycles, one by one. Both must have the same binds in the same order,
//!                                                       and the same reservations, back-offs and admissions.
//! ```
//!
//! At the end the model tries every PodGroup once more, and nothing may change.
//!
//! The histories are limited, so that every comparison is exact:
//!
//! - All members of a PodGroup are alike.
//! - Every queue has deserved amounts, so the shares do not depend on what waits.
//! - No pod can be preempted (`src/cycle/preemption/reclaim/differential` tests preemption).
//!
//! `PODGROUP_DIFFERENTIAL_CYCLES` sets the number of histories, `PODGROUP_TEST_SEED` repeats an earlier run.

use proptest::strategy::Strategy;

use crate::differential::{DifferentialTest, Settings};
use both::Both;
use scene::{Scene, scene};

mod both;
mod finds;
mod happens;
mod scene;
mod steps;

/// The number of histories by default.
const HISTORIES: u32 = 150;
/// The number of threads.
const THREADS: u32 = 2;
/// How many cycles are written of a history with a difference, the last ones.
const TRACED: usize = 8;

/// Runs one history. The error is the first difference.
fn play(scene: &Scene, both: &mut Both) -> Result<(), String> {
    both.settle().map_err(|what| format!("at the beginning: {what}"))?;
    for (at, (step, runs_cycles)) in scene.steps.iter().enumerate() {
        both.take(step);
        if *runs_cycles || at + 1 == scene.steps.len() {
            both.settle().map_err(|what| format!("after step {at}, {step:?}: {what}"))?;
        }
    }
    Ok(())
}

/// Writes the history, and what its last cycles do.
fn describe(scene: &Scene) -> String {
    let mut both = Both::begin(scene, true);
    let _is_known_to_differ = play(scene, &mut both);
    let cycles = both.trace.unwrap_or_default();
    format!("{scene}{}", cycles[cycles.len().saturating_sub(TRACED)..].concat())
}

fn differential_test() -> DifferentialTest<impl Strategy<Value = Scene>> {
    DifferentialTest { cases: scene, describe, shrinks: 1_500 }
}

#[test]
fn the_cycle_admits_and_orders_as_the_rules_require() {
    let one = |_, scene: &Scene, played: &mut u32| {
        *played += 1;
        play(scene, &mut Both::begin(scene, false))
    };
    let settings = Settings::from_env("PODGROUP_DIFFERENTIAL_CYCLES", HISTORIES, THREADS);
    differential_test().run(&settings, one, |played| format!("{} histories", played.iter().sum::<u32>()));
}
