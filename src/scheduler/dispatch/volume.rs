//! Ties one claim to a volume or to a node.
//!
//! The write names a resourceVersion, so it takes effect at most once, and not after anything else has changed the object. One without an
//! answer is sent again, in the lane of its namespace. If the first one has taken effect after all, the second is refused; the PodGroup is
//! tried again then, and finds the claim tied.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, Patch};

use crate::api::volumes::{PersistentVolume, PersistentVolumeClaim};
use crate::backoff::Backoff;
use crate::cycle::plan::{Tie, VolumeWrite};

use super::super::event::Report;
use super::super::volume_patch::patch;
use super::bind_queue::{Attempt, Tries};
use super::write::patched;
use super::{Destination, Done};

/// The back-off between two requests.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The limit of requests without a final answer. The PodGroup backs off after that.
const MOST: u32 = 5;

/// A claim to be tied, and its attempts so far.
#[derive(Clone, Debug)]
pub(super) struct VolumeAttempt {
    pub(super) write: VolumeWrite,
    pub(super) tries: Tries,
}

impl Attempt for VolumeAttempt {
    fn namespace(&self) -> &Arc<str> {
        &self.write.claim.namespace
    }

    fn tries(&self) -> &Tries {
        &self.tries
    }

    fn tries_mut(&mut self) -> &mut Tries {
        &mut self.tries
    }
}

impl VolumeAttempt {
    pub(super) fn new(write: VolumeWrite) -> Self {
        Self { write, tries: Tries::default() }
    }

    /// Returns the report that the claim is not tied.
    pub(super) fn failed(&self, reason: &'static str) -> Report {
        Report::NotTied(self.write.binding, self.write.claim.clone(), reason)
    }
}

impl Destination {
    /// Sends the write once.
    pub(super) async fn tie(&self, mut attempt: VolumeAttempt) -> Done {
        if !self.leadership.is_leading() {
            return Done::Known(attempt.failed("not_leading"));
        }
        let (write, body) = (&attempt.write, Patch::Merge(patch(&attempt.write)));
        let params = patched();
        let answer = match &write.tie {
            Tie::Volume { name, .. } => {
                let volumes = Api::<PersistentVolume>::all(self.client.clone());
                self.caller.once("patch", "persistentvolumes", volumes.patch(name, &params, &body)).await.map(drop)
            }
            Tie::Node { .. } => {
                let claims = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), &write.claim.namespace);
                self.caller.once("patch", "persistentvolumeclaims", claims.patch(&write.claim.name, &params, &body)).await.map(drop)
            }
        };
        let Err(error) = answer else { return Done::Known(Report::Tied(write.claim.clone())) };
        let is_open = error.outcome_unknown() || error.is_transient();
        attempt.tries.fail();
        if is_open && attempt.tries.failures < MOST {
            let rest = BACKOFF.delay(attempt.tries.failures).max(error.retry_after().unwrap_or_default());
            return Done::NotTied(Box::new(attempt), rest);
        }
        let claim = &attempt.write.claim;
        tracing::warn!(claim = %claim.name, namespace = %claim.namespace, %error, "the claim could not be tied to its volume or node");
        Done::Known(attempt.failed(error.kind()))
    }
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
