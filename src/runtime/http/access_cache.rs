//! Caches the verdicts about tokens, and limits how often the API server is asked for new ones.
//!
//! Pure: the caller passes the time. There are two tables, one of allowed and one of refused tokens. Each has a limit and drops its oldest entry,
//! so a flood of bad tokens cannot push out the good ones. New reviews come out of a budget, so the flood does not reach the API server either.
//! A token that was allowed last time needs no budget; it is reviewed again once for each [`ALLOWED`].
//!
//! A token is stored as its SHA-256 only.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long an "allowed" is valid: a user that loses the permission can still read for this time.
const ALLOWED: Duration = Duration::from_secs(60);

/// How long a refusal is valid: a user that gets the permission must still wait for this time.
const REFUSED: Duration = Duration::from_secs(10);

/// How long no review is sent after one that got no answer.
const UNANSWERED: Duration = Duration::from_secs(1);

/// How many allowed entries are kept. Scrapers and people are a handful; each has an entry for each path.
const MOST_ALLOWED: usize = 128;

/// How many refusals are kept. An entry is small.
const MOST_REFUSED: usize = 1024;

/// How many unknown tokens are reviewed in one moment; after that, one every [`PACE`].
const BURST: u32 = 20;

/// One unknown token every 200 ms: five in a second.
const PACE: Duration = Duration::from_millis(200);

/// The SHA-256 of a token, and the path that is asked for.
pub(super) type Key = ([u8; 32], &'static str);

/// The answer of the API server about a token and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The token belongs to a user that may read the path.
    Allowed,
    /// The token belongs to this user, which may not read the path.
    Forbidden(String),
    /// The token belongs to no user.
    Unknown,
}

/// Whether a review may be sent to the API server now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// The review may be sent, and is counted.
    Granted,
    /// The budget for unknown tokens is used up.
    TooMany,
    /// The last review got no answer, a moment ago.
    Unanswered,
}

/// The known verdicts and the budget for new reviews.
pub(super) struct Cache {
    allowed: BTreeMap<Key, Instant>,
    refused: BTreeMap<Key, (Instant, Verdict)>,
    /// When the budget is full again; each review moves it by [`PACE`].
    full_at: Option<Instant>,
    unanswered: Option<Instant>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { allowed: BTreeMap::new(), refused: BTreeMap::new(), full_at: None, unanswered: None }
    }

    /// Returns the verdict about `key`, if it is still valid.
    pub(super) fn known(&self, key: &Key, now: Instant) -> Option<Verdict> {
        if self.allowed.get(key).is_some_and(|since| fresh(*since, ALLOWED, now)) {
            return Some(Verdict::Allowed);
        }
        self.refused.get(key).filter(|(since, _)| fresh(*since, REFUSED, now)).map(|(_, verdict)| verdict.clone())
    }

    /// Returns whether a review of `key` may be sent now. A granted one is counted.
    pub(super) fn may_review(&mut self, key: &Key, now: Instant) -> Permission {
        if self.unanswered.is_some_and(|since| fresh(since, UNANSWERED, now)) {
            return Permission::Unanswered;
        }
        if self.allowed.contains_key(key) {
            return Permission::Granted;
        }
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        if full_at.saturating_duration_since(now) >= PACE.saturating_mul(BURST) {
            return Permission::TooMany;
        }
        self.full_at = full_at.checked_add(PACE);
        Permission::Granted
    }

    /// Stores the answer of the API server; `None` when there was none.
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
    async fn a_verdict_is_valid_for_its_time_and_its_path_only() {
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
    async fn a_flood_of_unknown_tokens_pushes_no_allowed_token_out_and_memory_stays_bounded() {
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
    async fn unknown_tokens_have_a_budget_and_allowed_tokens_need_none() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(0), Some(&Verdict::Allowed), start);
        let granted =
            |cache: &mut Cache, now| (1..500).filter(|number| cache.may_review(&key(*number), now) == Permission::Granted).count();
        assert_eq!(granted(&mut cache, start), 20);
        assert_eq!(cache.may_review(&key(1), start), Permission::TooMany);
        assert_eq!(granted(&mut cache, start + Duration::from_secs(1)), 5);
        assert_eq!(cache.may_review(&key(0), start), Permission::Granted);
        assert_eq!(granted(&mut cache, start + Duration::from_secs(3600)), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_review_without_an_answer_none_is_sent_for_a_moment() {
        let (start, mut cache) = (Instant::now(), Cache::new());
        cache.learn(key(0), Some(&Verdict::Allowed), start);
        cache.learn(key(0), None, start);
        assert_eq!(cache.may_review(&key(0), start), Permission::Unanswered);
        assert_eq!(cache.known(&key(0), start), Some(Verdict::Allowed));
        assert_eq!(cache.may_review(&key(0), start + UNANSWERED), Permission::Granted);
        cache.learn(key(0), None, start);
        cache.learn(key(1), Some(&Verdict::Unknown), start);
        assert_eq!(cache.may_review(&key(0), start), Permission::Granted);
    }
}
