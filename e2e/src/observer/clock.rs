//! The observer's clock: the wall clock is read once; then monotonic time is added, so that times never go back.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A clock in milliseconds of the Unix epoch that never goes back.
#[derive(Debug)]
pub(super) struct Clock {
    wall: i64,
    start: Instant,
}

impl Clock {
    /// Starts the clock.
    #[expect(clippy::disallowed_methods, reason = "this is the observer's clock; it may not use that of the programs")]
    pub(super) fn start() -> Self {
        Self { wall: Timestamp::now().as_millisecond(), start: Instant::now() }
    }

    /// Returns the time.
    pub(super) fn now(&self) -> i64 {
        self.wall.saturating_add(i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
