//! Waits for a condition with a deadline. A case never sleeps for a fixed time instead.
//!
//! The deadlines are those of the scenario table. Under injected faults they cannot hold, so a wait has an extra time ([`Patience`]) while faults are
//! injected. So a case has the same text with and without faults. The time for which a program can do nothing does not count, and only that time: it obeys a
//! `Retry-After`, or it lost its lease and does not lead again yet.
//!
//! A deadline is for the program, and no program can act while the machine stalls. So a deadline moves by the measured stalled time (`stall`), and by
//! nothing else. A wait that was late for that reason is printed with the stalled time.
//!
//! A failed wait names the condition and the last observed state, because a reader asks for them first.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::{say, stall};

/// How often a condition is checked. A read from a local API server takes about a millisecond.
const PACE: Duration = Duration::from_millis(50);

/// How long a wait goes on after its deadline: a machine that stalled until just now is known to have stalled only when `stall` has computed again.
const COUNTED: Duration = Duration::from_millis(150);

/// The result of one check.
pub enum Seen<T> {
    /// The condition holds, with the wanted value.
    Yes(T),
    /// The condition does not hold; the text describes the present state.
    NotYet(String),
}

impl Seen<()> {
    /// Returns `Yes` if `holds`, otherwise `NotYet` with the present state.
    pub fn when(holds: bool, instead: impl FnOnce() -> String) -> Self {
        if holds { Self::Yes(()) } else { Self::NotYet(instead()) }
    }
}

/// The error of a wait whose deadline passed.
#[derive(Debug)]
pub struct DeadlinePassed(String);

impl fmt::Display for DeadlinePassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeadlinePassed {}

/// How much longer than its deadline a wait may take at this moment. Clones share the value.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// Milliseconds, because of injected faults.
    extra: Arc<AtomicU64>,
    /// When a program can do nothing: from the first moment to the second one.
    idle: Arc<Mutex<Vec<(Instant, Instant)>>>,
    /// Stalled milliseconds besides the measured ones, for tests.
    stalled: Arc<AtomicU64>,
}

tokio::task_local! {
    static PATIENCE: Patience;
}

