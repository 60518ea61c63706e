//! Prints the results of a run: one line for each case, and the sum, which determines the exit status.

use std::path::PathBuf;
use std::time::Duration;

use crate::disk;
use crate::faults::{Counts, add, never, show};
use crate::observer::JudgedConstraints;
use crate::rights::Rights;
use crate::say;
use crate::wait::Nearest;

/// The result of one case.
pub struct Outcome {
    /// Its id, with the round if there are several.
    pub name: String,
    /// The reasons why it failed; empty if it passed.
    pub reasons: Vec<String>,
    /// How long its cluster took to boot, and the case from its first step to the end of the cluster. The time that a cluster waited for
    /// its turn is not in it.
    pub took: Duration,
    /// The wait that came nearest to its deadline, of those in time; `None` where it waited for nothing.
    pub nearest: Option<Nearest>,
    /// The folder of its logs and objects, if it failed.
    pub artifacts: Option<PathBuf>,
    /// The seed of its random delays and faults.
    pub seed: u64,
    /// The counts of the injected faults; `None` for a case without faults.
    pub faults: Option<Counts>,
    /// The rights of the programs in its cluster.
    pub rights: Rights,
    /// How many bindings the observer judged by the constraints of pods.
    pub constraints: JudgedConstraints,
}

impl Outcome {
    /// Returns whether it passed.
    pub fn passed(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Prints the result as soon as it is known.
    pub fn tell(&self) {
        let word = if self.passed() { "passed" } else { "FAILED" };
        say::line(format!("{word}  {:<32} {:>6.1} s", self.name, self.took.as_secs_f64()));
        if let Some(faults) = &self.faults {
            say::line(format!("        seed {}, {}", self.seed, show(faults)));
        }
        if self.constraints.constrained > 0 || self.constraints.unjudged > 0 {
            say::line(format!("        {}", self.constraints));
        }
        for reason in &self.reasons {
            say::line(format!("        {reason}"));
        }
        if let Some(folder) = &self.artifacts {
            say::line(format!("        logs, events and objects: {}", folder.display()));
        }
    }
}

/// Prints the sum and returns whether all passed. Zero cases are not a success.
pub fn sum_up(outcomes: &[Outcome], took: Duration) -> bool {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if outcomes.len() > 1 {
        say::headline("summary");
        let mut names: Vec<&str> = outcomes.iter().map(|outcome| base(&outcome.name)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of_it: Vec<&Outcome> = outcomes.iter().filter(|outcome| base(&outcome.name) == name).collect();
            let passed = of_it.iter().filter(|outcome| outcome.passed()).count();
            let longest = of_it.iter().map(|outcome| outcome.took).max().unwrap_or_default();
            say::line(format!("{name:<32} {passed:>3} of {:>3}   longest {:>6.1} s", of_it.len(), longest.as_secs_f64()));
        }
    }
    let mut faults = Counts::new();
    outcomes.iter().filter_map(|outcome| outcome.faults.as_ref()).for_each(|more| add(&mut faults, more));
    if outcomes.iter().any(|outcome| outcome.faults.is_some()) {
        say::line(show(&faults));
        if !never(&faults).is_empty() {
            say::line(format!("never injected: {}", never(&faults).join(", ")));
        }
    }
    if outcomes.len() > 1 {
        let all = outcomes.iter().map(|outcome| outcome.constraints).fold(JudgedConstraints::default(), JudgedConstraints::plus);
        say::line(all.to_string());
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed()) {
        say::line(format!("failed: {}: {}", outcome.name, outcome.reasons.first().map_or("", String::as_str)));
    }
    nearest(outcomes).into_iter().for_each(say::line);
    if let Some(least) = disk::least_free() {
        say::line(format!("the temporary folder always had {} MiB free or more", least >> 20));
    }
    say::line(format!("cases took {:.0} s", took.as_secs_f64()));
    say::line(format!("{} passed, {failed} failed", outcomes.len() - failed));
    failed == 0 && !outcomes.is_empty()
}

/// Returns the five waits that came nearest to their deadlines, the nearest first, as lines with their cases.
fn nearest(outcomes: &[Outcome]) -> Vec<String> {
    let mut all: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome.nearest.as_ref()?, &outcome.name))).collect();
    all.sort_by(|(a, _), (b, _)| b.share.total_cmp(&a.share));
    all.into_iter().take(5).map(|(nearest, name)| format!("near to a deadline: {name}: {nearest}")).collect()
}

/// Compares the rights that the chart grants with those that the programs used in a run of all cases, and prints the three that fewest
/// requests used. Returns whether each right was used.
pub fn compare_rights(outcomes: Vec<Outcome>) -> bool {
    let mut rights = Rights::default();
    outcomes.into_iter().for_each(|outcome| rights.add(outcome.rights));
    let unused = rights.unused();
    let least: Vec<_> = rights.least_used().into_iter().take(3).map(|(right, requests)| format!("{right} ({requests})")).collect();
    let (granted, used) = (rights.granted.len(), rights.granted.len() - unused.len());
    say::line(format!("rights: {granted} granted, {used} of them used, and fewest requests used {}", least.join(", ")));
    unused.iter().for_each(|right| say::line(format!("failed: RBAC: the chart grants a right that no program used: {right}")));
    unused.is_empty()
}

/// Returns the id of a case without its round.
pub(crate) fn base(name: &str) -> &str {
    name.split('#').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::tests::right;
    use crate::wait::secs;

    fn outcome(name: &str, nearest: Option<f64>) -> Outcome {
        let (reasons, took, artifacts, faults, rights, constraints) =
            (Vec::new(), secs(90), None, None, Rights::default(), JudgedConstraints::default());
        let nearest = nearest.map(|share| Nearest { share, limit: secs(10), what: "a pod runs".to_owned() });
        Outcome { name: name.to_owned(), reasons, took, nearest, artifacts, seed: 0, faults, rights, constraints }
    }

    #[test]
    fn a_right_that_no_program_used_in_any_case_fails_the_run() {
        let case = |used: &[&str]| {
            let granted = ["a get pods", "b get leases"].map(right).into();
            Outcome { rights: Rights { granted, used: used.iter().map(|each| (right(each), 1)).collect() }, ..outcome("K4", None) }
        };
        assert!(compare_rights(vec![case(&["a get pods"]), case(&["b get leases"])]));
        assert!(!compare_rights(vec![case(&["a get pods"]), case(&["a get pods"])]));
    }

    #[test]
    fn the_waits_nearest_to_their_deadlines_are_named_with_their_cases() {
        let outcomes = [("K1", Some(0.1)), ("K2", None), ("K3", Some(0.62)), ("K4", Some(0.3))].map(|(name, share)| outcome(name, share));
        let lines = nearest(&outcomes);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines.first().unwrap(), "near to a deadline: K3: 62 % of 10s: a pod runs");
    }
}
