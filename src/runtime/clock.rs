//! Reads the clock. No other module does.
//!
//! All other code takes the time as an argument, so a test, a replay and a simulation can set it.
//! There are two clocks. The wall clock is for what people and other programs read; it may jump. The monotonic clock is
//! for how long something took; it never jumps.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// Returns the time of the wall clock, for timestamps in objects. It may jump in either direction; never subtract two of
/// these to get a duration.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the time of the monotonic clock, for deadlines and durations. It stops while a machine is suspended. It is tokio's, so
/// a test with a paused runtime moves it.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Waits until `then`; for ever when it is `None`. Safe to drop and to call again.
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
