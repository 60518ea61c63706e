//! Do all builds of the dev profile share what they compile?
//!
//! `make demo` compiles the programs and the runner, `make test` the model and all tests as well. Cargo gives a crate the features that all
//! packages of a call ask for together, so a feature that only the second call asks for makes it compile that crate again, and all that
//! stands on it. `e2e/Cargo.toml` names such features.

use std::collections::BTreeSet;
use std::process::Command;

use crate::kit::repository;

/// Returns the crates that a call with these arguments compiles, each with its version and its features.
fn crates(arguments: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--prefix", "none", "--format", "{p} {f}"]).args(arguments);
    let output = command.current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn the_tests_compile_no_crate_of_the_demo_again() {
    let demo = crates(&["--package", "podgroup", "--package", "e2e", "--edges", "no-dev"]);
    let tests = crates(&["--workspace"]);
    assert!(demo.len() > 100, "only {} crates were found", demo.len());
    let again: Vec<&String> = demo.difference(&tests).collect();
    assert!(again.is_empty(), "`cargo test --workspace` compiles these again, with other features: {again:#?}");
}
