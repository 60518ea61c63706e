//! Does the watch show yet what was written to a PodGroup?

use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, Uid};

/// A PodGroup's status that was written and that the watch has perhaps not shown yet.
#[derive(Debug)]
pub(super) struct Written {
    /// Whose it is.
    pub(super) uid: Uid,
    /// What was written.
    pub(super) status: PodGroupStatus,
    /// The version that it stands in; none before the answer.
    pub(super) version: Option<u64>,
}

impl Written {
    /// Whether the watch has caught up, or shows another object.
    pub(super) fn is_over(&self, shown: &GroupFacts) -> bool {
        if self.uid != shown.uid {
            return true;
        }
        match (self.version, shown.resource_version.parse::<u64>()) {
            (Some(written), Ok(shown)) => shown >= written,
            // Before the answer nothing can be compared, and a version that is no number never can.
            (None, Ok(_)) => false,
            (_, Err(_)) => true,
        }
    }
}
