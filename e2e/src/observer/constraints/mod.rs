//! Check 10: does a binding by the scheduler violate a constraint of its pod, or of the pods that are there? Check 11: can the node mount
//! its volumes?
//!
//! kube-scheduler's own filters are asked (`e2e/tools/oracle`): affinity and anti-affinity, spread, host ports, node affinity, taints,
//! declared features, and for check 11 those of volumes. kube-scheduler accepts a node for a claim that has no volume yet; here a pod is
//! bound after its claims, so such a claim is a finding. Resources are check 3 and are left out of the question. So are nominated nodes,
//! and which nodes a pod prefers: the oracle tests of the scheduler compare those.
//!
//! ```text
//!   events ─► log (by resourceVersion) ─► batch of bindings ─► for each binding: the states that the scheduler may have seen ─► oracle
//! ```
//!
//! * The scheduler decides on several pods at once, and their bindings arrive in any order. Bindings within a second of each other are one
//!   batch. Members of a batch are accepted one after another, each beside those that were accepted before it; what no order accepts is a
//!   finding.
//! * kube-scheduler reads a `namespaceSelector` that a namespace without labels matches as every namespace. It is asked with the namespaces
//!   by name ([`namespaces`]).
//! * Changes by *other* clients in the last moments are forgiven: one of the recent states must accept the binding. What the scheduler
//!   bound itself counts at once.
//!
//! A batch that cannot be judged is counted: in a large cluster, after a watch missed versions, or with too many recent states.

mod namespaces;
mod objects;
mod oracle;
mod recent;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::Value;

use super::facts::{Kind, Release};
use super::finding::Finding;
use objects::{Objects, is_bound, stripped, without_node};
use oracle::Oracle;
use recent::{Entry, Recent};

/// How far apart the bindings of one batch are at most, in milliseconds.
const PAUSE: i64 = 1000;
/// How long the log is kept, in milliseconds: longer than any grace.
const KEEP: i64 = 70_000;
/// The most nodes, pods, members of a batch and recent states with which a batch is judged.
const MOST_NODES: usize = 64;
const MOST_PODS: usize = 500;
const MOST_MEMBERS: usize = 100;
const MOST_STATES: usize = 200;

/// The filters of check 11.
const VOLUME_FILTERS: [&str; 4] = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];

/// How many bindings were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JudgedConstraints {
    /// Of pods with a constraint of their own.
    pub constrained: u64,
    /// Of other pods, which constraints of others or of nodes may keep away.
    pub others: u64,
    /// Of pods that could not be judged.
    pub unjudged: u64,
}

impl JudgedConstraints {
    /// Returns the counts of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            constrained: self.constrained.saturating_add(other.constrained),
            others: self.others.saturating_add(other.others),
            unjudged: self.unjudged.saturating_add(other.unjudged),
        }
    }
}

impl fmt::Display for JudgedConstraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { constrained, others, unjudged } = self;
        write!(f, "bindings judged by constraints: {constrained} of pods with constraints, {others} of other pods; not judged: {unjudged}")
    }
}

/// Judges bindings by what they require of nodes and of other pods.
#[derive(Debug)]
pub(super) struct Constraints {
    oracle: Option<Oracle>,
    schedulers: BTreeMap<String, Release>,
    recent: Recent,
    /// Bindings up to this resourceVersion are judged, or are from before the beginning.
    judged_to: u64,
    /// The pods that the schedulers bound a short time ago, in order.
    bound: Vec<(Release, Entry)>,
    counts: JudgedConstraints,
    findings: Vec<Finding>,
}

impl Constraints {
    /// Starts the oracle, if there is one. Without it nothing is judged.
    pub(super) fn start(oracle: Option<&Path>, schedulers: BTreeMap<String, Release>) -> std::io::Result<Self> {
        let oracle = oracle.map(Oracle::start).transpose()?;
        let (recent, counts) = (Recent::default(), JudgedConstraints::default());
        Ok(Self { oracle, schedulers, recent, judged_to: 0, bound: Vec::new(), counts, findings: Vec::new() })
    }

