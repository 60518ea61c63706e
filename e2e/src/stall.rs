//! Measures for how long the machine keeps a program from running: all of it hangs, or other programs have its processors.
//!
//! A thread does what the programs do most of the time: it sleeps, and then computes for a moment. It measures by how much it was late and
//! how much longer the computation took than on a free processor. A program that works all the time loses the same share of its time. So a
//! beat in which the thread waited nine times as long as it computed counts as nine tenths stalled, and a machine that hangs for five
//! seconds as five seconds.
//!
//! Waits (`wait`) forgive this time and no other.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// How long the thread sleeps between two computations.
const SLEEP: Duration = Duration::from_millis(50);

/// How late the thread is on a free machine: timers and the change of threads.
const USUAL: Duration = Duration::from_micros(500);

/// How long one computation takes on a free processor, about.
const COMPUTATION: Duration = Duration::from_millis(2);

/// The steps of the first computations, from which the number of steps follows.
const SAMPLE: u32 = 2_000;

/// How many computations at the start find the time that one takes on a free processor. A later one that is shorter replaces it.
const FIRST: u32 = 20;

/// The stalled time so far, in microseconds.
static STALLED: AtomicU64 = AtomicU64::new(0);

/// Returns for how long the machine has stalled since the first call. The difference of two calls is the stalled time between them.
pub fn total() -> Duration {
    static THREAD: OnceLock<bool> = OnceLock::new();
    // Without the thread nothing is forgiven.
    THREAD.get_or_init(|| thread::Builder::new().name("stalls".to_owned()).spawn(measure).is_ok());
    Duration::from_micros(STALLED.load(Ordering::Relaxed))
}

/// Returns the share of time in which some task waited for a processor, as the kernel saw it in the last 10 s: `some avg10=…`. Empty where
/// it is not known.
pub fn pressure() -> String {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn measure() {
    let sample = (0..FIRST).map(|_| compute(SAMPLE)).min().unwrap_or_default().max(Duration::from_nanos(1));
    let times = COMPUTATION.as_nanos().checked_div(sample.as_nanos()).unwrap_or(1).clamp(1, 1000);
    let steps = SAMPLE.saturating_mul(u32::try_from(times).unwrap_or(1));
    let mut least = (0..FIRST).map(|_| compute(steps)).min().unwrap_or_default();
    let mut before = Instant::now();
    loop {
        thread::sleep(SLEEP);
        let late = before.elapsed().saturating_sub(SLEEP);
        let took = compute(steps);
        least = least.min(took);
        let beat = before.elapsed();
        before = Instant::now();
        let lost = stalled(beat, late, took, least);
        STALLED.fetch_add(u64::try_from(lost.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Returns the stalled part of one beat: the thread was `late` after its sleep, and its computation `took` this long instead of `least`.
fn stalled(beat: Duration, late: Duration, took: Duration, least: Duration) -> Duration {
    let waited = late.saturating_sub(USUAL) + took.saturating_sub(least);
    let all = waited + least;
    if all.is_zero() { Duration::ZERO } else { beat.mul_f64(waited.as_secs_f64() / all.as_secs_f64()) }
}

fn compute(steps: u32) -> Duration {
    let start = Instant::now();
    let mut number = black_box(7_u64);
    for step in 0..u64::from(steps) {
        number = black_box(number.wrapping_mul(0x9e37_79b9).wrapping_add(step));
    }
    black_box(number);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::millis;

    #[test]
    fn a_free_machine_does_not_stall_a_shared_one_by_its_share_and_one_that_hangs_fully() {
        let least = millis(2);
        assert_eq!(stalled(millis(52), Duration::from_micros(400), least, least), Duration::ZERO);
        let shared = stalled(millis(68), millis(10) + USUAL, millis(10), least);
        assert!(shared > millis(60) && shared < millis(62), "18 of 20 ms: {shared:?}");
        let hangs = stalled(millis(5052), millis(5000), least, least);
        assert!(hangs > millis(5040) && hangs <= millis(5052), "{hangs:?}");
    }

    #[test]
    fn the_thread_sees_that_its_processors_are_taken_away() {
        let (start, before) = (Instant::now(), total());
        // More than the machine has: each gets a share only.
        let busy = thread::available_parallelism().map_or(4, usize::from) * 4;
        thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| {
                    while start.elapsed() < millis(1500) {
                        compute(SAMPLE);
                    }
                });
            }
        });
        let (took, lost) = (start.elapsed(), total().saturating_sub(before));
        // A beat counts when it ends, and the first may have begun before the start.
        assert!(lost > millis(100) && lost <= took + millis(1000), "{lost:?} of {took:?}");
    }
}
