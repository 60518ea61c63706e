//! When is something told anew of which only the numbers have changed?
//!
//! In a full cluster in which pods come and go, what thousands of groups wait for changes all the time: a node more is short of memory, or less is free on the best one. Each object is
//! written seldom enough ([`Teller`](super::tell::Teller)), but all of them together would keep the API server busy with nothing else. So such changes, and only those, share a
//! budget: some at once, then a few in a second, in the order in which they came. Whoever waits for another reason than before says so without it, and what is worked out when
//! its turn comes is what is so then.
//!
//! ```text
//!          may_tell: yes ─────────────────────────────────╮
//!  (none) ─┤                          budget              ▼
//!          ╰─ no ──► waiting ── next_turn ──► its turn ── may_tell: yes ──► (none)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::event::Subject;

/// One is written each time, while others wait.
const EVERY: Duration = Duration::from_millis(50);
/// So many are written at once where there were none for a while.
const AT_ONCE: u32 = 100;

/// Who waits to be told anew.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Until when it would take to write all that was written, one each time.
    spent_until: Duration,
    /// Those that wait, in their order.
    order: BTreeMap<u64, Subject>,
    /// The same by who they are.
    waiting: BTreeMap<Subject, u64>,
    /// Whose turn it is.
    turns: BTreeSet<Subject>,
    /// How many have waited so far.
    came: u64,
}

impl Numbers {
    /// Whether it may be told anew now; where not, its turn will come.
    pub(super) fn may_tell(&mut self, subject: &Subject, now: Duration) -> bool {
        if self.turns.remove(subject) {
            return true;
        }
        if self.order.is_empty() && self.free_at() <= now {
            self.spend(now);
            return true;
        }
        if !self.waiting.contains_key(subject) {
            self.waiting.insert(subject.clone(), self.came);
            self.order.insert(self.came, subject.clone());
            self.came = self.came.saturating_add(1);
        }
        false
    }

    /// The next whose turn it is by now, once.
    pub(super) fn next_turn(&mut self, now: Duration) -> Option<Subject> {
        if self.free_at() > now {
            return None;
        }
        let (_, subject) = self.order.pop_first()?;
        self.waiting.remove(&subject);
        self.turns.insert(subject.clone());
        self.spend(now);
        Some(subject)
    }

    /// When it is the next one's turn; none where nobody waits.
    pub(super) fn next(&self) -> Option<Duration> {
        (!self.order.is_empty()).then(|| self.free_at())
    }

    /// There is nothing to be told, or it was told for another reason.
    pub(super) fn forget(&mut self, subject: &Subject) {
        if self.turns.remove(subject) {
            // It needed no write.
            self.spent_until = self.spent_until.saturating_sub(EVERY);
        }
        if let Some(number) = self.waiting.remove(subject) {
            self.order.remove(&number);
        }
    }

    /// Of how many it is remembered that they wait.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.waiting.len().max(self.order.len()).saturating_add(self.turns.len())
    }

    fn free_at(&self) -> Duration {
        self.spent_until.saturating_sub(EVERY.saturating_mul(AT_ONCE.saturating_sub(1)))
    }

    fn spend(&mut self, now: Duration) {
        self.spent_until = self.spent_until.max(now).saturating_add(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(index: usize) -> Subject {
        Subject::Pod(format!("{index:04}").as_str().into())
    }

    #[test]
    fn some_are_told_at_once_then_a_few_in_a_second_in_the_order_in_which_they_came() {
        let (mut numbers, mut now) = (Numbers::default(), Duration::from_secs(100));
        let told: Vec<_> = (0..300).filter(|index| numbers.may_tell(&pod(*index), now)).collect();
        assert_eq!((told.len(), told.last()), (100, Some(&99)));
        assert_eq!(numbers.next(), Some(now + EVERY));
        // Who is first in the alphabet waits like the others, and asking again changes nothing.
        assert!(!numbers.may_tell(&pod(0), now) && !numbers.may_tell(&pod(100), now));
        let mut turns = Vec::new();
        while let Some(at) = numbers.next() {
            assert_eq!(at, now + EVERY);
            assert_eq!(numbers.next_turn(now), None);
            now = at;
            let turn = numbers.next_turn(now).unwrap();
            assert_eq!(numbers.next_turn(now), None);
            assert!(numbers.may_tell(&turn, now));
            turns.push(turn);
        }
        assert_eq!(turns, (100..300).chain([0]).map(pod).collect::<Vec<_>>());
        assert_eq!(numbers.remembered(), 0);
        // After a while without any there are some at once again.
        now += EVERY * 100;
        assert_eq!((0..300).filter(|index| numbers.may_tell(&pod(*index), now)).count(), 100);
    }

    #[test]
    fn who_has_nothing_to_say_any_more_is_forgotten_waiting_or_not() {
        let (mut numbers, now) = (Numbers::default(), Duration::ZERO);
        (0..103).for_each(|index| _ = numbers.may_tell(&pod(index), now));
        numbers.forget(&pod(101));
        let later = now + EVERY;
        assert_eq!(numbers.next_turn(later), Some(pod(100)));
        assert_eq!(numbers.next_turn(later), None);
        // Whose turn it was and who has nothing to say leaves it to the next.
        numbers.forget(&pod(100));
        assert_eq!(numbers.next_turn(later), Some(pod(102)));
        numbers.forget(&pod(102));
        assert_eq!((numbers.remembered(), numbers.next()), (0, None));
    }
}
