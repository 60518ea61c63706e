//! The text output of `why`: the scheduler's message, the queues, the nodes and what must change.

use std::collections::BTreeSet;

use crate::cycle::explain::{Code, Count, Explanation, Reason};
use crate::plugin::events::ago;
use crate::plugin::gap;
use crate::plugin::page::{Line, Page, Tone};
use crate::plugin::queues::{Dimension, Level};
use crate::plugin::tree::DEEPEST;
use crate::resources::{Amount, ResourceName};

use super::Report;
use super::members::Members;
use super::places::{self, Places};

impl Report {
    /// Returns the output of `why`. `wide` shows every requested resource at every level, also without a limit.
    #[must_use]
    pub fn page(&self, wide: bool) -> Page {
        let mut page = Page::default();
        self.head(&mut page);
        if self.waits {
            self.queues(&mut page, wide);
            self.nodes(&mut page);
        }
        if !self.events.is_empty() {
            page.heading("Events");
            for event in &self.events {
                let when = event.at.map_or_else(|| "?".to_owned(), |at| ago(at, self.now));
                let claim = event.claim.as_ref().map(|claim| format!(" persistentvolumeclaim {claim}")).unwrap_or_default();
                page.text(format!("  {when} ago  {} {}{claim} ({}): {}", event.kind, event.reason, event.from, event.message));
            }
        }
        if self.waits && !self.changes.is_empty() {
            page.heading("What would have to change");
            self.changes.iter().for_each(|change| page.text(format!("  * {change}")));
        }
        gap::show(&mut page, &self.unknown);
        page
    }

    fn head(&self, page: &mut Page) {
        let owner = self.owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default();
        let phase = self.phase.as_deref().unwrap_or("no phase yet");
        let line = Line::new("PodGroup ").and(Tone::Strong, format!("{}/{}", self.namespace, self.name)).and(Tone::Plain, owner);
        let line = line.and(Tone::Plain, " ");
        page.line(if self.waits {
            line.and(Tone::Bad, "waits").and(Tone::Plain, format!(": {phase}, for {}", ago(self.since, self.now)))
        } else {
            line.and(Tone::Good, "does not wait").and(Tone::Plain, format!(": {phase}"))
        });
        let members = self.members.as_ref().map_or_else(|| "its pods are not known".to_owned(), counted);
        page.text(format!("  minMember {}; {members}", self.minimum));
        // A Running PodGroup can outlive its queue.
        if let Some(refusal) = self.refusal.as_ref().filter(|_| !self.waits && !self.over) {
            page.line(Line::new("  ").and(Tone::Warn, format!("warning: {refusal}: new pods of this PodGroup will wait")));
        }
        if let Some(said) = &self.said {
            page.line(Line::new(format!("  the scheduler says{}: ", reason(&said.reason, &said.message))).and(Tone::Strong, &said.message));
        }
        if let Some(pod) = &self.pod {
            let reason = reason(&pod.reason, &pod.message);
            page.line(Line::new(format!("  the scheduler says of pod {}{reason}: ", pod.name)).and(Tone::Strong, &pod.message));
        }
        if !self.others.is_empty() {
            page.text(format!("  there are also: {}", self.others.join(", ")));
        }
    }

    fn queues(&self, page: &mut Page, wide: bool) {
        let asks = match (self.asked.is_zero(), self.admitted) {
            (true, _) => String::new(),
            (false, false) => format!(": it asks for {}", self.asked),
            (false, true) if self.is_gated() => ": it is admitted, and reserves nothing while pods have scheduling gates".to_owned(),
            (false, true) if self.unreserved => {
                format!(": it is admitted for {}, and reserves nothing before its pods exist or there is room", self.asked)
            }
            (false, true) => format!(": it is admitted, and {} reserved for it at every level", self.asked),
        };
        page.heading(format!("Queue {}{asks}", self.queue));
        if let Some(position) = self.position.filter(|position| *position > 1) {
            page.text(format!("  position {position} among the PodGroups that wait in this queue"));
        }
        if let Some(refusal) = &self.refusal {
            page.line(Line::new("  ").and(Tone::Bad, refusal));
        }
        if self.levels.is_empty() {
            return;
        }
        let limited = |dimension: &&Dimension| dimension.capability.is_some() || dimension.kept.is_some_and(Amount::is_positive);
        let all = self.levels.iter().flat_map(|level| &level.dimensions);
        let asked: BTreeSet<&ResourceName> = self.asked.iter().map(|(name, _)| name).collect();
        let shown: BTreeSet<&ResourceName> =
            all.filter(|each| (asked.is_empty() || asked.contains(&each.name)) && (wide || limited(each))).map(|each| &each.name).collect();
        let mut rows = vec![
            ["QUEUE", "STATE", "RESOURCE", "USED", "RESERVED", "REQUESTED", "CAPABILITY", ""]
                .map(|title| Line::default().and(Tone::Strong, title))
                .to_vec(),
        ];
        for (depth, level) in self.levels.iter().rev().enumerate() {
            rows.extend(level_rows(level, depth, &shown, &self.shortages));
        }
        page.table(2, rows);
        let limited = self.said.as_ref().and_then(|said| said.code).is_some_and(Code::is_of_quota);
        if shown.is_empty() && self.refusal.is_none() && !limited {
            page.text("  no level limits what it asks for");
        }
    }

