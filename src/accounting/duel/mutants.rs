//! Is every rule missed when it is left out?

use proptest::strategy::{Strategy, ValueTree};

use super::events::{Step, history};
use super::{play, runner};
use crate::accounting::rules::{ALL, Rule, Without};

/// The same histories in every run, so that the figures are.
const SEED: u64 = 1;
/// Who is not found after so many is not found.
const MOST: usize = 3_000;

/// After how many histories a difference was seen.
fn found(rule: Rule) -> Option<usize> {
    let _without = Without::rule(rule);
    let mut runner = runner(1, SEED);
    let mut next = || -> Vec<Step> { history().new_tree(&mut runner).unwrap().current() };
    (1..=MOST).find(|_| play(&next(), false).is_err())
}

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let found: Vec<_> = ALL.iter().map(|rule| (rule, found(*rule))).collect();
    let lines: Vec<_> =
        found.iter().map(|(rule, after)| format!("{rule:?}: {}", after.map_or("not".to_owned(), |after| after.to_string()))).collect();
    println!("missed after so many histories: {}", lines.join(", "));
    let unseen: Vec<_> = found.iter().filter(|(_, after)| after.is_none()).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
