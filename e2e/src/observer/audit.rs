//! What did the programs ask of the API server (checks 7 and 8)? Judges the lines of its audit log, one at a time. Pure.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::finding::Finding;

/// Who asked for what: user, verb, and resource (`podgroups`, `pods/binding`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The user in whose name it was done (after impersonation).
    pub user: String,
    /// The verb as the API server names it: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// Plural, and `/subresource` where there is one; the path for what is no resource.
    pub resource: String,
}

/// Reads an audit log.
#[derive(Debug)]
pub struct Audit {
    controller: String,
    watched: Vec<String>,
    calls: BTreeMap<Call, u64>,
    findings: Vec<Finding>,
    markers: Vec<String>,
    excused: Excused,
}

impl Audit {
    /// `controller` is the user of the rule about deletes; for both users a refusal is a finding.
    pub fn new(controller: &str, scheduler: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            watched: vec![controller.to_owned(), scheduler.to_owned()],
            calls: BTreeMap::new(),
            findings: Vec::new(),
            markers: Vec::new(),
            excused: Excused::default(),
        }
    }

    /// How often each call was made so far; a request counts once, when it has been answered.
    pub fn calls(&self) -> &BTreeMap<Call, u64> {
        &self.calls
    }

    /// What was found so far.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether a request for an object of this name has been read: it shows how far the log has come.
    pub fn has_read(&self, marker: &str) -> bool {
        self.markers.iter().any(|known| known == marker)
    }

    /// Reads one line; `now` in milliseconds goes into the findings. A line that is no event is a finding of the observer's own (0): it would be blind otherwise.
    pub fn line(&mut self, line: &str, now: i64) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            self.found(0, "audit log", "a line is no JSON", now);
            return;
        };
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // One request has several stages; Panic is the answer of a request that crashed the handler.
        if !matches!(text("/stage"), "ResponseComplete" | "Panic") {
            return;
        }
        let user = Some(text("/impersonatedUser/username")).filter(|user| !user.is_empty()).unwrap_or(text("/user/username"));
        let (verb, name, resource) = (text("/verb"), text("/objectRef/name"), resource(&event));
        if name.starts_with(super::MARKER) {
            self.markers.push(name.to_owned());
        }
        *self.calls.entry(Call { user: user.to_owned(), verb: verb.to_owned(), resource: resource.clone() }).or_default() += 1;
        let object = format!("{resource} {}/{name}", text("/objectRef/namespace"));
        let of_group = resource == "podgroups" && text("/objectRef/apiGroup") == "scheduling.volcano.sh";
        if user == self.controller
            && of_group
            && let Some(fault) = unguarded(&event, verb)
        {
            self.found(7, &object, &fault, now);
        }
        // A namespace that is being taken down refuses creations with the same code: nobody can know that in time.
        let ending = text("/responseStatus/message").contains("because it is being terminated");
        let code = event.pointer("/responseStatus/code").and_then(Value::as_i64);
        let excused = self.excused.holds(received(&event).unwrap_or(now));
        if code == Some(403) && !ending && !excused && self.watched.iter().any(|watched| watched == user) {
            self.found(8, &object, &format!("{user} was forbidden to {verb}: {}", text("/responseStatus/message")), now);
        }
    }

    /// When refusals say nothing of the programs' rights.
    pub(super) fn excused(&mut self) -> &mut Excused {
        &mut self.excused
    }

    fn found(&mut self, check: u8, object: &str, detail: &str, at: i64) {
        self.findings.push(Finding { check, object: object.to_owned(), detail: detail.to_owned(), at });
    }
}

/// Times in which an API server that has just been started refuses everybody, because it has not read the roles yet. By the moment at which it received a
/// request, in milliseconds; what it received before or after counts, however late it is read.
#[derive(Debug, Clone, Default)]
pub struct Excused(Vec<(i64, Option<i64>)>);

impl Excused {
    /// One begins, unless one lasts.
    pub fn begin(&mut self, at: i64) {
        if self.0.iter().all(|(_, to)| to.is_some()) {
            self.0.push((at, None));
        }
    }

    /// The one that lasts ends.
    pub fn end(&mut self, at: i64) {
        self.0.iter_mut().filter(|(_, to)| to.is_none()).for_each(|(_, to)| *to = Some(at));
    }

    /// Whether a moment is in one of them.
    pub fn holds(&self, at: i64) -> bool {
        self.0.iter().any(|(from, to)| *from <= at && to.is_none_or(|to| at <= to))
    }
}

/// When the API server received the request, in milliseconds.
pub fn received(event: &Value) -> Option<i64> {
    let text = event.get("requestReceivedTimestamp")?.as_str()?;
    Some(text.parse::<Timestamp>().ok()?.as_millisecond())
}

