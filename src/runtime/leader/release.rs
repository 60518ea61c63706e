//! What does a process do with its lease at its end?

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::elector::Elector;
use super::{Release, ReleaseRule, State};
use crate::runtime::call::CallError;
use crate::runtime::clock;

impl Elector {
    /// Empties the holder, so that the next process need not wait. Only while we surely hold it, or may have taken it just now, and at most twice.
    pub(super) async fn release(mut self) {
        self.state.send_replace(State::Lost);
        let taking = self.until.is_none() && self.unanswered;
        let leading = self.until.is_some_and(|until| clock::through_suspension() < until);
        if !leading && !taking {
            return;
        }
        if taking {
            // The read says whether we hold it.
            self.known = None;
        }
        let release = match self.rule {
            ReleaseRule::Always => Release::Unmarked,
            ReleaseRule::Marked(_) => self.release.get().copied().unwrap_or(Release::Keep),
        };
        if release == Release::Keep {
            let lasts = self.config.lease_duration;
            tracing::warn!(
                lease = self.lease(),
                ?lasts,
                "lease kept: requests may still be under way, so the next leader waits until it runs out"
            );
            return;
        }
        // A renewal that was cut off may have been done: our copy can be one version behind, hence twice.
        let mut released = self.release_once(release).await;
        if matches!(released, Err(CallError::Conflict(_))) {
            self.known = None;
            released = self.release_once(release).await;
        }
        match released {
            Ok(()) => tracing::info!(lease = self.lease(), "lease released"),
            Err(error) => tracing::warn!(lease = self.lease(), %error, "lease not released"),
        }
    }

    async fn release_once(&mut self, release: Release) -> Result<(), CallError> {
        self.presence().await?;
        let Some(mut lease) = self.known.take() else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let now = MicroTime(clock::now());
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        let transitions = spec.lease_transitions.unwrap_or(0);
        if let (ReleaseRule::Marked(key), Release::Drained) = (self.rule, release) {
            lease.metadata.annotations.get_or_insert_default().insert(key.to_owned(), transitions.to_string());
        }
        self.put(lease).await.map(drop)
    }
}
