//! Which findings does a history give? The history, change by change and in order, goes in; findings come out. Pure: time comes with the changes.
//!
//! Checks 3 and 4 are judged at each binding, 1, 2 and 6 by a clock for each object that is wrong, and 5 on demand, because only the one who asks
//! knows that the cluster is at rest.

use std::collections::BTreeSet;

use super::bindings::{over_node, over_queue, wrong_queue};
use super::facts::{Change, Key};
use super::finding::Finding;
use super::standing::{bound, twin, without_group, without_owner, wrong_allocated};
use super::timers::{Excuse, Timers};
use super::world::World;

/// The graces of the checks, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Graces {
    /// Check 1: a write of somebody else is needed.
    pub group: i64,
    /// Check 2: the garbage collector needs time.
    pub owner: i64,
    /// Check 6: how long a gang may be partly bound.
    pub gang: i64,
    /// Checks 3 and 4: how long S may not have seen what others changed.
    pub seen: i64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { group: 5000, owner: 15_000, gang: 10_000, seen: 2000 }
    }
}

/// Nobody is patient for longer with who has not seen what others changed.
const MOST_PATIENT: i64 = 60_000;

/// The judging of one history.
#[derive(Debug)]
pub struct Judge {
    world: World,
    timers: Timers,
    graces: Graces,
    /// Bindings up to this resourceVersion are not judged: not every kind was known then.
    base: u64,
    /// Groups that had minMember members bound at some time.
    satisfied: BTreeSet<Key>,
    findings: Vec<Finding>,
    bindings: u64,
}

impl Judge {
    /// A judge at the beginning of a history.
    pub fn new(graces: Graces, base: u64) -> Self {
        // Twice the grace, so that a state in force at its beginning is surely there; and as long as anybody is patient.
        let world = World { keep: graces.seen.saturating_mul(2).saturating_add(MOST_PATIENT), ..World::default() };
        Self { world, timers: Timers::default(), graces, base, satisfied: BTreeSet::new(), findings: Vec::new(), bindings: 0 }
    }

    /// Everything found so far, in the order of the history.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many bindings were judged.
    pub fn bindings(&self) -> u64 {
        self.bindings
    }

    /// Lets time pass: what has been wrong for too long at `now` becomes a finding.
    pub fn pass(&mut self, now: i64, excuses: &[Excuse]) {
        let graces = self.graces;
        let grace = |check| match check {
            1 => graces.group,
            2 => graces.owner,
            _ => graces.gang,
        };
        self.findings.extend(self.timers.expire(now, grace, excuses));
    }

    /// Takes the next change of the history, which was at a time in milliseconds.
    pub fn take(&mut self, version: u64, at: i64, change: &Change, excuses: &[Excuse]) {
        self.pass(at, excuses);
        let before = self.touched(change);
        let binding = self.is_binding(change);
        self.world.apply(version, at, change, binding);
        if let Change::Pod { uid, .. } = change
            && binding
            && version > self.base
        {
            self.judge_binding(uid, at, excuses);
        }
        let after = self.touched(change);
        for group in before.groups.union(&after.groups) {
            self.look_at_group(group, at);
        }
        for pod in before.pods.union(&after.pods) {
            self.look_at_pod(pod, at);
        }
    }

    /// What is wrong with the present state, with no grace for 1 and 2, and with check 5.
    pub fn at_rest(&self, now: i64) -> Vec<Finding> {
        let mut wrong: Vec<Finding> = self.timers.standing(now).into_iter().filter(|finding| finding.check != 6).collect();
        wrong.extend(wrong_allocated(&self.world).into_iter().map(|(queue, detail)| Finding {
            check: 5,
            object: format!("queue {queue}"),
            detail,
            at: now,
        }));
        wrong
    }

    /// A pod of S that was seen without a node and now has one.
    fn is_binding(&self, change: &Change) -> bool {
        let Change::Pod { uid, now: Some(now), exact: true } = change else { return false };
        now.ours && now.node.is_some() && self.world.pod(uid).is_some_and(|before| before.node.is_none())
    }

