//! Judges the requests of the two programs from the entries of the API server's audit log (checks 7 and 8, and the requests of check 9). Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::Finding;
use crate::audit_log::Entry;

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

    /// Judges one request. `now`, in milliseconds, becomes the time of a finding.
    pub fn judge(&mut self, entry: &Entry, now: i64) {
        let (user, verb, resource) = (&entry.user, entry.verb.as_str(), entry.resource.as_str());
        if entry.name.starts_with(super::MARKER_PREFIX) {
            self.markers.push(entry.name.clone());
            self.bound_before_marker = self.bound;
        }
        *self.calls.entry(Call { user: user.clone(), verb: verb.to_owned(), resource: resource.to_owned() }).or_default() += 1;
        let object = format!("{resource} {}/{}", entry.namespace, entry.name);
        let judged = entry.received.as_millisecond() > self.begins;
        if judged
            && *user == self.controller
            && (entry.group.as_str(), resource) == ("scheduling.volcano.sh", "podgroups")
            && let Some(fault) = unguarded(entry)
        {
            self.found(7, &object, &fault, now);
        }
        if *user == self.scheduler && entry.succeeded() {
            if resource == "pods/eviction" && entry.uri.contains("dryRun=All") {
                self.agreed.insert(object.clone());
            } else if judged {
                self.scheduler_did(verb, resource, &object, now);
            }
        }
        let excused = self.excused.holds(entry.received.as_millisecond());
        if judged && entry.code == 403 && entry.is_refused() && !excused && self.watched.contains(user) {
            self.found(8, &object, &format!("{user} may not {verb} this resource: {}", entry.message), now);
        }
    }

    /// Counts a successful binding, and applies check 9: a pod is removed only with the Eviction API, which respects disruption budgets,
    /// and only after a dry run was accepted. So no victim is evicted where a budget protects another one.
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
/// The time at which the API server received the request decides, in milliseconds. The time at which the log is read does not matter.
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

