//! The shared state behind the watches, the audit log and the case: what each watch has seen, the history and the audit.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::audit::Audit;
use super::bound_claims::BoundClaims;
use super::clock::Clock;
use super::constraints::{Constraints, JudgedConstraints};
use super::facts::{Change, Kind, Names, read};
use super::finding::Finding;
use super::history::History;
use super::judge::Graces;
use super::timers::Excuse;
use super::watch::{KINDS, Known, Reached};
use crate::audit_log::AuditLog;

/// The observer's state.
#[derive(Debug)]
pub(super) struct Core {
    clock: Clock,
    names: Names,
    history: History,
    constraints: Constraints,
    bound_claims: BoundClaims,
    known: BTreeMap<Kind, Known>,
    /// The watches that see nothing at present: since when (milliseconds), and the reason.
    blind: BTreeMap<Kind, (i64, String)>,
    begun: bool,
    /// How often the watch of pods missed versions.
    gaps: u32,
    pub(super) audit: Audit,
    log: Option<AuditLog>,
    /// The first error of the log.
    log_finding: Option<Finding>,
    markers: u64,
    /// When the next beat judges.
    rests_until: i64,
}

impl Core {
    pub(super) fn new(clock: Clock, names: Names, graces: Graces, audit: Audit, constraints: Constraints, log: Option<AuditLog>) -> Self {
        let history = History::new(graces);
        Self {
            clock,
            names,
            history,
            constraints,
            bound_claims: BoundClaims::default(),
            known: BTreeMap::new(),
            blind: BTreeMap::new(),
            begun: false,
            gaps: 0,
            audit,
            log,
            log_finding: None,
            markers: 0,
            rests_until: 0,
        }
    }

    /// Returns whether every kind has been listed once.
    pub(super) fn is_complete(&self) -> bool {
        KINDS.iter().all(|of| self.known.contains_key(&of.0))
    }

    /// Returns the reasons why watches see nothing.
    pub(super) fn why_blind(&self) -> Vec<String> {
        self.blind.values().map(|(_, why)| why.clone()).collect()
    }

