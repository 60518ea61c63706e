//! Reads from the audit log which requests of the two programs were refused, and counts the requests by kind and by the right that they used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::chart;
use crate::observer::received;
use crate::rights::Right;

/// The requests of some users, counted.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests that were answered with 401 or 403, each with the time of its arrival in milliseconds, if the log has it. Only excused ones are allowed.
    pub refused: Vec<(Option<i64>, String)>,
    /// The number of all other answered requests by user, verb and resource (`podgroup-scheduler create pods/binding`). A refused one used no right.
    pub counts: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    user: User,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: Option<Reference>,
    #[serde(default)]
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

/// Reads the whole log and keeps the requests of `users`. An incomplete last line is skipped.
pub fn read(log: &Path, users: &[String]) -> Result<Requests> {
    let file = File::open(log).with_context(|| format!("reading the audit log {}", log.display()))?;
    let mut requests = Requests::default();
    for line in BufReader::new(file).lines() {
        requests.take(&line?, users);
    }
    Ok(requests)
}

/// Reads the whole log and counts the requests that used each of the rights. A refused request used none.
pub fn used(log: &Path, granted: &BTreeSet<Right>) -> Result<BTreeMap<Right, u64>> {
    let file = File::open(log).with_context(|| format!("reading the audit log {}", log.display()))?;
    let mut used = BTreeMap::new();
    for line in BufReader::new(file).lines() {
        let Some(request) = serde_json::from_str::<Entry>(&line?).ok().and_then(Entry::into_right) else { continue };
        for right in granted.iter().filter(|right| right.allows(&request)) {
            let count: &mut u64 = used.entry(right.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(used)
}

impl Entry {
    /// Returns the code and the message of a refusal. A terminating namespace refuses creations with the same code: a program cannot always know in time that the
    /// namespace terminates.
    fn refusal(&self) -> Option<&Status> {
        let refused = |status: &&Status| matches!(status.code, 401 | 403) && !status.message.contains("because it is being terminated");
        self.response_status.as_ref().filter(refused)
    }

    fn account(&self) -> &str {
        self.user.username.rsplit(':').next().unwrap_or_default()
    }

    /// Returns the right that the request used, for its object alone; `None` if it was refused or is for no object.
    fn into_right(self) -> Option<Right> {
        let account = self.account();
        let program = chart::program_of(account).filter(|_| self.user.username == chart::user(account))?.to_owned();
        let Reference { api_group, resource, subresource, namespace, name } = self.refusal().is_none().then_some(self.object_ref)??;
        Some(Right { program, verb: self.verb, group: api_group, resource, subresource, namespace, name })
    }
}

impl Requests {
    fn take(&mut self, line: &str, users: &[String]) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let at = received(&event);
        let Ok(entry) = serde_json::from_value::<Entry>(event) else { return };
        if !users.contains(&entry.user.username) {
            return;
        }
        let what = match &entry.object_ref {
            Some(reference) if reference.subresource.is_empty() => reference.resource.clone(),
            Some(reference) => format!("{}/{}", reference.resource, reference.subresource),
            None => entry.request_uri.clone(),
        };
        let text = format!("{} {} {what}", entry.account(), entry.verb);
        if let Some(Status { code, message }) = entry.refusal() {
            self.refused.push((at, format!("{text} ({}) was answered with {code}: {message}", entry.request_uri)));
            return;
        }
        let count = self.counts.entry(text).or_default();
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_uses_the_right_for_its_object_and_not_that_for_another() {
        let user = chart::user("gangs-controller");
        let line = |name: &str, code: u16| {
            format!(
                r#"{{"user":{{"username":"{user}"}},"verb":"get","requestURI":"/x","objectRef":{{"apiGroup":"g","resource":"leases","namespace":"n","name":"{name}"}},"responseStatus":{{"code":{code}}}}}"#
            )
        };
        let right = |name: &str| Right {
            group: "g".to_owned(),
            namespace: Some("n".to_owned()),
            name: Some(name.to_owned()),
            ..crate::rights::tests::right("podgroup-controller get leases")
        };
        let log = std::env::temp_dir().join(format!("podgroup-audit-{}", std::process::id()));
        let elsewhere = line("own", 200).replace(&user, "system:serviceaccount:elsewhere:gangs-controller");
        let other_account = line("own", 200).replace(&user, &chart::user("scraper"));
        std::fs::write(&log, [line("own", 200), line("own", 404), line("others", 403), elsewhere, other_account].join("\n")).unwrap();
        let counts = used(&log, &["own", "others"].map(right).into()).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert_eq!(counts, [(right("own"), 2)].into());
    }

    #[test]
    fn a_forbidden_request_of_a_program_is_found_and_those_of_others_are_not() {
        let line = |user: &str, code: u16| {
            format!(
                r#"{{"user":{{"username":"{user}"}},"verb":"patch","requestURI":"/x","objectRef":{{"resource":"pods","subresource":"status"}},"responseStatus":{{"code":{code},"message":"no"}}}}"#
            )
        };
        let ours = crate::chart::user(crate::chart::SCHEDULER);
        let mut requests = Requests::default();
        for each in [line(&ours, 200), line(&ours, 403), line("other-user", 403), "{\"user\":".to_owned()] {
            requests.take(&each, std::slice::from_ref(&ours));
        }
        assert_eq!(requests.refused, [(None, "podgroup-scheduler patch pods/status (/x) was answered with 403: no".to_owned())]);
        assert_eq!(requests.counts.get("podgroup-scheduler patch pods/status"), Some(&1), "a refused request used no right");
        requests
            .take(&line(&ours, 403).replace("\"no\"", "\"unable to create: because it is being terminated\""), std::slice::from_ref(&ours));
        assert_eq!(requests.refused.len(), 1, "a refusal by a terminating namespace is not a missing right");
    }
}
