//! Does the cycle admit, reserve, place and take turns as the text says, after every step of any history?
//!
//! ```text
//!  history ──▶ SchedulingState ─▶ run, until nothing is left to do ─▶ Plans ─╮  who was looked at, which node: the text leaves that free
//!     │                                                           ▼
//!     ╰──────▶ Story: the rules, slow and plain ◀─ the same cycles, one by one: the same binds in the same order, the same
//!                                                  reservations, rests and admissions; and then everybody has a turn, and nothing is left to do
//! ```
//!
//! The worlds are such that all that is compared is exact: the members of a group are all alike, every queue
//! states what it deserves (so that shares do not follow from what waits), and nobody may go for anybody (`src/cycle/preemption/reclaim/differential` is about that).
//!
//! `PODGROUP_DIFFERENTIAL_CYCLES` asks for more histories, `PODGROUP_DIFFERENTIAL_SEED` for others. Without it they are the same in every run, though no difference is known: too few others have been
//! played since the last was mended to say that there is none (it took some hundreds of histories of a seed to come up).

use proptest::strategy::Strategy;

use crate::differential::{DifferentialTest, Settings};
use both::Both;
use scene::{Scene, scene};

mod both;
mod finds;
mod happens;
mod scene;
mod steps;

/// How many histories there are if nobody says otherwise.
const HISTORIES: u32 = 150;
/// And which.
const SEED: u64 = 2;
/// They are played side by side.
const THREADS: u32 = 2;

/// The first difference.
fn play(scene: &Scene) -> Result<(), String> {
    let mut both = Both::begin(scene).map_err(|what| format!("at the beginning: {what}"))?;
    for (at, (step, looks)) in scene.steps.iter().enumerate() {
        both.take(step);
        if *looks || at + 1 == scene.steps.len() {
            both.settle().map_err(|what| format!("after step {at}, {step:?}: {what}"))?;
        }
    }
    Ok(())
}

fn differential_test() -> DifferentialTest<impl Strategy<Value = Scene>> {
    DifferentialTest { cases: scene, describe: Scene::to_string, shrinks: 1_500 }
}

#[test]
fn the_cycle_admits_and_orders_as_the_text_says() {
    let one = |_, scene: &Scene, played: &mut u32| {
        *played += 1;
        play(scene)
    };
    let asked = Settings::from_env("PODGROUP_DIFFERENTIAL_CYCLES", HISTORIES, THREADS, Some(SEED));
    differential_test().run(&asked, one, |played| format!("{} histories", played.iter().sum::<u32>()));
}
