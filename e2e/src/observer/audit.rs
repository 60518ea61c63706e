//! Judges the requests of the two programs from the lines of the API server's audit log (checks 7 and 8, and the requests of check 9). Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::finding::Finding;

/// One kind of API call: user, verb and resource (`podgroups`, `pods/binding`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The user of the request, after impersonation.
    pub user: String,
    /// The verb as the API server names it: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The plural resource name, with `/subresource` if there is one. For a request without a resource: the URL path.
    pub resource: String,
}

/// Counts the calls in an audit log and collects findings.
#[derive(Debug)]
pub struct Audit {
    controller: String,
    watched: Vec<String>,
    calls: BTreeMap<Call, u64>,
    findings: Vec<Finding>,
    markers: Vec<String>,
    /// How many of `bound` the log has before the last marker.
    bound_before_marker: u64,
    scheduler: String,
    /// Requests that were received at this time or before, in milliseconds, are not judged.
    begins: i64,
    /// The successful bindings by the scheduler.
    bound: u64,
    /// The pods for which the API server accepted the dry run of an eviction by the scheduler.
    agreed: BTreeSet<String>,
    excused: Excused,
}

impl Audit {
    /// Creates an empty audit. Check 7 (guarded deletes) judges the user `controller`; check 8 (no refusals) judges both users.
    pub fn new(controller: &str, scheduler: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            watched: vec![controller.to_owned(), scheduler.to_owned()],
            calls: BTreeMap::new(),
            findings: Vec::new(),
            markers: Vec::new(),
            bound_before_marker: 0,
            scheduler: scheduler.to_owned(),
            begins: i64::MIN,
            bound: 0,
            agreed: BTreeSet::new(),
            excused: Excused::default(),
        }
    }

    /// Judges only requests that are received after this time, in milliseconds. The log may be older than its reader.
    pub fn begins_after(&mut self, at: i64) {
        self.begins = at;
    }

    /// Returns the number of calls so far, by kind of call. A request is counted once, when it has been answered.
    pub fn calls(&self) -> &BTreeMap<Call, u64> {
        &self.calls
    }

    /// Returns how many bindings by the scheduler the API server had accepted before it answered the last marker.
    pub fn bound_before_marker(&self) -> u64 {
        self.bound_before_marker
    }

    /// Returns the findings so far.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns whether the log already shows a request for an object with this name. It shows up to where the log has been read.
    pub fn has_read(&self, marker: &str) -> bool {
        self.markers.iter().any(|known| known == marker)
    }

    /// Reads one line. `now`, in milliseconds, becomes the time of a finding.
    ///
    /// A line that is not a JSON event is a finding of check 0, because the observer cannot see what the line said.
    pub fn line(&mut self, line: &str, now: i64) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            self.found(0, "audit log", "a line is not JSON", now);
            return;
        };
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // One request has several stages. `Panic` is the last stage of a request if its handler crashed.
        if !matches!(text("/stage"), "ResponseComplete" | "Panic") {
            return;
        }
        let user = Some(text("/impersonatedUser/username")).filter(|user| !user.is_empty()).unwrap_or(text("/user/username"));
        let (verb, name, resource) = (text("/verb"), text("/objectRef/name"), resource(&event));
        if name.starts_with(super::MARKER_PREFIX) {
            self.markers.push(name.to_owned());
            self.bound_before_marker = self.bound;
        }
        *self.calls.entry(Call { user: user.to_owned(), verb: verb.to_owned(), resource: resource.clone() }).or_default() += 1;
        let object = format!("{resource} {}/{name}", text("/objectRef/namespace"));
        let code = event.pointer("/responseStatus/code").and_then(Value::as_i64);
        let of_group = resource == "podgroups" && text("/objectRef/apiGroup") == "scheduling.volcano.sh";
        let received = received(&event).unwrap_or(now);
        let judged = received > self.begins;
        if judged
            && user == self.controller
            && of_group
            && let Some(fault) = unguarded(&event, verb)
        {
            self.found(7, &object, &fault, now);
        }
        if user == self.scheduler && code.is_some_and(|code| (200..300).contains(&code)) {
            if resource == "pods/eviction" && text("/requestURI").contains("dryRun=All") {
                self.agreed.insert(object.clone());
            } else if judged {
                self.scheduler_did(verb, &resource, &object, now);
            }
        }
        // A terminating namespace refuses creations with the same code. A program cannot always know in time that the namespace terminates.
        let ending = text("/responseStatus/message").contains("because it is being terminated");
        let excused = self.excused.holds(received);
        if judged && code == Some(403) && !ending && !excused && self.watched.iter().any(|watched| watched == user) {
            self.found(8, &object, &format!("{user} may not {verb} this resource: {}", text("/responseStatus/message")), now);
        }
    }

    /// Counts a successful binding, and applies check 9: a pod is removed only with the Eviction API, which respects disruption budgets, and only after a dry run
    /// was accepted. So no victim is evicted where a budget protects another one.
    fn scheduler_did(&mut self, verb: &str, resource: &str, object: &str, now: i64) {
        match (verb, resource) {
            ("create", "pods/binding") => self.bound = self.bound.saturating_add(1),
            ("create", "pods/eviction") if !self.agreed.contains(object) => {
                self.found(9, object, "the scheduler evicted the pod, and no dry run was accepted before", now);
            }
            ("delete" | "deletecollection", "pods") => {
                self.found(9, object, "the scheduler deleted the pod instead of evicting it, past all disruption budgets", now);
            }
            _ => {}
        }
    }

    /// Returns the periods in which a refusal is not a finding.
    pub(super) fn excused(&mut self) -> &mut Excused {
        &mut self.excused
    }

    fn found(&mut self, check: u8, object: &str, detail: &str, at: i64) {
        self.findings.push(Finding { check, object: object.to_owned(), detail: detail.to_owned(), at });
    }
}