    /// Starts the judgement: of bindings from the newest list on, of requests from this moment on.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        self.audit.begins_after(self.clock.now());
        let newest = self.known.values().map(|known| known.newest).max().unwrap_or(0);
        self.history.begins_after(newest);
        self.constraints.begins_after(newest);
    }

    /// Takes a whole list. `first` is true when nothing of this kind was known before; otherwise versions in between were missed.
    pub(super) fn replace(&mut self, kind: Kind, listed: &[DynamicObject], version: Option<u64>, first: bool) {
        self.sees(kind);
        let now = self.clock.now();
        let since = std::mem::replace(&mut self.known.entry(kind).or_default().seen_at, now);
        let uids: BTreeSet<String> = listed.iter().filter_map(ResourceExt::uid).collect();
        if !first {
            self.constraints.replace(kind, listed);
        }
        let known = self.known.entry(kind).or_default();
        let gone: Vec<_> = known.gone(&uids).into_iter().filter_map(|uid| known.objects.remove(&uid)).collect();
        let at_latest = version.unwrap_or(known.newest.saturating_add(1));
        // A name is free before the next object with this name is created. So the old object was deleted before the version of its successor.
        let successors: BTreeMap<_, u64> = listed.iter().map(|object| (name(object), number(object))).collect();
        for (_, object) in gone {
            let deleted_at = successors.get(&name(&object)).map_or(at_latest, |version| at_latest.min(*version));
            self.change(kind, deleted_at, &object, true, false);
        }
        for object in listed {
            let same = self
                .known
                .get(&kind)
                .and_then(|known| known.objects.get(&object.uid()?))
                .is_some_and(|(version, _)| *version == number(object));
            if !same {
                self.event(kind, object, false, first);
            }
        }
        let known = self.known.entry(kind).or_default();
        known.newest = known.newest.max(version.unwrap_or(0));
        let reached = known.newest;
        if kind == Kind::Pod && !first {
            self.gaps = self.gaps.saturating_add(1);
            self.history.add(reached, now, Change::Listed { since });
        }
    }

    /// Takes one version of one object.
    pub(super) fn event(&mut self, kind: Kind, object: &DynamicObject, gone: bool, exact: bool) {
        let (version, uid) = (number(object), object.uid().unwrap_or_default());
        let now = self.clock.now();
        let known = self.known.entry(kind).or_default();
        known.newest = known.newest.max(version);
        known.seen_at = now;
        if gone {
            known.objects.remove(&uid);
        } else {
            known.objects.insert(uid, (version, identity(object)));
        }
        self.change(kind, version, object, gone, exact);
    }

    /// Records that a watch has sent everything up to a resourceVersion (a bookmark).
    pub(super) fn reached(&mut self, kind: Kind, version: &str) {
        let now = self.clock.now();
        let known = self.known.entry(kind).or_default();
        known.newest = known.newest.max(version.parse().unwrap_or(0));
        known.seen_at = now;
    }

    fn change(&mut self, kind: Kind, version: u64, object: &DynamicObject, gone: bool, exact: bool) {
        let now = self.clock.now();
        if let Some(change) = read(&self.names, kind, object, gone, exact) {
            self.history.add(version, now, change);
        }
        self.bound_claims.add(now, kind, object, gone);
        if exact || !self.begun {
            self.constraints.add((version, now), kind, object, gone);
        }
    }

    /// Records that a watch sees nothing, with the reason.
    pub(super) fn blind(&mut self, kind: Kind, why: &str) {
        let since = self.blind.get(&kind).map_or_else(|| self.clock.now(), |(since, _)| *since);
        self.blind.insert(kind, (since, why.to_owned()));
        self.open_excuse(None, None);
    }

    /// Records that a watch sees again. A wrong state gets its whole grace again, because the time at which it became wrong is not known.
    pub(super) fn sees(&mut self, kind: Kind) {
        if self.blind.remove(&kind).is_some() && self.blind.is_empty() {
            self.close_excuse(None, false);
        }
    }

    pub(super) fn excuse(&mut self, check: u8) {
        let now = self.clock.now();
        match check {
            8 => self.audit.excused().begin(now),
            _ => self.open_excuse(Some(check), None),
        }
    }

    pub(super) fn insist(&mut self, check: u8) {
        let now = self.clock.now();
        match check {
            8 => self.audit.excused().end(now),
            _ => self.close_excuse(Some(check), false),
        }
    }

    /// Makes every grace longer by `extra` milliseconds, until [`Core::strict`].
    pub(super) fn patient(&mut self, extra: i64) {
        self.open_excuse(None, Some(extra));
    }

    /// Makes every grace longer by `extra` milliseconds for so long from now on, at most until [`Core::strict`].
    pub(super) fn longer(&mut self, extra: i64) {
        let from = self.clock.now();
        self.history.excuses.push(Excuse { check: None, from, to: Some(from.saturating_add(extra)), at_most: Some(extra) });
    }

    pub(super) fn strict(&mut self) {
        self.close_excuse(None, true);
    }

    /// Records that a program is absent for a reason that is not a fault of the test. Checks 1, 2 and 6 wait for the program, but for one
    /// object at most `at_most` milliseconds, until [`Core::present`]. This excuse is separate from the excuses of the case, so neither
    /// ends the other.
    pub(super) fn absent(&mut self, at_most: i64) {
        [1, 2, 6].into_iter().for_each(|check| self.open_excuse(Some(check), Some(at_most)));
    }

    pub(super) fn present(&mut self) {
        [1, 2, 6].into_iter().for_each(|check| self.close_excuse(Some(check), true));
    }

    fn open_excuse(&mut self, check: Option<u8>, at_most: Option<i64>) {
        let from = self.clock.now();
        let same = |excuse: &Excuse| excuse.check == check && excuse.at_most.is_some() == at_most.is_some() && excuse.at_most >= at_most;
        if !self.history.excuses.iter().any(|excuse| same(excuse) && excuse.to.is_none()) {
            self.history.excuses.push(Excuse { check, from, to: None, at_most });
        }
    }

    fn close_excuse(&mut self, check: Option<u8>, bounded: bool) {
        let now = self.clock.now();
        let same = |excuse: &&mut Excuse| excuse.check == check && excuse.at_most.is_some() == bounded;
        for excuse in self.history.excuses.iter_mut().filter(same).filter(|excuse| excuse.to.is_none_or(|to| to > now)) {
            excuse.to = Some(now);
        }
    }

    /// Reads the log, and judges everything except the last `hold` milliseconds, but for a tenth of the time at most: the watches wait
    /// meanwhile, and what they bring too late makes the whole history be judged again.
    pub(super) fn beat(&mut self, hold: i64) {
        self.read_log();
        let before = self.clock.now();
        if before >= self.rests_until {
            self.judge(hold);
            let after = self.clock.now();
            self.rests_until = after.saturating_add(after.saturating_sub(before).saturating_mul(9));
        }
    }

    /// Reads the log.
    pub(super) fn read_log(&mut self) {
        let now = self.clock.now();
        match self.log.as_mut().map(AuditLog::fresh) {
            Some(Ok(entries)) => entries.iter().for_each(|entry| self.audit.judge(entry, now)),
            Some(Err(error)) if self.log_finding.is_none() => self.log_finding = Some(self.own_finding(&format!("{error:#}"))),
            Some(Err(_)) | None => {}
        }
    }

    /// Judges everything except the last `hold` milliseconds.
    pub(super) fn judge(&mut self, hold: i64) {
        let now = self.clock.now();
        if self.begun {
            let until = now.saturating_sub(hold);
            self.history.settle(until);
            self.constraints.settle(until, false, |at| self.history.forgiven_from(at));
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let judged = self.history.findings().iter().chain(self.constraints.findings()).chain(self.bound_claims.findings());
        let mut all: Vec<Finding> = judged.chain(self.audit.findings()).chain(&self.log_finding).cloned().collect();
        all.sort_by_key(|finding| finding.at);
        all
    }

    pub(super) fn judged_bindings(&self) -> u64 {
        self.history.judged_bindings()
    }

    pub(super) fn judged_evictions(&self) -> u64 {
        self.history.judged_evictions()
    }

    /// Judges the bindings whose batch may not be over.
    pub(super) fn end(&mut self) {
        self.read_log();
        self.judge(0);
        let now = self.clock.now();
        self.constraints.settle(now, true, |at| self.history.forgiven_from(at));
    }

    pub(super) const fn judged_constraints(&self) -> JudgedConstraints {
        self.constraints.counts()
    }

    /// Returns a finding where the audit log has more bindings by the scheduler, before the last marker, than were judged. A pod that was
    /// bound and deleted while the watch missed versions cannot be judged, so a run with such a gap proves less and is not a failure.
    pub(super) fn unjudged(&self) -> Option<Finding> {
        let (bound, judged) = (self.audit.bound_before_marker(), self.judged_bindings());
        (self.gaps == 0 && judged < bound)
            .then(|| self.own_finding(&format!("only {judged} bindings were judged, the audit log has {bound} by the scheduler")))
    }

    /// Returns what is wrong in the present state, under the assumption that the cluster is at rest.
    pub(super) fn at_rest(&mut self) -> Vec<Finding> {
        self.judge(0);
        self.history.at_rest(self.clock.now())
    }

    pub(super) fn own_finding(&self, detail: &str) -> Finding {
        Finding { check: 0, object: "observer".to_owned(), detail: detail.to_owned(), at: self.clock.now() }
    }

    pub(super) fn new_marker(&mut self) -> String {
        self.markers = self.markers.saturating_add(1);
        // The name contains the time, because the log may be older than this observer.
        format!("{}{}-{}", super::MARKER_PREFIX, self.clock.now(), self.markers)
    }

    pub(super) fn has(&self, reached: &Reached) -> bool {
        self.known.get(&reached.kind).is_some_and(|known| known.has(reached))
    }
}

/// Returns the resourceVersion as a number. In one etcd these numbers are ordered across all kinds.
fn number(object: &DynamicObject) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns namespace and name. Two objects of one kind never have the same at one time.
fn name(object: &DynamicObject) -> (Option<String>, Option<String>) {
    (object.namespace(), object.metadata.name.clone())
}

/// Returns the identity of an object, which is enough to report later that it is gone.
fn identity(object: &DynamicObject) -> DynamicObject {
    let mut identity = DynamicObject { types: object.types.clone(), metadata: Default::default(), data: serde_json::Value::Null };
    identity.metadata.name.clone_from(&object.metadata.name);
    identity.metadata.namespace.clone_from(&object.metadata.namespace);
    identity.metadata.uid.clone_from(&object.metadata.uid);
    identity
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
