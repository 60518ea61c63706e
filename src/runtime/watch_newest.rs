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

    /// A list did not come: nobody knows whether it would still have been older.
    pub(super) const fn failed(&mut self) {
        self.older_since = None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    #[test]
    fn what_is_older_is_believed_when_it_was_so_all_the_time() {
        let (mut newest, start) = (Newest::default(), clock::monotonic());
        assert_eq!(newest.take("10", start), Ok(()));
        newest.reached("20");
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(newest.take("19", start), Err(20));
        assert_eq!(newest.take("19", after(59)), Err(20));
        assert_eq!(newest.take("19", after(60)), Ok(()));
        assert_eq!(newest.take("19", after(61)), Ok(()), "what was believed is what was seen");
        newest.reached("30");
        assert_eq!(newest.take("29", after(70)), Err(30));
        // Two sightings with nothing between them are none of the time between them.
        newest.failed();
        assert_eq!(newest.take("29", after(170)), Err(30));
        assert_eq!(newest.take("30", after(171)), Ok(()));
        assert_eq!(newest.take("29", after(300)), Err(30));
    }

    #[test]
    fn a_version_that_is_no_number_is_taken() {
        let (mut newest, now) = (Newest::default(), clock::monotonic());
        newest.reached("7");
        assert_eq!(newest.take("a", now), Ok(()));
    }
}
