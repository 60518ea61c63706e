//! Shows what is charged on each node, and which nodes are overcommitted.
//!
//! It is computed from the nodes and pods of the API, as the scheduler's ledger does (N1 and N2 of docs/design/accounting.md). Only the
//! scheduler knows what is reserved for nominated gangs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::accounting::{Accounting, NodeView};
use crate::api::quantities::written;
use crate::api::{NodeFacts, PodFacts};
use crate::resources::{Amount, ResourceName, Resources, quantity};

use super::answers::{Answers, amounts};
use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};

/// How many resources have a column by default.
const COLUMNS: usize = 5;

/// The ledger of all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    nodes: Vec<Row>,
    /// The pods on missing nodes: the name of the node and what is charged.
    missing: Vec<(String, Resources)>,
    unknown: Vec<Gap>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    cordoned: bool,
    allocatable: Resources,
    /// `None` where the pods are not known.
    used: Option<Resources>,
    nominated: Option<Resources>,
    pods: Option<u64>,
    faults: Vec<String>,
}

impl Row {
    fn overcommitted(&self) -> Resources {
        self.used
            .as_ref()
            .map(|used| NodeView { name: &self.name, allocatable: &self.allocatable, used }.overcommitted())
            .unwrap_or_default()
    }

    fn idle(&self) -> Option<Resources> {
        Some(NodeView { name: &self.name, allocatable: &self.allocatable, used: self.used.as_ref()? }.idle())
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "cordoned": self.cordoned,
            "allocatable": written(&self.allocatable),
            "used": self.used.as_ref().map(written),
            "free": self.idle().as_ref().map(written),
            "overcommitted": self.used.as_ref().map(|_| written(&self.overcommitted())),
            "nominated": self.nominated.as_ref().map(written),
            "pods": self.pods,
            "faults": self.faults,
        })
    }
}

/// Returns the accounting of these nodes and pods.
#[must_use]
pub fn accounting(nodes: &[NodeFacts], pods: &[PodFacts]) -> Accounting {
    let mut accounting = Accounting::new();
    nodes.iter().for_each(|node| accounting.node_upsert(&node.name, node.allocatable.clone()));
    for pod in pods.iter().filter(|pod| !pod.phase.ended()) {
        if let Some(node) = &pod.node {
            accounting.charge_observed(&pod.uid, Some(node), None, &pod.request);
        }
    }
    accounting
}

impl Report {
    /// Makes the report. `pods` is `None` where they could not be listed; then the scheduler's answer counts.
    #[must_use]
    pub fn new(nodes: &[NodeFacts], pods: Option<&[PodFacts]>, answers: &Answers, unknown: Vec<Gap>) -> Self {
        let accounting = accounting(nodes, pods.unwrap_or_default());
        let mut count: BTreeMap<&str, u64> = BTreeMap::new();
        for node in accounting.pods().filter_map(|(_, pod)| pod.node) {
            let count = count.entry(node).or_default();
            *count = count.saturating_add(1);
        }
        let row = |node: &NodeFacts| {
            let answer = answers.nodes.as_ref().and_then(|nodes| nodes.get(&*node.name));
            let counted = pods.and_then(|_| accounting.ledger().node(&node.name)).map(|view| view.used.clone());
            Row {
                name: node.name.to_string(),
                cordoned: node.unschedulable,
                allocatable: node.allocatable.clone(),
                used: counted.or_else(|| amounts(answer?.used.as_ref())),
                nominated: amounts(answer.and_then(|answer| answer.nominated.as_ref())),
                pods: pods.map(|_| count.get(&*node.name).copied().unwrap_or(0)).or_else(|| answer?.pods),
                faults: node.faults.iter().map(ToString::to_string).collect(),
            }
        };
        let mut rows: Vec<Row> = nodes.iter().map(row).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let missing = accounting.ledger().missing_nodes().map(|(name, used)| (name.to_owned(), used.clone())).collect();
        Self { nodes: rows, missing, unknown }
    }

