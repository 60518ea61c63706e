//! Is every rule missed when it is left out?

use proptest::strategy::{Strategy, ValueTree};

use super::scene::scene;
use super::{play, runner};
use crate::rules::{ALL, Rule, Without};

/// The same histories in every run, so that the figures are.
const SEED: u64 = 1;
/// Who is not found after so many is not found.
const MOST: usize = 400;

/// Rules that these histories do not miss.
const ELSEWHERE: [Rule; 4] = [
    // No small history without evictions shows these two soon; asking_tests and `finds` fail without each of them.
    Rule::A3,
    Rule::A5Vain,
    // Likewise; release_tests and `finds`.
    Rule::A5More,
    // Redundant for who looks after the next cycle, which takes the same back: nothing is compared before it.
    Rule::A5Over,
];

/// After how many histories a difference was seen.
fn found(rule: Rule) -> Option<usize> {
    let mut runner = runner(1, SEED);
    let mut next = || scene().new_tree(&mut runner).unwrap().current();
    let _without = Without::rule(rule);
    let found = (1..=MOST).find(|_| play(&next()).is_err());
    println!("{rule:?}: missed after {found:?} histories");
    found
}

#[test]
fn each_rule_that_is_left_out_is_missed() {
    // Side by side: a rule is left out in its thread alone.
    let here = ALL.iter().copied().filter(|rule| !ELSEWHERE.contains(rule));
    let (one, other): (Vec<_>, Vec<_>) = here.enumerate().partition(|(at, _)| at % 2 == 0);
    let look = |rules: Vec<(usize, Rule)>| rules.into_iter().map(|(_, rule)| (rule, found(rule))).collect::<Vec<_>>();
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads = [scope.spawn(move || look(one)), scope.spawn(move || look(other))];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let unseen: Vec<_> = found.iter().filter(|(_, after)| after.is_none()).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
