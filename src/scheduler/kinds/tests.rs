//! The table of kinds, and the rights that the chart grants for them.

use std::collections::BTreeSet;

use super::KINDS;

/// The rules of RBAC in the scheduler's template, each with its groups, resources and verbs, as their lists stand in a line each.
fn rules() -> Vec<[Vec<String>; 3]> {
    let template = include_str!("../../../charts/podgroup/templates/scheduler.yaml");
    let list = |line: &str, key: &str| {
        let values = line.trim().strip_prefix(key)?.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some(values.split(',').map(|value| value.trim().trim_matches('"').to_owned()).collect::<Vec<_>>())
    };
    let mut rules: Vec<[Vec<String>; 3]> = Vec::new();
    for line in template.lines() {
        if let Some(groups) = list(line, "- apiGroups:") {
            rules.push([groups, Vec::new(), Vec::new()]);
        }
        let Some(rule) = rules.last_mut() else { continue };
        rule[1].extend(list(line, "resources:").unwrap_or_default());
        rule[2].extend(list(line, "verbs:").unwrap_or_default());
    }
    rules
}

#[test]
fn each_kind_may_be_listed_and_watched_by_the_chart_and_nothing_else_may() {
    let watched: BTreeSet<_> = KINDS.iter().map(|row| (row.resource)()).collect();
    let mut granted = BTreeSet::new();
    for [groups, resources, verbs] in rules() {
        if ["list", "watch"].iter().all(|verb| verbs.iter().any(|granted| granted == verb)) {
            granted.extend(groups.iter().flat_map(|group| resources.iter().map(|resource| (group.clone(), resource.clone()))));
        }
    }
    assert_eq!(watched, granted);
}

#[test]
fn a_kind_is_called_by_its_resource() {
    for row in KINDS {
        assert_eq!(row.kind.resource(), (row.resource)().1);
    }
}