/// Check 7: what a deletion of a PodGroup lacks, in words.
fn unguarded(event: &Value, verb: &str) -> Option<String> {
    if verb == "deletecollection" {
        return Some("it was deleted as part of a collection, which no precondition guards".to_owned());
    }
    if verb != "delete" {
        return None;
    }
    let stated = |key: &str| {
        event.pointer(&format!("/requestObject/preconditions/{key}")).and_then(Value::as_str).is_some_and(|value| !value.is_empty())
    };
    let missing: Vec<&str> = ["uid", "resourceVersion"].into_iter().filter(|key| !stated(key)).collect();
    // Below level Request the body is not in the log, and nothing is shown: that must fail too.
    (!missing.is_empty()).then(|| {
        format!(
            "a DELETE without {} in its preconditions (audit level {})",
            missing.join(" and "),
            event.get("level").and_then(Value::as_str).unwrap_or("?")
        )
    })
}

fn resource(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("/objectRef/resource"), text("/objectRef/subresource")) {
        (Some(resource), Some(sub)) => format!("{resource}/{sub}"),
        (Some(resource), None) => resource.to_owned(),
        (None, _) => text("/requestURI").unwrap_or("?").split('?').next().unwrap_or("?").to_owned(),
    }
}

/// Check 8: whether the calls grow faster than the events that caused them, from a small run to a large one.
///
/// `small` and `large` are (events, calls). What does not depend on the events (`fixed`: start, leases, relists) is allowed on top of half as much again for each event.
pub fn superlinear(small: (u64, u64), large: (u64, u64), fixed: u64) -> Option<String> {
    let (events, calls) = large;
    let allowed = u128::from(small.1).saturating_mul(u128::from(events)).saturating_mul(3) / u128::from(small.0.max(1)).saturating_mul(2);
    let allowed = allowed.saturating_add(u128::from(fixed));
    (u128::from(calls) > allowed).then(|| format!("{calls} calls for {events} events, where {} for {} allow {allowed}", small.1, small.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(user: &str, verb: &str, more: Value) -> Vec<u8> {
        let mut audit = Audit::new("c", "s");
        let mut event = json!({"stage": "ResponseComplete", "level": "Request", "verb": verb, "user": {"username": user},
            "objectRef": {"resource": "podgroups", "apiGroup": "scheduling.volcano.sh", "namespace": "n", "name": "g"}});
        event.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        audit.line(&event.to_string(), 0);
        assert_eq!(audit.calls().values().sum::<u64>(), 1);
        audit.findings().iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn a_delete_by_the_controller_needs_both_preconditions() {
        let guards = |guards: Value| json!({"requestObject": {"preconditions": guards}});
        assert!(findings("c", "delete", guards(json!({"uid": "u", "resourceVersion": "7"}))).is_empty());
        assert_eq!(findings("c", "delete", guards(json!({"uid": "u"}))), [7]);
        assert_eq!(findings("c", "delete", guards(json!({"resourceVersion": "7"}))), [7]);
        assert_eq!(findings("c", "delete", json!({})), [7]);
        assert_eq!(findings("c", "deletecollection", json!({})), [7]);
        assert!(findings("somebody", "delete", json!({})).is_empty());
        assert_eq!(findings("somebody", "delete", json!({"impersonatedUser": {"username": "c"}})), [7]);
        assert!(findings("c", "patch", json!({})).is_empty());
    }

    #[test]
    fn a_refusal_of_either_program_is_found_but_not_that_of_an_ending_namespace() {
        let refused = |message: &str| json!({"responseStatus": {"code": 403, "message": message}});
        assert_eq!(findings("s", "get", refused("no")), [8]);
        assert!(findings("somebody", "get", refused("no")).is_empty());
        assert!(findings("s", "create", refused("namespace n: because it is being terminated")).is_empty());
    }

    #[test]
    fn a_refusal_while_the_api_server_starts_is_excused_by_when_it_was_received() {
        let found = |second: u32| {
            let mut audit = Audit::new("c", "s");
            audit.excused().begin(10_000);
            audit.excused().end(20_000);
            let line = json!({"stage": "ResponseComplete", "verb": "get", "user": {"username": "s"}, "objectRef": {"resource": "pods"},
                "responseStatus": {"code": 403}, "requestReceivedTimestamp": format!("1970-01-01T00:00:{second:02}.000000Z")});
            audit.line(&line.to_string(), 15_000);
            audit.findings().len()
        };
        assert_eq!([9, 10, 20, 21].map(found), [1, 0, 0, 1]);
        let mut lasts = Excused::default();
        lasts.begin(5);
        assert_eq!([4, 5, i64::MAX].map(|at| lasts.holds(at)), [false, true, true]);
    }

    #[test]
    fn calls_may_grow_with_the_events_and_not_with_their_square() {
        assert_eq!(superlinear((10, 40), (100, 450), 20), None);
        assert!(superlinear((10, 40), (100, 4000), 20).is_some());
    }
}
