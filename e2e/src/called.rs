//! Reads the controller's requests since a moment from the audit log. The API server writes the log before it answers, so it is complete for everything
//! that a case has waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::chart;
use crate::world::World;

/// A position in the audit log.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

/// One answered request of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// get, list, watch, create, patch, delete.
    pub verb: String,
    /// The plural resource name, with the subresource.
    pub resource: String,
    /// The namespace of the object; empty for all namespaces.
    pub namespace: String,
    /// The name of the object; empty for a list, and for a name that the server generates.
    pub name: String,
    /// The status code of the response; 0 when the log has none.
    pub status: u64,
    /// The whole line, for details that a case looks for.
    pub line: String,
}

/// Returns the present position.
pub fn now(w: &World) -> Result<Moment> {
    Ok(Moment(std::fs::metadata(w.cluster().audit_log()).context("reading the audit log")?.len()))
}

/// Returns the controller's requests since a position, without those for its lease and without watches, which are logged when they end.
pub fn since(w: &World, moment: Moment) -> Result<Vec<Called>> {
    let mut file = File::open(w.cluster().audit_log()).context("reading the audit log")?;
    file.seek(SeekFrom::Start(moment.0))?;
    let controller = chart::user(chart::CONTROLLER);
    let lines = BufReader::new(file).lines().collect::<std::io::Result<Vec<String>>>()?;
    Ok(lines.iter().filter_map(|line| read(line, &controller)).collect())
}

/// Counts the requests by verb and resource: `{"patch podgroups": 2}`.
pub fn tally(calls: &[Called]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(format!("{} {}", call.verb, call.resource)).or_default() += 1;
    }
    counts
}

/// Returns how many requests change an object.
pub fn writes(calls: &[Called]) -> usize {
    calls.iter().filter(|call| !matches!(call.verb.as_str(), "get" | "list")).count()
}

fn read(line: &str, user: &str) -> Option<Called> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (verb, resource, sub) = (text("/verb"), text("/objectRef/resource"), text("/objectRef/subresource"));
    if text("/user/username") != user || verb == "watch" || resource == "leases" || resource.is_empty() {
        return None;
    }
    let resource = if sub.is_empty() { resource } else { format!("{resource}/{sub}") };
    let status = entry.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
    Some(Called { verb, resource, namespace: text("/objectRef/namespace"), name: text("/objectRef/name"), status, line: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_controller_count_and_its_lease_its_watches_and_others_do_not() {
        let line = |user: &str, verb: &str, resource: &str| {
            format!(r#"{{"user":{{"username":"{user}"}},"verb":"{verb}","objectRef":{{"resource":"{resource}","name":"n"}}}}"#)
        };
        let read = |user, verb, resource| read(&line(user, verb, resource), "me").map(|call| call.verb);
        assert_eq!(read("me", "patch", "podgroups").as_deref(), Some("patch"));
        assert_eq!(read("me", "update", "leases"), None);
        assert_eq!(read("me", "watch", "podgroups"), None);
        assert_eq!(read("you", "patch", "podgroups"), None);
    }
}
