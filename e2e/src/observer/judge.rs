//! Turns a history into findings: changes go in one by one and in order, findings come out. Pure: the time comes with each change.
//!
//! Checks 3 and 4 are judged at each binding, check 9 at each eviction. Checks 1, 2, 6 and a part of 9 use a timer for each object in a wrong state.
//! Check 5 is judged on demand, because only the caller knows that the cluster is at rest.

use std::collections::BTreeSet;

use super::bindings::{over_node, over_queue, wrong_queue};
use super::evictions::Evictions;
use super::facts::{Change, Key, PodFact};
use super::finding::Finding;
use super::gangs::Gangs;
use super::object_checks::{twin, without_group, without_owner, wrong_allocated};
use super::state::ClusterState;
use super::timers::{Excuse, Timers};

/// The grace of each check, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Graces {
    /// Check 1: another client has to write first. An API server that (re)initializes its storage asks it to wait for 10 s.
    pub group: i64,
    /// Check 2: the garbage collector needs time.
    pub owner: i64,
    /// Check 6: how long a gang may be partially bound.
    pub gang: i64,
    /// Check 9: how long after an eviction another pod is bound.
    pub eviction: i64,
    /// Checks 3 and 4: how long the scheduler may be behind with changes by other clients.
    pub seen: i64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { group: 15_000, owner: 15_000, gang: 30_000, eviction: 15_000, seen: 2000 }
    }
}

/// The upper limit for longer graces of checks 3 and 4, in milliseconds.
const MAX_EXTRA_GRACE: i64 = 60_000;

/// Judges one history.
#[derive(Debug)]
pub struct Judge {
    state: ClusterState,
    timers: Timers,
    graces: Graces,
    /// Bindings up to this resourceVersion are not judged: at that time not every kind was known.
    base: u64,
    gangs: Gangs,
    evictions: Evictions,
    /// The pods that were bound while their watch missed versions, until the end of the list.
    unplaced: Vec<String>,
    findings: Vec<Finding>,
    bindings: u64,
}

impl Judge {
    /// Creates a judge at the beginning of a history.
    pub fn new(graces: Graces, base: u64) -> Self {
        // Twice the grace, so that the state in force at the start of the grace is certainly kept, plus the longest extra grace.
        let state = ClusterState { keep: graces.seen.saturating_mul(2).saturating_add(MAX_EXTRA_GRACE), ..ClusterState::default() };
        Self {
            state,
            timers: Timers::default(),
            graces,
            base,
            gangs: Gangs::default(),
            evictions: Evictions::default(),
            unplaced: Vec::new(),
            findings: Vec::new(),
            bindings: 0,
        }
    }

    /// Returns all findings so far, in the order of the history.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns how many bindings were judged.
    pub fn bindings(&self) -> u64 {
        self.bindings
    }

    /// Returns how many evictions were judged. Those of a part of a gang that was not satisfied are not among them.
    pub fn evictions(&self) -> u64 {
        self.evictions.judged()
    }

    /// Moves the time to `now`. A state that has been wrong for longer than its grace becomes a finding.
    pub fn pass(&mut self, now: i64, excuses: &[Excuse]) {
        let graces = self.graces;
        let grace = |check| match check {
            1 => graces.group,
            2 => graces.owner,
            9 => graces.eviction,
            _ => graces.gang,
        };
        self.findings.extend(self.timers.expire(now, grace, excuses));
    }

    /// Applies the next change of the history, which happened at a time in milliseconds.
    pub fn take(&mut self, version: u64, at: i64, change: &Change, excuses: &[Excuse]) {
        self.pass(at, excuses);
        let before = self.touched(change);
        let (binding, eviction) = (self.is_binding(change), self.is_eviction(change));
        let waited = self.stops_to_wait(change);
        self.state.apply(version, at, change, binding != Binding::None);
        if let Some(pod) = &waited {
            self.evictions.waits_no_more(&self.state, pod, at);
        }
        if version > self.base {
            let from = self.forgiven_from(at, excuses);
            match change {
                Change::Pod { uid, now: Some(pod), .. } if binding == Binding::Seen => {
                    self.gangs.bound(&self.state, &pod.group, from);
                    self.judge_binding(uid, at, from);
                }
                Change::Pod { uid, .. } if binding == Binding::Listed => self.unplaced.push(uid.clone()),
                Change::Pod { uid, .. } if eviction => self.judge_eviction(uid, at, from),
                Change::Listed { since } => self.judge_listed(at, from.min(since.saturating_sub(self.graces.seen))),
                Change::Pod { .. }
                | Change::Group { .. }
                | Change::Queue { .. }
                | Change::Node { .. }
                | Change::Owner { .. }
                | Change::Namespace { .. } => {}
            }
        }
        self.follow_evictions(change, waited.is_some(), at);
        let after = self.touched(change);
        for group in before.groups.union(&after.groups) {
            self.check_group(group, at);
        }
        for pod in before.pods.union(&after.pods) {
            self.check_pod(pod, at);
        }
    }

