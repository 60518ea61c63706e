//! Is a list older than what was seen already?
//!
//! A list comes from the state of now, so it never should be. But where several API servers answer in turn, one of them may be behind and not know it; a cache that is filled from it goes
//! back in time: what was bound is unbound again, and its room is given away twice. So such a list is not taken, and asked for again. Only what goes on for
//! [`BELIEVED`] is believed: then the cluster itself went back, because its etcd was restored from a backup.
//!
//! That versions of one kind can be compared as numbers is part of the API since Kubernetes 1.35, and was so before. A version that is no number is older than none.

use std::time::Duration;

use tokio::time::Instant;

/// For so long lists are older before they are believed.
pub(super) const BELIEVED: Duration = Duration::from_secs(60);

/// The newest resourceVersion of one kind that was seen.
#[derive(Debug, Default)]
pub(super) struct Newest {
    seen: u64,
    older_since: Option<Instant>,
}

impl Newest {
    /// A watch has come so far.
    pub(super) fn reached(&mut self, version: &str) {
        self.seen = self.seen.max(version.parse().unwrap_or(0));
    }

    /// Whether a list of this version may be taken now.
    ///
    /// # Errors
    ///
    /// The version that was seen before it.
    pub(super) fn take(&mut self, version: &str, now: Instant) -> Result<(), u64> {
        let Ok(version) = version.parse::<u64>() else { return Ok(()) };
        if version < self.seen {
            let since = *self.older_since.get_or_insert(now);
            if now.saturating_duration_since(since) < BELIEVED {
                return Err(self.seen);
            }
        }
        *self = Self { seen: version, older_since: None };
        Ok(())
    }
}
