//! Refuses a list that is older than the events seen so far.
//!
//! A list shows the present state, so it should never be older. But when several API servers answer in turn, one of them may be behind without knowing it. A cache that
//! is filled from it goes back in time: a bound pod is unbound again, and its node is given away twice. So such a list is refused and requested again. If the lists stay
//! older for [`ACCEPTED_AFTER`], they are accepted: then the cluster itself went back, because its etcd was restored from a backup.
//!
//! Versions of one kind can be compared as numbers: this is part of the API since Kubernetes 1.35, and was true before. A version that is no number is never older.

use std::time::Duration;

use tokio::time::Instant;

/// How long lists must be older before they are accepted.
pub(super) const ACCEPTED_AFTER: Duration = Duration::from_secs(60);

/// The newest resourceVersion of one kind that was seen.
#[derive(Debug, Default)]
pub(super) struct Newest {
    seen: u64,
    older_since: Option<Instant>,
}

impl Newest {
    /// Records that a watch has reached this version.
    pub(super) fn reached(&mut self, version: &str) {
        self.seen = self.seen.max(version.parse().unwrap_or(0));
    }

    /// Records a failed list: whether it would have been older is unknown.
    pub(super) const fn failed(&mut self) {
        self.older_since = None;
    }

    /// Returns whether a list of this version is accepted now.
    ///
    /// # Errors
    ///
    /// The newer version that was seen before.
    pub(super) fn take(&mut self, version: &str, now: Instant) -> Result<(), u64> {
        let Ok(version) = version.parse::<u64>() else { return Ok(()) };
        if version < self.seen {
            let since = *self.older_since.get_or_insert(now);
            if now.saturating_duration_since(since) < ACCEPTED_AFTER {
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
    fn an_older_list_is_accepted_when_all_lists_were_older_for_the_whole_time() {
        let (mut newest, start) = (Newest::default(), clock::monotonic());
        assert_eq!(newest.take("10", start), Ok(()));
        newest.reached("20");
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(newest.take("19", start), Err(20));
        assert_eq!(newest.take("19", after(59)), Err(20));
        assert_eq!(newest.take("19", after(60)), Ok(()));
        assert_eq!(newest.take("19", after(61)), Ok(()), "the accepted version is the newest now");
        newest.reached("30");
        assert_eq!(newest.take("29", after(70)), Err(30));
        // Two older lists with a failure between them prove nothing about the time between them.
        newest.failed();
        assert_eq!(newest.take("29", after(170)), Err(30));
        assert_eq!(newest.take("30", after(171)), Ok(()));
        assert_eq!(newest.take("29", after(300)), Err(30));
    }

    #[test]
    fn a_version_that_is_no_number_is_accepted() {
        let (mut newest, now) = (Newest::default(), clock::monotonic());
        newest.reached("7");
        assert_eq!(newest.take("a", now), Ok(()));
    }
}
