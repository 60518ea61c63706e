//! Reads requests from the API server's audit log: user, kind and times. The log knows the user of each request and when the server received and answered it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::observer::tail::Tail;
use crate::wait::{millis, secs};

/// Without a call for this time a program is calm. It is longer than the second for which an idle PodGroup is kept, and than any request takes.
const CALM: std::time::Duration = millis(2500);

/// One answered request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The user.
    pub user: String,
    /// `create`, `patch`, ….
    pub verb: String,
    /// The resource: `podgroups`, `pods/binding`; the path for a request without a resource.
    pub what: String,
    /// The name of the object; empty for collections.
    pub name: String,
    /// The name of the first owner in the body, if the log contains bodies (PodGroups).
    pub owner: String,
    /// The status code of the response.
    pub code: u64,
    /// When the server received it.
    pub began: Timestamp,
    /// When the server had answered it.
    pub ended: Timestamp,
}

impl Call {
    /// Returns verb and resource, as in `create podgroups`.
    pub fn kind(&self) -> String {
        format!("{} {}", self.verb, self.what)
    }

    /// Returns whether a controller makes this call also when nothing happens: renewals of its lease, and watches that the server ended.
    pub fn is_upkeep(&self) -> bool {
        self.what == "leases" || self.verb == "watch"
    }

    fn parse(line: &str) -> Option<Self> {
        let entry: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (resource, subresource) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let what = match (resource.is_empty(), subresource.is_empty()) {
            (true, _) => text("/requestURI"),
            (false, true) => resource,
            (false, false) => format!("{resource}/{subresource}"),
        };
        Some(Self {
            user: text("/user/username"),
            verb: text("/verb"),
            what,
            name: text("/objectRef/name"),
            owner: text("/requestObject/metadata/ownerReferences/0/name"),
            code: entry.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
            began: text("/requestReceivedTimestamp").parse().ok()?,
            ended: text("/stageTimestamp").parse().ok()?,
        })
    }
}

/// Reads the log from a position on.
pub struct Log(Tail);

impl Log {
    /// Starts at the present end of the log.
    pub fn from_now(path: PathBuf) -> Result<Self> {
        let mut log = Self(Tail::new(path));
        log.0.lines().context("reading the audit log")?;
        Ok(log)
    }

    /// Returns the requests that were answered since the last call.
    pub fn fresh(&mut self) -> Result<Vec<Call>> {
        Ok(self.0.lines()?.iter().filter_map(|line| Call::parse(line)).collect())
    }

    /// Returns all requests since the last call, when `user` has been calm (except its upkeep) for a while.
    pub async fn until_calm(&mut self, user: &str) -> Result<Vec<Call>> {
        let mut calls = Vec::new();
        let (start, mut last) = (Instant::now(), Instant::now());
        loop {
            let fresh = self.fresh()?;
            if fresh.iter().any(|call| call.user == user && !call.is_upkeep()) {
                last = Instant::now();
            }
            calls.extend(fresh);
            if last.elapsed() > CALM {
                return Ok(calls);
            }
            if start.elapsed() > secs(120) {
                bail!("{user} has not been calm for {CALM:?} in 120 s");
            }
            sleep(millis(200)).await;
        }
    }
}

/// Counts the calls of `user` by kind.
pub fn count(calls: &[Call], user: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| call.user == user) {
        *counts.entry(call.kind()).or_default() += 1;
    }
    counts
}

/// The calls of one user without its upkeep, with the number of conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All calls, by kind.
    pub all: BTreeMap<String, u64>,
    /// The calls that were not answered with 409, by kind.
    pub done: BTreeMap<String, u64>,
    /// The calls that were answered with 409, because another writer (the scheduler with a status) was faster. Each costs a read and the same call again.
    pub conflicts: u64,
}