impl Patience {
    /// Sets the extra time of waits.
    pub fn set(&self, extra: Duration) {
        self.extra.store(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records that a client does nothing for so long from now on, because it obeys a `Retry-After`. No wait counts this time, and every wait counts the time after it.
    pub fn obeys(&self, length: Duration) {
        let now = Instant::now();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((now, now + length));
    }

    /// Records that a program could do nothing from one moment to the other. No wait counts this time.
    pub fn was_idle(&self, from: Instant, to: Instant) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match idle.iter_mut().find(|(_, end)| *end == from) {
            Some((_, end)) => *end = to,
            None => idle.push((from, to)),
        }
    }

    /// Runs a future with this patience. It is for this task only: a task that the case spawns has none.
    pub async fn over<T>(self, what: impl Future<Output = T>) -> T {
        PATIENCE.scope(self, what).await
    }

    pub(crate) fn now() -> Duration {
        millis(PATIENCE.try_with(|patience| patience.extra.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Returns for how long between these moments a program could do nothing. Time for which two could do nothing counts once.
    pub(crate) fn idle(start: Instant, end: Instant) -> Duration {
        let all = PATIENCE.try_with(|patience| patience.idle.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let mut all = all.unwrap_or_default();
        all.sort_unstable();
        let (mut sum, mut counted) = (Duration::ZERO, start);
        for (from, to) in all {
            let (from, to) = (from.max(counted), to.min(end));
            sum += to.saturating_duration_since(from);
            counted = counted.max(to);
        }
        sum
    }

    /// Returns for how long the machine has stalled so far.
    fn stalled() -> Duration {
        stall::total() + millis(PATIENCE.try_with(|patience| patience.stalled.load(Ordering::Relaxed)).unwrap_or(0))
    }
}

/// A deadline that moves while the machine stalls.
struct Deadline {
    start: Instant,
    stalled_before: Duration,
    /// Whether it was over when [`Self::left`] was asked last.
    was_over: bool,
}

impl Deadline {
    fn start() -> Self {
        Self { start: Instant::now(), stalled_before: Patience::stalled(), was_over: false }
    }

    /// Returns the time since the start, and the stalled part of it.
    fn elapsed(&self) -> (Duration, Duration) {
        let elapsed = self.start.elapsed();
        (elapsed, Patience::stalled().saturating_sub(self.stalled_before).min(elapsed))
    }

    /// Returns how long is left of this limit: at the first question after its end [`COUNTED`], and then nothing.
    fn left(&mut self, limit: Duration) -> Option<Duration> {
        let (elapsed, stalled) = self.elapsed();
        let left = (limit + stalled).saturating_sub(elapsed);
        let was_over = std::mem::replace(&mut self.was_over, left.is_zero());
        match (left.is_zero(), was_over) {
            (false, _) => Some(left),
            (true, false) => Some(COUNTED),
            (true, true) => None,
        }
    }

    /// Returns for how long since the start a program could do nothing.
    fn idle(&self) -> Duration {
        Patience::idle(self.start, Instant::now())
    }

    /// Prints by how much a wait with this limit was late, if it was.
    fn report(&self, limit: Duration, what: &str) {
        let (elapsed, stalled) = self.elapsed();
        let limit = limit + self.idle();
        record(elapsed, stalled, limit, what);
        let late = elapsed.saturating_sub(limit);
        // A single check takes some time, too.
        if late >= PACE {
            let (late, stalled, elapsed) = (late.as_secs_f64(), stalled.as_secs_f64(), elapsed.as_secs_f64());
            say::line(format!(
                "        late by {late:.1} s; the machine stalled for {stalled:.1} s of {elapsed:.1} s ({}): {what}",
                stall::pressure()
            ));
        }
    }
}

/// Appends how long a wait took to the file in `PODGROUP_WAITS`, if there is one: from a whole run of it follows which deadlines are longer than they need to be.
fn record(elapsed: Duration, stalled: Duration, limit: Duration, what: &str) {
    use std::io::Write as _;
    let Some(path) = std::env::var_os("PODGROUP_WAITS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let line = format!("{:.2} {:.2} {:.0} {what}\n", elapsed.as_secs_f64(), stalled.as_secs_f64(), limit.as_secs_f64());
    // One write, so that the lines of two cases do not mix. Without the file nothing is lost but the record.
    drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
}

/// Checks again and again until `look` says yes. Fails after `deadline` and names `what` and the last observed state ([`DeadlinePassed`]). An error of a check is
/// only another observed state, because the API server may be away for a moment in the middle of a case.
pub async fn wait_until<T, F, Fut>(deadline: Duration, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<T>>>,
{
    let mut running = Deadline::start();
    loop {
        let last = match look().await {
            Ok(Seen::Yes(value)) => {
                running.report(deadline + Patience::now(), what);
                return Ok(value);
            }
            Ok(Seen::NotYet(text)) => text,
            Err(error) => say::brief(&error),
        };
        let (idle, deadline) = (running.idle(), deadline + Patience::now());
        // A condition without a deadline is checked once.
        let left = if deadline.is_zero() { None } else { running.left(deadline + idle) };
        let Some(left) = left else {
            let (elapsed, stalled) = running.elapsed();
            let text = format!(
                "not within {deadline:?} (of {elapsed:.1?} the machine stalled for {stalled:.1?}, and a program could do nothing for {idle:.1?}): {what}; \
                 last seen: {last}"
            );
            return Err(DeadlinePassed(text).into());
        };
        tokio::time::sleep(if running.was_over { left } else { PACE }).await;
    }
}

/// Returns the result of `act` if it ends within the deadline, which moves while the machine stalls.
pub async fn in_time<T>(deadline: Duration, what: &str, act: impl Future<Output = T>) -> Option<T> {
    let mut running = Deadline::start();
    let over = async {
        while let Some(left) = running.left(deadline) {
            tokio::time::sleep(left).await;
        }
    };
    tokio::select! {
        biased;
        outcome = act => {
            running.report(deadline, what);
            Some(outcome)
        }
        () = over => None,
    }
}

/// Checks until `end` and fails as soon as the condition does not hold, for a condition that may end at that moment. A check that takes longer than
/// `end` does not count, so a machine that hangs proves less and never the opposite.
pub async fn holds_until<F, Fut>(end: Instant, what: &str, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<()>>>,
{
    while Instant::now() < end {
        let seen = look().await?;
        if let Seen::NotYet(text) = seen
            && Instant::now() < end
        {
            bail!("did not hold: {what}; {:?} too early: {text}", end.saturating_duration_since(Instant::now()));
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

/// Checks for the whole `duration` and fails as soon as the condition does not hold: for "stays Pending" and "never drops".
pub async fn holds_for<F, Fut>(duration: Duration, what: &str, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<()>>>,
{
    let start = Instant::now();
    loop {
        if let Seen::NotYet(text) = look().await? {
            bail!("did not hold for {duration:?}: {what}; after {:?}: {text}", start.elapsed());
        }
        if start.elapsed() >= duration {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Returns seconds as a duration, so that a case reads `secs(10)`.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns milliseconds as a duration.
pub const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failed_wait_names_its_condition_and_the_last_state() {
        let result: Result<()> = wait_until(secs(1), "a pod runs", || async { Ok(Seen::NotYet("it is Pending".to_owned())) }).await;
        let text = format!("{:#}", result.unwrap_err());
        assert!(text.contains("a pod runs") && text.contains("it is Pending"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_its_extra_time_and_not_more() {
        let patience = Patience::default();
        patience.set(secs(60));
        let start = Instant::now();
        let late = || async move { Ok(Seen::when(start.elapsed() >= secs(30), || "too early".to_owned())) };
        patience.clone().over(async { wait_until(secs(1), "it comes late", late).await }).await.unwrap();
        patience.set(Duration::ZERO);
        let never = || async { Ok(Seen::NotYet("never".to_owned())) };
        let start = Instant::now();
        let outcome: Result<()> = patience.clone().over(async { wait_until(secs(1), "it never comes", never).await }).await;
        assert!(outcome.is_err() && start.elapsed() < secs(3));
        let (start, at_once) =
            (Instant::now(), patience.over(async { wait_until::<(), _, _>(secs(0), "it is not there", never).await }).await);
        assert!(at_once.is_err() && start.elapsed() < secs(1));
    }

    /// Runs a wait of five seconds for a condition that holds after `after`, on a machine that stalls for `stalled` meanwhile. Also for `in_time`.
    async fn holds_after(after: Duration, stalled: Duration) -> (bool, bool) {
        let patience = Patience::default();
        let counter = Arc::clone(&patience.stalled);
        patience
            .over(async {
                let start = Instant::now();
                let stall = |start: Instant| {
                    let so_far = start.elapsed().min(stalled);
                    counter.store(u64::try_from(so_far.as_millis()).unwrap(), Ordering::Relaxed);
                };
                let look = || {
                    stall(start);
                    async move { Ok(Seen::when(start.elapsed() >= after, || "too early".to_owned())) }
                };
                let waited = wait_until(secs(5), "it comes late", look).await.is_ok();
                counter.store(0, Ordering::Relaxed);
                let start = Instant::now();
                let act = async {
                    while start.elapsed() < after {
                        stall(start);
                        tokio::time::sleep(PACE).await;
                    }
                };
                (waited, in_time(secs(5), "it ends late", act).await.is_some())
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moves_by_the_stalled_time_and_by_no_other() {
        assert_eq!(holds_after(secs(4), Duration::ZERO).await, (true, true));
        assert_eq!(holds_after(secs(9), Duration::ZERO).await, (false, false), "nothing stalled, so the program is late");
        assert_eq!(holds_after(secs(9), secs(5)).await, (true, true));
        assert_eq!(holds_after(secs(20), secs(5)).await, (false, false), "later than the stalled time excuses");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_that_is_known_just_after_the_deadline_counts() {
        let patience = Patience::default();
        let counter = Arc::clone(&patience.stalled);
        let (known, start) = (millis(5100), Instant::now());
        let count = async {
            for end in [start + known, start + secs(20) + known] {
                tokio::time::sleep_until(end).await;
                counter.fetch_add(5000, Ordering::Relaxed);
            }
        };
        let waits = patience.over(async {
            let look = || async move { Ok(Seen::when(start.elapsed() >= secs(9), || "too early".to_owned())) };
            assert!(wait_until(secs(5), "it comes late", look).await.is_ok());
            tokio::time::sleep_until(start + secs(20)).await;
            assert!(in_time(secs(5), "it ends late", tokio::time::sleep(secs(9))).await.is_some());
        });
        tokio::join!(count, waits);
    }

    /// Runs a wait of five seconds that nothing fulfils, with the extra time of the mix. A client obeys a `Retry-After` for 30 s from each of these seconds on.
    /// Returns when the wait failed.
    async fn failed_at(wait_from: u64, told_at: &[u64]) -> u64 {
        let (patience, start) = (Patience::default(), Instant::now());
        patience.set(secs(27));
        let tell = async {
            for at in told_at {
                tokio::time::sleep_until(start + secs(*at)).await;
                patience.obeys(secs(30));
            }
        };
        let never = || async { Ok(Seen::NotYet("never".to_owned())) };
        let wait = patience.clone().over(async {
            tokio::time::sleep_until(start + secs(wait_from)).await;
            assert!(wait_until::<(), _, _>(secs(5), "it never comes", never).await.is_err());
            start.elapsed().as_secs()
        });
        tokio::join!(tell, wait).1
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_retry_after_is_forgiven_while_it_lasts_and_no_longer() {
        let cases: [(u64, &[u64], u64, &str); 5] = [
            (0, &[], 32, "no Retry-After"),
            (0, &[10], 62, "all of it"),
            (20, &[10], 72, "the 20 s that are left of it"),
            (41, &[10], 73, "it is over"),
            (0, &[10, 20], 72, "two clients, from 10 s to 50 s"),
        ];
        for (wait_from, told_at, wanted, what) in cases {
            // A stall of the machine, which is real also where the clock is paused, may add a little.
            let failed = failed_at(wait_from, told_at).await;
            assert!((wanted..wanted + 3).contains(&failed), "{what}: failed at {failed} s, wanted {wanted} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_ends_after_the_moment_does_not_count() {
        let end = Instant::now() + secs(3);
        let slow = || async move {
            tokio::time::sleep(secs(4)).await;
            Ok(Seen::NotYet("it is otherwise".to_owned()))
        };
        holds_until(end, "it is so", slow).await.unwrap();
        let end = Instant::now() + secs(3);
        assert!(holds_until(end, "it is so", || async { Ok(Seen::NotYet("it is otherwise".to_owned())) }).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_must_hold_fails_at_the_first_check_that_says_no() {
        let mut looks = 0;
        let result = holds_for(secs(60), "usage stays", || {
            looks += 1;
            let holds = looks < 3;
            async move { Ok(Seen::when(holds, || "usage is 0".to_owned())) }
        })
        .await;
        assert!(format!("{:#}", result.unwrap_err()).contains("usage is 0"));
        assert_eq!(looks, 3);
    }
}