    pub(super) fn begins_after(&mut self, version: u64) {
        self.judged_to = self.judged_to.max(version);
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) const fn counts(&self) -> JudgedConstraints {
        self.counts
    }

    /// Takes one version of one object that arrived at a time in milliseconds.
    pub(super) fn add(&mut self, (version, at): (u64, i64), kind: Kind, object: &DynamicObject, gone: bool) {
        let Some(key) = objects::key(kind, object).filter(|_| self.oracle.is_some()) else { return };
        let now = (!gone && !objects::is_absent(kind, object)).then(|| Arc::new(stripped(kind, object)));
        let binds = now.as_ref().is_some_and(|pod| is_bound(pod)) && self.recent.newest_pod(&key).is_some_and(|before| !is_bound(before));
        let scheduler = object.data.pointer("/spec/schedulerName").and_then(Value::as_str).unwrap_or_default();
        let binding = self.schedulers.get(scheduler).copied().filter(|_| kind == Kind::Pod && binds);
        self.recent.add(Entry { version, at, kind, key, now, binding });
    }

    /// The watch of this kind missed versions: nothing is known of bindings meanwhile, and these objects are there now.
    pub(super) fn replace(&mut self, kind: Kind, listed: &[DynamicObject]) {
        if self.oracle.is_none() {
            return;
        }
        let there = listed.iter().filter(|object| !objects::is_absent(kind, object));
        let all = there.filter_map(|object| Some((objects::key(kind, object)?, Arc::new(stripped(kind, object))))).collect();
        let missed = self.recent.replace(kind, all, self.judged_to);
        self.counts.unjudged = self.counts.unjudged.saturating_add(missed);
        self.bound.clear();
    }

    /// Judges the batches that ended a grace ago. `from` returns since when changes by others are forgiven to what is seen at a time. With
    /// `all`, later members of a batch are not waited for.
    pub(super) fn settle(&mut self, until: i64, all: bool, from: impl Fn(i64) -> i64) {
        let Some(mut oracle) = self.oracle.take() else { return };
        while let Some(batch) = self.recent.next_batch(self.judged_to, PAUSE, (!all).then_some(until)) {
            self.judged_to = batch.iter().map(|entry| entry.version).max().unwrap_or(self.judged_to);
            let first = batch.first().map_or(until, |entry| entry.at);
            let (pods, nodes) = self.recent.size();
            let small = batch.len() <= MOST_MEMBERS && pods <= MOST_PODS && nodes <= MOST_NODES;
            match small.then(|| self.recent.states(from(first), self.judged_to, MOST_STATES)).flatten() {
                Some(states) => self.judge(&batch, &states, &mut oracle),
                None => {
                    let size = u64::try_from(batch.len()).unwrap_or(u64::MAX);
                    self.counts.unjudged = self.counts.unjudged.saturating_add(size);
                }
            }
            self.bound.extend(batch.into_iter().filter_map(|entry| Some((entry.binding?, entry))));
        }
        self.oracle = Some(oracle);
        let over = until.saturating_sub(KEEP);
        self.bound.retain(|(_, entry)| entry.at > over);
        self.recent.forget_before(over, self.judged_to);
    }