    /// Returns what is wrong with the present state, without a grace for checks 1 and 2, and with check 5.
    pub fn at_rest(&self, now: i64) -> Vec<Finding> {
        let mut wrong: Vec<Finding> = self.timers.standing(now).into_iter().filter(|finding| !matches!(finding.check, 6 | 9)).collect();
        wrong.extend(wrong_allocated(&self.state).into_iter().map(|(queue, detail)| Finding {
            check: 5,
            object: format!("queue {queue}"),
            detail,
            at: now,
        }));
        wrong
    }

    /// Returns whether a change is a binding: a pod of the scheduler that had no node and now has one. A pod that was never seen without a
    /// node is one where it has the annotation that a binding writes.
    fn is_binding(&self, change: &Change) -> Binding {
        let Change::Pod { uid, now: Some(now), exact } = change else { return Binding::None };
        if now.served.is_none() || now.node.is_none() {
            return Binding::None;
        }
        match (self.state.pod(uid), exact) {
            (Some(before), true) if before.node.is_none() => Binding::Seen,
            (Some(before), false) if before.node.is_none() => Binding::Listed,
            (None, false) if now.queue.is_some() => Binding::Listed,
            (None | Some(_), _) => Binding::None,
        }
    }

    /// Returns whether a change is an eviction: a bound pod of the scheduler that the Eviction API was asked to remove.
    fn is_eviction(&self, change: &Change) -> bool {
        let Change::Pod { uid, now: Some(now), exact: true } = change else { return false };
        now.served.is_some() && now.evicted && self.state.pod(uid).is_some_and(|before| before.stays() && !before.evicted)
    }

    /// Returns the pod of a change after which the pod waits no more for a node: it is bound, terminates or is deleted.
    fn stops_to_wait(&self, change: &Change) -> Option<PodFact> {
        let Change::Pod { uid, now, .. } = change else { return None };
        let before = self.state.pod(uid).filter(|before| before.waits())?;
        (!now.as_ref().is_some_and(|now| now.waits())).then(|| before.clone())
    }

    /// Judges the bindings that a list has shown, in the state at the end of the list: every pod that exists then was there when the last
    /// of them was bound.
    fn judge_listed(&mut self, at: i64, from: i64) {
        let from = from.max(at.saturating_sub(self.state.keep));
        for uid in std::mem::take(&mut self.unplaced) {
            if self.state.pod(&uid).is_some() {
                self.judge_binding(&uid, at, from);
            }
        }
    }

    /// Judges an eviction. A part of a gang that is not satisfied is released; only its gang is judged.
    fn judge_eviction(&mut self, uid: &str, at: i64, from: i64) {
        let Some(group) = self.state.pod(uid).map(|pod| pod.group.clone()) else { return };
        let released = self.state.group(&group).is_some() && !self.gangs.is_satisfied(&group);
        self.gangs.evicted(&self.state, &group, uid);
        if !released {
            let object = self.pod_name(uid);
            let wrong = self.evictions.evicted(&self.state, uid, from);
            self.findings.extend(wrong.into_iter().map(|detail| Finding { check: 9, object: object.clone(), detail, at }));
        }
    }

    /// Starts the timer of an evicted pod when it is gone, and ends the timers of those for which another pod was bound or nothing waits any more.
    fn follow_evictions(&mut self, change: &Change, waited: bool, at: i64) {
        let Change::Pod { uid, now, .. } = change else { return };
        if self.evictions.is_open(uid) && now.as_ref().is_none_or(|now| now.ended) {
            let wrong = "evicted for nothing: since it is gone no pod of another PodGroup was bound";
            self.timers.set(9, format!("evicted pod ({uid})"), at, Some(wrong.to_owned()));
        }
        if waited {
            let bound = now.as_ref().filter(|now| now.node.is_some()).map(|now| now.group.clone());
            let mut over = bound.map(|group| self.evictions.bound(&group)).unwrap_or_default();
            over.extend(self.evictions.withdrawn(&self.state));
            over.iter().for_each(|uid| self.timers.forget(9, uid));
        }
    }

