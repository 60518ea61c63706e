//! Is every rule missed when it is left out?

use proptest::strategy::{Strategy, ValueTree};

use super::{facts::facts, play, runner};
use crate::cycle::reclaim::rules::{ALL, Rule, Without};

/// The same worlds in every run, so that the figures are.
const SEED: u64 = 1;
/// Who is not found after so many is not found.
const MOST: usize = 6_000;

/// After how many worlds a difference was seen.
fn found(rule: Rule) -> Option<usize> {
    let mut runner = runner(1, SEED);
    let mut next = || facts().new_tree(&mut runner).unwrap().current();
    let _without = Without::rule(rule);
    (1..=MOST).find(|_| play(&next(), false).is_err())
}

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let found: Vec<_> = ALL.iter().map(|rule| (rule, found(*rule))).collect();
    let lines: Vec<_> =
        found.iter().map(|(rule, after)| format!("{rule:?}: {}", after.map_or("not".to_owned(), |after| after.to_string()))).collect();
    println!("missed after so many worlds: {}", lines.join(", "));
    let unseen: Vec<_> = found.iter().filter(|(_, after)| after.is_none()).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
