//! Waits for a condition with a deadline. A case never sleeps for a fixed time instead.
//!
//! The deadlines are those of the scenario table. Under injected faults they cannot hold, so a wait has an extra time ([`Patience`]) while faults are
//! injected. So a case has the same text with and without faults.
//!
//! A deadline is for the program, and no program can act while the machine hangs. So a wait may be late by a limited time ([`Late`]), which is
//! printed. All waits of a case share this time, so a program that is always late soon fails. A case that proves a deadline itself must measure in
//! another way.
//!
//! A failed wait names the condition and the last observed state, because a reader asks for them first.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, timeout};

use crate::say;

/// How often a condition is checked. A read from a local API server takes about a millisecond.
const PACE: Duration = Duration::from_millis(50);

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

/// The least time for which a wait goes on before it fails: the machine may hang for five seconds, and the missed work is done afterwards.
const AT_LEAST: Duration = secs(20);

/// By how much a wait with a longer deadline may be late.
const LATE_BY: Duration = secs(10);

/// The largest sum of the lateness of all waits of a case.
const LATE_IN_ALL: Duration = secs(40);

/// How much longer than its deadline a wait may take at this moment. Clones share the value.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// Milliseconds, because of injected faults.
    extra: Arc<AtomicU64>,
    late: Late,
}

/// The sum of the lateness of a case's waits so far, in milliseconds.
#[derive(Clone, Debug, Default)]
struct Late(Arc<AtomicU64>);

impl Late {
    /// Returns by how much a wait with this deadline may be late. A condition without a deadline is checked once.
    fn allows(&self, deadline: Duration) -> Duration {
        if deadline.is_zero() {
            return Duration::ZERO;
        }
        let left = LATE_IN_ALL.saturating_sub(millis(self.0.load(Ordering::Relaxed)));
        AT_LEAST.saturating_sub(deadline).max(LATE_BY).min(left)
    }

    /// Records that a wait was late and then succeeded.
    fn was(&self, by: Duration, what: &str) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        say::line(format!("        late by {:.1} s, as on a machine that hangs: {what}", by.as_secs_f64()));
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

    /// Adds to the extra time of waits.
    pub fn add(&self, extra: Duration) {
        self.extra.fetch_add(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Runs a future with this patience. It is for this task only: a task that the case spawns has none.
    pub async fn over<T>(self, what: impl Future<Output = T>) -> T {
        PATIENCE.scope(self, what).await
    }

    pub(crate) fn now() -> Duration {
        millis(PATIENCE.try_with(|patience| patience.extra.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Returns by how much a wait with this deadline may be late at this moment.
    fn late(deadline: Duration) -> Duration {
        PATIENCE.try_with(|patience| patience.late.allows(deadline)).unwrap_or(Duration::ZERO)
    }

    fn was_late(by: Duration, what: &str) {
        // A single check takes some time, too.
        if by >= PACE {
            // Without a patience in the task, lateness is not recorded.
            let _ = PATIENCE.try_with(|patience| patience.late.was(by, what));
        }
    }
}

/// Checks again and again until `look` says yes. Fails after `deadline` and names `what` and the last observed state. An error of a check is only another
/// observed state, because the API server may be away for a moment in the middle of a case.
pub async fn wait_until<T, F, Fut>(deadline: Duration, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Seen<T>>>,
{
    let start = Instant::now();
    loop {
        let last = match look().await {
            Ok(Seen::Yes(value)) => {
                Patience::was_late(start.elapsed().saturating_sub(deadline + Patience::now()), what);
                return Ok(value);
            }
            Ok(Seen::NotYet(text)) => text,
            Err(error) => say::brief(&error),
        };
        let deadline = deadline + Patience::now();
        if start.elapsed() >= deadline + Patience::late(deadline) {
            bail!("not within {deadline:?}: {what}; last seen: {last}");
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Returns the result of `act` if it ends within the deadline (with the usual lateness).
pub async fn in_time<T>(deadline: Duration, what: &str, act: impl Future<Output = T>) -> Option<T> {
    let start = Instant::now();
    let outcome = timeout(deadline + Patience::late(deadline), act).await.ok()?;
    Patience::was_late(start.elapsed().saturating_sub(deadline), what);
    Some(outcome)
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
        assert!(outcome.is_err() && start.elapsed() < AT_LEAST + secs(1));
        let (start, at_once) =
            (Instant::now(), patience.over(async { wait_until::<(), _, _>(secs(0), "it is not there", never).await }).await);
        assert!(at_once.is_err() && start.elapsed() < secs(1));
        let (start, alone) = (Instant::now(), wait_until::<(), _, _>(secs(1), "it never comes", never).await);
        assert!(alone.is_err() && start.elapsed() < secs(2));
    }

    /// Runs waits that succeed this long after a deadline of five seconds; returns how many of them pass.
    async fn taken(late_by: Duration) -> usize {
        Patience::default()
            .over(async {
                let mut taken = 0;
                for _ in 0..10 {
                    let start = Instant::now();
                    let late = || async move { Ok(Seen::when(start.elapsed() >= secs(5) + late_by, || "too early".to_owned())) };
                    taken += usize::from(wait_until(secs(5), "it comes late", late).await.is_ok());
                }
                taken
            })
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_may_hang_but_a_program_may_not_always_be_late() {
        assert_eq!(taken(millis(0)).await, 10);
        assert_eq!(taken(secs(9)).await, 4, "five waits would exceed forty seconds in all");
        assert_eq!(taken(secs(16)).await, 0, "no single wait may be so late");
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
