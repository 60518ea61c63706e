//! The report of `tree`: the use of each queue, and its PodGroups.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{GroupFacts, GroupKey, PodFacts};
use crate::resources::{Amount, ResourceName, Resources};

use super::bar::{WIDTH, bar};
use super::events::ago;
use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};
use super::queues::{Dimension, Level, Queues};
use super::why::unschedulable;

/// The limit of the indentation, so that a very deep tree stays readable.
pub(super) const DEEPEST: usize = 32;

/// The tree of queues.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
    /// The PodGroups of missing queues, by queue.
    homeless: BTreeMap<String, Vec<Group>>,
    unknown: Vec<Gap>,
    now: Timestamp,
}

#[derive(Debug)]
struct Row {
    depth: usize,
    level: Level,
    parent: Option<String>,
    /// The full length of the bar of each resource: the capability of the queue or its nearest ancestor, or else the sum of all nodes.
    most: BTreeMap<ResourceName, Amount>,
    /// `None` if PodGroups are not shown.
    groups: Option<Vec<Group>>,
}

#[derive(Clone, Debug)]
struct Group {
    key: GroupKey,
    phase: Option<String>,
    minimum: u32,
    /// The number of members with a node; `None` if the pods are unknown.
    placed: Option<u32>,
    /// The time and message of its wait.
    waits: Option<(Timestamp, String)>,
}

impl Group {
    fn of(facts: &GroupFacts, pods: Option<&BTreeMap<&GroupKey, u32>>) -> Self {
        let waits = unschedulable(facts).filter(|_| !facts.is_over()).map(|condition| {
            let since = condition.last_transition_time.as_ref().and_then(|time| time.parse().ok()).unwrap_or(facts.created);
            (since, condition.message.clone().unwrap_or_default())
        });
        Self {
            key: facts.key.clone(),
            phase: facts.status.phase.clone(),
            minimum: facts.min_member,
            placed: pods.map(|pods| pods.get(&facts.key).copied().unwrap_or(0)),
            waits,
        }
    }

    fn json(&self) -> Value {
        json!({
            "namespace": &*self.key.namespace,
            "name": &*self.key.name,
            "phase": self.phase,
            "minMember": self.minimum,
            "placed": self.placed,
            "waitsSince": self.waits.as_ref().map(|(since, _)| since.to_string()),
            "message": self.waits.as_ref().map(|(_, message)| message),
        })
    }

    fn cells(&self, now: Timestamp) -> Vec<Line> {
        let placed = self.placed.map_or_else(|| "?".to_owned(), |placed| placed.to_string());
        let waits = match &self.waits {
            Some((since, message)) => {
                Line::default().and(Tone::Warn, format!("waits {}", ago(*since, now))).and(Tone::Plain, format!(": {message}"))
            }
            None => Line::default(),
        };
        vec![
            Line::new(self.key.to_string()),
            Line::new(self.phase.as_deref().unwrap_or("-")),
            Line::new(format!("{placed} bound, minMember {}", self.minimum)),
            waits,
        ]
    }
}

impl Report {
    /// Creates the report.
    ///
    /// `total` is the sum of all nodes, empty if unknown. `groups` is `None` if PodGroups are not shown or unknown, and `pods` is `None` if unknown.
    #[must_use]
    pub fn new(
        queues: &Queues,
        total: &Resources,
        groups: Option<&[GroupFacts]>,
        pods: Option<&[PodFacts]>,
        unknown: Vec<Gap>,
        now: Timestamp,
    ) -> Self {
        let mut placed: BTreeMap<&GroupKey, u32> = BTreeMap::new();
        for pod in pods.into_iter().flatten().filter(|pod| pod.node.is_some() && !pod.phase.ended() && !pod.deleting) {
            let count = placed.entry(&pod.group).or_default();
            *count = count.saturating_add(1);
        }
        let mut by_queue: BTreeMap<String, Vec<Group>> = BTreeMap::new();
        let mut sorted: Vec<&GroupFacts> = groups.into_iter().flatten().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        for group in sorted {
            by_queue.entry(group.queue.clone()).or_default().push(Group::of(group, pods.map(|_| &placed)));
        }
        let mut rows = Vec::new();
        let deleted = queues.deleted().map(|name| (0, name.to_owned()));
        for (depth, name) in queues.in_order().into_iter().chain(deleted) {
            let level = queues.level(&name, &Resources::new());
            let way = queues.way(&name);
            let most = level.dimensions.iter().filter_map(|dimension| {
                let stated = way.iter().find_map(|above| queues.facts(above)?.capability.get(&dimension.name));
                let offered = Some(total.get(&dimension.name)).filter(|offered| offered.is_positive());
                Some((dimension.name.clone(), stated.or(offered)?))
            });
            let most = most.collect();
            let of_queue = if level.exists { by_queue.remove(&name).unwrap_or_default() } else { Vec::new() };
            rows.push(Row { depth, level, parent: way.get(1).cloned(), most, groups: groups.map(|_| of_queue) });
        }
        Self { rows, homeless: by_queue, unknown, now }
    }

