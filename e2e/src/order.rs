//! In which order do the cases run? The longest first, so that two or three at once end together.
//!
//! `seconds.txt` says how long the long ones took, and how to measure again. A case that is not in it takes its place among the usual ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One line for each long case: its id and its seconds. `#` begins a comment.
const SECONDS: &str = include_str!("seconds.txt");

/// What a case takes that is not listed, in seconds.
const USUAL: u64 = 30;

/// Sorts by time, the longest first. Equal ones stay in their order.
pub fn longest_first<T>(cases: &mut [T], id: impl Fn(&T) -> &str) {
    let seconds = measured(SECONDS);
    cases.sort_by_key(|case| Reverse(seconds.get(id(case)).copied().unwrap_or(USUAL)));
}

fn measured(text: &str) -> BTreeMap<&str, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).filter_map(|(id, seconds)| Some((id, seconds.trim().parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::table;

    #[test]
    fn the_longest_case_is_first_and_an_unlisted_one_is_as_long_as_usual() {
        let mut ids = vec!["of-tomorrow", "L1-faults", "H1", "C2"];
        longest_first(&mut ids, |id| id);
        assert_eq!(ids, ["C2", "L1-faults", "of-tomorrow", "H1"]);
    }

    #[test]
    fn every_line_is_of_a_case_that_every_run_has() {
        let everyday: Vec<String> = table().into_iter().filter(|case| !case.only_in_soak).map(|case| case.id).collect();
        let lines: Vec<&str> = SECONDS.lines().filter(|line| !line.starts_with('#')).collect();
        let known = measured(SECONDS);
        assert_eq!(known.len(), lines.len(), "each line is an id, a blank and whole seconds, and no id stands there twice");
        let stale: Vec<_> = known.keys().filter(|id| !everyday.iter().any(|case| case == *id)).collect();
        assert!(stale.is_empty(), "no everyday case is called {stale:?}: take the lines out of seconds.txt");
    }
}