    fn nodes(&self, page: &mut Page) {
        let Some(places) = &self.places else { return };
        match places {
            Places::Enough { members } => page.heading(format!("Nodes: there is room for {members} of its members now")),
            Places::Other(text) => page.heading(format!("Nodes: {text}")),
            Places::TooFew { needed, placed, tally, next, exceeds: _ } => {
                let name = next.as_ref().map(|next| format!(" ({})", next.name)).unwrap_or_default();
                let which = if *placed == 0 { "a member" } else { "the next" };
                page.heading(match (needed, tally.nodes) {
                    (_, 0) => "Nodes: there are none".to_owned(),
                    (1, _) => format!("Nodes: none of {} takes the next member{name}", tally.nodes),
                    _ => format!(
                        "Nodes: {placed} of {needed} members that go together find a place; none of {} nodes takes {which}{name}",
                        tally.nodes
                    ),
                });
                let row = |(reason, count): (&Reason, &Count)| {
                    let why = Line::default().and(Tone::Bad, reason.to_string()).and(Tone::Plain, places::addition(reason, count));
                    vec![Line::new(format!("{} of {}", count.nodes, tally.nodes)), why]
                };
                page.table(2, places::most_frequent_first(tally).into_iter().map(row).collect());
                next.iter().flat_map(|next| &next.domains).for_each(|domains| domains.show(page));
            }
        }
    }
}

fn counted(members: &Members) -> String {
    let counts = [
        (members.placed, "on nodes"),
        (members.waiting, "waiting"),
        (members.gated, "held by scheduling gates"),
        (members.blocked, "asking for what is not honoured"),
        (members.leaving, "leaving"),
        (members.succeeded, "succeeded"),
        (members.failed, "failed"),
    ];
    let parts: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    match members.exist {
        0 => "no pods".to_owned(),
        1 => format!("1 pod: {}", parts.join(", ")),
        exist => format!("{exist} pods: {}", parts.join(", ")),
    }
}

/// Returns a row for each resource that is shown. The first row has the queue and its state.
fn level_rows(level: &Level, depth: usize, shown: &BTreeSet<&ResourceName>, shortages: &[Explanation]) -> Vec<Vec<Line>> {
    let refuses = |name: &ResourceName| {
        let is_it = |all: &&Explanation| all.queue.as_ref() == Some(&level.name) && all.resource.as_deref() == Some(name.as_str());
        shortages.iter().find(is_it)?.quota.as_ref().map(|quota| quota.short.as_str())
    };
    let name = format!("{}{}", "  ".repeat(depth.min(DEEPEST)), level.name);
    let state = match (&level.closed_by, &level.state) {
        (Some(by), state) => Line::default().and(Tone::Bad, format!("{} (by {by})", state.as_deref().unwrap_or("Closed"))),
        (None, Some(state)) => Line::new(state),
        (None, None) => Line::default().and(Tone::Faint, if level.exists { "?" } else { "missing" }),
    };
    let mut head = Some((Line::new(name), state));
    let mut rows = Vec::new();
    for dimension in level.dimensions.iter().filter(|dimension| shown.contains(&dimension.name)) {
        let (name, state) = head.take().unwrap_or_default();
        let cell = |amount: Option<Amount>, none: &str| Line::new(amount.map_or_else(|| none.to_owned(), |amount| dimension.shown(amount)));
        let asked = if dimension.asked.is_positive() { dimension.shown(dimension.asked) } else { "-".to_owned() };
        let mut verdict = Line::default();
        if let Some(short) = refuses(&dimension.name) {
            verdict = verdict.and(Tone::Bad, format!("{short} too much"));
        }
        if let Some(kept) = dimension.kept.filter(|kept| kept.is_positive()) {
            verdict = verdict.and(Tone::Warn, format!("  {} kept for guarantees", dimension.shown(kept)));
        }
        rows.push(vec![
            name,
            state,
            Line::new(dimension.name.as_str()),
            cell(dimension.used, "?"),
            cell(dimension.reserved, "?"),
            Line::new(asked),
            cell(dimension.capability, "-"),
            verdict,
        ]);
    }
    if let Some((name, state)) = head {
        rows.push(vec![name, state]);
    }
    rows
}

/// Returns the reason of a condition in brackets; nothing where the message begins with a code, which says it better.
fn reason(reason: &str, message: &str) -> String {
    let code = message.split(':').next().and_then(Code::from_name);
    code.map_or_else(|| format!(" ({reason})"), |_| String::new())
}
