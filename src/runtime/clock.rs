//! Reads the clock. No other module does.
//!
//! All other code takes the time as an argument, so a test, a replay and a simulation can set it.
//! There are three clocks. The wall clock is for what people and other programs read; it may jump. The monotonic clock is
//! for how long something took; it never jumps. The third is the monotonic clock that also runs while the machine is suspended,
//! for leases: other machines do not wait for a suspended one.

use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::time::Instant;

/// Two reads of clocks, one after the other, differ by less. A suspension that is shorter does not count: the durations of a lease leave more room.
const BETWEEN_READS: Duration = Duration::from_secs(1);

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

/// Returns the time of the monotonic clock plus the time for which the machine was suspended since the first call. Compare it only with itself.
pub fn through_suspension() -> Instant {
    static BEFORE: OnceLock<Duration> = OnceLock::new();
    let suspended = suspended();
    monotonic() + since(suspended, *BEFORE.get_or_init(|| suspended))
}

/// Returns for how long the machine was suspended since it was started.
fn suspended() -> Duration {
    let read = |clock| duration(clock_gettime(clock));
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
}

fn since(suspended: Duration, before: Duration) -> Duration {
    let added = suspended.saturating_sub(before);
    if added < BETWEEN_READS { Duration::ZERO } else { added }
}

fn duration(time: Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until `then`; for ever when it is `None`. Safe to drop and to call again.
pub async fn until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

/// Waits until `then` on the clock of [`through_suspension`]; for ever when it is `None`. A wait that a suspension interrupts goes on after
/// it for the time that was left. Safe to drop and to call again.
pub async fn until_through_suspension(then: Option<Instant>) {
    until(then.map(|then| monotonic() + then.saturating_duration_since(through_suspension()))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_runtime_moves_the_monotonic_clock() {
        let before = monotonic();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(monotonic() - before, Duration::from_secs(7));
    }

    #[test]
    fn a_suspension_counts_and_what_lies_between_two_reads_does_not() {
        let before = Duration::from_secs(100);
        let after = |millis| since(before + Duration::from_millis(millis), before);
        assert_eq!((after(0), after(999)), (Duration::ZERO, Duration::ZERO));
        assert_eq!((after(1000), after(61_500)), (Duration::from_secs(1), Duration::from_millis(61_500)));
        assert_eq!(since(before, before + Duration::from_secs(5)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_suspension_both_monotonic_clocks_agree() {
        let (first, clocks) = (through_suspension(), monotonic());
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!((through_suspension() - first, monotonic() - clocks), (Duration::from_secs(7), Duration::from_secs(7)));
    }
}
