//! Is the program beside this one of another version?
//!
//! Each says in an annotation of its Lease which version it is, with the renewals that it writes anyway ([`super::leader_elector`]). Who comes to lead reads the
//! other's Lease, and logs what to do where the two differ. Once: of two that are replaced one comes to lead last, and that one sees it. Without a Lease there, a
//! holder of it or the right to it nothing is said.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::Api;

use super::call::{Caller, bounded};
use super::clock;
use super::leader::Leadership;
use super::shutdown::Shutdown;

/// What this program says of itself.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A Lease that has not been renewed for so long after its end was held by one who is gone; one whose clock goes wrong by less is not.
const LAPSED: SignedDuration = SignedDuration::from_secs(60);

/// The program that this one works beside.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Its name, which is that of its Lease.
    pub program: &'static str,
    /// The annotation that says the version, on its Lease and on ours.
    pub mark: &'static str,
}

/// Looks once, when this process comes to lead, and waits for `stop` then.
pub(super) async fn watch(beside: Beside, leases: Api<Lease>, caller: Caller, mut leadership: Leadership, stop: Shutdown) {
    let look = async {
        if leadership.acquired().await
            && let Some(theirs) = other_version(beside, &leases, &caller).await
        {
            tracing::warn!(
                other = beside.program,
                theirs,
                ours = VERSION,
                "the program beside this one is of another version: any two go together, and what is new in one is in force only as far as the other knows it; \
                 if no upgrade is under way, bring both to one version (helm upgrade)"
            );
        }
    };
    if stop.unless(look).await.is_some() {
        stop.triggered().await;
    }
}

/// Which version the one beside is, if that is known and another than ours.
async fn other_version(beside: Beside, leases: &Api<Lease>, caller: &Caller) -> Option<String> {
    match caller.read("get", "leases", || leases.get(beside.program)).await {
        Ok(lease) => says(&lease, beside.mark, clock::now()).filter(|theirs| *theirs != VERSION).map(bounded),
        Err(error) => {
            tracing::debug!(other = beside.program, %error, "its version is not known");
            None
        }
    }
}

/// The version in a Lease that somebody holds, and has not left to lapse for long: who died with its node gives nothing back.
fn says<'a>(lease: &'a Lease, mark: &str, now: Timestamp) -> Option<&'a str> {
    let held = silent(lease, now).is_none() && lease.spec.as_ref()?.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    lease.metadata.annotations.as_ref()?.get(mark).map(String::as_str).filter(|_| held)
}

/// For how long nobody has renewed this Lease, where that is so long after its end that who held it is gone; none of one that never said when it was renewed.
#[must_use]
pub fn silent(lease: &Lease, now: Timestamp) -> Option<SignedDuration> {
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

    const BESIDE: Beside = Beside { program: "other", mark: "x/version" };

    /// What is found where the API server answers so, and how often it was asked.
    async fn found(answers: impl Fn(u32) -> (u16, Value) + Send + Sync + 'static) -> (Option<String>, u32) {
        let (asked, answers) = (Arc::new(AtomicU32::new(0)), Arc::new(answers));
        let count = Arc::clone(&asked);
        let app = axum::Router::new().fallback(move || {
            let (code, body) = answers(count.fetch_add(1, Ordering::Relaxed));
            async move { (StatusCode::from_u16(code).unwrap(), Json(body)) }
        });
        let caller = Caller::new(Duration::from_secs(1), RequestMetrics::new(&metrics::registry().unwrap()).unwrap());
        let leases = Api::namespaced(Client::new(app, "ns"), "ns");
        let found = other_version(BESIDE, &leases, &caller).await;
        (found, asked.load(Ordering::Relaxed))
    }

    fn lease(holder: &str, version: Option<&str>) -> Value {
        let annotations = version.map(|version| json!({ "x/version": version }));
        json!({"metadata": {"name": "other", "annotations": annotations}, "spec": {"holderIdentity": holder}})
    }

    /// Held for 15 s, and renewed so many seconds ago.
    fn renewed(seconds: i64) -> Value {
        let mut lease = lease("pod_1", Some("9.9.9"));
        lease["spec"]["leaseDurationSeconds"] = json!(15);
        lease["spec"]["renewTime"] =
            json!((clock::now() - SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
        lease
    }

    #[tokio::test(start_paused = true)]
    async fn another_version_is_found_and_nothing_else_is_said() {
        let table = [
            (200, lease("pod_1", Some("9.9.9")), Some("9.9.9")),
            (200, lease("pod_1", Some(VERSION)), None),
            (200, lease("pod_1", None), None),
            // Who gave it back is not there any more, nor is who has not renewed it for long.
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
    async fn an_api_server_that_is_away_for_a_moment_is_asked_again_and_not_for_ever() {
        let away = || (503, json!({"kind": "Status", "code": 503}));
        let later = found(move |asked| if asked < 2 { away() } else { (200, lease("pod_1", Some("9.9.9"))) });
        assert_eq!(later.await, (Some("9.9.9".to_owned()), 3));
        assert_eq!(found(move |_| away()).await, (None, 4));
    }
}
