//! Checks from the audit log that two replicas never acted at once: for each write, which replica held the Lease.
//!
//! Every replica has its own token, and the API server writes the token's id into the log. All times are from the API server, so the clocks
//! of the replicas do not matter.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::audit_log::{self, Entry};

/// The election and the writes of one account in one log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leaders {
    /// The holders of the Lease, in order.
    pub terms: Vec<String>,
    /// The successful writes of each replica, without writes of the Lease.
    pub writes: BTreeMap<String, u64>,
    /// The writes of replicas that did not hold the Lease at that time, one text each. It must be empty.
    pub beside: Vec<String>,
}

/// Reads the whole log of `user`.
pub fn read(log: &Path, user: &str) -> Result<Leaders> {
    Ok(judge(&audit_log::read(log)?, user))
}

fn judge(log: &[Entry], user: &str) -> Leaders {
    let is_write = |entry: &&Entry| matches!(entry.verb.as_str(), "create" | "update" | "patch" | "delete") && entry.succeeded();
    let mut writes: Vec<&Entry> = log.iter().filter(|entry| entry.user == user).filter(is_write).collect();
    let is_lease = |entry: &Entry| entry.resource == "leases";
    // The time at which the Lease was written, or at which another write arrived. This choice is the best for the writer.
    let at = |entry: &Entry| if is_lease(entry) { entry.answered } else { entry.received };
    writes.sort_by_key(|entry| at(entry));
    let mut leaders = Leaders::default();
    for entry in writes {
        let (writer, holder) = (&entry.credential, leaders.terms.last());
        if is_lease(entry) {
            if holder != Some(writer) {
                leaders.terms.push(writer.clone());
            }
            continue;
        }
        if holder != Some(writer) {
            let (what, at, holder) = (entry.kind(), at(entry), holder.map_or("no replica", String::as_str));
            leaders.beside.push(format!("{what} {} by {writer} at {at}, while {holder} held the Lease", entry.name));
        }
        let count = leaders.writes.entry(writer.clone()).or_default();
        *count = count.saturating_add(1);
    }
    leaders
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::audit_log::tests::entry;

    fn write(writer: &str, resource: &str, received: i64, answered: i64, code: u16) -> Entry {
        let [received, answered] = [received, answered].map(|second| Timestamp::from_second(second).unwrap());
        Entry { credential: writer.to_owned(), received, answered, ..entry("c", &format!("update {resource}"), code) }
    }

    #[test]
    fn a_write_by_another_replica_than_the_holder_is_found() {
        let right = [
            write("a", "leases", 1, 2, 200),
            write("a", "podgroups", 3, 9, 200),
            // A refused write: the Lease keeps its holder.
            write("b", "leases", 3, 3, 409),
            write("b", "leases", 4, 5, 200),
            write("b", "podgroups", 6, 6, 201),
        ];
        let leaders = judge(&right, "c");
        assert_eq!((leaders.terms, leaders.beside), (vec!["a".to_owned(), "b".to_owned()], Vec::<String>::new()));
        assert_eq!(leaders.writes, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1)]));
        let wrong = [right.as_slice(), &[write("a", "podgroups", 7, 8, 200)]].concat();
        assert_eq!(judge(&wrong, "c").beside.len(), 1);
        // A write before the first holder.
        assert_eq!(judge(&[write("a", "podgroups", 1, 1, 200)], "c").beside.len(), 1);
        // A write by another user.
        assert_eq!(judge(&right, "d"), Leaders::default());
    }
}
