//! Asks tasks to end, and listens to what ends the program.
//!
//! Every task gets a [`Shutdown`]. The owner of the tasks keeps the [`Trigger`] of the pair
//! ([`super::program::Program`]). A trigger cannot be taken back.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The side that asks the tasks to end. Dropping it asks too: a task never outlives its owner.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Trigger {
    /// Asks every task with a [`Shutdown`] of this pair to end. A second call changes nothing.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }
}

/// The side that listens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Makes a pair that is not triggered.
    pub fn new() -> (Trigger, Self) {
        let (sender, receiver) = watch::channel(false);
        (Trigger(sender), Self(receiver))
    }

    /// Waits until the trigger; returns at once after it. Safe to drop and to call again.
    pub async fn triggered(&self) {
        let mut asked = self.0.clone();
        // An error means that the trigger was dropped, which asks too.
        let _gone = asked.wait_for(|asked| *asked).await;
    }

    /// Runs `work` until the trigger at most. `None` when it was cut off: `work` is dropped then,
    /// so an API request in progress has an unknown outcome.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.triggered() => None,
            done = work => Some(done),
        }
    }
}

/// What ends a program.
#[derive(Debug)]
pub enum Signals {
    /// The signals of its process: SIGTERM (kubelet) and SIGINT (Ctrl-C).
    OfProcess {
        /// SIGTERM.
        terminate: Signal,
        /// SIGINT.
        interrupt: Signal,
    },
    /// A request of the process that the program runs inside of; `None` once it has come.
    Asked(Option<Shutdown>),
}

impl Signals {
    /// Replaces the default handlers of both signals, from now on.
    ///
    /// # Errors
    /// When the operating system refuses the handler.
    pub fn listen() -> io::Result<Self> {
        Ok(Self::OfProcess { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal, and returns its name. A request comes once.
    pub async fn next(&mut self) -> &'static str {
        match self {
            Self::OfProcess { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            },
            Self::Asked(None) => std::future::pending().await,
            Self::Asked(Some(stop)) => {
                stop.triggered().await;
                *self = Self::Asked(None);
                "request"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn every_clone_sees_a_trigger_before_and_after_it_listens() {
        let (trigger, shutdown) = Shutdown::new();
        let clone = shutdown.clone();
        assert_eq!(clone.triggered().now_or_never(), None);
        trigger.trigger();
        shutdown.triggered().await;
        clone.triggered().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_trigger_asks_too() {
        let (trigger, shutdown) = Shutdown::new();
        drop(trigger);
        shutdown.triggered().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_cut_off_by_the_trigger_and_only_by_it() {
        let (trigger, shutdown) = Shutdown::new();
        assert_eq!(shutdown.unless(async { 5 }).await, Some(5));
        trigger.trigger();
        assert_eq!(shutdown.unless(std::future::pending::<u8>()).await, None);
    }
}
