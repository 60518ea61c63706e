//! Tests that the accounting and the rules agree after every step of a random history.
//!
//! ```text
//!  history ──▶ Accounting                    ─┐
//!      │                                      ├─ the same, after every step (`compare`)
//!      ╰─────▶ Facts ──▶ ByRules: the rules  ─┘
//! ```
//!
//! `PODGROUP_DIFFERENTIAL_HISTORIES` sets the number of histories (`make soak` runs 8,000 or more), `PODGROUP_TEST_SEED` repeats an earlier
//! run. A history with a difference is shrunk and printed as the lines of a scenario; its essence belongs in `src/accounting/scenarios`.
//!
//! `orders` plays the same histories in other orders: the accounting must be the same at their end.

use std::fmt::Write;

use proptest::strategy::Strategy;

use crate::differential::{DifferentialTest, Settings};
pub(super) use compare::{read_refusal, written};
use events::{Step, history, read};
use facts::{NAMES, QUEUES};
use pair::Pair;

mod compare;
mod events;
mod facts;
mod former;
mod orders;
mod pair;

/// The number of histories by default.
const HISTORIES: u32 = 1_000;
/// The number of threads.
const THREADS: u32 = 2;
/// The number of steps between two comparisons of everything. The last step is always compared.
const WHOLLY: usize = 10;

/// Runs one history. Returns the first difference, or the number of levels (without `root`) of its deepest tree when everything was compared.
fn play(history: &[Step]) -> Result<usize, String> {
    let (mut pair, mut deepest) = (Pair::default(), 0);
    for (at, step) in history.iter().enumerate() {
        let (event, questions) = read(at, step);
        let last = at + 1 == history.len();
        let compared = pair.take(&event).and_then(|()| {
            let rules = pair.facts.rules();
            pair.compare_briefly(&rules, &questions)?;
            if last || at % WHOLLY == WHOLLY - 1 {
                pair.compare_wholly(&rules, &questions[0].request)?;
                deepest = NAMES.iter().map(|name| rules.depth(name)).max().unwrap_or(0).max(deepest);
            }
            Ok(())
        });
        compared.map_err(|what| format!("after step {at}: {what}"))?;
    }
    Ok(deepest)
}

fn histories_test() -> DifferentialTest<impl Strategy<Value = Vec<Step>>> {
    DifferentialTest { cases: history, describe: |history| describe(history), shrinks: 20_000 }
}

fn describe(history: &[Step]) -> String {
    let mut text = String::new();
    for (at, step) in history.iter().enumerate() {
        let _ = write!(text, "{}", read(at, step).0);
    }
    text
}

#[test]
fn the_accounting_and_the_rules_agree_after_every_step() {
    let one = |_, history: &Vec<Step>, played: &mut Statistics| {
        let levels = play(history)?;
        played.steps += history.len();
        played.levels[levels] += 1;
        Ok(())
    };
    histories_test().run(&Settings::from_env("PODGROUP_DIFFERENTIAL_HISTORIES", HISTORIES, THREADS), one, |all| {
        let levels: Vec<usize> = (0..QUEUES).map(|at| all.iter().map(|played| played.levels[at]).sum()).collect();
        let (histories, steps) = (levels.iter().sum::<usize>(), all.iter().map(|played| played.steps).sum::<usize>());
        format!("{histories} histories, {steps} steps; by levels of their deepest tree: {levels:?}")
    });
}

/// The statistics of histories without a difference.
#[derive(Default)]
struct Statistics {
    steps: usize,
    /// The number of histories by the levels of their deepest tree.
    levels: [usize; QUEUES],
}
