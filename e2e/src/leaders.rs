//! Checks from the audit log that two replicas never acted at once: for each write, which replica held the Lease.
//!
//! Every replica has its own token, and the API server writes the token's id into the log. All times are from the API server, so the clocks of the replicas do
//! not matter.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

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

struct Write {
    /// The time at which the Lease was written, or at which another write arrived. This choice is the best for the writer.
    at: String,
    writer: String,
    what: String,
    lease: bool,
}

/// Reads the whole log of `user`. An incomplete last line is skipped.
pub fn read(log: &Path, user: &str) -> Result<Leaders> {
    let text = std::fs::read_to_string(log).with_context(|| format!("reading the audit log {}", log.display()))?;
    Ok(judge(text.lines().filter_map(|line| write(&serde_json::from_str(line).ok()?, user)).collect()))
}

fn write(event: &Value, user: &str) -> Option<Write> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let success = event.pointer("/responseStatus/code").and_then(Value::as_i64).is_some_and(|code| (200..300).contains(&code));
    let (verb, resource) = (text("/verb"), text("/objectRef/resource"));
    if text("/user/username") != user || !success || !matches!(verb, "create" | "update" | "patch" | "delete") {
        return None;
    }
    let lease = resource == "leases";
    Some(Write {
        // All times are RFC 3339 with six digits, so the texts are in the order of the times.
        at: text(if lease { "/stageTimestamp" } else { "/requestReceivedTimestamp" }).to_owned(),
        writer: text("/user/extra/authentication.kubernetes.io~1credential-id/0").to_owned(),
        what: format!("{verb} {resource} {}", text("/objectRef/name")),
        lease,
    })
}

fn judge(mut writes_in_order: Vec<Write>) -> Leaders {
    writes_in_order.sort_by(|one, other| one.at.cmp(&other.at));
    let mut leaders = Leaders::default();
    for Write { at, writer, what, lease } in writes_in_order {
        let holder = leaders.terms.last();
        if lease {
            if holder != Some(&writer) {
                leaders.terms.push(writer);
            }
            continue;
        }
        if holder != Some(&writer) {
            leaders
                .beside
                .push(format!("{what} by {writer} at {at}, while {} held the Lease", holder.map_or("no replica", String::as_str)));
        }
        let count = leaders.writes.entry(writer).or_default();
        *count = count.saturating_add(1);
    }
    leaders
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(writer: &str, resource: &str, received: u32, answered: u32, code: u16) -> Value {
        let time = |second: u32| format!("2026-01-01T00:00:{second:02}.000000Z");
        json!({"verb": "update", "user": {"username": "c", "extra": {"authentication.kubernetes.io/credential-id": [writer]}},
            "objectRef": {"resource": resource, "name": "x"}, "responseStatus": {"code": code},
            "requestReceivedTimestamp": time(received), "stageTimestamp": time(answered)})
    }

    fn judged(lines: &[Value]) -> Leaders {
        judge(lines.iter().filter_map(|line| write(line, "c")).collect())
    }

    #[test]
    fn a_write_by_another_replica_than_the_holder_is_found() {
        let right = [
            line("a", "leases", 1, 2, 200),
            line("a", "podgroups", 3, 9, 200),
            // A refused write: the Lease keeps its holder.
            line("b", "leases", 3, 3, 409),
            line("b", "leases", 4, 5, 200),
            line("b", "podgroups", 6, 6, 201),
        ];
        let leaders = judged(&right);
        assert_eq!((leaders.terms, leaders.beside), (vec!["a".to_owned(), "b".to_owned()], Vec::<String>::new()));
        assert_eq!(leaders.writes, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1)]));
        let wrong = [right.as_slice(), &[line("a", "podgroups", 7, 8, 200)]].concat();
        assert_eq!(judged(&wrong).beside.len(), 1);
        // A write before the first holder.
        assert_eq!(judged(&[line("a", "podgroups", 1, 1, 200)]).beside.len(), 1);
        // A write by another user.
        assert!(write(&right[1], "d").is_none());
    }
}