    /// Accepts the members of a batch one after another, as long as there is one that the states accept.
    fn judge(&mut self, batch: &[Entry], states: &[(u64, Objects)], oracle: &mut Oracle) {
        let members: BTreeSet<&str> = batch.iter().map(|entry| entry.key.as_str()).collect();
        let mut left: Vec<&Entry> = batch.iter().collect();
        let mut accepted: Vec<&Entry> = Vec::new();
        let mut why: BTreeMap<&str, Refusal> = BTreeMap::new();
        loop {
            let before = left.len();
            let mut again = Vec::new();
            for entry in left {
                // A pod that is gone since it was bound is not in the way of others.
                let last = states.iter().rev().find(|(version, _)| *version < entry.version);
                let is_there = |bound: &Entry| last.is_some_and(|(_, state)| state.pods.get(&bound.key).is_some_and(|pod| is_bound(pod)));
                let earlier = self.bound.iter().filter(|(release, bound)| Some(*release) == entry.binding && is_there(bound));
                let earlier = earlier.map(|(_, bound)| bound);
                let of_batch = accepted.iter().copied().filter(|bound| bound.version > entry.version || is_there(bound));
                let beside: Vec<&Entry> = earlier.chain(of_batch).collect();
                match refusal(entry, states, &members, &beside, oracle) {
                    Ok(None) => accepted.push(entry),
                    Ok(Some(refusal)) => {
                        why.insert(&entry.key, refusal);
                        again.push(entry);
                    }
                    Err(error) => {
                        let (check, object, detail) = (0, "observer".to_owned(), format!("the oracle: {error}"));
                        self.findings.push(Finding { check, object, detail, at: entry.at });
                        return;
                    }
                }
            }
            left = again;
            if left.is_empty() || left.len() == before {
                break;
            }
        }
        for entry in batch {
            let has_own = entry.now.as_ref().is_some_and(|pod| objects::has_constraints(pod));
            let count = if has_own { &mut self.counts.constrained } else { &mut self.counts.others };
            *count = count.saturating_add(1);
        }
        for entry in left {
            let Refusal { check, words } = why.remove(entry.key.as_str()).unwrap_or_default();
            let name = |field: &str| entry.now.as_ref().and_then(|pod| Some(pod.get("metadata")?.get(field)?.as_str()?.to_owned()));
            let object = format!("pod {}/{} ({})", name("namespace").unwrap_or_default(), name("name").unwrap_or_default(), entry.key);
            let detail = format!("the filters of kube-scheduler refuse its node {words}");
            self.findings.push(Finding { check, object, detail, at: entry.at });
        }
    }
}

/// Why a node is refused.
#[derive(Debug, Default)]
struct Refusal {
    check: u8,
    words: String,
}

/// Returns why every state refuses the binding, in the words for the newest; none where a state accepts it, or has no such node.
fn refusal(
    entry: &Entry,
    states: &[(u64, Objects)],
    members: &BTreeSet<&str>,
    beside: &[&Entry],
    oracle: &mut Oracle,
) -> Result<Option<Refusal>, String> {
    let Some((bound, node)) = entry.now.as_ref().and_then(|pod| Some((pod, pod.pointer("/spec/nodeName")?.as_str()?))) else {
        return Ok(None);
    };
    let mut why = None;
    let known = states.iter().rev().filter(|(version, state)| *version < entry.version && state.nodes.contains_key(node));
    for (_, state) in known {
        let there = state.bound().filter(|(uid, _)| !members.contains(uid.as_str())).map(|(_, pod)| pod);
        // What the scheduler has bound itself counts at once, also where a state is from before that.
        let is_there = |other: &Entry| !members.contains(other.key.as_str()) && state.pods.get(&other.key).is_some_and(|pod| is_bound(pod));
        let own = beside.iter().filter(|other| !is_there(other) && other.key != entry.key).filter_map(|other| other.now.as_ref());
        let pods: Vec<&Arc<Value>> = there.chain(own).filter(|pod| state.has_node_of(pod)).collect();
        let asked = namespaces::named(without_node(state.pods.get(&entry.key).unwrap_or(bound)), &state.namespaces);
        let unbound = state.unbound_claim(&asked).map(|claim| format!("VolumeBinding: claim {claim} is not bound"));
        let Some(words) = unbound.map_or_else(|| oracle.refuses(state, &pods, &asked, node), |words| Ok(Some(words)))? else {
            return Ok(None);
        };
        let check = if VOLUME_FILTERS.iter().any(|filter| words.starts_with(filter)) { 11 } else { 10 };
        why.get_or_insert_with(|| Refusal { check, words: format!("{node}: {words}") });
    }
    Ok(why)
}

#[cfg(test)]
mod tests;