    fn judge_binding(&mut self, uid: &str, at: i64, excuses: &[Excuse]) {
        self.bindings = self.bindings.saturating_add(1);
        // While faults are injected a watch may tell of what others changed that much later, and a binding may land that much later.
        let patient = excuses.iter().filter(|excuse| excuse.check.is_none() && excuse.from <= at && excuse.to.is_none_or(|to| at <= to));
        let longer = patient.filter_map(|excuse| excuse.at_most).max().unwrap_or(0).min(MOST_PATIENT);
        let from = at.saturating_sub(self.graces.seen.saturating_add(longer));
        let object = self.pod_name(uid);
        let faults =
            [(3, over_node(&self.world, uid, from)), (4, over_queue(&self.world, uid, from)), (4, wrong_queue(&self.world, uid, from))];
        for (check, detail) in faults.into_iter().filter_map(|(check, detail)| Some((check, detail?))) {
            self.findings.push(Finding { check, object: object.clone(), detail, at });
        }
    }

    /// The pods and groups whose state a change can alter, found in the present world (asked before and after it is applied).
    fn touched(&self, change: &Change) -> Touched {
        let mut touched = Touched::default();
        match change {
            Change::Pod { uid, .. } => {
                touched.pods.insert(uid.clone());
                touched.groups.extend(self.world.pod(uid).map(|pod| pod.group.clone()));
                touched.groups.extend(self.world.owned.get(uid).into_iter().flatten().cloned());
            }
            Change::Group { key, .. } => {
                touched.groups.insert(key.clone());
                touched.pods.extend(self.world.members.get(key).into_iter().flatten().cloned());
            }
            Change::Owner { uid, .. } => touched.groups.extend(self.world.owned.get(uid).into_iter().flatten().cloned()),
            Change::Namespace { name, .. } => {
                let inside = self.world.pods.keys().filter(|uid| self.world.pod(uid).is_some_and(|pod| pod.key.0 == *name));
                touched.pods.extend(inside.cloned());
            }
            Change::Queue { .. } | Change::Node { .. } => {}
        }
        touched
    }

    /// Checks 2 and 6 for one group.
    fn look_at_group(&mut self, key: &Key, at: i64) {
        let object = format!("podgroup {}/{}", key.0, key.1);
        self.timers.set(2, object.clone(), at, without_owner(&self.world, key));
        if let Some(detail) = twin(&self.world, key) {
            let finding = Finding { check: 2, object: object.clone(), detail, at };
            if !self.findings.iter().any(|known| known.check == 2 && known.object == finding.object && known.detail == finding.detail) {
                self.findings.push(finding);
            }
        }
        let (all, staying) = bound(&self.world, key);
        let Some(wanted) = self.world.group(key).map(|group| group.min_member) else {
            // With its last bound member a group that is gone is forgotten: what comes later under its name must be satisfied anew.
            if all == 0 {
                self.satisfied.remove(key);
            }
            self.timers.set(6, object, at, None);
            return;
        };
        if all > 0 && all >= wanted {
            self.satisfied.insert(key.clone());
        }
        let partly = staying > 0 && !self.satisfied.contains(key);
        self.timers.set(6, object, at, partly.then(|| format!("never satisfied, and {staying} of {wanted} members bound")));
    }

    /// Check 1 for one pod.
    fn look_at_pod(&mut self, uid: &str, at: i64) {
        let wrong = without_group(&self.world, uid);
        // By UID as well: a pod that was made again under its name is another one.
        let object = match self.world.pod(uid) {
            Some(_) => self.pod_name(uid),
            None => {
                self.timers.forget(1, uid);
                return;
            }
        };
        self.timers.set(1, object, at, wrong);
    }

    fn pod_name(&self, uid: &str) -> String {
        self.world.pod(uid).map(|pod| format!("pod {}/{} ({uid})", pod.key.0, pod.key.1)).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Touched {
    pods: BTreeSet<String>,
    groups: BTreeSet<Key>,
}
