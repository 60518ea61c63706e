//! Decides whether this process takes the lease, renews it, or waits. Pure.
//!
//! The rule is client-go's: clocks of different machines are never compared. A lease has expired when *we* have seen it
//! unchanged for its whole duration on our own monotonic clock; the time that it contains is for people.
//!
//! Invariant: a holder works until its last renewal plus the renew deadline, counted from *before* the request was sent.
//! Another process takes the lease no sooner than a lease duration after it *saw* the result of that request. The deadline is
//! shorter than the duration, so the two never overlap while both machines' clocks run at about the same speed.
//!
//! A lease that does not exist may have been deleted under its holder. So it is created only when it has been absent for its whole
//! duration; a holder creates it again at its next renewal. A first installation cannot be told apart from that: the chart creates the
//! Lease, without a holder, and nothing waits.

use std::time::Duration;

use tokio::time::Instant;

/// The longest lease duration that a record can claim: a mistake of another writer must not lock us out for ever. Our own must not be longer
/// either, because other processes would not respect it.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// The fields of a lease that the decision needs. Any change of them is a sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The holder; empty when there is none.
    pub holder: String,
    /// The duration as written, in seconds; invalid when not positive.
    pub duration_seconds: Option<i32>,
    /// The time of the acquisition as written. It is compared, and never parsed.
    pub acquired: Option<String>,
    /// The time of the renewal as written. It is compared, and never parsed.
    pub renewed: Option<String>,
    /// How often the holder changed.
    pub transitions: i32,
    /// Whether the last holder said, when it gave the lease up, that nothing of it is under way.
    pub drained: bool,
}

/// Returns how the lease comes to a process that sees this record when it makes this step.
///
/// Only a release with the mark is clean. A lease that ran out, that did not exist, or that a renewal after a lost answer shows as our own, is not.
pub fn handover(seen: Option<&Observed>, step: &Step) -> Handover {
    let given_up = seen.is_some_and(|seen| seen.record.drained && seen.record.holder.is_empty());
    if given_up && matches!(step, Step::Take { .. }) { Handover::Clean } else { Handover::Unclean }
}

/// A record, and since when our clock has seen it unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The record.
    pub record: Record,
    /// Since when it has been the same, on our clock.
    pub since: Instant,
}

/// What the last read of the lease showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The lease exists.
    Present,
    /// The lease does not exist (never did, or was deleted), and no read since this one has shown it.
    Absent {
        /// When the first of these answers came, on our clock.
        since: Instant,
    },
}

/// How the lease came to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handover {
    /// The holder before said, when it gave the lease up, that nothing of it is under way.
    Clean,
    /// Any other: requests of an earlier holder may still take effect.
    Unclean,
}

/// The next step of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// As far as we know the Lease does not exist: create it.
    Create,
    /// It is free: replace the holder with ourselves, with this number of transitions.
    Take {
        /// How often the holder has changed then.
        transitions: i32,
    },
    /// We hold it: renew it.
    Renew,
    /// Another process holds it.
    Wait {
        /// The other process.
        holder: String,
    },
    /// It does not exist, and a process that held it before it was deleted may still lead.
    WaitForHolder {
        /// When it may be created, if it does not exist until then.
        until: Instant,
    },
}

/// Returns the next step of `identity`, when the lease was seen as `seen` and the newest read showed `presence`. `lease` is our own
/// duration, used for a record that names none.
pub fn decide(seen: Option<&Observed>, presence: Presence, identity: &str, lease: Duration, now: Instant) -> Step {
    let holds = seen.is_some_and(|seen| seen.record.holder == identity);
    match (presence, seen) {
        // Until the holder creates its deleted lease again, no other process creates it.
        (Presence::Absent { .. }, _) if holds => Step::Create,
        (Presence::Absent { since }, _) => {
            // Its holder may have renewed it after our last read, and before it was deleted. Also one that we have never seen may have had a holder.
            let until = since + seen.map_or(lease, |seen| duration(&seen.record, lease).max(lease));
            if now < until { Step::WaitForHolder { until } } else { Step::Create }
        }
        (Presence::Present, Some(_)) if holds => Step::Renew,
        (Presence::Present, Some(Observed { record, since })) if !record.holder.is_empty() && now < *since + duration(record, lease) => {
            Step::Wait { holder: record.holder.clone() }
        }
        (Presence::Present, seen) => Step::Take { transitions: seen.map_or(0, |seen| seen.record.transitions.saturating_add(1)) },
    }
}

/// Remembers `record`. The time since it has been unchanged is kept while it does not change.
pub fn observe(seen: Option<Observed>, record: Record, now: Instant) -> Observed {
    match seen {
        Some(known) if known.record == record => known,
        Some(_) | None => Observed { record, since: now },
    }
}

