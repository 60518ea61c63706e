//! Is every rule missed when it is left out?

use super::{duel, play};
use crate::rules::{ALL, Rule, Without};

/// Who is not found after so many histories is not found.
const MOST: usize = 400;

/// Rules that these histories do not miss.
const ELSEWHERE: [Rule; 4] = [
    // No small history without evictions shows these two soon; asking_tests and `finds` fail without each of them.
    Rule::A3,
    Rule::A5Vain,
    // Likewise; release_tests and `finds`.
    Rule::A5More,
    // Likewise; admission_tests.
    Rule::A5Over,
];

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let here: Vec<Rule> = ALL.iter().copied().filter(|rule| !ELSEWHERE.contains(rule)).collect();
    duel().detect_mutants(&here, Without::rule, MOST, |scene| play(scene).is_ok());
}
