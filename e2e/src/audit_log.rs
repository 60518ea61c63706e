//! Reads the audit log of the API server: one entry for each answered request. Nothing else in this crate reads it.
//!
//! The API server writes an entry before it answers, so the log has all requests of a client that waited for its answers. What another
//! client did may be seen in the cluster a moment before it is logged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// One answered request. A text is empty where the log has none.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The user, after impersonation.
    pub user: String,
    /// The id of the user's token.
    pub credential: String,
    /// get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The API group of the resource; empty for the core group, too.
    pub group: String,
    /// The plural name of the resource, with the subresource (`pods/binding`); the path of the URL for a request without a resource.
    pub resource: String,
    /// The namespace of the object; empty for all namespaces.
    pub namespace: String,
    /// The name of the object; empty for a list, and for a name that the server generates.
    pub name: String,
    /// The path and the query of the URL.
    pub uri: String,
    /// The status code of the response; 0 where the log has none.
    pub code: u16,
    /// The message of a response that is an error.
    pub message: String,
    /// The body of the request; null where the audit policy does not log it.
    pub body: Value,
    /// When the server received the request.
    pub received: Timestamp,
    /// When the server had answered it.
    pub answered: Timestamp,
}

impl Entry {
    /// Reads one line; `None` if it is no entry. The log of a cluster has one line for each request: see the audit policy in `cluster`.
    fn parse(line: &str) -> Option<Self> {
        let event: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (uri, resource, subresource) = (text("/requestURI"), text("/objectRef/resource"), text("/objectRef/subresource"));
        let resource = match (resource.is_empty(), subresource.is_empty()) {
            (true, _) => uri.split('?').next().unwrap_or_default().to_owned(),
            (false, true) => resource,
            (false, false) => format!("{resource}/{subresource}"),
        };
        let impersonated = Some(text("/impersonatedUser/username")).filter(|user| !user.is_empty());
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        Some(Self {
            user: impersonated.unwrap_or_else(|| text("/user/username")),
            credential: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            uri,
            code: code.and_then(|code| code.try_into().ok()).unwrap_or_default(),
            message: text("/responseStatus/message"),
            body: event.get("requestObject").cloned().unwrap_or_default(),
            received: text("/requestReceivedTimestamp").parse().ok()?,
            answered: text("/stageTimestamp").parse().ok()?,
        })
    }

    /// Returns verb and resource, as in `create podgroups`.
    pub fn kind(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    /// Returns whether the response was a success.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns whether the user had no right to the request. A terminating namespace refuses creations with the same code, and a program
    /// cannot always know in time that the namespace terminates.
    pub fn is_refused(&self) -> bool {
        matches!(self.code, 401 | 403) && !self.message.contains("because it is being terminated")
    }

    /// Returns whether a program makes this request also when nothing happens: for its Lease, and for watches that the server ended.
    pub fn is_upkeep(&self) -> bool {
        self.resource == "leases" || self.verb == "watch"
    }
}

/// The log, read up to a position.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
    position: Position,
}

/// A position in the log, between two entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position(u64);

impl AuditLog {
    /// Reads the log from a position on; the default position is its beginning.
    pub const fn at(path: PathBuf, position: Position) -> Self {
        Self { path, position }
    }

    /// Reads the log from its present end on.
    pub fn from_now(path: PathBuf) -> Result<Self> {
        let mut log = Self::at(path, Position::default());
        log.lines()?;
        Ok(log)
    }

    /// Returns the position up to which the log has been read.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Returns the entries that are new since the last call. A line that is no entry is an error, because what it says cannot be judged.
    pub fn fresh(&mut self) -> Result<Vec<Entry>> {
        let parse = |line: &str| Entry::parse(line).with_context(|| format!("this line of the audit log is no entry: {line}"));
        self.lines()?.lines().map(parse).collect()
    }

