//! Tests that the table of docs/tenancy.md contains exactly the attempts of the case.

use std::collections::BTreeMap;

use super::attempts::Victim;
use super::everything;
use super::request::Expected;
use crate::kit;

/// Returns the names in the table, each with the outcome: whether it is refused.
fn rows(document: &str) -> Vec<(String, bool)> {
    let section = document.split("## What was tried").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let mut outcomes = Vec::new();
    for (names, end) in rows.filter(|(names, _)| *names != "request") {
        let refused = end.starts_with("refused");
        assert!(refused || end.starts_with("taken"), "neither refused nor taken: {end}");
        outcomes.extend(names.split("; ").map(|name| (name.to_owned(), refused)));
    }
    outcomes
}

#[test]
fn the_table_has_each_attempt_once_with_its_outcome() {
    let of = |what: &str| what.to_owned();
    let victim = Victim { group: of("group"), set: of("set"), uid: of("uid"), deployment: of("deployment"), pod: of("pod") };
    let (by_tenant, by_controller) = everything(&victim, "own");
    let all: Vec<_> = by_tenant.into_iter().chain(by_controller).collect();
    let tried: BTreeMap<_, _> =
        all.iter().map(|attempt| (attempt.what.to_owned(), matches!(attempt.expected, Expected::Refused(_)))).collect();
    assert_eq!(tried.len(), all.len(), "two attempts have the same name");
    assert!(tried.len() > 60, "{}", tried.len());
    let rows = rows(&std::fs::read_to_string(kit::repository().join("docs/tenancy.md")).unwrap());
    let table: BTreeMap<_, _> = rows.iter().cloned().collect();
    assert_eq!(table.len(), rows.len(), "the table contains a name twice");
    assert_eq!(table, tried, "the table of docs/tenancy.md against the attempts (true: refused)");
}
