//! Limits the warnings about missing RBAC permissions to one a minute for each verb and resource.
//!
//! A missing permission is missing for every object of a kind, and each of these requests is retried. So the warning is logged for a verb and a
//! resource, and not for an object. What a policy or a quota refuses is about one object; the sender of the request reports it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::CallError;

/// How long no further warning is logged about the same permission.
const QUIET: Duration = Duration::from_secs(60);

/// What an administrator can do about it, for the log.
pub(super) const ADVICE: &str = "give its ServiceAccount the permission that the error names: `helm upgrade` (in Helm 4 with --force-conflicts) writes the chart's ClusterRole again";

/// When a warning about each missing permission was logged last.
#[derive(Debug, Default)]
pub(super) struct RbacWarnings {
    logged: Mutex<BTreeMap<(&'static str, &'static str), Instant>>,
}

impl RbacWarnings {
    /// Whether a warning about this error is due: a permission is missing, and there was no warning for a while. It then counts as logged.
    pub(super) fn is_due(&self, verb: &'static str, resource: &'static str, error: &CallError, now: Instant) -> bool {
        if !is_permission_missing(error) {
            return false;
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let last = logged.get(&(verb, resource));
        if last.is_some_and(|last| now.saturating_duration_since(*last) < QUIET) {
            return false;
        }
        logged.insert((verb, resource), now);
        true
    }
}

/// Whether the error is the authorizer's, by the words that it has for every permission (`User "…" cannot patch resource "…"`). An admission policy
/// answers with the same code and other words.
pub(super) fn is_permission_missing(error: &CallError) -> bool {
    matches!(error, CallError::Forbidden(text) if text.contains("\" cannot ") && text.contains(" resource \""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(text: &str) -> CallError {
        CallError::Forbidden(text.to_owned())
    }

    #[test]
    fn a_missing_permission_is_logged_once_in_a_while_for_all_objects() {
        let lacking = |queue: &str| {
            forbidden(&format!(
                r#"queues.scheduling.volcano.sh "{queue}" is forbidden: User "a" cannot patch resource "queues/status" in API group "scheduling.volcano.sh" at the cluster scope"#
            ))
        };
        let (warnings, start) = (RbacWarnings::default(), Instant::now());
        let due = |error: &CallError, seconds| warnings.is_due("patch", "queues/status", error, start + Duration::from_secs(seconds));
        assert!(due(&lacking("one"), 0));
        assert!(!due(&lacking("two"), 59), "another object, the same permission");
        assert!(due(&lacking("two"), 60));
        assert!(warnings.is_due("create", "events", &lacking("x"), start), "another permission");
    }

    #[test]
    fn a_refusal_of_one_object_is_not_about_a_permission() {
        let warnings = RbacWarnings::default();
        for error in [
            forbidden(
                r#"podgroups "a" is forbidden: ValidatingAdmissionPolicy 'x' denied request: queue b may not be used: c lacks the verb use on it"#,
            ),
            forbidden(r#"pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#),
            CallError::NotFound("\" cannot resource \"".to_owned()),
        ] {
            assert!(!warnings.is_due("patch", "podgroups", &error, Instant::now()), "{error}");
        }
    }
}
