//! Computes how long to wait after the n-th failure in a row.
//!
//! The wait depends on the count only: no clock, no random number. Where many processes can fail at the same moment, the
//! caller passes a seed of its own to [`Backoff::spread`].

use std::time::Duration;

/// An exponential back-off: `base`, twice that, and so on, never above `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Makes a back-off from `base` to `cap`. A `cap` below `base` is the wait of every failure.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// Returns the wait after `failures` failures in a row: zero after 0, `base` after 1, doubled by each further one, at
    /// most `cap`.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// Returns [`Self::delay`], shortened by up to a fifth as `seed` says. Processes that failed together then do not retry
    /// together.
    pub fn spread(&self, failures: u32, seed: u64) -> Duration {
        let full = self.delay(failures);
        // The seed is mixed first (the multiplier of splitmix64), because the seeds that callers pass are small and close together.
        let mixed = seed.wrapping_add(u64::from(failures)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hundredths = u32::try_from((mixed >> 32) % 21).unwrap_or(0);
        full.saturating_sub(full.saturating_mul(hundredths) / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));

    #[test]
    fn it_doubles_from_the_base_up_to_the_cap() {
        let waits: Vec<u128> = (0..10).map(|n| BACKOFF.delay(n).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 15000]);
    }

    #[test]
    fn a_count_larger_than_any_shift_gives_the_cap() {
        for failures in [31, 32, 33, 34, 1000, u32::MAX] {
            assert_eq!(BACKOFF.delay(failures), Duration::from_secs(15), "{failures}");
        }
    }

    #[test]
    fn a_seed_shortens_by_a_fifth_at_most_and_different_seeds_differ() {
        let all: Vec<Duration> = (0..50).map(|seed| BACKOFF.spread(5, seed)).collect();
        let full = BACKOFF.delay(5);
        assert!(all.iter().all(|d| *d <= full && *d >= full * 79 / 100));
        assert!(all.iter().any(|d| *d != all[0]));
        assert_eq!(BACKOFF.spread(5, 3), BACKOFF.spread(5, 3));
    }
}
