//! One wave of the burst (all created, all scaled to 0, all back): its cost for the controller, and the limits.
//!
//! The counts are the same on every machine and are checked. Seconds, processor time and memory are only printed.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;

use super::calls::Tally;
use super::counters::Counters;
use super::process::{self, Memory};
use super::stage::{Stage, controller, refused};
use crate::audit_log::Entry;

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
        let pid = stage.controller_pid()?;
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
        let user = controller();
        let own: Vec<Entry> = calls.iter().filter(|call| call.user == user).cloned().collect();
        let tally = Tally::of(&own, &user);
        let mut wrong = tally.wrong(objects, allowed);
        wrong.extend(disagreement(&tally.all, &grown));
        wrong.extend(refused(calls));
        wrong.extend(stage.ended());
        let changes = |call: &&Entry| call.resource == "replicasets" && matches!(call.verb.as_str(), "create" | "update" | "patch");
        let writes = |call: &&Entry| call.resource == "podgroups" && matches!(call.verb.as_str(), "create" | "delete" | "patch");
        let asks = |call: &&Entry| matches!(call.resource.as_str(), "deployments" | "deployments/scale") && call.verb != "watch";
        let first = calls.iter().filter(asks).map(|call| call.received).min();
        let last_change = calls.iter().filter(changes).map(|call| call.answered).max();
        let last_write = own.iter().filter(writes).map(|call| call.answered).max();
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

fn latencies<'a>(changes: impl Iterator<Item = &'a Entry>, own: &[Entry]) -> Option<[f64; 3]> {
    let mut changed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for change in changes {
        changed.insert(&change.name, change.answered);
    }
    let created = own.iter().filter(|call| call.kind() == "create podgroups");
    // A creation with a change before the wave has no latency in this wave.
    let mut millis: Vec<f64> =
        created.filter_map(|call| Some(seconds_between(Some(*changed.get(owner(call)?)?), Some(call.answered)) * 1000.0)).collect();
    millis.sort_by(f64::total_cmp);
    let at = |percent: usize| millis.get((millis.len() * percent / 100).min(millis.len().saturating_sub(1))).copied();
    Some([at(50)?, at(99)?, at(100)?])
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
