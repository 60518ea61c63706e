//! Does the cycle admit, reserve, place and take turns as the text says, after every step of any history?
//!
//! ```text
//!  history ──▶ World ─▶ run, until nothing is left to do ─▶ Plans ─╮  who was looked at, which node: the text leaves that free
//!     │                                                           ▼
//!     ╰──────▶ Story: the rules, slow and plain ◀─ the same cycles, one by one: the same binds in the same order, the same
//!                                                  reservations, rests and admissions; and then everybody has a turn, and nothing is left to do
//! ```
//!
//! And would it be noticed? Rules are left out, one at a time (`mutants`). The worlds are such that all that is compared is exact: the members of a group are all alike, every queue
//! states what it deserves (so that shares do not follow from what waits), and nobody may go for anybody (`src/cycle/reclaim/duel` is about that).
//!
//! `PODGROUP_DUEL_CYCLES` asks for more histories, `PODGROUP_DUEL_SEED` for others. Without it they are the same in every run, though no difference is known: too few others have been
//! played since the last was mended to say that there is none (it took some hundreds of histories of a seed to come up).

use std::cell::Cell;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use both::Both;
use scene::{Scene, scene};

mod both;
mod finds;
mod happens;
mod mutants;
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

fn runner(histories: u32, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: histories, failure_persistence: None, max_shrink_iters: 1_500, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn the_cycle_admits_and_orders_as_the_text_says() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let histories = number("PODGROUP_DUEL_CYCLES").map_or(HISTORIES, |number| u32::try_from(number).unwrap());
    let seed = number("PODGROUP_DUEL_SEED").unwrap_or(SEED);
    let begin = crate::runtime::clock::monotonic();
    let each = histories.div_ceil(THREADS);
    // Every thread has histories of its own.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || play_many(each, seed.wrapping_add(u64::from(thread))))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let played: u32 = outcomes.iter().map(|(played, _)| played).sum();
    println!("{played} histories in {:.1} s, PODGROUP_DUEL_SEED={seed}", begin.elapsed().as_secs_f32());
    let wrong: Vec<_> = outcomes.into_iter().filter_map(|(_, outcome)| outcome.err()).collect();
    assert!(wrong.is_empty(), "PODGROUP_DUEL_SEED={seed}: {}", wrong.join("\n"));
}

/// How many were played, and the first difference with its history.
fn play_many(histories: u32, seed: u64) -> (u32, Result<(), String>) {
    let played = Cell::new(0_u32);
    let outcome = runner(histories, seed).run(&scene(), |scene| {
        played.set(played.get() + 1);
        play(&scene).map_err(TestCaseError::fail)
    });
    let outcome = outcome.map_err(|error| match error {
        TestError::Fail(why, scene) => format!("{why}\n{scene}"),
        TestError::Abort(why) => why.to_string(),
    });
    (played.get(), outcome)
}
