//! Do the books and the rules say the same after every step of any history?
//!
//! ```text
//!  history ──▶ Books                          ─┐
//!      │                                       ├─ the same, after every step (`compare`)
//!      ╰─────▶ Facts ──▶ Sheet: the rules     ─┘
//!                          ╰── the same as the slow reference says, once in a while
//! ```
//!
//! And would it be noticed if they did not? Each part of the rules that can be left out is left out once (`mutants`).
//!
//! `PODGROUP_DUEL_HISTORIES` asks for more or fewer histories (`make test` plays 100,000), `PODGROUP_DUEL_SEED` for those of an earlier run. A history that fails is
//! shrunk and told as the lines of a scenario; what it was belongs in `src/accounting/scenarios`.

use std::fmt::Write;

use proptest::strategy::Strategy;

use crate::duels::{Asked, Duel};
use both::Both;
use compare::ask_the_reference;
pub(super) use compare::{read_refusal, written};
use events::{Step, history, read};
use facts::QUEUES;

mod both;
mod compare;
mod events;
mod facts;
mod mutants;
mod owed;
mod parting;
mod sheet;

/// How many histories there are if nobody says otherwise.
const HISTORIES: u32 = 12_000;
/// They are played side by side.
const THREADS: u32 = 2;
/// After every so many steps, and the last, everything is compared.
const WHOLLY: usize = 10;
/// At the end of every so many histories the reference is asked.
const REFERENCE: u32 = 50;

/// The first difference; else how many levels the deepest tree had, `root` left out, when everything was compared.
fn play(history: &[Step], ask: bool) -> Result<usize, String> {
    let (mut both, mut deepest) = (Both::default(), 0);
    for (at, step) in history.iter().enumerate() {
        let (event, questions) = read(at, step);
        let last = at + 1 == history.len();
        let compared = both.take(&event).and_then(|()| {
            let sheet = both.facts.sheet();
            both.compare_briefly(&sheet, &questions)?;
            if last || at % WHOLLY == WHOLLY - 1 {
                both.compare_wholly(&sheet, &questions)?;
                deepest = sheet.ways.iter().map(|way| way.len() - 1).max().unwrap_or(0).max(deepest);
            }
            // Two queues, each in a dimension of its own.
            let mut asked = questions.iter().zip([at % 3, (at + 1) % 3]).filter(|_| last && ask);
            asked.try_for_each(|(question, dimension)| ask_the_reference(&both.facts, &sheet, *question, dimension))
        });
        compared.map_err(|what| format!("after step {at}: {what}"))?;
    }
    Ok(deepest)
}

fn duel() -> Duel<impl Strategy<Value = Vec<Step>>> {
    Duel { cases: history, told: |history| told(history), shrinks: 20_000 }
}

fn told(history: &[Step]) -> String {
    let mut text = String::new();
    for (at, step) in history.iter().enumerate() {
        let _ = write!(text, "{}", read(at, step).0);
    }
    text
}

#[test]
fn the_books_and_the_rules_say_the_same_after_every_step() {
    let one = |begun: u32, history: &Vec<Step>, played: &mut Played| {
        let levels = play(history, begun.is_multiple_of(REFERENCE))?;
        played.steps += history.len();
        played.levels[levels] += 1;
        Ok(())
    };
    duel().play(&Asked::of("PODGROUP_DUEL_HISTORIES", HISTORIES, THREADS, None), one, |all| {
        let levels: Vec<usize> = (0..QUEUES).map(|at| all.iter().map(|played| played.levels[at]).sum()).collect();
        let (histories, steps) = (levels.iter().sum::<usize>(), all.iter().map(|played| played.steps).sum::<usize>());
        format!("{histories} histories, {steps} steps; by levels of their deepest tree: {levels:?}")
    });
}

/// What was played without a difference.
#[derive(Default)]
struct Played {
    steps: usize,
    /// How many histories had a tree of so many levels.
    levels: [usize; QUEUES],
}