/// Check 7: describes which preconditions a delete of a PodGroup does not have. `None` when it has both.
fn unguarded(entry: &Entry) -> Option<String> {
    match entry.verb.as_str() {
        "deletecollection" => return Some("deleted with deletecollection, which has no preconditions".to_owned()),
        "delete" => {}
        _ => return None,
    }
    // Below the audit level Request the log has no body, so the preconditions cannot be seen. This must be a finding, too.
    let stated =
        |key: &str| entry.body.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    let missing: Vec<&str> = ["uid", "resourceVersion"].into_iter().filter(|key| !stated(key)).collect();
    (!missing.is_empty()).then(|| format!("DELETE without the preconditions {}; its body: {}", missing.join(" and "), entry.body))
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
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::audit_log::tests::entry;

    /// Returns an audit that has judged these entries.
    fn judged(entries: &[Entry]) -> Audit {
        let mut audit = Audit::new("c", "s");
        entries.iter().for_each(|entry| audit.judge(entry, 0));
        audit
    }

    fn checks(entries: &[Entry]) -> Vec<u8> {
        judged(entries).findings().iter().map(|finding| finding.check).collect()
    }

    fn received(second: i64, entry: Entry) -> Entry {
        Entry { received: Timestamp::from_second(second).unwrap(), ..entry }
    }

    /// Returns a request of the scheduler for a subresource of a pod.
    fn pod(sub: &str, query: &str, code: u16) -> Entry {
        Entry { uri: format!("/api/v1/namespaces/n/pods/x/{sub}{query}"), ..entry("s", &format!("create pods/{sub}"), code) }
    }

    #[test]
    fn a_delete_by_the_controller_needs_both_preconditions() {
        let found = |user: &str, verb: &str, guards: Value| {
            let (group, body) = ("scheduling.volcano.sh".to_owned(), json!({"preconditions": guards}));
            checks(&[Entry { group, body, ..entry(user, &format!("{verb} podgroups"), 200) }])
        };
        assert!(found("c", "delete", json!({"uid": "u", "resourceVersion": "7"})).is_empty());
        assert_eq!(found("c", "delete", json!({"uid": "u"})), [7]);
        assert_eq!(found("c", "delete", json!({"resourceVersion": "7"})), [7]);
        assert_eq!(found("c", "delete", json!({})), [7]);
        assert_eq!(found("c", "deletecollection", json!({})), [7]);
        assert!(found("other-user", "delete", json!({})).is_empty());
        assert!(found("c", "patch", json!({})).is_empty());
    }

    #[test]
    fn the_scheduler_evicts_after_a_dry_run_and_deletes_no_pod() {
        let found = |entries: &[Entry]| (checks(entries), judged(entries).bound);
        let (dry, real) = (pod("eviction", "?dryRun=All", 201), pod("eviction", "", 201));
        assert_eq!(found(&[dry, real.clone()]), (vec![], 0));
        assert_eq!(found(std::slice::from_ref(&real)), (vec![9], 0));
        assert_eq!(found(&[pod("eviction", "?dryRun=All", 429), real]), (vec![9], 0));
        assert_eq!(found(&[entry("s", "delete pods", 200)]), (vec![9], 0));
        assert_eq!(found(&[pod("binding", "", 201), pod("binding", "", 409)]), (vec![], 1));
    }

    #[test]
    fn a_refusal_of_either_program_is_found_but_not_a_refusal_by_a_terminating_namespace() {
        assert_eq!(checks(&[entry("s", "get podgroups", 403), entry("c", "get podgroups", 403)]), [8, 8]);
        assert!(checks(&[entry("other-user", "get podgroups", 403)]).is_empty());
        let message = "namespace n: because it is being terminated".to_owned();
        assert!(checks(&[Entry { message, ..entry("s", "create podgroups", 403) }]).is_empty());
    }

    #[test]
    fn a_refusal_is_excused_when_the_request_was_received_while_the_api_server_started() {
        let found = |second: i64| {
            let mut audit = Audit::new("c", "s");
            audit.excused().begin(10_000);
            audit.excused().end(20_000);
            audit.judge(&received(second, entry("s", "get pods", 403)), 15_000);
            audit.findings().len()
        };
        assert_eq!([9, 10, 20, 21].map(found), [1, 0, 0, 1]);
        let mut lasts = Excused::default();
        lasts.begin(5);
        assert_eq!([4, 5, i64::MAX].map(|at| lasts.holds(at)), [false, true, true]);
    }

    #[test]
    fn what_was_received_before_the_reader_began_is_counted_and_not_judged() {
        let mut audit = Audit::new("c", "s");
        audit.begins_after(10_000);
        for (second, request) in [
            (9, pod("eviction", "", 201)),
            (9, pod("eviction", "?dryRun=All", 201)),
            (9, pod("binding", "", 403)),
            (10, pod("binding", "", 201)),
            (11, pod("binding", "", 201)),
            (11, pod("eviction", "", 201)),
        ] {
            audit.judge(&received(second, request), 20_000);
        }
        assert_eq!((audit.findings(), audit.bound, audit.calls().values().sum::<u64>()), (&[][..], 1, 6));
        audit.judge(&received(11, pod("binding", "", 403)), 20_000);
        assert_eq!(audit.findings().len(), 1);
    }

    #[test]
    fn bindings_that_the_log_has_after_the_last_marker_need_not_be_judged_yet() {
        let marker =
            |number: u8| Entry { name: format!("{}{number}", super::super::MARKER_PREFIX), ..entry("admin", "get podgroups", 404) };
        let log = [pod("binding", "", 201), marker(1), pod("binding", "", 201), marker(2)];
        let seen: Vec<u64> = (1..=log.len()).map(|length| judged(&log[..length]).bound_before_marker()).collect();
        assert_eq!(seen, [0, 1, 1, 2]);
    }

    #[test]
    fn calls_may_grow_with_the_events_and_not_with_their_square() {
        assert_eq!(superlinear((10, 40), (100, 450), 20), None);
        assert!(superlinear((10, 40), (100, 4000), 20).is_some());
    }
}
