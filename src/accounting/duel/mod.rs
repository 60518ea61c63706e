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

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

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

fn runner(histories: u32, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: histories, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
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
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let histories = number("PODGROUP_DUEL_HISTORIES").map_or(HISTORIES, |number| u32::try_from(number).unwrap());
    let seed = number("PODGROUP_DUEL_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let begin = crate::runtime::clock::monotonic();
    let each = histories.div_ceil(THREADS);
    // Every thread has histories of its own.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || play_many(each, seed.wrapping_add(u64::from(thread))))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |of: fn(&Played) -> usize| outcomes.iter().map(|(played, _)| of(played)).sum::<usize>();
    let (histories, steps) = (sum(|played| played.levels.iter().sum()), sum(|played| played.steps));
    let levels: Vec<usize> = (0..QUEUES).map(|at| outcomes.iter().map(|(played, _)| played.levels[at]).sum()).collect();
    let seconds = begin.elapsed().as_secs_f32();
    println!(
        "{histories} histories, {steps} steps in {seconds:.1} s, PODGROUP_DUEL_SEED={seed}; by levels of their deepest tree: {levels:?}"
    );
    let wrong: Vec<_> = outcomes.into_iter().filter_map(|(_, outcome)| outcome.err()).collect();
    assert!(wrong.is_empty(), "PODGROUP_DUEL_SEED={seed}: {}", wrong.join("\n"));
}

/// What was played without a difference.
#[derive(Default)]
struct Played {
    steps: usize,
    /// How many histories had a tree of so many levels.
    levels: [usize; QUEUES],
}

/// What was played, and the first difference as a scenario.
fn play_many(histories: u32, seed: u64) -> (Played, Result<(), String>) {
    let (begun, played) = (Cell::new(0_u32), RefCell::new(Played::default()));
    let outcome = runner(histories, seed).run(&history(), |history| {
        begun.set(begun.get() + 1);
        let levels = play(&history, begun.get().is_multiple_of(REFERENCE)).map_err(TestCaseError::fail)?;
        let mut played = played.borrow_mut();
        played.steps += history.len();
        played.levels[levels] += 1;
        Ok(())
    });
    let outcome = outcome.map_err(|error| match error {
        TestError::Fail(why, history) => format!("{why}\n{}", told(&history)),
        TestError::Abort(why) => why.to_string(),
    });
    (played.into_inner(), outcome)
}
