//! Did ever two of them act? Read from the audit log: who held the Lease when which write came.
//!
//! Every replica has a token of its own, and the API server writes its id into the log. All times are the API server's own, so that it does not matter what
//! clocks the replicas have.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// What one log says of one account's election and work.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leaders {
    /// Who held the Lease, one after the other.
    pub terms: Vec<String>,
    /// Writes of each that were answered with success, of everything but the Lease.
    pub writes: BTreeMap<String, u64>,
    /// Writes that came while another one's successful write of the Lease was the newest, one text each; must be empty.
    pub beside: Vec<String>,
}

struct Deed {
    /// When the Lease was written, or when another write came: the moment that is best for who wrote and worst for who held.
    at: String,
    who: String,
    what: String,
    lease: bool,
}

/// Reads the whole log of `user`. A last line that is still being written is skipped.
pub fn read(log: &Path, user: &str) -> Result<Leaders> {
    let text = std::fs::read_to_string(log).with_context(|| format!("the audit log {}", log.display()))?;
    Ok(judge(text.lines().filter_map(|line| deed(&serde_json::from_str(line).ok()?, user)).collect()))
}

fn deed(event: &Value, user: &str) -> Option<Deed> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let success = event.pointer("/responseStatus/code").and_then(Value::as_i64).is_some_and(|code| (200..300).contains(&code));
    let (verb, resource) = (text("/verb"), text("/objectRef/resource"));
    if text("/user/username") != user || !success || !matches!(verb, "create" | "update" | "patch" | "delete") {
        return None;
    }
    let lease = resource == "leases";
    Some(Deed {
        // RFC 3339 with six digits throughout: the order of the texts is that of the times.
        at: text(if lease { "/stageTimestamp" } else { "/requestReceivedTimestamp" }).to_owned(),
        who: text("/user/extra/authentication.kubernetes.io~1credential-id/0").to_owned(),
        what: format!("{verb} {resource} {}", text("/objectRef/name")),
        lease,
    })
}

fn judge(mut deeds: Vec<Deed>) -> Leaders {
    deeds.sort_by(|one, other| one.at.cmp(&other.at));
    let mut leaders = Leaders::default();
    for Deed { at, who, what, lease } in deeds {
        let holder = leaders.terms.last();
        if lease {
            if holder != Some(&who) {
                leaders.terms.push(who);
            }
            continue;
        }
        if holder != Some(&who) {
            leaders.beside.push(format!("{what} by {who} at {at}, while {} held the Lease", holder.map_or("nobody", String::as_str)));
        }
        let count = leaders.writes.entry(who).or_default();
        *count = count.saturating_add(1);
    }
    leaders
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(who: &str, resource: &str, received: u32, answered: u32, code: u16) -> Value {
        let time = |second: u32| format!("2026-01-01T00:00:{second:02}.000000Z");
        json!({"verb": "update", "user": {"username": "c", "extra": {"authentication.kubernetes.io/credential-id": [who]}},
            "objectRef": {"resource": resource, "name": "x"}, "responseStatus": {"code": code},
            "requestReceivedTimestamp": time(received), "stageTimestamp": time(answered)})
    }

    fn judged(lines: &[Value]) -> Leaders {
        judge(lines.iter().filter_map(|line| deed(line, "c")).collect())
    }

    #[test]
    fn a_write_beside_the_holder_is_found_and_one_in_its_term_is_not() {
        let right = [
            line("a", "leases", 1, 2, 200),
            line("a", "podgroups", 3, 9, 200),
            // Refused: the Lease stays where it is.
            line("b", "leases", 3, 3, 409),
            line("b", "leases", 4, 5, 200),
            line("b", "podgroups", 6, 6, 201),
        ];
        let leaders = judged(&right);
        assert_eq!((leaders.terms, leaders.beside), (vec!["a".to_owned(), "b".to_owned()], Vec::<String>::new()));
        assert_eq!(leaders.writes, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1)]));
        let wrong = [right.as_slice(), &[line("a", "podgroups", 7, 8, 200)]].concat();
        assert_eq!(judged(&wrong).beside.len(), 1);
        // Before anybody held it.
        assert_eq!(judged(&[line("a", "podgroups", 1, 1, 200)]).beside.len(), 1);
        // Somebody else's.
        assert!(deed(&right[1], "d").is_none());
    }
}