    /// Returns the time since which changes by other clients are forgiven to a decision of the scheduler that is seen now.
    pub fn forgiven_from(&self, at: i64, excuses: &[Excuse]) -> i64 {
        // While faults are injected, the scheduler may see a change of another client later, and its binding may arrive later.
        let patient = excuses.iter().filter(|excuse| excuse.check.is_none() && excuse.from <= at && excuse.to.is_none_or(|to| at <= to));
        let longer = patient.filter_map(|excuse| excuse.at_most).max().unwrap_or(0).min(MAX_EXTRA_GRACE);
        at.saturating_sub(self.graces.seen.saturating_add(longer))
    }

    /// Judges a binding. Changes by other clients since `from` are forgiven.
    fn judge_binding(&mut self, uid: &str, at: i64, from: i64) {
        self.bindings = self.bindings.saturating_add(1);
        let object = self.pod_name(uid);
        let faults =
            [(3, over_node(&self.state, uid, from)), (4, over_queue(&self.state, uid, from)), (4, wrong_queue(&self.state, uid, from))];
        for (check, detail) in faults.into_iter().filter_map(|(check, detail)| Some((check, detail?))) {
            self.findings.push(Finding { check, object: object.clone(), detail, at });
        }
    }

    /// Returns the pods and PodGroups that a change can alter, according to the present state. It is called before and after the change is applied.
    fn touched(&self, change: &Change) -> Touched {
        let mut touched = Touched::default();
        match change {
            Change::Pod { uid, .. } => {
                touched.pods.insert(uid.clone());
                touched.groups.extend(self.state.pod(uid).map(|pod| pod.group.clone()));
                touched.groups.extend(self.state.owned.get(uid).into_iter().flatten().cloned());
            }
            Change::Group { key, .. } => {
                touched.groups.insert(key.clone());
                touched.pods.extend(self.state.members.get(key).into_iter().flatten().cloned());
            }
            Change::Owner { uid, .. } => touched.groups.extend(self.state.owned.get(uid).into_iter().flatten().cloned()),
            Change::Namespace { name, .. } => {
                let inside = self.state.pods.keys().filter(|uid| self.state.pod(uid).is_some_and(|pod| pod.key.0 == *name));
                touched.pods.extend(inside.cloned());
            }
            Change::Queue { .. } | Change::Node { .. } | Change::Listed { .. } => {}
        }
        touched
    }

    /// Applies checks 2 and 6 to one PodGroup.
    fn check_group(&mut self, key: &Key, at: i64) {
        let object = format!("podgroup {}/{}", key.0, key.1);
        self.timers.set(2, object.clone(), at, without_owner(&self.state, key));
        if let Some(detail) = twin(&self.state, key) {
            let finding = Finding { check: 2, object: object.clone(), detail, at };
            if !self.findings.iter().any(|known| known.check == 2 && known.object == finding.object && known.detail == finding.detail) {
                self.findings.push(finding);
            }
        }
        let partly = self.gangs.check(&self.state, key);
        self.timers.set(6, object, at, partly);
    }

    /// Applies check 1 to one pod.
    fn check_pod(&mut self, uid: &str, at: i64) {
        let wrong = without_group(&self.state, uid);
        // The name includes the UID: a pod that was recreated with the same name is another pod.
        let object = match self.state.pod(uid) {
            Some(_) => self.pod_name(uid),
            None => {
                self.timers.forget(1, uid);
                return;
            }
        };
        self.timers.set(1, object, at, wrong);
    }

    fn pod_name(&self, uid: &str) -> String {
        self.state.pod(uid).map(|pod| format!("pod {}/{} ({uid})", pod.key.0, pod.key.1)).unwrap_or_default()
    }
}

/// Whether a change is a binding by the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    None,
    /// It was seen at its place in the history.
    Seen,
    /// It happened at some time before the list that shows it.
    Listed,
}

#[derive(Debug, Default)]
struct Touched {
    pods: BTreeSet<String>,
    groups: BTreeSet<Key>,
}
