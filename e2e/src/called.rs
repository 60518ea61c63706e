//! What did the controller ask of the API server in a while? Read from the audit log, which is written before a request is answered, so that it is
//! complete for whatever a case has waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::chart;
use crate::world::World;

/// A place in the audit log.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

/// One answered request of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// get, list, watch, create, patch, delete.
    pub verb: String,
    /// Plural, with the subresource.
    pub resource: String,
    /// Of the object; empty for all of them.
    pub namespace: String,
    /// Of the object; empty for a list, and for what the server names.
    pub name: String,
    /// The status of the answer; 0 where none is noted.
    pub status: u64,
    /// The whole line, for what a case looks for in it.
    pub line: String,
}

/// Now.
pub fn now(w: &World) -> Result<Moment> {
    Ok(Moment(std::fs::metadata(w.cluster().audit_log()).context("the audit log")?.len()))
}

/// The controller's requests since a moment; not its lease, and not the watches that lie open all the time and are logged when they end.
pub fn since(w: &World, moment: Moment) -> Result<Vec<Called>> {
    let mut file = File::open(w.cluster().audit_log()).context("the audit log")?;
    file.seek(SeekFrom::Start(moment.0))?;
    let controller = chart::user(chart::CONTROLLER);
    let lines = BufReader::new(file).lines().collect::<std::io::Result<Vec<String>>>()?;
    Ok(lines.iter().filter_map(|line| read(line, &controller)).collect())
}

/// How many there are of each verb and resource, for the text of a failure and for counting: `{"patch podgroups": 2}`.
pub fn tally(calls: &[Called]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(format!("{} {}", call.verb, call.resource)).or_default() += 1;
    }
    counts
}

/// How many of them change something.
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
