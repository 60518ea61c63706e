//! Detects that the loop that owns a program's state hangs.
//!
//! `/healthz` probes the loop, so that a kubelet restarts a program that hangs. A probe never waits ([`Watchdog::probe`]): it sets a mark
//! and wakes the loop ([`Watchdog::probed`]). Every iteration of the loop clears the mark ([`Watchdog::progress`]), whatever the iteration
//! was for. So an unavailable API server, a lease of another process or a decision of some seconds does not look like a loop that hangs.
//! Without probes an iteration costs one atomic read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock;

/// How long a mark may stay before the loop counts as hanging. The longest measured iteration took seconds, and a restart costs more than that.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The watchdog of one program's loop. Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct Watchdog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// The loop has started and must answer.
    begun: AtomicBool,
    /// Milliseconds from `start` to the mark, plus one; 0 when no mark is set.
    mark: AtomicU64,
    /// The stall was logged.
    logged: AtomicBool,
    wake: Notify,
}

impl Default for Watchdog {
    fn default() -> Self {
        let (begun, mark, logged) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(Inner { start: clock::monotonic(), begun, mark, logged, wake: Notify::new() }))
    }
}

impl Watchdog {
    /// Makes a watchdog of a loop that has not started yet. What a program waits for before it starts is shown by `/readyz`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells that the loop has started: from now on it must answer probes.
    pub fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
    }

    /// Clears the mark: call it at the beginning of every iteration of the loop.
    pub fn progress(&self) {
        if self.0.mark.load(Ordering::Relaxed) != 0 {
            self.0.mark.store(0, Ordering::Relaxed);
            self.0.logged.store(false, Ordering::Relaxed);
        }
    }

    /// Waits until a probe comes: one more reason for the loop to wake up. Safe to drop and to call again.
    pub async fn probed(&self) {
        self.0.wake.notified().await;
    }

    /// Probes the loop. Returns how long the oldest probe has no answer, when that is too long. Never waits; a probe while a mark is set
    /// sets no other.
    #[must_use]
    pub fn probe(&self) -> Option<Duration> {
        if !self.0.begun.load(Ordering::Relaxed) {
            return None;
        }
        let passed = clock::monotonic().saturating_duration_since(self.0.start).as_millis();
        let now = u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(1);
        match self.0.mark.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_none) => {
                self.0.wake.notify_one();
                None
            }
            Err(mark) => {
                let stalled = Duration::from_millis(now.saturating_sub(mark));
                if stalled < STALLED_AFTER {
                    return None;
                }
                if !self.0.logged.swap(true, Ordering::Relaxed) {
                    tracing::error!(seconds = stalled.as_secs(), "the main loop makes no progress; /healthz fails until it does");
                }
                Some(stalled)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds(count: u64) {
        tokio::time::advance(Duration::from_secs(count)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_counted_from_the_first_probe_and_later_probes_change_nothing() {
        let watchdog = Watchdog::new();
        seconds(1000).await;
        assert_eq!(watchdog.probe(), None, "there is no loop yet");
        seconds(1000).await;
        assert_eq!(watchdog.probe(), None);
        watchdog.begin();
        seconds(1000).await;
        assert_eq!(watchdog.probe(), None, "there was no probe");
        seconds(30).await;
        assert_eq!(watchdog.probe(), None, "an iteration may take some seconds");
        seconds(29).await;
        assert_eq!(watchdog.probe(), None);
        seconds(1).await;
        assert_eq!(watchdog.probe(), Some(STALLED_AFTER));
        seconds(15).await;
        assert_eq!(watchdog.probe(), Some(Duration::from_secs(75)));
        watchdog.progress();
        assert_eq!(watchdog.probe(), None, "it makes progress again");
        seconds(59).await;
        assert_eq!(watchdog.probe(), None, "the next probe is a new one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_loop_is_woken_by_the_first_probe_whenever_it_comes() {
        let watchdog = Watchdog::new();
        watchdog.begin();
        assert_eq!(watchdog.probe(), None);
        // The probe came before the loop went to sleep.
        watchdog.probed().await;
        watchdog.progress();
        let asleep = tokio::time::timeout(Duration::from_secs(10), watchdog.probed()).await;
        assert!(asleep.is_err(), "one probe wakes it once");
        let ((), probed) = tokio::join!(watchdog.probed(), async { watchdog.probe() });
        assert_eq!(probed, None);
    }
}
