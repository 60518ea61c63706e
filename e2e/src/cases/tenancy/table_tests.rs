//! Is the table of docs/tenancy.md what is tried, and no more and no less?

use std::collections::BTreeMap;

use super::attempts::{Expected, Victim};
use super::everything;
use crate::kit;

/// The names in the table, each with what becomes of it: whether it is refused.
fn told(document: &str) -> Vec<(String, bool)> {
    let section = document.split("## Tried").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let mut told = Vec::new();
    for (names, end) in rows.filter(|(names, _)| *names != "tried") {
        let refused = end.starts_with("refused");
        assert!(refused || end.starts_with("taken"), "neither refused nor taken: {end}");
        told.extend(names.split("; ").map(|name| (name.to_owned(), refused)));
    }
    told
}

#[test]
fn the_table_has_each_attempt_once_with_what_becomes_of_it() {
    let of = |what: &str| what.to_owned();
    let victim = Victim { group: of("group"), set: of("set"), uid: of("uid"), deployment: of("deployment"), pod: of("pod") };
    let (by_tenant, by_controller) = everything(&victim, "own");
    let all: Vec<_> = by_tenant.into_iter().chain(by_controller).collect();
    let tried: BTreeMap<_, _> =
        all.iter().map(|attempt| (attempt.what.to_owned(), matches!(attempt.expected, Expected::Refused(_)))).collect();
    assert_eq!(tried.len(), all.len(), "two attempts have one name");
    assert!(tried.len() > 60, "{}", tried.len());
    let told = told(&std::fs::read_to_string(kit::repository().join("docs/tenancy.md")).unwrap());
    let table: BTreeMap<_, _> = told.iter().cloned().collect();
    assert_eq!(table.len(), told.len(), "the table has a name twice");
    assert_eq!(table, tried, "what docs/tenancy.md says, and what is tried (true: it is refused)");
}
