//! When has a program no more to do, and did the controller make exactly the requests that it may?

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use super::stage::Side;
use crate::audit_log::{AuditLog, Entry, tally};
use crate::wait::{millis, secs};

/// Without a request for this time a program is calm. It is longer than the second for which an idle PodGroup is kept, and than any request takes.
const CALM: std::time::Duration = millis(2500);

/// Returns all requests since the last call, when the programs of the side have been calm (except their upkeep) for a while.
pub async fn until_calm(log: &mut AuditLog, side: Side) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let (start, mut last) = (Instant::now(), Instant::now());
    loop {
        let fresh = log.fresh()?;
        if fresh.iter().any(|entry| side.sent(entry) && !entry.is_upkeep()) {
            last = Instant::now();
        }
        entries.extend(fresh);
        if last.elapsed() > CALM {
            return Ok(entries);
        }
        if start.elapsed() > secs(120) {
            bail!("{side:?} has not been calm for {CALM:?} in 120 s");
        }
        sleep(millis(200)).await;
    }
}

/// The calls of the controller without its upkeep, with the number of conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All calls, by kind.
    pub all: BTreeMap<String, u64>,
    /// The calls that were not answered with 409, by kind.
    pub done: BTreeMap<String, u64>,
    /// The calls that were answered with 409, because another writer (the scheduler with a status) was faster. Each costs a read and the
    /// same call again.
    pub conflicts: u64,
}

impl Tally {
    /// Counts the calls of the controller.
    pub fn of(log: &[Entry]) -> Self {
        let work = || log.iter().filter(|entry| Side::Controller.sent(entry) && !entry.is_upkeep());
        let conflicts = work().filter(|entry| entry.code == 409).count() as u64;
        Self { all: tally(work()), done: tally(work().filter(|entry| entry.code != 409)), conflicts }
    }

    /// Returns what is more or less than allowed, or of a kind that is not allowed. A conflict allows one read. There may be at most as
    /// many conflicts as objects, because each needs a write of another client.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::tests::entry;

    #[test]
    fn one_call_too_many_too_few_or_of_another_kind_is_reported() {
        let user = crate::chart::user(crate::chart::CONTROLLER);
        let call = |kind: &str, code| entry(&user, kind, code);
        let wrong = |calls: &[Entry], allowed: &[(&'static str, u64)]| Tally::of(calls).wrong(1, allowed).len();
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
