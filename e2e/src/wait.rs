//! Waits for a condition with a deadline. A case never sleeps for a fixed time instead.
//!
//! Deadlines are part of what a case promises, and a wait that is late fails the case, also on a busy machine. So they are long enough for
//! one where the programs get a third of the processors. A deadline moves by one rule: the time that the case itself takes from the programs
//! ([`Patience`]) does not count. That is the extra time of the mix of faults, a `Retry-After` that a program obeys, and a lease that the
//! mix made it lose. So a case has the same text with and without faults.
//!
//! Each case says how near to a deadline its waits came ([`Nearest`]), so that a deadline that is too short is seen before it fails a case.
//!
//! A failed wait names the condition and the last observed state, because a reader asks for them first.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::say;

/// How often a condition is checked. A read from a local API server takes about a millisecond.
const PACE: Duration = Duration::from_millis(50);

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
    nearest: Arc<Mutex<Option<Nearest>>>,
}

/// The wait that came nearest to its deadline and was in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// How much of its time it took: 1.0 is all of it.
    pub share: f64,
    /// Its whole time.
    pub limit: Duration,
    /// What it waited for.
    pub what: String,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} % of {:.0?}: {}", self.share * 100.0, self.limit, self.what)
    }
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

    /// Returns the wait of this patience that came nearest to its deadline; `None` before the first one has ended.
    pub fn nearest(&self) -> Option<Nearest> {
        self.nearest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a wait was in time.
    fn in_time(took: Duration, limit: Duration, what: &str) {
        let share = if limit.is_zero() { 0.0 } else { took.as_secs_f64() / limit.as_secs_f64() };
        // Outside of a case nobody asks.
        let _: Result<(), _> = PATIENCE.try_with(|patience| {
            let mut nearest = patience.nearest.lock().unwrap_or_else(PoisonError::into_inner);
            if nearest.as_ref().is_none_or(|known| known.share < share) {
                *nearest = Some(Nearest { share, limit, what: what.to_owned() });
            }
        });
    }
}

/// Checks again and again until `look` says yes. Fails after `deadline` and names `what` and the last observed state ([`DeadlinePassed`]).
/// An error of a check is only another observed state, because the API server may be away for a moment in the middle of a case. A check
/// that began in time counts, however long it took.
pub async fn wait_until<T, F, Fut>(deadline: Duration, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<T>>>,
{
    let start = Instant::now();
    loop {
        let seen = look().await;
        let (took, extra, idle) = (start.elapsed(), Patience::now(), Patience::idle(start, Instant::now()));
        let limit = deadline + extra + idle;
        let last = match seen {
            Ok(Seen::Yes(value)) => {
                Patience::in_time(took, limit, what);
                return Ok(value);
            }
            Ok(Seen::NotYet(text)) => text,
            Err(error) => say::brief(&error),
        };
        if took >= limit {
            let forgiven = if idle.is_zero() { String::new() } else { format!(" and the {idle:.1?} in which a program could do nothing") };
            let within = deadline + extra;
            return Err(DeadlinePassed::new(format!("not within {within:?}{forgiven}: {what}; last seen: {last}")).into());
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Returns the result of `act` if it ends within the deadline.
pub async fn in_time<T>(deadline: Duration, what: &str, act: impl Future<Output = T>) -> Option<T> {
    let start = Instant::now();
    let outcome = tokio::time::timeout(deadline, act).await.ok()?;
    Patience::in_time(start.elapsed(), deadline, what);
    Some(outcome)
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

/// Waits up to thirty seconds until the condition holds, and then checks for two that it stays: a state that is correct for a moment only is
/// not enough. Where it does not stay, both begin again as long as the thirty seconds are not over, and once in any case: after the first
/// moment a late DELETE may still arrive, which is made good at once.
pub async fn settles<F, Fut>(what: &str, mut look: F) -> Result<()>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<()>>>,
{
    let limit = secs(30);
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
