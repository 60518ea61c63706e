//! Does the API server refuse something because this program's account lacks a right, and was that said already?
//!
//! A right that is missing is missing for every object of its kind, and each of them is tried again: so it is said once in a while for a verb and a resource,
//! and not for an object. What a policy or a quota refuses is about the object, and is said by whoever sent it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::CallError;

/// So long nothing more is said about the same right.
const QUIET: Duration = Duration::from_secs(60);

/// What is to be done about it, for the log.
pub(super) const ADVICE: &str = "give its account the right that the error names: `helm upgrade` (of Helm 4 with --force-conflicts) writes the chart's ClusterRole again";

/// Which rights were found to be missing, and when that was said last.
#[derive(Debug, Default)]
pub(super) struct Rights {
    told: Mutex<BTreeMap<(&'static str, &'static str), Instant>>,
}

impl Rights {
    /// Whether this error is to be told now: it is about a right, and nobody has said so for a while.
    pub(super) fn is_news(&self, verb: &'static str, resource: &'static str, error: &CallError, now: Instant) -> bool {
        if !is_missing(error) {
            return false;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.get(&(verb, resource));
        if last.is_some_and(|last| now.saturating_duration_since(*last) < QUIET) {
            return false;
        }
        told.insert((verb, resource), now);
        true
    }
}

/// Whether the authorizer said this, in the words that it has for every right (`User "…" cannot patch resource "…"`). An admission policy, which answers
/// with the same code, has words of its own.
pub(super) fn is_missing(error: &CallError) -> bool {
    matches!(error, CallError::Forbidden(text) if text.contains("\" cannot ") && text.contains(" resource \""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(text: &str) -> CallError {
        CallError::Forbidden(text.to_owned())
    }

    #[test]
    fn a_right_that_is_missing_is_said_once_in_a_while_for_all_objects() {
        let lacking = |queue: &str| {
            forbidden(&format!(
                r#"queues.scheduling.volcano.sh "{queue}" is forbidden: User "a" cannot patch resource "queues/status" in API group "scheduling.volcano.sh" at the cluster scope"#
            ))
        };
        let (rights, start) = (Rights::default(), Instant::now());
        let news = |error: &CallError, seconds| rights.is_news("patch", "queues/status", error, start + Duration::from_secs(seconds));
        assert!(news(&lacking("one"), 0));
        assert!(!news(&lacking("two"), 59), "another object, the same right");
        assert!(news(&lacking("two"), 60));
        assert!(rights.is_news("create", "events", &lacking("x"), start), "another right");
    }

    #[test]
    fn what_is_about_an_object_is_not_about_a_right() {
        let rights = Rights::default();
        for error in [
            forbidden(
                r#"podgroups "a" is forbidden: ValidatingAdmissionPolicy 'x' denied request: queue b may not be used: c lacks the verb use on it"#,
            ),
            forbidden(r#"pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#),
            CallError::NotFound("\" cannot resource \"".to_owned()),
        ] {
            assert!(!rights.is_news("patch", "podgroups", &error, Instant::now()), "{error}");
        }
    }
}
