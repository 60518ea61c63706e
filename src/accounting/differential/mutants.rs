//! Mutation test: every rule that is switched off is detected.

use super::{histories_test, play};
use crate::accounting::rules::{ALL, Without};

/// A mutant that is not detected after this many histories counts as undetected.
const MOST: usize = 3_000;

#[test]
fn each_rule_that_is_switched_off_is_detected() {
    histories_test().detect_mutants(ALL, Without::rule, MOST, |history| play(history, false).is_ok());
}
