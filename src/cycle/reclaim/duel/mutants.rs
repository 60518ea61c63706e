//! Is every rule missed when it is left out?

use super::{duel, play};
use crate::cycle::reclaim::rules::{ALL, Without};

/// Who is not found after so many worlds is not found.
const MOST: usize = 6_000;

#[test]
fn each_rule_that_is_left_out_is_missed() {
    duel().detect_mutants(ALL, Without::rule, MOST, |facts| play(facts, false).is_ok());
}
