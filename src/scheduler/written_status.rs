//! The status that was written to a PodGroup, until the watch shows it.

use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, Uid};

/// A status that was written to a PodGroup and that the watch may not have shown yet.
#[derive(Debug)]
pub(super) struct WrittenStatus {
    /// The UID of the PodGroup.
    pub(super) uid: Uid,
    /// The written status.
    pub(super) status: PodGroupStatus,
    /// The resourceVersion after the write; `None` before the answer.
    pub(super) version: Option<u64>,
}

impl WrittenStatus {
    /// Returns whether the watch has caught up or shows another object.
    pub(super) fn is_observed(&self, shown: &GroupFacts) -> bool {
        if self.uid != shown.uid {
            return true;
        }
        match (self.version, shown.resource_version.parse::<u64>()) {
            (Some(written), Ok(shown)) => shown >= written,
            // Before the answer there is no version to compare. A version that is not a number can never be compared.
            (None, Ok(_)) => false,
            (_, Err(_)) => true,
        }
    }
}
