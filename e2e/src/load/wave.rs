//! One wave of the burst (all created, all scaled to 0, all back): its cost for the controller, and the limits.
//!
//! The counts are the same on every machine and are checked. Seconds, processor time and memory are only printed.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;

use super::calls::Tally;
use super::counters::Counters;
use super::process::{self, Memory};
use super::stage::{Side, Stage, refused};
use super::table::{counts, percentiles};
use crate::audit_log::Entry;
use crate::chart;

/// The result of one wave.
#[derive(Debug)]
pub struct Wave {
    /// Its name in the table.
    pub name: &'static str,
    /// The controller's calls without its upkeep.
    pub calls: Tally,
    /// Seconds from the last change of a ReplicaSet to the controller's last write of a PodGroup; negative if that write came first.
    pub behind: f64,
    /// Seconds from the first request of the wave to the last write of a PodGroup.
    pub took: f64,
    /// Milliseconds from the change of a ReplicaSet to the creation of its PodGroup: median, 99th percentile, longest; `None` without creations.
    pub each: Option<[f64; 3]>,
    /// The controller's processor time in seconds.
    pub processor: f64,
    /// The controller's memory.
    pub memory: Memory,
    /// The violations.
    pub wrong: Vec<String>,
}

/// The state before a wave.
pub struct Before {
    counters: Counters,
    processor: f64,
    pid: u32,
}

impl Before {
    /// Reads the present state.
    pub async fn of(stage: &Stage) -> Result<Self> {
        let pid = stage.pid(chart::CONTROLLER)?;
        process::forget_peak(pid)?;
        Ok(Self { counters: Counters::read(stage.cluster()).await?, processor: process::processor_seconds(pid)?, pid })
    }

    /// Returns the wave between then and now. `calls` are all calls in that time. For `objects` objects the controller may have made `allowed` calls
    /// of each kind, and no others: see [`Tally::wrong`].
    pub async fn until_now(
        self,
        stage: &mut Stage,
        name: &'static str,
        calls: &[Entry],
        objects: u64,
        allowed: &[(&'static str, u64)],
    ) -> Result<Wave> {
        let grown = Counters::read(stage.cluster()).await?.since(&self.counters);
        let own: Vec<&Entry> = calls.iter().filter(|call| Side::Controller.sent(call)).collect();
        let tally = Tally::of(calls);
        let mut wrong = tally.wrong(objects, allowed);
        wrong.extend(disagreement(&tally.all, &grown));
        wrong.extend(refused(calls));
        wrong.extend(stage.ended());
        let changes = |call: &&Entry| call.resource == "replicasets" && matches!(call.verb.as_str(), "create" | "update" | "patch");
        let writes = |call: &&Entry| call.resource == "podgroups" && matches!(call.verb.as_str(), "create" | "delete" | "patch");
        let asks = |call: &&Entry| matches!(call.resource.as_str(), "deployments" | "deployments/scale") && call.verb != "watch";
        let first = calls.iter().filter(asks).map(|call| call.received).min();
        let last_change = calls.iter().filter(changes).map(|call| call.answered).max();
        let last_write = own.iter().copied().filter(writes).map(|call| call.answered).max();
        Ok(Wave {
            name,
            calls: tally,
            behind: seconds_between(last_change, last_write),
            took: seconds_between(first, last_write),
            each: latencies(calls.iter().filter(changes), &own),
            processor: process::processor_seconds(self.pid)? - self.processor,
            memory: process::memory(self.pid)?,
            wrong,
        })
    }
}

/// What the table says of each wave: see [`Wave::figures`].
pub const FIGURES: [&str; 8] = [
    "last change of a ReplicaSet to last write on a PodGroup, s",
    "first request of the wave to last write on a PodGroup, s",
    "change of a ReplicaSet to its PodGroup, ms: median / 99 % / longest",
    "controller's calls",
    "of these, conflicts with a status write",
    "calls per Deployment, and per pod",
    "controller's CPU, s (ms per Deployment)",
    "controller's memory, MiB: peak / after",
];

impl Wave {
    /// Returns the values of [`FIGURES`], of this many Deployments.
    pub fn figures(&self, deployments: usize) -> [String; 8] {
        let many = deployments as f64;
        let each = self.each.map(|[median, most, longest]| format!("{median:.0} / {most:.0} / {longest:.0}"));
        [
            format!("{:.2}", self.behind),
            format!("{:.1}", self.took),
            each.unwrap_or_else(|| "–".to_owned()),
            counts(&self.calls.all),
            self.calls.conflicts.to_string(),
            format!("{:.2}", self.calls.all.values().sum::<u64>() as f64 / many),
            format!("{:.2} ({:.2})", self.processor, self.processor * 1000.0 / many),
            format!("{:.1} / {:.1}", self.memory.peak, self.memory.now),
        ]
    }
}

/// Compares the audit log with the API server's metrics, which have no user. Only the controller creates and deletes PodGroups here, and only
/// statuses of pods are patched, so both must be equal.
fn disagreement(counts: &BTreeMap<String, u64>, grown: &BTreeMap<String, u64>) -> Vec<String> {
    let pairs = [("create podgroups", "POST podgroups"), ("delete podgroups", "DELETE podgroups"), ("patch pods", "PATCH pods")];
    let said = |counts: &BTreeMap<String, u64>, kind: &str| counts.get(kind).copied().unwrap_or_default();
    let differ =
        pairs.iter().map(|(ours, theirs)| (ours, said(counts, ours), said(grown, theirs))).filter(|(_, ours, theirs)| ours != theirs);
    differ.map(|(kind, ours, theirs)| format!("{kind}: {ours} in the audit log, {theirs} in the API server's metrics")).collect()
}

/// Returns the name of the first owner in the body of a request.
fn owner(call: &Entry) -> Option<&str> {
    call.body.pointer("/metadata/ownerReferences/0/name")?.as_str()
}

fn latencies<'a>(changes: impl Iterator<Item = &'a Entry>, own: &[&Entry]) -> Option<[f64; 3]> {
    let mut changed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for change in changes {
        changed.insert(&change.name, change.answered);
    }
    let created = own.iter().filter(|call| call.kind() == "create podgroups");
    // A creation with a change before the wave has no latency in this wave.
    let millis = created.filter_map(|call| Some(seconds_between(Some(*changed.get(owner(call)?)?), Some(call.answered)) * 1000.0));
    percentiles(millis.collect())
}

fn seconds_between(from: Option<Timestamp>, to: Option<Timestamp>) -> f64 {
    from.zip(to).map_or(f64::NAN, |(from, to)| to.duration_since(from).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_counts_are_reported() {
        let counts = |kind: &str, made| BTreeMap::from([(kind.to_owned(), made)]);
        assert_eq!(disagreement(&counts("create podgroups", 5), &counts("POST podgroups", 5)), Vec::<String>::new());
        assert_eq!(disagreement(&counts("create podgroups", 5), &counts("POST podgroups", 6)).len(), 1);
        assert_eq!(disagreement(&BTreeMap::new(), &counts("PATCH pods", 1)).len(), 1);
    }
}
