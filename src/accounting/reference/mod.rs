//! What do the rules of `docs/accounting.md` say, computed as slowly and plainly as they are written?
//!
//! A second implementation, for tests only: the duel asks it and the real one the same questions. It was written from the
//! text of the rules, not from the code, and shares nothing with it: plain maps and `i128` nano-units, a pure function of a
//! [`cluster::Cluster`], everything recomputed at each question, one function for each rule. Where it and the code differ,
//! one of them or the text is wrong.
//!
//! `story` goes through events and cycles by the rules that speak of time and of turns; `src/cycle/duel` asks it.
//! `scenario` reads and writes clusters and questions as text; `src/accounting/scenarios/` keeps those that matter, and both
//! implementations answer them (`beside`).

mod admission;
mod beside;
mod cluster;
mod limits;
mod properties;
mod reclaim;
mod reclaim_properties;
mod scenario;
mod scenario_text;
mod shares;
pub(crate) mod story;
mod tree;

pub(crate) use cluster::{Amounts, Queue};

/// The answers to questions about a cluster, all as scenarios write them.
pub(super) fn answers(facts: &str, questions: &[String]) -> Vec<String> {
    let cluster = scenario::cluster(facts);
    questions.iter().map(|question| scenario::answer(&cluster, question).unwrap()).collect()
}

/// The first rule that taking these victims for this group violates.
pub(crate) fn reclaim(facts: &str, claimant: &str, victims: &[String]) -> Result<(), &'static str> {
    reclaim::reclaim_is_right(&scenario::cluster(facts), claimant, &victims.iter().cloned().collect())
}

/// Some victims, or nobody, that may rightly be taken for this group, if there are any; the fewest.
pub(crate) fn some_reclaim(facts: &str, claimant: &str, thoroughly: bool) -> Option<Vec<String>> {
    reclaim::some_taking(&scenario::cluster(facts), claimant, thoroughly).map(|victims| victims.into_iter().collect())
}
