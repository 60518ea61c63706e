//! Is every rule missed when it is left out?

use super::{duel, play};
use crate::accounting::rules::{ALL, Without};

/// Who is not found after so many histories is not found.
const MOST: usize = 3_000;

#[test]
fn each_rule_that_is_left_out_is_missed() {
    duel().miss(ALL, Without::rule, MOST, |history| play(history, false).is_ok());
}
