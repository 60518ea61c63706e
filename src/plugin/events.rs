//! Reads the Events of an object, and picks the newest warnings.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The most Events that are shown of a PodGroup with its owners, and of its claims.
const MOST: usize = 3;

/// The field selector of the Events by which provisioners say why they make no volume.
pub const OF_PROVISIONERS: &str = "involvedObject.kind=PersistentVolumeClaim,reason=ProvisioningFailed";

/// One Event, with the fields that people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was last seen; `None` where it does not say.
    pub at: Option<Timestamp>,
    /// `Normal` or `Warning`.
    pub kind: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The reporting component.
    pub from: String,
    /// The claim that it is about; `None` where it is about the PodGroup or an owner.
    pub claim: Option<String>,
}

impl Event {
    /// Reads an Event from its object, in both forms of the API (counts and series).
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"];
        let from = ["/reportingComponent", "/source/component"].map(text).into_iter().find(|from| !from.is_empty());
        Self {
            at: times.iter().find_map(|path| text(path).parse().ok()),
            kind: text("/type").to_owned(),
            reason: text("/reason").to_owned(),
            message: text("/message").to_owned(),
            from: from.unwrap_or_default().to_owned(),
            claim: None,
        }
    }

    /// Returns the Event as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({ "at": self.at.map(|at| at.to_string()), "type": self.kind, "reason": self.reason, "message": self.message, "from": self.from, "claim": self.claim })
    }
}

/// Returns what provisioners say of these claims, from Events of many claims ([`OF_PROVISIONERS`]).
#[must_use]
pub fn of_claims(events: &[Value], claims: &BTreeSet<&str>) -> Vec<Event> {
    let of_claim = |object: &Value| {
        let claim = object.pointer("/involvedObject/name")?.as_str().filter(|name| claims.contains(name))?;
        Some(Event { claim: Some(claim.to_owned()), ..Event::of(object) })
    };
    newest(events.iter().filter_map(of_claim).collect())
}

/// Returns the newest warnings, newest first and each message once. Normal Events are no reason to wait.
#[must_use]
pub fn newest(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.message.cmp(&b.message)));
    let mut newest: Vec<Event> = Vec::new();
    for event in events {
        if event.kind == "Warning" && newest.len() < MOST && !newest.iter().any(|known| known.message == event.message) {
            newest.push(event);
        }
    }
    newest
}

/// Returns how long ago that was, as kubectl writes it: `5s`, `3m`, `2h`, `4d`.
#[must_use]
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_and_once() {
        let event = |at: &str, message: &str| {
            Event::of(&json!({"lastTimestamp": at, "message": message, "type": "Warning", "source": {"component": "s"}}))
        };
        let events = newest(vec![
            event("2026-01-01T00:00:01Z", "a"),
            event("2026-01-01T00:00:03Z", "b"),
            event("2026-01-01T00:00:02Z", "b"),
            event("", "c"),
        ]);
        assert_eq!(events.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!(events[0].from, "s");
        assert_eq!(Event::of(&json!([1])).message, "");
    }

    #[test]
    fn events_of_claims_name_the_claim_and_leave_other_claims_out() {
        let event = |claim: &str, at: &str| json!({"lastTimestamp": at, "type": "Warning", "reason": "ProvisioningFailed", "message": format!("no path for {claim}"), "involvedObject": {"name": claim}});
        let all =
            [event("a", "2026-01-01T00:00:01Z"), event("b", "2026-01-01T00:00:02Z"), event("other", "2026-01-01T00:00:03Z"), json!({})];
        let events = of_claims(&all, &["a", "b"].into());
        let said: Vec<_> = events.iter().map(|event| (event.claim.as_deref(), event.message.as_str())).collect();
        assert_eq!(said, [(Some("b"), "no path for b"), (Some("a"), "no path for a")]);
        assert_eq!(events[0].json()["claim"], "b");
    }

    #[test]
    fn times_are_written_as_kubectl_writes_them() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let table = [
            ("2026-01-09T23:59:55Z", "5s"),
            ("2026-01-09T23:57:00Z", "3m"),
            ("2026-01-09T21:00:00Z", "3h"),
            ("2026-01-01T00:00:00Z", "9d"),
            ("2026-02-01T00:00:00Z", "0s"),
        ];
        for (then, want) in table {
            assert_eq!(ago(then.parse().unwrap(), now), want);
        }
    }
}
