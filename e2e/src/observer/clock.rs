//! The observer's only clock. It reads the wall clock once and then adds monotonic time, so that times never go back.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A clock in milliseconds of the Unix epoch that never goes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    wall: i64,
    start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the observer's clock; it may not use that of the programs")]
    pub(super) fn start() -> Self {
        Self { wall: Timestamp::now().as_millisecond(), start: Instant::now() }
    }

    pub(super) fn now(self) -> i64 {
        self.wall.saturating_add(i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
