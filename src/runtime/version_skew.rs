//! Warns when the controller and the scheduler run different versions.
//!
//! Each program writes its version into an annotation of its Lease, together with the renewals that it writes anyway ([`super::leader`]).
//! A new leader reads the Lease of the other program and logs a warning when the versions differ. It does so once: when both programs are
//! replaced, the last one to become leader sees the difference. No warning is logged without a Lease, without a holder of it, or without the
//! permission to read it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::Api;

use super::call::{Caller, bounded};
use super::clock;
use super::leader::Leadership;
use super::shutdown::Shutdown;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long after its end a Lease that is not renewed counts as abandoned. A holder with a clock that is wrong by less does not count as gone.
const LAPSED: SignedDuration = SignedDuration::from_secs(60);

/// The other one of the two programs.
#[derive(Clone, Copy, Debug)]
pub struct OtherProgram {
    /// Its name, which is also the name of its Lease.
    pub program: &'static str,
    /// The annotation on both Leases that holds the version.
    pub annotation: &'static str,
}

/// Compares the versions once, when this process becomes leader; then waits for `stop`.
pub(super) async fn warn_once(other: OtherProgram, leases: Api<Lease>, caller: Caller, mut leadership: Leadership, stop: Shutdown) {
    let compare = async {
        if leadership.acquired().await.is_some()
            && let Some(theirs) = other_version(other, &leases, &caller).await
        {
            tracing::warn!(
                other = other.program,
                theirs,
                ours = VERSION,
                "the other program runs another version: any two versions work together, but a feature works only as far as both programs know it; \
                 if no upgrade is in progress, bring both to one version (helm upgrade)"
            );
        }
    };
    if stop.unless(compare).await.is_some() {
        stop.triggered().await;
    }
}

/// Returns the version of the other program, if it is known and differs from ours.
async fn other_version(other: OtherProgram, leases: &Api<Lease>, caller: &Caller) -> Option<String> {
    match caller.read("get", "leases", || leases.get(other.program)).await {
        Ok(lease) => version_in(&lease, other.annotation, clock::now()).filter(|theirs| *theirs != VERSION).map(bounded),
        Err(error) => {
            tracing::debug!(other = other.program, %error, "its version is not known");
            None
        }
    }
}

/// Returns the version in a Lease that has a holder and is not abandoned: a process that died with its node leaves its name in the Lease.
fn version_in<'a>(lease: &'a Lease, annotation: &str, now: Timestamp) -> Option<&'a str> {
    let held =
        not_renewed_for(lease, now).is_none() && lease.spec.as_ref()?.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    lease.metadata.annotations.as_ref()?.get(annotation).map(String::as_str).filter(|_| held)
}

/// Returns how long the Lease has not been renewed, if it is abandoned: [`LAPSED`] beyond its end. `None` also for a Lease without a renew time.
#[must_use]
pub fn not_renewed_for(lease: &Lease, now: Timestamp) -> Option<SignedDuration> {
    let spec = lease.spec.as_ref()?;
    let lasts = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(0)));
    let since = now.duration_since(spec.renew_time.as_ref()?.0);
    (since.saturating_sub(lasts) > LAPSED).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::{self, RequestMetrics};
    use axum::Json;
    use axum::http::StatusCode;
    use kube::Client;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const OTHER: OtherProgram = OtherProgram { program: "other", annotation: "x/version" };

    /// Returns what is found when the API server answers so, and how often it was asked.
    async fn found(answers: impl Fn(u32) -> (u16, Value) + Send + Sync + 'static) -> (Option<String>, u32) {
        let (asked, answers) = (Arc::new(AtomicU32::new(0)), Arc::new(answers));
        let count = Arc::clone(&asked);
        let app = axum::Router::new().fallback(move || {
            let (code, body) = answers(count.fetch_add(1, Ordering::Relaxed));
            async move { (StatusCode::from_u16(code).unwrap(), Json(body)) }
        });
        let caller = Caller::new(Duration::from_secs(1), RequestMetrics::new(&metrics::registry().unwrap()).unwrap());
        let leases = Api::namespaced(Client::new(app, "ns"), "ns");
        let found = other_version(OTHER, &leases, &caller).await;
        (found, asked.load(Ordering::Relaxed))
    }

    fn lease(holder: &str, version: Option<&str>) -> Value {
        let annotations = version.map(|version| json!({ "x/version": version }));
        json!({"metadata": {"name": "other", "annotations": annotations}, "spec": {"holderIdentity": holder}})
    }

    /// A Lease with a duration of 15 s that was renewed this many seconds ago.
    fn renewed(seconds: i64) -> Value {
        let mut lease = lease("pod_1", Some("9.9.9"));
        lease["spec"]["leaseDurationSeconds"] = json!(15);
        lease["spec"]["renewTime"] =
            json!((clock::now() - SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
        lease
    }

    #[tokio::test(start_paused = true)]
    async fn another_version_is_found_and_nothing_else_is_reported() {
        let table = [
            (200, lease("pod_1", Some("9.9.9")), Some("9.9.9")),
            (200, lease("pod_1", Some(VERSION)), None),
            (200, lease("pod_1", None), None),
            // A holder that gave the Lease back is gone, and so is one that has not renewed it for long.
            (200, lease("", Some("9.9.9")), None),
            (200, renewed(14 + 60), Some("9.9.9")),
            (200, renewed(16 + 60), None),
            (404, json!({"kind": "Status", "code": 404, "reason": "NotFound"}), None),
            (403, json!({"kind": "Status", "code": 403, "reason": "Forbidden"}), None),
        ];
        for (code, body, want) in table {
            let answer = body.clone();
            assert_eq!(found(move |_| (code, answer.clone())).await, (want.map(str::to_owned), 1), "{code} {body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_briefly_unavailable_is_asked_again_but_not_for_ever() {
        let away = || (503, json!({"kind": "Status", "code": 503}));
        let later = found(move |asked| if asked < 2 { away() } else { (200, lease("pod_1", Some("9.9.9"))) });
        assert_eq!(later.await, (Some("9.9.9".to_owned()), 3));
        assert_eq!(found(move |_| away()).await, (None, 4));
    }
}