fn duration(record: &Record, lease: Duration) -> Duration {
    record
        .duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map_or(lease, |s| Duration::from_secs(s).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn record_of(holder: &str, seconds: Option<i32>) -> Record {
        Record {
            holder: holder.to_owned(),
            duration_seconds: seconds,
            acquired: Some("08:00".to_owned()),
            renewed: Some("09:00".to_owned()),
            transitions: 3,
            drained: false,
        }
    }

    fn step(record: Record, presence: Presence, age: Duration) -> Step {
        let since = crate::runtime::clock::monotonic();
        let seen = Observed { record, since };
        decide(Some(&seen), presence, "me", LEASE, since + age)
    }

    /// The step for a lease that was seen `absent` after this record, and was absent for `age`.
    fn step_without(record: Option<Record>, absent: Duration, age: Duration) -> Step {
        let since = crate::runtime::clock::monotonic();
        let seen = record.map(|record| Observed { record, since });
        let absent = since + absent;
        let step = decide(seen.as_ref(), Presence::Absent { since: absent }, "me", LEASE, absent + age);
        if let Step::WaitForHolder { until } = step {
            assert!(until > absent + age);
            return Step::Wait { holder: (until - absent).as_secs().to_string() };
        }
        step
    }

    fn wait() -> Step {
        Step::Wait { holder: "other".to_owned() }
    }

    #[test]
    fn a_lease_that_was_never_seen_is_created_when_it_was_absent_for_its_whole_duration() {
        let almost = LEASE - Duration::from_nanos(1);
        assert_eq!(step_without(None, Duration::ZERO, almost), Step::Wait { holder: "15".to_owned() });
        assert_eq!(step_without(None, Duration::ZERO, LEASE), Step::Create);
    }

    #[test]
    fn a_lease_that_was_created_without_a_holder_is_taken_at_once() {
        let now = crate::runtime::clock::monotonic();
        assert_eq!(decide(None, Presence::Present, "me", LEASE, now), Step::Take { transitions: 0 });
        assert_eq!(step(Record::default(), Presence::Present, Duration::ZERO), Step::Take { transitions: 1 });
    }

    #[test]
    fn the_lease_of_another_holder_is_taken_only_after_its_whole_duration_unchanged() {
        let record = || record_of("other", Some(20));
        let almost = Duration::from_secs(20) - Duration::from_nanos(1);
        assert_eq!(step(record(), Presence::Present, almost), wait());
        let taken = Step::Take { transitions: 4 };
        assert_eq!(step(record(), Presence::Present, Duration::from_secs(20)), taken);
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once() {
        let taken = Step::Take { transitions: 4 };
        assert_eq!(step(record_of("", Some(1)), Presence::Present, Duration::ZERO), taken);
    }

    #[test]
    fn our_own_lease_is_renewed_whatever_its_age() {
        for age in [0, 14, 15, 9999] {
            let age = Duration::from_secs(age);
            assert_eq!(step(record_of("me", Some(15)), Presence::Present, age), Step::Renew);
        }
    }

    #[test]
    fn a_deleted_lease_is_respected_for_its_whole_duration_from_when_it_was_absent() {
        let waits = |seconds: u64| Step::Wait { holder: seconds.to_string() };
        // Its holder may have renewed it just before it was deleted, however long it had been unchanged.
        for absent in [0, 14, 100].map(Duration::from_secs) {
            let almost = LEASE - Duration::from_nanos(1);
            assert_eq!(step_without(Some(record_of("other", Some(15))), absent, almost), waits(15));
            assert_eq!(step_without(Some(record_of("other", Some(15))), absent, LEASE), Step::Create);
        }
        assert_eq!(step_without(Some(record_of("other", Some(20))), Duration::ZERO, LEASE), waits(20));
        // Another process may have taken it since.
        assert_eq!(step_without(Some(record_of("", Some(1))), Duration::ZERO, Duration::from_secs(14)), waits(15));
        assert_eq!(step_without(Some(record_of("me", Some(15))), Duration::ZERO, Duration::ZERO), Step::Create, "our own");
    }

    #[test]
    fn an_invalid_duration_counts_as_ours_and_a_huge_one_as_an_hour() {
        for (written, seconds) in [(None, 15), (Some(0), 15), (Some(-5), 15), (Some(i32::MAX), 3600)] {
            let almost = Duration::from_secs(seconds) - Duration::from_millis(1);
            assert_eq!(step(record_of("other", written), Presence::Present, almost), wait(), "{written:?}");
            let after = step(record_of("other", written), Presence::Present, Duration::from_secs(seconds));
            assert_eq!(after, Step::Take { transitions: 4 }, "{written:?}");
        }
    }

    #[test]
    fn only_a_change_of_the_record_is_a_sign_of_life() {
        let start = crate::runtime::clock::monotonic();
        let first = observe(None, record_of("other", Some(15)), start);
        let same = observe(Some(first.clone()), record_of("other", Some(15)), start + LEASE);
        assert_eq!(same.since, start);
        let mut renewed = record_of("other", Some(15));
        renewed.renewed = Some("09:02".to_owned());
        assert_eq!(observe(Some(first.clone()), renewed, start + LEASE).since, start + LEASE);
        let mut acquired_anew = record_of("other", Some(15));
        acquired_anew.acquired = Some("09:00".to_owned());
        assert_eq!(observe(Some(first), acquired_anew, start + LEASE).since, start + LEASE);
    }

    #[test]
    fn only_a_lease_that_was_given_up_with_the_mark_comes_cleanly() {
        let since = crate::runtime::clock::monotonic();
        let take = Step::Take { transitions: 4 };
        for (holder, drained, step, how) in [
            ("", true, &take, Handover::Clean),
            ("", false, &take, Handover::Unclean),
            // The mark of an earlier release.
            ("other", true, &take, Handover::Unclean),
            ("me", true, &Step::Renew, Handover::Unclean),
            ("", true, &Step::Create, Handover::Unclean),
        ] {
            let seen = Observed { record: Record { drained, ..record_of(holder, Some(1)) }, since };
            assert_eq!(handover(Some(&seen), step), how, "{holder:?} {drained} {step:?}");
        }
        assert_eq!(handover(None, &Step::Create), Handover::Unclean);
    }
}
