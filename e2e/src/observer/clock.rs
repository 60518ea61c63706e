//! The observer's clocks: the wall clock, and the time in which the programs could work.
//!
//! The wall clock is read once; then monotonic time is added, so that times never go back. Graces are measured in program time: the wall
//! clock without the time for which the machine stalled, because a program that cannot run cannot act.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// Two clocks in milliseconds of the Unix epoch that never go back.
#[derive(Debug)]
pub(super) struct Clock {
    wall: i64,
    start: Instant,
    stalled: fn() -> Duration,
    stalled_before: Duration,
    /// Program time and wall clock at several moments, the oldest first.
    moments: Vec<(i64, i64)>,
}

impl Clock {
    /// Starts the clocks. `stalled` returns for how long the machine has stalled so far.
    #[expect(clippy::disallowed_methods, reason = "this is the observer's clock; it may not use that of the programs")]
    pub(super) fn start(stalled: fn() -> Duration) -> Self {
        let wall = Timestamp::now().as_millisecond();
        Self { wall, start: Instant::now(), stalled, stalled_before: stalled(), moments: Vec::new() }
    }

    /// Returns the wall clock.
    pub(super) fn now(&self) -> i64 {
        self.wall.saturating_add(milliseconds(self.start.elapsed()))
    }

    /// Returns the program time.
    pub(super) fn program_time(&mut self) -> i64 {
        let wall = self.now();
        let stalled = (self.stalled)().saturating_sub(self.stalled_before);
        let last = self.moments.last().map_or(self.wall, |(program, _)| *program);
        let program = wall.saturating_sub(milliseconds(stalled)).max(last);
        if self.moments.last().is_none_or(|(_, last)| *last < wall) {
            self.moments.push((program, wall));
        }
        program
    }

    /// Returns the wall clock at a program time.
    pub(super) fn wall_at(&self, program: i64) -> i64 {
        let after = self.moments.partition_point(|(known, _)| *known < program);
        self.moments.get(after).or(self.moments.last()).map_or(program, |(_, wall)| *wall)
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    static STALLED: AtomicU64 = AtomicU64::new(7);

    #[tokio::test(start_paused = true)]
    async fn program_time_stands_still_while_the_machine_stalls() {
        let mut clock = Clock::start(|| Duration::from_secs(STALLED.load(Ordering::Relaxed)));
        let (wall, program) = (clock.now(), clock.program_time());
        assert_eq!(wall, program);
        tokio::time::advance(Duration::from_secs(10)).await;
        STALLED.store(7 + 8, Ordering::Relaxed);
        assert_eq!((clock.now() - wall, clock.program_time() - program), (10_000, 2000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.program_time() - program, 7000);
        assert_eq!([0, 2000, 7000].map(|at| clock.wall_at(program + at) - wall), [0, 10_000, 15_000]);
    }
}