    /// Returns the output of `tree -o json`.
    #[must_use]
    pub fn json(&self) -> Value {
        let groups = |groups: &Vec<Group>| groups.iter().map(Group::json).collect::<Vec<_>>();
        let row = |row: &Row| {
            let mut value = row.level.json();
            if let Value::Object(object) = &mut value {
                object.insert("parent".to_owned(), json!(row.parent));
                object.insert("depth".to_owned(), json!(row.depth));
                object.insert("groups".to_owned(), json!(row.groups.as_ref().map(groups)));
            }
            value
        };
        json!({
            "queues": self.rows.iter().map(row).collect::<Vec<_>>(),
            "homeless": self.homeless.iter().map(|(queue, list)| (queue.clone(), json!(groups(list)))).collect::<BTreeMap<_, _>>(),
            "unknown": gap::json(&self.unknown),
        })
    }

    /// Returns the text output. `wide` shows every resource and the guarantees.
    #[must_use]
    pub fn page(&self, wide: bool) -> Page {
        let mut page = Page::default();
        let mut titles = vec!["QUEUE", "STATE", "RESOURCE", "", "USED", "RESERVED", "SHARE", "DESERVED", "CAPABILITY"];
        if wide {
            titles.extend(["GUARANTEE", "KEPT"]);
        }
        let mut table = vec![titles.into_iter().map(|title| Line::default().and(Tone::Strong, title)).collect::<Vec<_>>()];
        let mut ends = Vec::new();
        for row in &self.rows {
            table.extend(rows_of(row, wide));
            ends.push(table.len());
        }
        let mut lines = Line::aligned(0, table).into_iter();
        let mut at = 0_usize;
        for (row, end) in self.rows.iter().zip(ends) {
            lines.by_ref().take(end.saturating_sub(at)).for_each(|line| page.line(line));
            at = end;
            let indent = row.depth.min(DEEPEST).saturating_add(1).saturating_mul(2);
            remarks(&mut page, row, indent);
            page.table(indent, row.groups.iter().flatten().map(|group| group.cells(self.now)).collect());
        }
        for (queue, groups) in &self.homeless {
            page.heading(format!("PodGroups of queue {queue}, which does not exist"));
            page.table(2, groups.iter().map(|group| group.cells(self.now)).collect());
        }
        gap::show(&mut page, &self.unknown);
        page
    }
}

fn remarks(page: &mut Page, row: &Row, indent: usize) {
    let blanks = " ".repeat(indent);
    if let Some(by) = row.level.closed_by.as_ref().filter(|by| **by != row.level.name) {
        page.line(Line::new(&blanks).and(Tone::Warn, format!("closed by queue {by}")));
    }
    if let Some(by) = row.level.broken_by.as_ref().filter(|by| **by != row.level.name) {
        page.line(Line::new(&blanks).and(Tone::Bad, format!("queue {by} above it is broken")));
    }
    for fault in row.level.fault.iter().chain(&row.level.faults) {
        page.line(Line::new(&blanks).and(Tone::Bad, fault));
    }
}

/// Returns a row for each resource with a limit or a guarantee, and for cpu and memory in use.
fn rows_of(row: &Row, wide: bool) -> Vec<Vec<Line>> {
    let Row { depth, level, most, .. } = row;
    let always: BTreeSet<&str> = [ResourceName::CPU, ResourceName::MEMORY].into();
    let says = |dimension: &&Dimension| {
        let stated = [dimension.capability, dimension.deserved, dimension.guarantee].iter().any(Option::is_some);
        let taken = [dimension.used, dimension.reserved].iter().flatten().any(|amount| amount.is_positive());
        wide || stated || (always.contains(dimension.name.as_str()) && taken)
    };
    let state = match level.state.as_deref() {
        _ if level.broken_by.is_some() => Line::default().and(Tone::Bad, "broken"),
        Some("Open") => Line::default().and(Tone::Good, "Open"),
        Some(state) => Line::default().and(Tone::Warn, state),
        None => Line::default().and(Tone::Faint, if level.exists { "?" } else { "missing" }),
    };
    let mut head = Some((Line::new(format!("{}{}", "  ".repeat((*depth).min(DEEPEST)), level.name)), state));
    let mut rows = Vec::new();
    for dimension in level.dimensions.iter().filter(says) {
        let (name, state) = head.take().unwrap_or_default();
        let (used, reserved) = (dimension.used.unwrap_or(Amount::ZERO), dimension.reserved.unwrap_or(Amount::ZERO));
        let bar = bar(used, reserved, dimension.deserved, most.get(&dimension.name).copied()).filter(|_| dimension.used.is_some());
        let over = dimension.capability.is_some_and(|capability| used > capability);
        let cell = |amount: Option<Amount>, none: &str| Line::new(amount.map_or_else(|| none.to_owned(), |amount| dimension.shown(amount)));
        let mut cells = vec![
            name,
            state,
            Line::new(dimension.name.as_str()),
            Line::default().and(if over { Tone::Bad } else { Tone::Plain }, bar.unwrap_or_else(|| " ".repeat(WIDTH.saturating_add(2)))),
            cell(dimension.used, "?"),
            cell(dimension.reserved, "?"),
            cell(dimension.share, "?"),
            cell(dimension.deserved, "-"),
            cell(dimension.capability, "-"),
        ];
        if wide {
            cells.extend([cell(dimension.guarantee, "-"), cell(dimension.kept, "?")]);
        }
        rows.push(cells);
    }
    if let Some((name, state)) = head {
        rows.push(vec![name, state]);
    }
    rows
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