    /// Returns the answer of `nodes -o json`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "nodes": self.nodes.iter().map(Row::json).collect::<Vec<_>>(),
            "missingNodes": self.missing.iter().map(|(name, used)| json!({ "name": name, "used": written(used) })).collect::<Vec<_>>(),
            "unknown": gap::json(&self.unknown),
        })
    }

    /// Returns the page for people. `wide` shows every resource.
    #[must_use]
    pub fn page(&self, wide: bool) -> Page {
        let mut page = Page::default();
        let columns = self.columns(if wide { usize::MAX } else { COLUMNS });
        let mut head: Vec<Line> = vec![Line::default().and(Tone::Strong, "NODE")];
        head.extend(columns.iter().map(|name| Line::default().and(Tone::Strong, name.to_uppercase())));
        head.push(Line::default().and(Tone::Strong, "REMARKS"));
        let mut rows = vec![head];
        for node in &self.nodes {
            let mut row = vec![Line::new(&node.name)];
            row.extend(columns.iter().map(|name| cell(node, name)));
            row.push(remarks(node));
            rows.push(row);
        }
        page.table(0, rows);
        page.text("used / allocatable; what is free is the difference");
        if !self.missing.is_empty() {
            page.heading("Pods on nodes that do not exist");
            for (name, used) in &self.missing {
                page.line(Line::new("  ").and(Tone::Warn, name).and(Tone::Plain, format!(": {used}")));
            }
        }
        gap::show(&mut page, &self.unknown);
        page
    }

    /// Returns cpu, memory and pods first, then the others by name; an overcommitted resource is always included.
    fn columns(&self, most: usize) -> Vec<ResourceName> {
        let mut names: BTreeSet<ResourceName> = BTreeSet::new();
        let mut over: BTreeSet<ResourceName> = BTreeSet::new();
        for node in &self.nodes {
            names.extend(node.allocatable.iter().map(|(name, _)| name.clone()));
            over.extend(node.overcommitted().iter().map(|(name, _)| name.clone()));
        }
        let first = [ResourceName::CPU, ResourceName::MEMORY, ResourceName::PODS];
        let mut columns: Vec<ResourceName> =
            first.iter().map(|name| ResourceName::from(*name)).filter(|name| names.remove(&**name)).collect();
        let known = |name: &ResourceName| first.contains(&name.as_str());
        columns.extend(names.into_iter().filter(|name| !over.contains(name) && !known(name)).take(most.saturating_sub(columns.len())));
        let missing: Vec<_> = over.into_iter().filter(|name| !columns.contains(name)).collect();
        columns.extend(missing);
        columns
    }
}

fn cell(node: &Row, name: &ResourceName) -> Line {
    let shown = |amount: Amount| quantity::format(amount, name.style());
    let most = node.allocatable.get(name);
    let Some(used) = node.used.as_ref().map(|used| used.get(name)) else { return Line::new(format!("? / {}", shown(most))) };
    let tone = if used > most { Tone::Bad } else { Tone::Plain };
    Line::default().and(tone, format!("{} / {}", shown(used), shown(most)))
}

fn remarks(node: &Row) -> Line {
    let mut line = Line::default();
    let over = node.overcommitted();
    if !over.is_empty() {
        line = line.and(Tone::Bad, format!("OVERCOMMITTED by {over}  "));
    }
    if node.cordoned {
        line = line.and(Tone::Warn, "cordoned  ");
    }
    if let Some(kept) = node.nominated.as_ref().filter(|kept| !kept.is_empty()) {
        line = line.and(Tone::Plain, format!("kept for a gang: {kept}  "));
    }
    for fault in &node.faults {
        line = line.and(Tone::Warn, format!("{fault}  "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{node, pod, running};

    #[test]
    fn overcommitted_nodes_are_marked_and_unlisted_pods_are_not_guessed() {
        let mut cordoned = node("n2", &[("cpu", 4)]);
        cordoned.unschedulable = true;
        let nodes = [cordoned, node("n1", &[("cpu", 4), ("example.com/gpu", 2)])];
        let pods = [
            running(pod("ns", "a", "g", &[("cpu", 5)]), "n1"),
            running(pod("ns", "b", "g", &[("cpu", 1)]), "gone"),
            pod("ns", "c", "g", &[("cpu", 9)]),
        ];
        let text = Report::new(&nodes, Some(&pods), &Answers::default(), Vec::new()).page(false).render(false);
        let want = "\
NODE  CPU    PODS     EXAMPLE.COM/GPU  REMARKS
n1    5 / 4  1 / 110  0 / 2            OVERCOMMITTED by cpu 1
n2    0 / 4  0 / 110  0 / 0            cordoned
used / allocatable; what is free is the difference

Pods on nodes that do not exist
  gone: cpu 1, pods 1
";
        assert_eq!(text, want);
        let blind = Report::new(&nodes, None, &Answers::default(), vec![Gap::new("pods", "forbidden")]);
        assert_eq!(blind.json()["nodes"][0]["used"], Value::Null);
        assert!(blind.page(false).render(false).contains("n1    ? / 4"));
    }
}
