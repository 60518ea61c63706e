//! How does a case wait? For a condition with a deadline, and never by sleeping and hoping.
//!
//! Deadlines are those that the row of a case names. Where faults are injected they cannot hold, so a wait has [`Patience`] on top while the faults go on,
//! and none once all is calm again: so a case reads the same with and without faults.
//!
//! A deadline is what a program may take, and no program answers for a machine that stands still: so each wait may be late by [`Late`], told aloud, and a case
//! only by so much in all. Who is late every time has soon used that up. Where the deadline itself is what a case proves, it must look at something else.
//!
//! A wait that fails tells what it waited for and what it saw last, because that is the first thing that the reader of a red case asks.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, timeout};

use crate::say;

/// How often a condition is looked at. Reads against a local API server take about a millisecond.
const PACE: Duration = Duration::from_millis(50);

/// What a look at the cluster said.
pub enum Seen<T> {
    /// It is so, and this is what was wanted.
    Yes(T),
    /// Not so; the text says what is there instead.
    NotYet(String),
}

impl Seen<()> {
    /// `Yes` if `holds`, else what was seen instead.
    pub fn when(holds: bool, instead: impl FnOnce() -> String) -> Self {
        if holds { Self::Yes(()) } else { Self::NotYet(instead()) }
    }
}

/// Every wait goes on for so long where the machine stands still: a stall of five seconds, and what was left undone meanwhile.
const AT_LEAST: Duration = secs(20);

/// What has this time or more has so much more.
const LATE_BY: Duration = secs(10);

/// A whole case may be late by so much, all its waits together.
const LATE_IN_ALL: Duration = secs(40);

/// How much longer than its deadline a wait may take at this moment. Clones are the same patience.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// Milliseconds, for what is injected.
    extra: Arc<AtomicU64>,
    late: Late,
}

/// By how much the waits of a case have been late so far, in milliseconds.
#[derive(Clone, Debug, Default)]
struct Late(Arc<AtomicU64>);

impl Late {
    /// By how much a wait with this deadline may be late now. What must be so at once is looked at once.
    fn allows(&self, deadline: Duration) -> Duration {
        if deadline.is_zero() {
            return Duration::ZERO;
        }
        let left = LATE_IN_ALL.saturating_sub(millis(self.0.load(Ordering::Relaxed)));
        AT_LEAST.saturating_sub(deadline).max(LATE_BY).min(left)
    }

    /// It was, and came right.
    fn was(&self, by: Duration, what: &str) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        say::line(format!("        late by {:.1} s, as on a machine that stands still: {what}", by.as_secs_f64()));
    }
}

tokio::task_local! {
    static PATIENCE: Patience;
}

impl Patience {
    /// From now on waits take so much longer.
    pub fn set(&self, extra: Duration) {
        self.extra.store(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// From now on waits take so much longer still.
    pub fn add(&self, extra: Duration) {
        self.extra.fetch_add(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Runs what waits with this patience. It is that of this task only: what a case spawns has none.
    pub async fn over<T>(self, what: impl Future<Output = T>) -> T {
        PATIENCE.scope(self, what).await
    }

    pub(crate) fn now() -> Duration {
        millis(PATIENCE.try_with(|patience| patience.extra.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// By how much what has this deadline may be late at this moment.
    fn late(deadline: Duration) -> Duration {
        PATIENCE.try_with(|patience| patience.late.allows(deadline)).unwrap_or(Duration::ZERO)
    }

    fn was_late(by: Duration, what: &str) {
        // A single look takes a moment, too.
        if by >= PACE {
            // Who has no patience was never late.
            let _ = PATIENCE.try_with(|patience| patience.late.was(by, what));
        }
    }
}

/// Looks again and again until `look` says yes; fails after `deadline`, naming `what` and the last thing seen. An error of a look is one
/// more thing seen: the API server may be away for a moment in the middle of a case.
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

/// What comes of it within the deadline (late as any wait may be); none if it takes longer.
pub async fn in_time<T>(deadline: Duration, what: &str, act: impl Future<Output = T>) -> Option<T> {
    let start = Instant::now();
    let outcome = timeout(deadline + Patience::late(deadline), act).await.ok()?;
    Patience::was_late(start.elapsed().saturating_sub(deadline), what);
    Some(outcome)
}

/// Looks until `end`, and fails as soon as it is not so: for what cannot be otherwise before that moment and may be after it. What a look says that was not over by
/// then counts for nothing, so a machine that stands still proves less and never the opposite.
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

/// Looks all the time for `duration`, and fails as soon as it is not so: for "stays Pending" and "never drops".
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

/// Seconds, so that a case reads `secs(10)`.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Milliseconds, likewise.
pub const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_fails_names_what_it_waited_for_and_what_it_saw_last() {
        let result: Result<()> = wait_until(secs(1), "a pod runs", || async { Ok(Seen::NotYet("it is Pending".to_owned())) }).await;
        let text = format!("{:#}", result.unwrap_err());
        assert!(text.contains("a pod runs") && text.contains("it is Pending"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_patient_while_it_should_be_and_not_longer() {
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

    /// Waits that come right so long after each other's deadline of five seconds; how many of them are taken.
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
    async fn a_machine_may_stand_still_and_a_program_may_not_be_late_every_time() {
        assert_eq!(taken(millis(0)).await, 10);
        assert_eq!(taken(secs(9)).await, 4, "five would be more than forty seconds in all");
        assert_eq!(taken(secs(16)).await, 0, "and none may be so late");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_be_otherwise_from_a_moment_on_is_not_held_against_it() {
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
    async fn what_must_hold_fails_at_the_first_look_that_says_no() {
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
