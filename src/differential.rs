//! Runs differential tests.
//!
//! A differential test draws cases (histories, small clusters) from a seed. It runs each case on the real code and on a reference, and
//! shrinks and prints the first difference. `PODGROUP_TEST_SEED` repeats an earlier run.

use std::cell::{Cell, RefCell};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::random_tests::{self, SEED_NAME, number_from_env};

/// One differential test.
pub(crate) struct DifferentialTest<S: Strategy> {
    /// Draws the cases.
    pub(crate) cases: fn() -> S,
    /// Writes a case as text, for a case with a difference.
    pub(crate) describe: fn(&S::Value) -> String,
    /// How many simpler cases are tried after a difference, at most.
    pub(crate) shrinks: u32,
}

/// The size and the seed of one run.
pub(crate) struct Settings {
    /// The number of cases on all threads together.
    pub(crate) cases: u32,
    /// The number of threads; each draws its own cases.
    pub(crate) threads: u32,
    /// The seed of the first thread; each further thread adds one.
    pub(crate) seed: u64,
}

impl Settings {
    /// Reads the number of cases from the variable `name`; by default it is `usual`, times as often as the run asks for.
    pub(crate) fn from_env(name: &str, usual: u32, threads: u32) -> Self {
        let cases = number_from_env(name).map_or_else(|| random_tests::cases(usual), |number| u32::try_from(number).unwrap());
        let seed = random_tests::seed();
        Self { cases, threads, seed }
    }
}

impl<S: Strategy> DifferentialTest<S> {
    fn runner(&self, cases: u32, seed: u64) -> TestRunner {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases, failure_persistence: None, max_shrink_iters: self.shrinks, ..Config::default() };
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// Runs all cases, and panics with every difference. `compare` gets the number of the case on its thread, the case, and the statistics
    /// of its thread. `summary` writes the statistics as one line. Returns the statistics of each thread.
    pub(crate) fn run<Statistics: Default + Send>(
        &self,
        settings: &Settings,
        compare: impl Fn(u32, &S::Value, &mut Statistics) -> Result<(), String> + Sync,
        summary: impl FnOnce(&[Statistics]) -> String,
    ) -> Vec<Statistics> {
        let (begin, Settings { cases, threads, seed }) = (crate::runtime::clock::monotonic(), settings);
        let on = |thread: u32| {
            let (begun, statistics) = (Cell::new(0), RefCell::new(Statistics::default()));
            let outcome = self.runner(cases.div_ceil(*threads), seed.wrapping_add(u64::from(thread))).run(&(self.cases)(), |case| {
                begun.set(begun.get() + 1);
                compare(begun.get(), &case, &mut statistics.borrow_mut()).map_err(TestCaseError::fail)
            });
            let difference = outcome.err().map(|error| match error {
                TestError::Fail(why, case) => format!("{why}\n{}", (self.describe)(&case)),
                TestError::Abort(why) => why.to_string(),
            });
            (statistics.into_inner(), difference)
        };
        let (statistics, differences): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..*threads).map(|thread| scope.spawn(move || on(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
        });
        println!("{}; in {:.1} s, {SEED_NAME}={seed}", summary(&statistics), begin.elapsed().as_secs_f32());
        let differences: Vec<_> = differences.into_iter().flatten().collect();
        assert!(differences.is_empty(), "{SEED_NAME}={seed}: {}", differences.join("\n"));
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> DifferentialTest<std::ops::Range<u32>> {
        DifferentialTest { cases: || 0..1_000, describe: |case| format!("case {case}"), shrinks: 1_000 }
    }

    #[test]
    #[should_panic(expected = "PODGROUP_TEST_SEED=7: too much\ncase 500")]
    fn the_first_difference_is_shrunk_and_printed_with_its_seed() {
        let small = |_, case: &u32, _: &mut ()| if *case < 500 { Ok(()) } else { Err("too much".to_owned()) };
        numbers().run(&Settings { cases: 100, threads: 1, seed: 7 }, small, |_| String::new());
    }
}
