//! Refuses a list that is older than what is known of the cluster.
//!
//! A list shows the present state, so it should never be older. But when several API servers answer in turn, one of them may be behind
//! without knowing it. A cache that is filled from it goes back in time: a bound pod is unbound again, and its node is given away twice. So
//! such a list is refused and requested again. Two versions are known: the newest that this watch has seen, and a floor that a request
//! named (`relist`), from the answer to a write of this process.
//!
//! If the lists stay older for [`ACCEPTED_AFTER`], they are accepted:
//! * below the version that this watch has seen: then the cluster itself went back, because its etcd was restored from a backup;
//! * below the floor only: then the floor is of another etcd. Some clusters keep their leases in one of their own.
//!
//! Versions of one kind can be compared as numbers: this is part of the API since Kubernetes 1.35, and was true before. A version that is
//! no number is never older.

use std::time::Duration;

use tokio::time::Instant;

/// How long lists must be older before they are accepted.
pub(super) const ACCEPTED_AFTER: Duration = Duration::from_secs(60);

/// How much the time between two older lists counts at most, if a list failed between them: the usual wait between two lists. What it would
/// have shown is unknown, but lists that fail again and again do not postpone the end for ever.
const COUNTS_AFTER_FAILURE: Duration = Duration::from_secs(15);

/// What is known of the versions of one kind.
#[derive(Debug, Default)]
pub(super) struct Newest {
    seen: u64,
    floor: u64,
    /// When the last list was older, if no newer one was read since.
    older_at: Option<Instant>,
    /// How long the lists have been older.
    older: Duration,
    /// Whether a list has failed since.
    failed: bool,
}

/// What a list is that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is as new as what was seen before.
    Newer,
    /// It is older than what was seen before.
    Back,
}

impl Newest {
    /// Records that a watch has reached this version.
    pub(super) fn reached(&mut self, version: &str) {
        self.seen = self.seen.max(number(version).unwrap_or(0));
    }

    /// Refuses lists below this version from now on.
    pub(super) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// Forgets what was seen: the cluster went back, and has reached `floor` since.
    pub(super) fn restart(&mut self, floor: u64) {
        *self = Self { floor, ..Self::default() };
    }

    /// Records a failed list: whether it would have been older is unknown.
    pub(super) const fn failed(&mut self) {
        self.failed = true;
    }

    /// Returns whether the last list was refused.
    pub(super) const fn has_refused(&self) -> bool {
        self.older_at.is_some()
    }

    /// Returns what a list of this version is, or that it is refused now.
    ///
    /// # Errors
    ///
    /// The newer version that is known.
    pub(super) fn take(&mut self, version: &str, now: Instant) -> Result<Taken, u64> {
        let Some(number) = number(version) else { return Ok(Taken::Newer) };
        let known = self.seen.max(self.floor);
        if number < known {
            let since = self.older_at.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
            let counts = if std::mem::take(&mut self.failed) { since.min(COUNTS_AFTER_FAILURE) } else { since };
            self.older = self.older.saturating_add(counts);
            if self.older < ACCEPTED_AFTER {
                return Err(known);
            }
        }
        Ok(self.accept(version))
    }

    /// Accepts a list of this version, whatever is known.
    pub(super) fn accept(&mut self, version: &str) -> Taken {
        let Some(number) = number(version) else { return Taken::Newer };
        let taken = if number < self.seen { Taken::Back } else { Taken::Newer };
        *self = Self { seen: number, ..Self::default() };
        taken
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock;

    #[test]
    fn an_older_list_is_accepted_when_all_lists_were_older_for_the_whole_time() {
        let (mut newest, start) = (Newest::default(), clock::monotonic());
        assert_eq!(newest.take("10", start), Ok(Taken::Newer));
        newest.reached("20");
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(newest.take("19", start), Err(20));
        assert_eq!(newest.take("19", after(59)), Err(20));
        assert_eq!(newest.take("19", after(60)), Ok(Taken::Back));
        assert_eq!(newest.take("19", after(61)), Ok(Taken::Newer), "the accepted version is the newest now");
        newest.reached("30");
        assert_eq!(newest.take("29", after(70)), Err(30));
        // Two older lists with a failure between them prove nothing about the time between them.
        newest.failed();
        assert_eq!(newest.take("29", after(170)), Err(30));
        assert_eq!(newest.take("30", after(171)), Ok(Taken::Newer));
        assert_eq!(newest.take("29", after(300)), Err(30));
    }

    #[test]
    fn lists_that_fail_between_older_ones_do_not_postpone_the_end_for_ever() {
        let (mut newest, start) = (Newest::default(), clock::monotonic());
        newest.reached("20");
        for seconds in [0, 40, 80, 120] {
            assert_eq!(newest.take("19", start + Duration::from_secs(seconds)), Err(20), "{seconds}");
            newest.failed();
        }
        assert_eq!(newest.take("19", start + Duration::from_secs(160)), Ok(Taken::Back));
    }

    #[test]
    fn a_list_below_the_floor_is_refused_and_accepted_after_the_same_time_as_no_step_back() {
        let (mut newest, start) = (Newest::default(), clock::monotonic());
        newest.raise_floor(50);
        newest.raise_floor(40);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(newest.take("49", start), Err(50), "the very first list of a process may be behind, too");
        assert_eq!(newest.take("49", after(60)), Ok(Taken::Newer));
        assert_eq!(newest.take("49", after(61)), Ok(Taken::Newer), "the floor was of another etcd");
        newest.raise_floor(50);
        assert_eq!(newest.take("50", after(62)), Ok(Taken::Newer));
    }

    #[test]
    fn after_a_restart_only_the_floor_counts() {
        let (mut newest, now) = (Newest::default(), clock::monotonic());
        newest.reached("1400");
        newest.restart(1010);
        assert_eq!(newest.take("1009", now), Err(1010));
        assert_eq!(newest.take("1010", now), Ok(Taken::Newer));
        newest.reached("1020");
        assert_eq!(newest.accept("1015"), Taken::Back);
        assert_eq!(newest.accept("1015"), Taken::Newer);
    }

    #[test]
    fn a_version_that_is_no_number_is_accepted() {
        let (mut newest, now) = (Newest::default(), clock::monotonic());
        newest.reached("7");
        assert_eq!((newest.take("a", now), newest.accept("a")), (Ok(Taken::Newer), Taken::Newer));
    }
}
