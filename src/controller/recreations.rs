//! How long does a PodGroup that another client deletes again and again wait before it is created again?
//!
//! Pure: time is an argument. The first two deletions within a minute cost no wait, so a PodGroup that a user deletes is back at once. From
//! the third one on the wait is 5 s, doubled by each further deletion, up to a minute. Five minutes without a deletion end the episode.
//!
//! ```text
//!   seen(exists) ──▶ needed again: a deletion is counted ──▶ due at once, or after the back-off
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::api::Uid;
use crate::backoff::Backoff;
use crate::lifecycle::Existing;

/// The deletions within [`WINDOW`] that cost no wait.
const AT_ONCE: u32 = 2;

/// The time in which the deletions of the start of an episode are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The wait before a creation. Without it another client and this controller would delete and create as fast as the API server answers.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));

/// How long no deletion may happen until an episode is forgotten. It must be longer than the longest wait.
const QUIET: Duration = Duration::from_secs(300);

/// What is remembered of the deletions of one PodGroup by other clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recreations {
    /// The owner of the PodGroup, if it existed without the mark when it was last seen. This controller deletes only marked PodGroups.
    existed: Option<Option<Uid>>,
    deletions: Option<Deletions>,
}

/// The deletions of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deletions {
    count: u32,
    first: Instant,
    last: Instant,
}

/// A wait before a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The time that is left.
    pub(super) left: Duration,
    /// The deletions of the episode, where the wait begins; `None` where it goes on.
    pub(super) begins_after: Option<u32>,
}

impl Deletions {
    const fn cost_a_wait(self) -> bool {
        self.count > AT_ONCE
    }

    fn are_forgotten(self, now: Instant) -> bool {
        let (since, kept) = if self.cost_a_wait() { (self.last, QUIET) } else { (self.first, WINDOW) };
        now.saturating_duration_since(since) >= kept
    }
}

impl Recreations {
    /// Records the latest state of the PodGroup. `None` changes nothing: whether a missing PodGroup is needed is not known here.
    pub(super) fn seen(&mut self, existing: Option<&Existing>) {
        match existing {
            Some(Existing::Ours(ours)) => self.existed = (!ours.retiring).then(|| ours.owner.clone()),
            Some(Existing::Foreign(..)) => self.existed = None,
            None => {}
        }
    }

    /// Returns how long the creation of a missing PodGroup waits that this owner needs; `None` if it is due. Counts a deletion if the
    /// PodGroup existed before. That of another owner is not counted: the garbage collector deletes it with its owner.
    pub(super) fn wait(&mut self, owner: &Uid, now: Instant) -> Option<Wait> {
        let deleted = self.existed.take().is_some_and(|of| of.is_none_or(|of| of == *owner));
        self.deletions = self.deletions.filter(|deletions| !deletions.are_forgotten(now));
        if deleted {
            let (count, first) = self.deletions.map_or((0, now), |deletions| (deletions.count, deletions.first));
            self.deletions = Some(Deletions { count: count.saturating_add(1), first, last: now });
        }
        let deletions = self.deletions?;
        let due = deletions.last + BACKOFF.delay(deletions.count.saturating_sub(AT_ONCE));
        let left = Some(due.saturating_duration_since(now)).filter(|left| !left.is_zero())?;
        Some(Wait { left, begins_after: deleted.then_some(deletions.count) })
    }

    /// Returns whether other clients deleted the PodGroup so often that a creation waits, until that is forgotten.
    pub(super) fn to_report(&self, now: Instant) -> bool {
        self.deletions.is_some_and(|deletions| deletions.cost_a_wait() && !deletions.are_forgotten(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::{NotOurs, Ours, Version};

    fn version() -> Version {
        Version { uid: Uid::from("g"), resource_version: "1".to_owned() }
    }

    fn owner() -> Uid {
        Uid::from("owner")
    }

    fn ours(retiring: bool) -> Existing {
        Existing::Ours(Ours { version: version(), owner: Some(owner()), applied: None, retiring, terminating: false })
    }

    /// Returns the waits, in seconds, of PodGroups that are deleted `pauses` seconds after they were created.
    fn waits(recreations: &mut Recreations, now: &mut Instant, pauses: &[u64]) -> Vec<u64> {
        let mut waits = Vec::new();
        for pause in pauses {
            recreations.seen(Some(&ours(false)));
            *now += Duration::from_secs(*pause);
            let left = recreations.wait(&owner(), *now).map_or(Duration::ZERO, |wait| wait.left);
            waits.push(left.as_secs());
            *now += left;
            assert_eq!(recreations.wait(&owner(), *now), None, "it is due after the wait");
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn two_deletions_cost_no_wait_and_each_further_one_a_longer_one() {
        let (mut recreations, mut now) = (Recreations::default(), Instant::now());
        assert_eq!(waits(&mut recreations, &mut now, &[0, 0]), [0, 0]);
        assert!(!recreations.to_report(now));
        assert_eq!(waits(&mut recreations, &mut now, &[0; 7]), [5, 10, 20, 40, 60, 60, 60]);
        assert!(recreations.to_report(now));
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_with_pauses_of_a_minute_cost_no_wait() {
        let (mut recreations, mut now) = (Recreations::default(), Instant::now());
        assert_eq!(waits(&mut recreations, &mut now, &[60; 10]), [0; 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn five_quiet_minutes_end_the_episode() {
        let (mut recreations, mut now) = (Recreations::default(), Instant::now());
        assert_eq!(waits(&mut recreations, &mut now, &[0, 0, 0, 0]), [0, 0, 5, 10]);
        // The last deletion was 10 s before.
        assert_eq!(waits(&mut recreations, &mut now, &[289]), [20], "it is not forgotten a second earlier");
        assert!(recreations.to_report(now));
        assert_eq!(waits(&mut recreations, &mut now, &[280]), [0]);
        assert!(!recreations.to_report(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_podgroup_that_this_controller_deleted_and_a_foreign_one_do_not_count() {
        let (mut recreations, now) = (Recreations::default(), Instant::now());
        for _ in 0..10 {
            for last in [ours(true), Existing::Foreign(version(), NotOurs::Unlabelled)] {
                recreations.seen(Some(&ours(false)));
                recreations.seen(Some(&last));
                assert_eq!(recreations.wait(&owner(), now), None);
            }
        }
        assert_eq!(recreations.deletions, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_podgroup_of_an_earlier_owner_does_not_count() {
        let (mut recreations, now) = (Recreations::default(), Instant::now());
        for generation in 0..10 {
            recreations.seen(Some(&ours(false)));
            assert_eq!(recreations.wait(&Uid::from(format!("owner {generation}")), now), None);
        }
        assert_eq!(recreations.deletions, None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_beginning_of_a_wait_says_how_many_deletions_there_were() {
        let (mut recreations, now) = (Recreations::default(), Instant::now());
        for _ in 0..2 {
            recreations.seen(Some(&ours(false)));
            assert_eq!(recreations.wait(&owner(), now), None);
        }
        recreations.seen(Some(&ours(false)));
        let later = now + Duration::from_secs(1);
        assert_eq!(recreations.wait(&owner(), now), Some(Wait { left: Duration::from_secs(5), begins_after: Some(3) }));
        assert_eq!(recreations.wait(&owner(), later), Some(Wait { left: Duration::from_secs(4), begins_after: None }));
    }
}
