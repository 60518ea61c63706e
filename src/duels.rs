//! How is a duel played, and how is it seen that a rule is missed where it is left out?
//!
//! A duel draws cases (histories, small worlds) from a seed and plays each on the real code and on the rules; the first difference is shrunk and told. `PODGROUP_DUEL_SEED` names the seed
//! of an earlier run.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// What is left out is looked for in the same cases in every run, so that the figures are the same.
const MUTANTS: u64 = 1;
/// On so many threads.
const THREADS: usize = 2;

/// One duel.
pub(crate) struct Duel<S: Strategy> {
    /// What is drawn.
    pub(crate) cases: fn() -> S,
    /// How a case is told that shows a difference.
    pub(crate) told: fn(&S::Value) -> String,
    /// How many simpler ones are tried then, at most.
    pub(crate) shrinks: u32,
}

/// A number that the environment says.
fn said(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// What is played.
pub(crate) struct Asked {
    /// How many cases, in all.
    pub(crate) cases: u32,
    /// On so many threads, each with cases of its own.
    pub(crate) threads: u32,
    /// Of the first; the next has the next.
    pub(crate) seed: u64,
}

impl Asked {
    /// What the environment says, by this name and by `PODGROUP_DUEL_SEED`; where it says no seed and none is usual, it is another each time.
    pub(crate) fn of(name: &str, usual: u32, threads: u32, seed: Option<u64>) -> Self {
        let cases = said(name).map_or(usual, |number| u32::try_from(number).unwrap());
        let seed = said("PODGROUP_DUEL_SEED").or(seed).unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Self { cases, threads, seed }
    }
}

impl<S: Strategy> Duel<S> {
    fn runner(&self, cases: u32, seed: u64) -> TestRunner {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases, failure_persistence: None, max_shrink_iters: self.shrinks, ..Config::default() };
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// What was seen on each thread, where no case showed a difference. `play` is told the how many-th of its thread it is, and `told` says what was seen in one line.
    pub(crate) fn play<Seen: Default + Send>(
        &self,
        asked: &Asked,
        play: impl Fn(u32, &S::Value, &mut Seen) -> Result<(), String> + Sync,
        told: impl FnOnce(&[Seen]) -> String,
    ) -> Vec<Seen> {
        let (begin, Asked { cases, threads, seed }) = (crate::runtime::clock::monotonic(), asked);
        let on = |thread: u32| {
            let (begun, seen) = (Cell::new(0), RefCell::new(Seen::default()));
            let outcome = self.runner(cases.div_ceil(*threads), seed.wrapping_add(u64::from(thread))).run(&(self.cases)(), |case| {
                begun.set(begun.get() + 1);
                play(begun.get(), &case, &mut seen.borrow_mut()).map_err(TestCaseError::fail)
            });
            let wrong = outcome.err().map(|error| match error {
                TestError::Fail(why, case) => format!("{why}\n{}", (self.told)(&case)),
                TestError::Abort(why) => why.to_string(),
            });
            (seen.into_inner(), wrong)
        };
        let (seen, wrong): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..*threads).map(|thread| scope.spawn(move || on(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
        });
        println!("{}; in {:.1} s, PODGROUP_DUEL_SEED={seed}", told(&seen), begin.elapsed().as_secs_f32());
        let wrong: Vec<_> = wrong.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "PODGROUP_DUEL_SEED={seed}: {}", wrong.join("\n"));
        seen
    }

    /// Leaves out each of these rules, and says after how many cases that was seen; each must be within `most`.
    pub(crate) fn miss<R: Copy + Debug + Send, W>(&self, rules: &[R], without: fn(R) -> W, most: usize, play: fn(&S::Value) -> bool) {
        let found = |rule| {
            let mut runner = self.runner(1, MUTANTS);
            let _without = without(rule);
            (1..=most).find(|_| !play(&(self.cases)().new_tree(&mut runner).unwrap().current()))
        };
        // Side by side: a rule is left out in its thread alone.
        let mut threads = vec![Vec::new(); THREADS];
        rules.iter().zip((0..THREADS).cycle()).for_each(|(rule, at)| threads[at].push(*rule));
        let found: Vec<_> = std::thread::scope(|scope| {
            let look = |rules: Vec<R>| scope.spawn(move || rules.into_iter().map(|rule| (rule, found(rule))).collect::<Vec<_>>());
            let threads: Vec<_> = threads.into_iter().map(look).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        println!("missed after so many: {found:?}");
        let unseen: Vec<_> = found.iter().filter(|(_, after)| after.is_none()).collect();
        assert!(unseen.is_empty(), "{unseen:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duel() -> Duel<std::ops::Range<u32>> {
        Duel { cases: || 0..1_000, told: |case| format!("case {case}"), shrinks: 1_000 }
    }

    #[test]
    #[should_panic(expected = "PODGROUP_DUEL_SEED=7: too much\ncase 500")]
    fn the_first_difference_is_shrunk_and_told_with_its_seed() {
        let small = |_, case: &u32, _: &mut ()| if *case < 500 { Ok(()) } else { Err("too much".to_owned()) };
        duel().play(&Asked { cases: 100, threads: 1, seed: 7 }, small, |_| String::new());
    }

    #[test]
    #[should_panic(expected = "[(2, None)]")]
    fn a_rule_that_nobody_misses_is_named() {
        thread_local!(static LEFT_OUT: Cell<u32> = const { Cell::new(0) });
        duel().miss(&[1, 2], |rule| LEFT_OUT.set(rule), 100, |case| *case < 500 || LEFT_OUT.get() != 1);
    }
}
