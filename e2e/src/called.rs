//! Reads the controller's requests since a moment from the audit log. The API server writes the log before it answers, so it is complete for the
//! requests of the case itself. What the controller did may be seen in the cluster a moment before it is logged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::sleep;

use crate::chart;
use crate::wait::millis;
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

/// Returns the present position when the log shows no request of the controller for half a second: the cluster shows an object before the API server has logged its
/// creation. It waits no longer than five seconds for a controller that goes on.
pub async fn now(w: &World) -> Result<Moment> {
    let end = |w: &World| anyhow::Ok(Moment(std::fs::metadata(w.cluster().audit_log()).context("reading the audit log")?.len()));
    let mut moment = end(w)?;
    for _ in 0..10 {
        sleep(millis(500)).await;
        if since(w, moment)?.is_empty() {
            break;
        }
        moment = end(w)?;
    }
    Ok(moment)
}

/// Returns the controller's requests since a position, without those for its lease, without watches, which are logged when they end, and without the lists
/// with limit=1, by which a watch asks for a resourceVersion.
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
    // A watch asks for the resourceVersion of its kind by a list with limit=1.
    let asks_for_version = verb == "list" && text("/requestURI").split(['?', '&']).any(|part| part == "limit=1");
    if text("/user/username") != user || verb == "watch" || asks_for_version || resource == "leases" || resource.is_empty() {
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
        let list = |limit: u32| {
            format!(
                r#"{{"user":{{"username":"me"}},"verb":"list","objectRef":{{"resource":"pods"}},"requestURI":"/api/v1/pods?a=b&limit={limit}"}}"#
            )
        };
        assert!(super::read(&list(1), "me").is_none());
        assert!(super::read(&list(100), "me").is_some());
    }
}