/// Periods in which refusals are excused, because an API server that has just started refuses every user until it has read the roles.
///
/// The time at which the API server received the request decides, in milliseconds. The time at which the line is read does not matter.
#[derive(Debug, Clone, Default)]
pub struct Excused(Vec<(i64, Option<i64>)>);

impl Excused {
    /// Starts a period, unless one is open.
    pub fn begin(&mut self, at: i64) {
        if self.0.iter().all(|(_, to)| to.is_some()) {
            self.0.push((at, None));
        }
    }

    /// Ends the open period.
    pub fn end(&mut self, at: i64) {
        self.0.iter_mut().filter(|(_, to)| to.is_none()).for_each(|(_, to)| *to = Some(at));
    }

    /// Returns whether a moment is in one of the periods.
    pub fn holds(&self, at: i64) -> bool {
        self.0.iter().any(|(from, to)| *from <= at && to.is_none_or(|to| at <= to))
    }
}

/// Returns when the API server received the request, in milliseconds.
pub fn received(event: &Value) -> Option<i64> {
    let text = event.get("requestReceivedTimestamp")?.as_str()?;
    Some(text.parse::<Timestamp>().ok()?.as_millisecond())
}

/// Check 7: describes which preconditions a delete of a PodGroup does not have. `None` when it has both.
fn unguarded(event: &Value, verb: &str) -> Option<String> {
    if verb == "deletecollection" {
        return Some("deleted with deletecollection, which has no preconditions".to_owned());
    }
    if verb != "delete" {
        return None;
    }
    let stated = |key: &str| {
        event.pointer(&format!("/requestObject/preconditions/{key}")).and_then(Value::as_str).is_some_and(|value| !value.is_empty())
    };
    let missing: Vec<&str> = ["uid", "resourceVersion"].into_iter().filter(|key| !stated(key)).collect();
    // Below the audit level Request the log has no body, so the preconditions cannot be seen. This must be a finding, too.
    (!missing.is_empty()).then(|| {
        format!(
            "DELETE without the preconditions {} (audit level {})",
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

/// Check 8: returns a description when the number of calls grows faster than the number of events, from a small run to a large run.
///
/// `small` and `large` are (events, calls). The large run may make 1.5 times as many calls for each event, plus `fixed` calls.
/// `fixed` covers calls that do not depend on events: start, leases, relists.
pub fn superlinear(small: (u64, u64), large: (u64, u64), fixed: u64) -> Option<String> {
    let (events, calls) = large;
    let allowed = u128::from(small.1).saturating_mul(u128::from(events)).saturating_mul(3) / u128::from(small.0.max(1)).saturating_mul(2);
    let allowed = allowed.saturating_add(u128::from(fixed));
    (u128::from(calls) > allowed)
        .then(|| format!("{calls} calls for {events} events; at most {allowed} are allowed after {} calls for {} events", small.1, small.0))
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
        assert!(findings("other-user", "delete", json!({})).is_empty());
        assert_eq!(findings("other-user", "delete", json!({"impersonatedUser": {"username": "c"}})), [7]);
        assert!(findings("c", "patch", json!({})).is_empty());
    }

    #[test]
    fn the_scheduler_evicts_after_a_dry_run_and_deletes_no_pod() {
        let request = |verb: &str, sub: &str, query: &str, code: u16| {
            json!({"stage": "ResponseComplete", "verb": verb, "user": {"username": "s"}, "responseStatus": {"code": code},
                "requestURI": format!("/api/v1/namespaces/n/pods/p/{sub}{query}"),
                "objectRef": {"resource": "pods", "subresource": sub, "namespace": "n", "name": "p"}})
        };
        let found = |lines: &[Value]| {
            let mut audit = Audit::new("c", "s");
            lines.iter().for_each(|line| audit.line(&line.to_string(), 0));
            (audit.findings().iter().map(|finding| finding.check).collect::<Vec<_>>(), audit.bound)
        };
        let (dry, real) = (request("create", "eviction", "?dryRun=All", 201), request("create", "eviction", "", 201));
        assert_eq!(found(&[dry, real.clone()]), (vec![], 0));
        assert_eq!(found(std::slice::from_ref(&real)), (vec![9], 0));
        assert_eq!(found(&[request("create", "eviction", "?dryRun=All", 429), real]), (vec![9], 0));
        assert_eq!(found(&[request("delete", "", "", 200)]), (vec![9], 0));
        assert_eq!(found(&[request("create", "binding", "", 201), request("create", "binding", "", 409)]), (vec![], 1));
    }

    #[test]
    fn a_refusal_of_either_program_is_found_but_not_a_refusal_by_a_terminating_namespace() {
        let refused = |message: &str| json!({"responseStatus": {"code": 403, "message": message}});
        assert_eq!(findings("s", "get", refused("no")), [8]);
        assert!(findings("other-user", "get", refused("no")).is_empty());
        assert!(findings("s", "create", refused("namespace n: because it is being terminated")).is_empty());
    }

    #[test]
    fn a_refusal_is_excused_when_the_request_was_received_while_the_api_server_started() {
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
    fn what_was_received_before_the_reader_began_is_counted_and_not_judged() {
        let request = |second: u32, sub: &str, query: &str, code: u16| {
            json!({"stage": "ResponseComplete", "verb": "create", "user": {"username": "s"}, "responseStatus": {"code": code},
                "requestURI": format!("/api/v1/namespaces/n/pods/p/{sub}{query}"),
                "objectRef": {"resource": "pods", "subresource": sub, "namespace": "n", "name": "p"},
                "requestReceivedTimestamp": format!("1970-01-01T00:00:{second:02}.000000Z")})
        };
        let mut audit = Audit::new("c", "s");
        audit.begins_after(10_000);
        for line in [
            request(9, "eviction", "", 201),
            request(9, "eviction", "?dryRun=All", 201),
            request(9, "binding", "", 403),
            request(10, "binding", "", 201),
            request(11, "binding", "", 201),
            request(11, "eviction", "", 201),
        ] {
            audit.line(&line.to_string(), 20_000);
        }
        assert_eq!((audit.findings(), audit.bound, audit.calls().values().sum::<u64>()), (&[][..], 1, 6));
        audit.line(&request(11, "binding", "", 403).to_string(), 20_000);
        assert_eq!(audit.findings().len(), 1);
    }

    #[test]
    fn bindings_that_the_log_has_after_the_last_marker_need_not_be_judged_yet() {
        let line = |user: &str, verb: &str, resource: &str, sub: &str, name: &str| {
            let reference = json!({"resource": resource, "subresource": sub, "namespace": "n", "name": name});
            json!({"stage": "ResponseComplete", "verb": verb, "user": {"username": user}, "objectRef": reference, "responseStatus": {"code": 201}}).to_string()
        };
        let (binding, marker) = (line("s", "create", "pods", "binding", "p"), |name: &str| line("admin", "get", "podgroups", "", name));
        let mut audit = Audit::new("c", "s");
        let mut seen = Vec::new();
        for each in [
            &binding,
            &marker(&format!("{}1", super::super::MARKER_PREFIX)),
            &binding,
            &marker(&format!("{}2", super::super::MARKER_PREFIX)),
        ] {
            audit.line(each, 0);
            seen.push(audit.bound_before_marker());
        }
        assert_eq!(seen, [0, 1, 1, 2]);
    }

    #[test]
    fn calls_may_grow_with_the_events_and_not_with_their_square() {
        assert_eq!(superlinear((10, 40), (100, 450), 20), None);
        assert!(superlinear((10, 40), (100, 4000), 20).is_some());
    }
}
