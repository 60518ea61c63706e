//! What time is it? The only place that asks.
//!
//! Everything else takes the time as an argument, so that a test, a replay and a simulation say the time themselves.
//! Two clocks, because they answer different questions: the wall clock is for what people and other programs read, and
//! may jump; the monotonic one is for how long something took, and may not.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The wall clock, for timestamps that are written into objects. May jump in either direction; never subtract two of
/// these to learn a duration.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The monotonic clock, for deadlines and durations. It stands still while a machine is suspended. It is tokio's, so
/// that a test with a paused runtime moves it.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Waits until then; for ever where there is no then. Safe to drop and to call again.
pub async fn until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_paused_runtime_moves_the_monotonic_clock() {
        let before = monotonic();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(monotonic() - before, Duration::from_secs(7));
    }
}
