//! Does the loop that owns a program's state still turn?
//!
//! `/healthz` asks, so that a kubelet starts a program again that hangs. Who asks leaves a mark and waits for nothing ([`Pulse::silence`]); any turn of the loop
//! takes it away ([`Pulse::turn`]), whatever that turn was for, and a loop that sleeps is woken for it ([`Pulse::asked`]). So neither an API server that is away
//! nor a lease that another holds nor a decision of some seconds looks like a loop that hangs; and while nobody asks, a turn costs one look at a number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock;

/// So long a mark may stand. The longest turn that was ever measured took seconds, and a restart costs more than that.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The pulse of one program's loop. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// There is a loop to be asked.
    begun: AtomicBool,
    /// Milliseconds from `start` to the mark, and one more; 0 where none stands.
    mark: AtomicU64,
    /// That it stands for too long was logged.
    told: AtomicBool,
    wake: Notify,
}

impl Default for Pulse {
    fn default() -> Self {
        let (begun, mark, told) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(Inner { start: clock::monotonic(), begun, mark, told, wake: Notify::new() }))
    }
}

impl Pulse {
    /// Of a loop that is not there yet: what a program waits for before it begins is said by `/readyz`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on there is a loop, and it must answer.
    pub fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
    }

    /// The loop turns: call it at the beginning of every turn.
    pub fn turn(&self) {
        if self.0.mark.load(Ordering::Relaxed) != 0 {
            self.0.mark.store(0, Ordering::Relaxed);
            self.0.told.store(false, Ordering::Relaxed);
        }
    }

    /// Waits until somebody asks: one more thing for which the loop wakes up. Safe to drop and to call again.
    pub async fn asked(&self) {
        self.0.wake.notified().await;
    }

    /// Asks, and says for how long no question was answered, where that is too long. Never waits; while one question stands no other is asked.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
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
                let silence = Duration::from_millis(now.saturating_sub(mark));
                if silence < PATIENCE {
                    return None;
                }
                if !self.0.told.swap(true, Ordering::Relaxed) {
                    tracing::error!(seconds = silence.as_secs(), "the loop of this program does not turn; /healthz says so until it does");
                }
                Some(silence)
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
    async fn a_loop_that_does_not_turn_is_silent_from_the_first_question_on_and_others_change_nothing() {
        let pulse = Pulse::new();
        seconds(1000).await;
        assert_eq!(pulse.silence(), None, "there is no loop yet");
        seconds(1000).await;
        assert_eq!(pulse.silence(), None);
        pulse.begin();
        seconds(1000).await;
        assert_eq!(pulse.silence(), None, "nobody has asked");
        seconds(30).await;
        assert_eq!(pulse.silence(), None, "a turn may take some seconds");
        seconds(29).await;
        assert_eq!(pulse.silence(), None);
        seconds(1).await;
        assert_eq!(pulse.silence(), Some(PATIENCE));
        seconds(15).await;
        assert_eq!(pulse.silence(), Some(Duration::from_secs(75)));
        pulse.turn();
        assert_eq!(pulse.silence(), None, "it turns again");
        seconds(59).await;
        assert_eq!(pulse.silence(), None, "the next question is a new one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_sleeps_is_woken_by_the_first_question_whenever_it_comes() {
        let pulse = Pulse::new();
        pulse.begin();
        assert_eq!(pulse.silence(), None);
        // The question came before the loop went to sleep.
        pulse.asked().await;
        pulse.turn();
        let asleep = tokio::time::timeout(Duration::from_secs(10), pulse.asked()).await;
        assert!(asleep.is_err(), "one question wakes it once");
        let ((), asked) = tokio::join!(pulse.asked(), async { pulse.silence() });
        assert_eq!(asked, None);
    }
}
