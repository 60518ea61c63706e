//! The rules of `docs/design/accounting.md`, computed as slowly and plainly as they are written.
//!
//! This is a second implementation, for tests only: the differential tests compare it with the real one. It was written from the
//! text of the rules, not from the code, and shares nothing with it. It has plain maps and `i128` nano-units, and is a pure function of a
//! [`cluster::Cluster`]. Everything is recomputed at each question, with one function for each rule. Where it and the code differ,
//! one of them or the text is wrong.
//!
//! `by_rules` answers for the differential test of the accounting (`src/accounting/differential`), for thousands of states a second.
//! `cycle_model` runs through events and cycles, for the rules about time and order; `src/cycle/differential` compares it with the real cycle.
//! `scenario` reads and writes clusters and questions as text. `src/accounting/scenarios/` has the important ones, and both
//! implementations answer them (`accounting_answers`).

mod accounting_answers;
mod admission;
mod by_rules;
mod cluster;
pub(crate) mod cycle_model;
mod limits;
mod places;
mod properties;
mod reclaim;
mod reclaim_properties;
mod scenario;
mod scenario_text;
mod shares;
mod tree;

pub(super) use by_rules::ByRules;
pub(crate) use cluster::{Amounts, Queue};

/// Returns the first rule that evicting these victims for this PodGroup violates.
pub(crate) fn reclaim(facts: &str, preemptor: &str, victims: &[String]) -> Result<(), &'static str> {
    reclaim::check_reclaim(&scenario::cluster(facts), preemptor, &victims.iter().cloned().collect())
}

/// Returns the fewest victims that may be evicted for this PodGroup, possibly none; `None` when there is no allowed choice.
pub(crate) fn some_reclaim(facts: &str, preemptor: &str, thoroughly: bool) -> Option<Vec<String>> {
    reclaim::some_reclaim(&scenario::cluster(facts), preemptor, thoroughly).map(|victims| victims.into_iter().collect())
}
