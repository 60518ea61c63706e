//! Runs the tasks of a program, ends them in order, and returns the exit status.
//!
//! Each task belongs to a [`Stage`]. When the program ends, the stages end one after the other. Each stage has a time limit, and what has
//! not ended by then is aborted. First the work ends, then the lease is released (never while a write may be in progress), and the health
//! endpoint ends last. The limits add up to less than four seconds, unless a program allows its work more ([`Program::allow_work`]). A
//! healthy program ends in a fraction of that. The lease has more than the rest: a lease that is not released makes the next leader wait
//! until it runs out:
//!
//! ```text
//!   signal, or a task that ended ──► Work 1 s ──► Lease 2 s ──► Serve 0.3 s ──► exit 0 (signal) or 1
//! ```
//!
//! In a healthy program no task ends by itself. So a task that ends also ends the program: a watch that silently
//! stopped would be worse. A second signal aborts everything.

use std::fmt::Display;
use std::io;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;

use super::shutdown::{Shutdown, Signals, Trigger};

/// The stages of a shutdown, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Watches, decisions, writes.
    Work,
    /// Leader election: it may end only after the last write.
    Lease,
    /// Health and metrics: they end last.
    Serve,
}

const STAGES: [(Stage, Duration); 3] =
    [(Stage::Work, Duration::from_millis(1000)), (Stage::Lease, Duration::from_millis(2000)), (Stage::Serve, Duration::from_millis(300))];

/// The tasks of a program.
#[derive(Debug)]
pub struct Program {
    groups: Vec<Group>,
    signals: Signals,
}

#[derive(Debug)]
struct Group {
    stage: Stage,
    time: Duration,
    trigger: Trigger,
    shutdown: Shutdown,
    /// Each task returns its name and, if it failed, the error.
    tasks: JoinSet<(&'static str, Result<(), String>)>,
}

impl Program {
    /// Makes a program without tasks. It already handles SIGTERM and Ctrl-C.
    ///
    /// # Errors
    /// When the operating system refuses the signal handlers.
    pub fn new() -> io::Result<Self> {
        Ok(Self::ended_by(Signals::listen()?))
    }

    /// Makes a program without tasks that runs inside of another process, and ends at `stop`.
    #[must_use]
    pub fn inside(stop: Shutdown) -> Self {
        Self::ended_by(Signals::Asked(Some(stop)))
    }

    fn ended_by(signals: Signals) -> Self {
        let group = |(stage, time)| {
            let (trigger, shutdown) = Shutdown::new();
            let tasks = JoinSet::new();
            Group { stage, time, trigger, shutdown, tasks }
        };
        Self { groups: STAGES.into_iter().map(group).collect(), signals }
    }

    /// Gives the work this much time to end, beside the usual second.
    pub fn allow_work(&mut self, time: Duration) {
        self.groups.iter_mut().filter(|group| group.stage == Stage::Work).for_each(|group| group.time = group.time.saturating_add(time));
    }

    /// Starts a task, which gets the [`Shutdown`] of its stage. It should end soon after that is triggered, and not
    /// before (see the module). `name` is for the log.
    pub fn spawn<F, E>(&mut self, stage: Stage, name: &'static str, task: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        // Every stage has its group since `new`.
        if let Some(group) = self.groups.iter_mut().find(|group| group.stage == stage) {
            group.spawn(name, task(group.shutdown.clone()));
        }
    }

    /// Runs a preparation before the work starts, while the tasks started so far run. Signals are handled meanwhile.
    ///
    /// # Errors
    ///
    /// The exit status, when the program ended before the preparation was done.
    pub async fn first<T>(mut self, preparation: impl Future<Output = T>) -> Result<(Self, T), ExitCode> {
        tokio::select! {
            code = self.reason_to_end() => Err(self.finish(code).await),
            done = preparation => Ok((self, done)),
        }
    }

    /// Runs until a signal or until a task ends, then ends the stages in order. The status is success only after a signal.
    pub async fn run(mut self) -> ExitCode {
        let code = self.reason_to_end().await;
        self.finish(code).await
    }

    async fn reason_to_end(&mut self) -> ExitCode {
        tokio::select! {
            signal = self.signals.next() => {
                tracing::info!(signal, "ending");
                ExitCode::SUCCESS
            }
            (name, result) = first_end(&mut self.groups) => {
                report_early_end(name, &result);
                ExitCode::FAILURE
            }
        }
    }

    async fn finish(self, code: ExitCode) -> ExitCode {
        let Self { groups, mut signals } = self;
        tokio::select! {
            () = end(groups) => tracing::info!("ended"),
            signal = signals.next() => tracing::warn!(signal, "aborted by a second signal"),
        }
        code
    }
}

impl Group {
    fn spawn<F, E>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        let task = AssertUnwindSafe(task.map(|result| result.map_err(|e| e.to_string())));
        self.tasks.spawn(task.catch_unwind().map(move |ended| {
            let panicked = |_| Err("it panicked; the message is on stderr".to_owned());
            (name, ended.unwrap_or_else(panicked))
        }));
    }
}

/// Waits for the first task of any stage that ends; for ever when there is no task.
async fn first_end(groups: &mut [Group]) -> (&'static str, Result<(), String>) {
    let ends = groups.iter_mut().filter(|group| !group.tasks.is_empty()).map(|group| Box::pin(group.tasks.join_next()));
    let ends: Vec<_> = ends.collect();
    if ends.is_empty() {
        return std::future::pending().await;
    }
    match futures::future::select_all(ends).await.0 {
        Some(Ok(end)) => end,
        Some(Err(error)) => ("task", Err(error.to_string())),
        None => std::future::pending().await,
    }
}

fn report_early_end(name: &'static str, result: &Result<(), String>) {
    match result {
        Ok(()) => tracing::error!(task = name, "ended by itself; the program ends"),
        Err(error) => tracing::error!(task = name, error, "failed; the program ends"),
    }
}

async fn end(groups: Vec<Group>) {
    for mut group in groups {
        group.trigger.trigger();
        let all = async {
            while let Some(ended) = group.tasks.join_next().await {
                if let Ok((name, Err(error))) = ended {
                    tracing::warn!(task = name, error, "failed while ending");
                }
            }
        };
        if tokio::time::timeout(group.time, all).await.is_err() {
            let left = group.tasks.len();
            tracing::warn!(stage = ?group.stage, left, "not ended in time, aborted");
            group.tasks.abort_all();
        }
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
