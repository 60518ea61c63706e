//! Waits for a condition with a deadline. A case never sleeps for a fixed time instead.
//!
//! Deadlines are part of what a case promises. Under injected faults they cannot hold, so a wait has an extra time ([`Patience`]) while
//! faults are injected. So a case has the same text with and without faults. The time for which a program can do nothing does not count,
//! and only that time: it obeys a `Retry-After`, or it lost its lease and does not lead again yet.
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
pub(crate) const COUNTED: Duration = Duration::from_millis(150);

/// For how long the checks of [`holds_for`] may fail with an error.
const BLIND: Duration = Duration::from_secs(5);

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

impl DeadlinePassed {
    /// Returns the error of another kind of wait.
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

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

    /// Records that a client does nothing for so long from now on, because it obeys a `Retry-After`. No wait counts this time, and every
    /// wait counts the time after it.
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

/// Appends how long a wait took to the file in `PODGROUP_WAITS`, if there is one: from a whole run of it follows which deadlines are longer
/// than they need to be.
fn record(elapsed: Duration, stalled: Duration, limit: Duration, what: &str) {
    use std::io::Write as _;
    let Some(path) = std::env::var_os("PODGROUP_WAITS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let line = format!("{:.2} {:.2} {:.0} {what}\n", elapsed.as_secs_f64(), stalled.as_secs_f64(), limit.as_secs_f64());
    // One write, so that the lines of two cases do not mix. Without the file nothing is lost but the record.
    drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
}

/// Checks again and again until `look` says yes. Fails after `deadline` and names `what` and the last observed state ([`DeadlinePassed`]).
/// An error of a check is only another observed state, because the API server may be away for a moment in the middle of a case.
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
            return Err(DeadlinePassed::new(text).into());
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
    let mut observed = Observed::start();
    while Instant::now() < end {
        let seen = observed.by(look().await)?;
        if let Some(Seen::NotYet(text)) = seen
            && Instant::now() < end
        {
            bail!("did not hold: {what}; {:?} too early: {text}", end.saturating_duration_since(Instant::now()));
        }
        tokio::time::sleep(PACE).await;
    }
    observed.end()
}

/// Checks for the whole `duration` and fails as soon as the condition does not hold: for "stays Pending" and "never drops".
pub async fn holds_for<F, Fut>(duration: Duration, what: &str, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<()>>>,
{
    let (start, mut observed) = (Instant::now(), Observed::start());
    loop {
        let seen = observed.by(look().await)?;
        if let Some(Seen::NotYet(text)) = seen {
            bail!("did not hold for {duration:?}: {what}; after {:?}: {text}", start.elapsed());
        }
        if seen.is_some() && start.elapsed() >= duration {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
}

/// When something was last observed, and the error of the check since then. An error is no observation: the API server may be slow for a
/// moment. That it does not have the object is one.
struct Observed {
    at: Instant,
    error: Option<anyhow::Error>,
}

impl Observed {
    fn start() -> Self {
        Self { at: Instant::now(), error: None }
    }

    /// Returns what a check saw; `None` for an error. Fails when nothing was observed for [`BLIND`].
    fn by(&mut self, seen: Result<Seen<()>>) -> Result<Option<Seen<()>>> {
        match seen {
            Ok(seen) => {
                *self = Self::start();
                Ok(Some(seen))
            }
            Err(error) if self.at.elapsed() > BLIND || is_missing(&error) => Err(error),
            Err(error) => {
                self.error = Some(error);
                Ok(None)
            }
        }
    }

    /// Fails when the last check ended with an error.
    fn end(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

/// Returns whether the API server says that there is no such object.
fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 404)
}

/// Waits up to ten seconds until the condition holds, and then checks for two that it stays: a state that is correct for a moment only is
/// not enough. Where it does not stay, both begin again as long as the ten seconds are not over, and once in any case: after the first
/// moment a late DELETE may still arrive, which is made good at once.
pub async fn settles<F, Fut>(what: &str, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<()>>>,
{
    let limit = secs(10);
    let (start, mut left, mut is_first) = (Instant::now(), limit, true);
    loop {
        wait_until(left, what, &mut look).await?;
        match holds_for(secs(2), what, &mut look).await {
            Err(_) if is_first || start.elapsed() < limit => {}
            stays => return stays,
        }
        (left, is_first) = (limit.saturating_sub(start.elapsed()).max(secs(2)), false);
    }
}

/// Waits until what `read` returns stays the same for `quiet`, and returns it.
pub async fn unchanged<T>(deadline: Duration, quiet: Duration, what: &str, read: impl Fn() -> Result<T>) -> Result<T>
where
    T: PartialEq + fmt::Debug,
{
    wait_until(deadline, &format!("{what} for {quiet:?}"), || async {
        let before = read()?;
        tokio::time::sleep(quiet).await;
        let after = read()?;
        Ok(if before == after { Seen::Yes(after) } else { Seen::NotYet(format!("{before:?}, and then {after:?}")) })
    })
    .await
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
#[path = "wait_tests.rs"]
mod tests;