    /// Returns the new lines that are complete.
    fn lines(&mut self) -> Result<String> {
        let context = || format!("reading the audit log {}", self.path.display());
        let mut file = File::open(&self.path).with_context(context)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.position.0)).with_context(context)?;
        file.read_to_end(&mut bytes).with_context(context)?;
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        self.position.0 += u64::try_from(bytes.len())?;
        String::from_utf8(bytes).with_context(context)
    }
}

/// Reads the whole log.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    AuditLog::at(path.to_owned(), Position::default()).fresh()
}

/// Counts the requests by verb and resource: `{"patch podgroups": 2}`.
pub fn tally<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.kind()).or_default() += 1;
    }
    counts
}

/// Returns the time from the first of these requests to the answer of the last; `None` for fewer than two requests.
pub fn span<'a>(entries: impl Iterator<Item = &'a Entry> + Clone) -> Option<SignedDuration> {
    let first = entries.clone().map(|entry| entry.received).min()?;
    let last = entries.map(|entry| entry.answered).max()?;
    Some(last.duration_since(first)).filter(|span| span.is_positive())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// Returns the entry of a request by `user`, as `create pods/binding`, for the object `n/x`.
    pub(crate) fn entry(user: &str, kind: &str, code: u16) -> Entry {
        let (verb, resource) = kind.split_once(' ').unwrap();
        let [user, verb, resource, namespace, name] = [user, verb, resource, "n", "x"].map(str::to_owned);
        Entry { user, verb, resource, namespace, name, code, ..Entry::default() }
    }

    const LINE: &str =
        r#"{"verb":"create","user":{"username":"u","extra":{"authentication.kubernetes.io/credential-id":["t"]}},"requestURI":"/a?b=c","#;
    const TIMES: &str = r#""requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:01.500001Z"}"#;

    #[test]
    fn a_line_of_the_log_becomes_an_entry() {
        let parse = |more: &str| Entry::parse(&format!("{LINE}{more}{TIMES}")).unwrap();
        let pod =
            parse(r#""objectRef":{"resource":"pods","subresource":"binding","namespace":"n","name":"p"},"responseStatus":{"code":201},"#);
        assert_eq!((pod.kind().as_str(), pod.user.as_str(), pod.credential.as_str(), pod.code), ("create pods/binding", "u", "t", 201));
        assert_eq!((pod.namespace.as_str(), pod.name.as_str(), &pod.body), ("n", "p", &Value::Null));
        assert_eq!(span([&pod].into_iter()), Some(SignedDuration::from_millis(1500)));
        let bare = parse(r#""impersonatedUser":{"username":"v"},"requestObject":{"a":1},"#);
        assert_eq!((bare.resource.as_str(), bare.uri.as_str(), bare.user.as_str(), bare.code), ("/a", "/a?b=c", "v", 0));
        assert_eq!(bare.body, serde_json::json!({"a": 1}));
        assert!(Entry::parse(LINE).is_none());
    }

    #[test]
    fn a_refusal_by_a_terminating_namespace_is_not_a_missing_right() {
        let refused = |code, message: &str| Entry { message: message.to_owned(), ..entry("u", "create pods", code) }.is_refused();
        assert!(refused(403, "no") && refused(401, ""));
        assert!(!refused(403, "unable to create: because it is being terminated") && !refused(404, "no"));
    }

    #[test]
    fn each_whole_line_is_read_once_and_one_that_is_no_entry_is_an_error() {
        let path = std::env::temp_dir().join(format!("podgroup-audit-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let mut log = AuditLog::from_now(path.clone()).unwrap();
        let line = format!("{LINE}{TIMES}\n");
        let (beginning, rest) = line.split_at(9);
        let mut read_after = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            log.fresh().map(|entries| entries.len()).ok()
        };
        let after = [&line, &(line.clone() + beginning), rest, "", "{\n", &line].map(&mut read_after);
        assert_eq!(after, [Some(1), Some(1), Some(1), Some(0), None, Some(1)]);
        assert!(AuditLog::from_now(path.clone()).unwrap().fresh().unwrap().is_empty());
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