impl Tally {
    /// Counts the calls of `user`.
    pub fn of(calls: &[Call], user: &str) -> Self {
        let work: Vec<Call> = calls.iter().filter(|call| call.user == user && !call.is_upkeep()).cloned().collect();
        let (old, done): (Vec<Call>, Vec<Call>) = work.iter().cloned().partition(|call| call.code == 409);
        Self { all: count(&work, user), done: count(&done, user), conflicts: old.len() as u64 }
    }

    /// Returns what is more or less than allowed, or of a kind that is not allowed. A conflict allows one read. There may be at most as many conflicts as
    /// objects, because each needs a write of another client.
    pub fn wrong(&self, objects: u64, allowed: &[(&'static str, u64)]) -> Vec<String> {
        let mut kinds: BTreeMap<&str, (u64, u64)> = self.done.iter().map(|(kind, made)| (kind.as_str(), (*made, 0))).collect();
        for (kind, allowed) in allowed.iter().copied().chain([("get podgroups", self.conflicts)]) {
            kinds.entry(kind).or_default().1 = allowed;
        }
        let wrong = kinds.into_iter().filter(|(_, (made, allowed))| made != allowed);
        let mut wrong: Vec<String> = wrong.map(|(kind, (made, allowed))| format!("{made} × {kind} instead of {allowed}")).collect();
        wrong.extend((self.conflicts > objects).then(|| format!("{} conflicts about {objects} objects", self.conflicts)));
        wrong
    }
}

/// Returns the time from the first of these calls to the end of the last; `None` for fewer than two calls.
pub fn span<'a>(calls: impl Iterator<Item = &'a Call> + Clone) -> Option<SignedDuration> {
    let first = calls.clone().map(|call| call.began).min()?;
    let last = calls.map(|call| call.ended).max()?;
    Some(last.duration_since(first)).filter(|span| span.is_positive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_becomes_a_call() {
        let line = r#"{"verb":"create","user":{"username":"u"},"objectRef":{"resource":"podgroups","name":"g"},"responseStatus":{"code":201},
            "requestObject":{"metadata":{"ownerReferences":[{"name":"rs"}]}},
            "requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:01.500001Z"}"#;
        let call = Call::parse(line).unwrap();
        assert_eq!((call.kind().as_str(), call.owner.as_str(), call.code), ("create podgroups", "rs", 201));
        assert_eq!(span([call].iter()), Some(SignedDuration::from_millis(1500)));
        assert!(Call::parse("{\"verb\":").is_none());
    }

    #[test]
    fn one_call_too_many_too_few_or_of_another_kind_is_reported() {
        let call = |kind: &str, code| {
            let (verb, what) = kind.split_once(' ').unwrap();
            let (verb, what, now) = (verb.to_owned(), what.to_owned(), Timestamp::UNIX_EPOCH);
            Call { user: "u".to_owned(), verb, what, name: String::new(), owner: String::new(), code, began: now, ended: now }
        };
        let wrong = |calls: &[Call], allowed: &[(&'static str, u64)]| Tally::of(calls, "u").wrong(1, allowed).len();
        let (create, patch, pod) = (call("create podgroups", 201), call("patch podgroups", 200), call("patch pods", 200));
        assert_eq!(wrong(&[create.clone(), call("update leases", 200)], &[("create podgroups", 1)]), 0);
        assert_eq!(wrong(&[create.clone(), create.clone()], &[("create podgroups", 1)]), 1);
        assert_eq!(wrong(&[], &[("create podgroups", 1)]), 1);
        assert_eq!(wrong(&[create, pod], &[("create podgroups", 1)]), 1);
        let (old, read) = (call("patch podgroups", 409), call("get podgroups", 200));
        assert_eq!(wrong(&[old.clone(), read.clone(), patch.clone()], &[("patch podgroups", 1)]), 0, "a conflict allows a read");
        assert_eq!(wrong(&[read.clone(), patch.clone()], &[("patch podgroups", 1)]), 1, "a read without a conflict");
        assert_eq!(wrong(&[old.clone(), old, read.clone(), read, patch], &[("patch podgroups", 1)]), 1, "too many conflicts");
    }
}
