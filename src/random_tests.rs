//! Which random cases do the tests of this run draw?
//!
//! All random tests of a run use one seed. It is new in every run, and each test prints it. cargo hides that where the test passes, so
//! `make unit` chooses the seed and prints it first. A test that fails is repeated with `PODGROUP_TEST_SEED=<seed> cargo test <name>`, with
//! the same `PODGROUP_TEST_TIMES`: by this number every test has more cases (`make soak`).

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
                if !names_its_seed(&text) && !path.ends_with("src/differential.rs") {
                    without.push(path);
                }
            }
        }
    }
    assert!(without.is_empty(), "no seed of the run: {without:?}");
}

/// Returns whether each property test of a source file has the settings of this module: each block, and each runner that the file makes
/// itself. The runner of `src/differential.rs` is not among them: its seed comes with its settings.
fn names_its_seed(source: &str) -> bool {
    // Written in parts, so that this file does not contain them.
    let (block, runner) = (["proptest", "! {\n"].concat(), ["TestRunner", "::"].concat());
    let of_this_module = |text: &str| text.contains("random_tests::config(");
    let first_line = |text: &&str| of_this_module(text.lines().next().unwrap_or_default());
    source.split(block.as_str()).skip(1).all(|text| first_line(&text))
        && source.split(runner.as_str()).skip(1).all(|text| text.starts_with("new(") && first_line(&text))
}

#[test]
fn a_property_test_without_the_seed_of_the_run_is_found() {
    let block = ["proptest", "! {\n"].concat();
    let runner = ["proptest::test_runner::TestRunner", "::"].concat();
    for (source, wanted) in [
        (format!("{block}    #![proptest_config(crate::random_tests::config(100))]\n"), true),
        (format!("{block}    #[test]\n"), false),
        (format!("use TestRunner;\nlet runner = {runner}new(crate::random_tests::config(1));\n"), true),
        (format!("{runner}new(crate::random_tests::config(1));\n{runner}new(Config::default());\n"), false),
        (format!("{runner}default();\n"), false),
        (format!("{runner}deterministic(); // not random_tests::config(\n"), false),
        (format!("{runner}new_with_rng(crate::random_tests::config(1), rng);\n"), false),
    ] {
        assert_eq!(names_its_seed(&source), wanted, "{source}");
    }
}
