//! Which requests of some users were refused, and how many others were there of each kind?

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::audit_log::{self, Entry};

/// The requests of some users, counted.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests that were answered with 401 or 403, each with the time of its arrival in milliseconds. Only excused ones are allowed.
    pub refused: Vec<(i64, String)>,
    /// The number of all other answered requests by user, verb and resource (`podgroup-scheduler create pods/binding`). A refused one used no right.
    pub counts: BTreeMap<String, u64>,
}

/// Reads the whole log and keeps the requests of `users`.
pub fn read(log: &Path, users: &[String]) -> Result<Requests> {
    let mut requests = Requests::default();
    audit_log::read(log)?.iter().filter(|entry| users.contains(&entry.user)).for_each(|entry| requests.add(entry));
    Ok(requests)
}

impl Requests {
    fn add(&mut self, entry: &Entry) {
        let text = format!("{} {}", entry.user.rsplit(':').next().unwrap_or_default(), entry.kind());
        if entry.is_refused() {
            let text = format!("{text} ({}) was answered with {}: {}", entry.uri, entry.code, entry.message);
            self.refused.push((entry.received.as_millisecond(), text));
            return;
        }
        let count = self.counts.entry(text).or_default();
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::tests::entry;

    #[test]
    fn a_refused_request_is_named_and_not_counted() {
        let mut requests = Requests::default();
        let ours = crate::chart::user(crate::chart::SCHEDULER);
        let patch = |code| Entry { uri: "/x".to_owned(), message: "no".to_owned(), ..entry(&ours, "patch pods/status", code) };
        [200, 403].map(patch).iter().for_each(|entry| requests.add(entry));
        assert_eq!(requests.refused, [(0, "podgroup-scheduler patch pods/status (/x) was answered with 403: no".to_owned())]);
        assert_eq!(requests.counts, [("podgroup-scheduler patch pods/status".to_owned(), 1)].into());
    }
}
