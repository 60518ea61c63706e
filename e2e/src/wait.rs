//! How does a case wait? For a condition with a deadline, and never by sleeping and hoping.
//!
//! Deadlines are those that the row of a case names. Where faults are injected they cannot hold, so a wait has [`Patience`] on top while the faults go on,
//! and none once all is calm again: so a case reads the same with and without faults.
//!
//! A wait that fails tells what it waited for and what it saw last, because that is the first thing that the reader of a red case asks.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

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

/// How much longer than its deadline a wait may take at this moment. Clones are the same patience.
#[derive(Clone, Debug, Default)]
pub struct Patience(Arc<AtomicU64>);

tokio::task_local! {
    static PATIENCE: Patience;
}

impl Patience {
    /// From now on waits take so much longer.
    pub fn set(&self, extra: Duration) {
        self.0.store(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// From now on waits take so much longer still.
    pub fn add(&self, extra: Duration) {
        self.0.fetch_add(u64::try_from(extra.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Runs what waits with this patience. It is that of this task only: what a case spawns has none.
    pub async fn over<T>(self, what: impl Future<Output = T>) -> T {
        PATIENCE.scope(self, what).await
    }

    pub(crate) fn now() -> Duration {
        millis(PATIENCE.try_with(|patience| patience.0.load(Ordering::Relaxed)).unwrap_or(0))
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
            Ok(Seen::Yes(value)) => return Ok(value),
            Ok(Seen::NotYet(text)) => text,
            Err(error) => say::brief(&error),
        };
        let deadline = deadline + Patience::now();
        if start.elapsed() >= deadline {
            bail!("not within {deadline:?}: {what}; last seen: {last}");
        }
        tokio::time::sleep(PACE).await;
    }
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
        let outcome: Result<()> = patience.over(async { wait_until(secs(1), "it never comes", never).await }).await;
        assert!(outcome.is_err() && start.elapsed() < secs(2));
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
