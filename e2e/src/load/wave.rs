//! What does one wave (all made, all scaled to 0, all back) cost the controller, and what may it cost?
//!
//! The counts hold on every machine and are asserted; seconds, processor time and memory are told.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;

use super::calls::{Call, count};
use super::counters::Counters;
use super::process::{self, Memory};
use super::stage::{Stage, controller, refused};

/// What one wave came to.
#[derive(Debug)]
pub struct Wave {
    /// Its name in the table.
    pub name: &'static str,
    /// The controller's calls by kind, without its upkeep.
    pub calls: BTreeMap<String, u64>,
    /// Seconds from the last change of a ReplicaSet to the last write of the controller on a PodGroup; negative if that came first.
    pub behind: f64,
    /// Seconds from the first request of the wave to the last write on a PodGroup.
    pub took: f64,
    /// Milliseconds from the change of a ReplicaSet to its PodGroup's creation: the median, the 99th of 100, and the longest; none where none was made.
    pub each: Option<[f64; 3]>,
    /// The controller's processor time in seconds.
    pub processor: f64,
    /// The controller's memory.
    pub memory: Memory,
    /// What speaks against it.
    pub wrong: Vec<String>,
}

/// The moment before a wave.
pub struct Before {
    counters: Counters,
    processor: f64,
    pid: u32,
}

impl Before {
    /// Now.
    pub async fn of(stage: &Stage) -> Result<Self> {
        let pid = stage.controller_pid()?;
        process::forget_peak(pid)?;
        Ok(Self { counters: Counters::read(stage.cluster()).await?, processor: process::processor_seconds(pid)?, pid })
    }

    /// The wave between then and now, of which `calls` are all calls; the controller may have made `allowed` of each kind, and no others.
    pub async fn until_now(self, stage: &mut Stage, name: &'static str, calls: &[Call], allowed: &[(&'static str, u64)]) -> Result<Wave> {
        let grown = Counters::read(stage.cluster()).await?.since(&self.counters);
        let user = controller();
        let upkeep = |call: &&Call| call.user == user && !call.is_upkeep();
        let own: Vec<Call> = calls.iter().filter(upkeep).cloned().collect();
        let counts = count(&own, &user);
        let mut wrong = wrong_counts(&counts, allowed);
        wrong.extend(disagreement(&counts, &grown));
        wrong.extend(refused(calls));
        wrong.extend(stage.ended());
        let changes = |call: &&Call| call.what == "replicasets" && matches!(call.verb.as_str(), "create" | "update" | "patch");
        let writes = |call: &&Call| call.what == "podgroups" && matches!(call.verb.as_str(), "create" | "delete" | "patch");
        let first = calls.iter().map(|call| call.began).min();
        let last_change = calls.iter().filter(changes).map(|call| call.ended).max();
        let last_write = own.iter().filter(writes).map(|call| call.ended).max();
        Ok(Wave {
            name,
            calls: counts,
            behind: seconds_between(last_change, last_write),
            took: seconds_between(first, last_write),
            each: latencies(calls.iter().filter(changes), &own),
            processor: process::processor_seconds(self.pid)? - self.processor,
            memory: process::memory(self.pid)?,
            wrong,
        })
    }
}

/// What is more, or less, than it may be, or of a kind that is not allowed at all.
pub fn wrong_counts(counts: &BTreeMap<String, u64>, allowed: &[(&'static str, u64)]) -> Vec<String> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = counts.iter().map(|(kind, made)| (kind.as_str(), (*made, 0))).collect();
    for (kind, allowed) in allowed {
        kinds.entry(kind).or_default().1 = *allowed;
    }
    let wrong = kinds.into_iter().filter(|(_, (made, allowed))| made != allowed);
    wrong.map(|(kind, (made, allowed))| format!("{made} × {kind} instead of {allowed}")).collect()
}

/// The metrics of the API server know no user, but creations and deletions of PodGroups are the controller's alone here (they lie under `default`), and nobody
/// patches pods but their status: both witnesses must say the same.
fn disagreement(counts: &BTreeMap<String, u64>, grown: &BTreeMap<String, u64>) -> Vec<String> {
    let pairs = [("create podgroups", "POST podgroups"), ("delete podgroups", "DELETE podgroups"), ("patch pods", "PATCH pods")];
    let said = |counts: &BTreeMap<String, u64>, kind: &str| counts.get(kind).copied().unwrap_or_default();
    let differ =
        pairs.iter().map(|(ours, theirs)| (ours, said(counts, ours), said(grown, theirs))).filter(|(_, ours, theirs)| ours != theirs);
    differ.map(|(kind, ours, theirs)| format!("{kind}: {ours} in the audit log, {theirs} in the API server's metrics")).collect()
}

fn latencies<'a>(changes: impl Iterator<Item = &'a Call>, own: &[Call]) -> Option<[f64; 3]> {
    let mut changed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for change in changes {
        changed.insert(&change.name, change.ended);
    }
    let created = own.iter().filter(|call| call.kind() == "create podgroups");
    let mut millis: Vec<f64> =
        created.filter_map(|call| Some(seconds_between(changed.get(call.owner.as_str()).copied(), Some(call.ended)) * 1000.0)).collect();
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
    fn one_call_too_many_too_few_or_of_another_kind_is_said() {
        let counts = |kind: &str, made| BTreeMap::from([(kind.to_owned(), made)]);
        assert_eq!(wrong_counts(&counts("create podgroups", 5), &[("create podgroups", 5)]), Vec::<String>::new());
        assert_eq!(wrong_counts(&counts("create podgroups", 6), &[("create podgroups", 5)]).len(), 1);
        assert_eq!(wrong_counts(&BTreeMap::new(), &[("create podgroups", 5)]).len(), 1);
        assert_eq!(wrong_counts(&counts("patch pods", 1), &[]).len(), 1);
        assert_eq!(disagreement(&counts("create podgroups", 5), &counts("POST podgroups", 6)).len(), 1);
    }
}
