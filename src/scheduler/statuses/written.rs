//! What was written to the status of a PodGroup or a queue, and when may the same be written again?

use std::time::Duration;

use crate::api::podgroup::PodGroupStatus;
use crate::api::queue::QueueStatus;
use crate::api::{GroupFacts, Uid};
use crate::scheduler::dialect;

/// The least time between two writes of the same status to a queue.
///
/// Another scheduler that serves the queue writes its own sums. Each of the two sees the other's write as a change.
const REPEAT: Duration = Duration::from_secs(60);

/// A status that was written to a PodGroup and that the watch may not have shown yet.
#[derive(Debug)]
pub(super) struct WrittenStatus {
    /// The UID of the PodGroup.
    pub(super) uid: Uid,
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

/// The last write to the status of a queue.
#[derive(Debug)]
pub(super) struct WrittenQueue {
    /// The UID of the queue.
    pub(super) uid: Uid,
    /// The fields that this program computed.
    pub(super) own: QueueStatus,
    /// The start of the write, since the start of the process.
    pub(super) at: Duration,
}

impl WrittenQueue {
    /// Returns whether this write had these fields for this queue, so that only another program can have changed them.
    pub(super) fn has(&self, uid: &Uid, own: &QueueStatus) -> bool {
        self.uid == *uid && dialect::queue::same(&self.own, own)
    }

    /// Returns when the same fields may be written again.
    pub(super) const fn may_repeat(&self) -> Duration {
        self.at.saturating_add(REPEAT)
    }
}
