//! Which random cases do the tests of this run draw?
//!
//! All random tests of a run use one seed. It is new in every run, and each test prints it. A test that fails is repeated with
//! `PODGROUP_TEST_SEED=<seed> cargo test <name>`, with the same `PODGROUP_TEST_TIMES`: by this number every test has more cases (`make soak`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use proptest::test_runner::{Config, RngSeed};

static SEED: LazyLock<u64> = LazyLock::new(|| number_from_env(SEED_NAME).unwrap_or_else(|| RandomState::new().build_hasher().finish()));

/// The variable that sets the seed of a run.
pub(crate) const SEED_NAME: &str = "PODGROUP_TEST_SEED";

/// Reads a number from an environment variable; `None` when it is not set.
pub(crate) fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Returns the seed of this run, and prints it in the output of the test that asks.
pub(crate) fn seed() -> u64 {
    println!("{SEED_NAME}={}", *SEED);
    *SEED
}

/// Returns the number of cases of a test that usually has `usual`.
pub(crate) fn cases(usual: u32) -> u32 {
    usual * u32::try_from(number_from_env("PODGROUP_TEST_TIMES").unwrap_or(1)).unwrap()
}

/// Returns the settings of a property test that usually has `usual` cases.
pub(crate) fn config(usual: u32) -> Config {
    Config { cases: cases(usual), rng_seed: RngSeed::Fixed(seed()), ..Config::default() }
}

#[test]
fn every_property_test_names_its_seed() {
    let mut without = Vec::new();
    let mut folders = vec![std::path::PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let blocks = text.split("proptest! {\n").skip(1);
                if { blocks }.any(|block| !block.lines().next().is_some_and(|line| line.contains("random_tests::config("))) {
                    without.push(path);
                }
            }
        }
    }
    assert!(without.is_empty(), "no seed of the run: {without:?}");
}
