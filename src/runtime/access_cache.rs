//! What was answered about whom, and may the API server be asked again?
//!
//! A function of the time that the caller says. Two tables, so that a flood of bad tokens cannot push out what is known of the good ones; each has a
//! limit and drops its oldest. What is asked anew comes out of a budget, so that such a flood does not reach the API server either; only who was allowed
//! in last time is asked about whatever the budget says, once for each [`ALLOWED`].
//!
//! A token is known by its SHA-256 alone.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// So long somebody whose right was taken away may still look.
const ALLOWED: Duration = Duration::from_secs(60);

/// So long somebody who was given the right must still wait.
const REFUSED: Duration = Duration::from_secs(10);

/// After a question without an answer nothing is asked for so long.
const UNANSWERED: Duration = Duration::from_secs(1);

/// Scrapers and people are a handful; each has an entry for each path.
const MOST_ALLOWED: usize = 128;

/// A cheap memory of who was refused.
const MOST_REFUSED: usize = 1024;

/// So many strangers in one moment, and then one every [`PACE`].
const BURST: u32 = 20;

/// Five strangers in a second.
const PACE: Duration = Duration::from_millis(200);

/// Who wants to see what: the SHA-256 of the token, and the path.
pub(super) type Key = ([u8; 32], &'static str);

/// What the API server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The token is a user's, who may.
    Allowed,
    /// The token is this user's, who may not.
    Forbidden(String),
    /// The token is nobody's.
    Unknown,
}

/// Whether a question may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It may.
    Granted,
    /// There were too many.
    TooMany,
    /// The last one found nobody, a moment ago.
    Unanswered,
}

/// What is remembered.
pub(super) struct Cache {
    allowed: BTreeMap<Key, Instant>,
    refused: BTreeMap<Key, (Instant, Verdict)>,
    /// The budget is full again at this moment; each question moves it by [`PACE`].
    full_at: Option<Instant>,
    unanswered: Option<Instant>,
}

impl Cache {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self { allowed: BTreeMap::new(), refused: BTreeMap::new(), full_at: None, unanswered: None }
    }

    /// What is still true of it.
    pub(super) fn known(&self, key: &Key, now: Instant) -> Option<Verdict> {
        if self.allowed.get(key).is_some_and(|since| fresh(*since, ALLOWED, now)) {
            return Some(Verdict::Allowed);
        }
        self.refused.get(key).filter(|(since, _)| fresh(*since, REFUSED, now)).map(|(_, verdict)| verdict.clone())
    }

    /// Whether it may be asked about now; that is counted.
    pub(super) fn leave(&mut self, key: &Key, now: Instant) -> Leave {
        if self.unanswered.is_some_and(|since| fresh(since, UNANSWERED, now)) {
            return Leave::Unanswered;
        }
        if self.allowed.contains_key(key) {
            return Leave::Granted;
        }
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        if full_at.saturating_duration_since(now) >= PACE.saturating_mul(BURST) {
            return Leave::TooMany;
        }
        self.full_at = full_at.checked_add(PACE);
        Leave::Granted
    }

    /// The API server's answer; `None` when there was none.
    pub(super) fn learn(&mut self, key: Key, answer: Option<&Verdict>, now: Instant) {
        self.unanswered = answer.is_none().then_some(now);
        match answer {
            None => {}
            Some(Verdict::Allowed) => {
                self.refused.remove(&key);
                self.allowed.insert(key, now);
                shrink(&mut self.allowed, MOST_ALLOWED, |since| *since);
            }
            Some(verdict) => {
                self.allowed.remove(&key);
                self.refused.insert(key, (now, verdict.clone()));
                shrink(&mut self.refused, MOST_REFUSED, |(since, _)| *since);
            }
        }
    }
}

fn fresh(since: Instant, time: Duration, now: Instant) -> bool {
    now.saturating_duration_since(since) < time
}

fn shrink<V>(table: &mut BTreeMap<Key, V>, most: usize, since: impl Fn(&V) -> Instant) {
    while table.len() > most {
        let Some(oldest) = table.iter().min_by_key(|(_, value)| since(value)).map(|(key, _)| *key) else { return };
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        (digest, "/metrics")
    }

    fn forbidden() -> Verdict {
        Verdict::Forbidden("eve".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_true_for_its_time_and_for_its_path_only() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(1), Some(&Verdict::Allowed), start);
        cache.learn(key(2), Some(&forbidden()), start);
        assert_eq!(cache.known(&key(1), start + ALLOWED - Duration::from_millis(1)), Some(Verdict::Allowed));
        assert_eq!(cache.known(&key(1), start + ALLOWED), None);
        assert_eq!(cache.known(&key(2), start + REFUSED - Duration::from_millis(1)), Some(forbidden()));
        assert_eq!(cache.known(&key(2), start + REFUSED), None);
        assert_eq!(cache.known(&(key(1).0, "/debug/ledger"), start), None);
        cache.learn(key(1), Some(&Verdict::Unknown), start);
        assert_eq!(cache.known(&key(1), start), Some(Verdict::Unknown));
        cache.learn(key(1), Some(&Verdict::Allowed), start);
        assert_eq!(cache.known(&key(1), start), Some(Verdict::Allowed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_strangers_pushes_nobody_out_and_grows_nothing() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(0), Some(&Verdict::Allowed), start);
        for number in 1..3000 {
            cache.learn(key(number), Some(&Verdict::Unknown), start + Duration::from_millis(u64::from(number)));
        }
        assert_eq!(cache.refused.len(), MOST_REFUSED);
        assert_eq!(cache.known(&key(2999), start + Duration::from_secs(3)), Some(Verdict::Unknown));
        assert_eq!(cache.known(&key(1), start + Duration::from_secs(3)), None);
        assert_eq!(cache.known(&key(0), start + Duration::from_secs(3)), Some(Verdict::Allowed));
        for number in 0..200 {
            cache.learn(key(number), Some(&Verdict::Allowed), start);
        }
        assert_eq!(cache.allowed.len(), MOST_ALLOWED);
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_have_a_budget_and_who_was_allowed_needs_none() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(0), Some(&Verdict::Allowed), start);
        let granted = |cache: &mut Cache, now| (1..500).filter(|number| cache.leave(&key(*number), now) == Leave::Granted).count();
        assert_eq!(granted(&mut cache, start), 20);
        assert_eq!(cache.leave(&key(1), start), Leave::TooMany);
        assert_eq!(granted(&mut cache, start + Duration::from_secs(1)), 5);
        assert_eq!(cache.leave(&key(0), start), Leave::Granted);
        assert_eq!(granted(&mut cache, start + Duration::from_secs(3600)), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn after_no_answer_nobody_is_asked_about_for_a_moment() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(0), Some(&Verdict::Allowed), start);
        cache.learn(key(0), None, start);
        assert_eq!(cache.leave(&key(0), start), Leave::Unanswered);
        assert_eq!(cache.known(&key(0), start), Some(Verdict::Allowed));
        assert_eq!(cache.leave(&key(0), start + UNANSWERED), Leave::Granted);
        cache.learn(key(0), None, start);
        cache.learn(key(1), Some(&Verdict::Unknown), start);
        assert_eq!(cache.leave(&key(0), start), Leave::Granted);
    }
}
