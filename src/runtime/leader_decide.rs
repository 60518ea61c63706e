//! May this process take the lease, renew it, or must it wait? Pure.
//!
//! The rule of client-go: clocks of different machines are never compared. A lease is old when *we* have seen it
//! unchanged for its whole duration on our own monotonic clock; the time that stands in it is for people.
//!
//! Invariant: a holder works until its last renewal plus the renew deadline, counted from *before* the request was sent;
//! another takes the lease no sooner than a lease duration after it *saw* the result of that request. The deadline is
//! shorter than the duration, so the two never overlap while both machines' clocks run at about the same speed.

use std::time::Duration;

use tokio::time::Instant;

/// The longest lease that somebody else's record can claim: a slip of the hand there must not lock us out for ever. Nor may our own be longer, or
/// others would not respect it.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// What stands in a lease, as far as it decides anything. Any change of it is a sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty when nobody holds it.
    pub(super) holder: String,
    /// As written; nonsense when not positive.
    pub(super) duration_seconds: Option<i32>,
    /// Compared, never interpreted.
    pub(super) acquired: Option<String>,
    /// Compared, never interpreted.
    pub(super) renewed: Option<String>,
    /// How often the holder changed.
    pub(super) transitions: i32,
}

/// A record, and since when it has stood there unchanged by our clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) record: Record,
    pub(super) since: Instant,
}

/// What the last look at the lease showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is there.
    Present,
    /// It is not there (never was, or somebody deleted it).
    Absent,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nobody has ever held it, as far as we know: make it.
    Create,
    /// It is free: replace it with ourselves, with this many transitions.
    Take { transitions: i32 },
    /// It is ours: renew it.
    Renew,
    /// Another one holds it.
    Wait { holder: String },
}

/// The next step of `identity`, when the lease was seen as `seen` and the newest look showed `look`. `lease` is our own
/// duration, for a record that names none.
pub(super) fn decide(seen: Option<&Observed>, look: Look, identity: &str, lease: Duration, now: Instant) -> Step {
    let Some(observed) = seen else {
        return Step::Create;
    };
    let record = &observed.record;
    let held_by_another = !record.holder.is_empty() && record.holder != identity;
    // Also when the object was deleted meanwhile: its holder works on until it notices.
    if held_by_another && now < observed.since + duration(record, lease) {
        return Step::Wait { holder: record.holder.clone() };
    }
    match look {
        Look::Absent => Step::Create,
        Look::Present if record.holder == identity => Step::Renew,
        Look::Present => Step::Take { transitions: record.transitions.saturating_add(1) },
    }
}

/// Remembers `record`: since when it has stood there is kept while it does not change.
pub(super) fn observe(seen: Option<Observed>, record: Record, now: Instant) -> Observed {
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

    fn held(holder: &str, seconds: Option<i32>) -> Record {
        Record {
            holder: holder.to_owned(),
            duration_seconds: seconds,
            acquired: Some("08:00".to_owned()),
            renewed: Some("09:00".to_owned()),
            transitions: 3,
        }
    }

    fn step(record: Record, look: Look, age: Duration) -> Step {
        let since = super::super::clock::monotonic();
        let seen = Observed { record, since };
        decide(Some(&seen), look, "me", LEASE, since + age)
    }

    fn wait() -> Step {
        Step::Wait { holder: "other".to_owned() }
    }

    #[test]
    fn a_lease_that_nobody_ever_saw_is_made() {
        let now = super::super::clock::monotonic();
        assert_eq!(decide(None, Look::Absent, "me", LEASE, now), Step::Create);
    }

    #[test]
    fn anothers_lease_is_taken_only_after_its_whole_duration_unchanged() {
        let record = || held("other", Some(20));
        let almost = Duration::from_secs(20) - Duration::from_nanos(1);
        assert_eq!(step(record(), Look::Present, almost), wait());
        let taken = Step::Take { transitions: 4 };
        assert_eq!(step(record(), Look::Present, Duration::from_secs(20)), taken);
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once() {
        let taken = Step::Take { transitions: 4 };
        assert_eq!(step(held("", Some(1)), Look::Present, Duration::ZERO), taken);
    }

    #[test]
    fn our_own_lease_is_renewed_whatever_its_age() {
        for age in [0, 14, 15, 9999] {
            let age = Duration::from_secs(age);
            assert_eq!(step(held("me", Some(15)), Look::Present, age), Step::Renew);
        }
    }

    #[test]
    fn a_lease_that_was_deleted_keeps_others_away_as_long_as_it_would_have() {
        let record = || held("other", Some(15));
        assert_eq!(step(record(), Look::Absent, Duration::from_secs(14)), wait());
        assert_eq!(step(record(), Look::Absent, LEASE), Step::Create);
        assert_eq!(step(held("me", Some(15)), Look::Absent, Duration::ZERO), Step::Create);
    }

    #[test]
    fn a_duration_that_is_nonsense_is_ours_and_a_huge_one_is_an_hour() {
        for (written, seconds) in [(None, 15), (Some(0), 15), (Some(-5), 15), (Some(i32::MAX), 3600)] {
            let almost = Duration::from_secs(seconds) - Duration::from_millis(1);
            assert_eq!(step(held("other", written), Look::Present, almost), wait(), "{written:?}");
            let after = step(held("other", written), Look::Present, Duration::from_secs(seconds));
            assert_eq!(after, Step::Take { transitions: 4 }, "{written:?}");
        }
    }

    #[test]
    fn only_a_change_of_the_record_is_a_sign_of_life() {
        let start = super::super::clock::monotonic();
        let first = observe(None, held("other", Some(15)), start);
        let same = observe(Some(first.clone()), held("other", Some(15)), start + LEASE);
        assert_eq!(same.since, start);
        let mut renewed = held("other", Some(15));
        renewed.renewed = Some("09:02".to_owned());
        assert_eq!(observe(Some(first.clone()), renewed, start + LEASE).since, start + LEASE);
        let mut acquired_anew = held("other", Some(15));
        acquired_anew.acquired = Some("09:00".to_owned());
        assert_eq!(observe(Some(first), acquired_anew, start + LEASE).since, start + LEASE);
    }
}
