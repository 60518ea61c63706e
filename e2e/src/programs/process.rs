//! The state of a program's process: it runs, the case has stopped it, or it lost its lease and waits for its restart.
//!
//! A case and the kubelet share the process, and each takes every step under one lock. After a case has stopped a waiting process, or
//! dropped its program, the process is not started any more.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::again::{leads, reason, starts_again};

/// The delay of a kubelet before the first restart, which is only the time that it needs to see the end.
pub(super) const BACK_OFF: Duration = Duration::from_secs(1);

/// The longest part of a log that is searched, in bytes from its end.
const LONGEST_END: u64 = 64 * 1024;

/// How a process is started, and its state.
pub(super) struct Process {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) log: PathBuf,
    /// The `namespace/name` of its lease.
    pub(super) lease: String,
    /// Whether a kubelet starts it again.
    pub(super) kept: bool,
    /// Whether it has another replica, which leads while it is away. It then may lose its lease often: the case freezes it.
    pub(super) of_two: bool,
    pub(super) state: State,
    /// The position in the log at which the present start begins.
    begin: u64,
    /// How often it ended because it lost its lease.
    losses: u32,
    /// Whether it lost its lease and does not lead again yet.
    away: bool,
}

pub(super) enum State {
    /// Never started, or ended by the case.
    Stopped,
    /// Started; it may have ended by itself.
    Started(Child),
    /// It ended with this status at this time because it lost its lease, and is not started again yet.
    Waits(ExitStatus, Instant),
}

/// The process as the case and the kubelet share it.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Process>>);

impl Shared {
    pub(super) fn new(process: Process) -> Self {
        Self(Arc::new(Mutex::new(process)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Process> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Creates a process that is not started.
    pub(super) fn new(path: PathBuf, arguments: Vec<String>, environment: Vec<(String, String)>, log: PathBuf, lease: String) -> Self {
        Self {
            path,
            arguments,
            environment,
            log,
            lease,
            kept: false,
            of_two: false,
            state: State::Stopped,
            begin: 0,
            losses: 0,
            away: false,
        }
    }

    /// Starts it, in any state.
    pub(super) fn start(&mut self) -> Result<()> {
        let log: File = OpenOptions::new().create(true).append(true).open(&self.log)?;
        self.begin = log.metadata()?.len();
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .env_remove("KUBECONFIG")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A process group of its own: Ctrl-C at the terminal is for the runner only, and the programs of a demo outlive it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.path.display()))?;
        self.state = State::Started(child);
        Ok(())
    }

    /// Returns how it ended by itself, if it did and is not to be started again.
    pub(super) fn ended(&mut self, now: Instant) -> Result<Option<ExitStatus>> {
        let State::Started(child) = &mut self.state else { return Ok(None) };
        let Some(status) = child.try_wait()? else { return Ok(None) };
        if self.counts_as_lost_lease(status)? {
            self.state = State::Waits(status, now);
            return Ok(None);
        }
        Ok(Some(status))
    }

    /// Returns what its log since its start says about its end; `none` when it says nothing.
    pub(super) fn reason(&self) -> Result<String> {
        let log = self.since_start(Some(LONGEST_END))?;
        Ok(reason(&log).unwrap_or("none").to_owned())
    }

    /// Returns whether a kubelet starts it again after an end with this status; if so, the lost lease is counted.
    pub(super) fn counts_as_lost_lease(&mut self, status: ExitStatus) -> Result<bool> {
        let before = if self.of_two { 0 } else { self.losses };
        let forgives = self.kept && starts_again(status.code(), &self.since_start(Some(LONGEST_END))?, &self.lease, before);
        if forgives {
            self.losses = self.losses.saturating_add(1);
            self.away = true;
        }
        Ok(forgives)
    }

    /// Does the work of a kubelet: starts a process after its back-off, and notices when it leads.
    pub(super) fn step(&mut self, now: Instant) -> Result<()> {
        self.ended(now)?;
        if let State::Waits(_, since) = self.state
            && now.saturating_duration_since(since) >= BACK_OFF
        {
            self.start()?;
        }
        // Before the restart, its log is still that of the former process, which did lead.
        if self.away && matches!(self.state, State::Started(_)) && self.leads()? {
            self.away = false;
        }
        Ok(())
    }

    /// Returns whether its log since its start says that it leads.
    pub(super) fn leads(&self) -> Result<bool> {
        Ok(leads(&self.since_start(None)?, &self.lease))
    }

    /// Returns whether it lost its lease and does not lead again yet. False when the case has stopped it.
    pub(super) fn away(&self) -> bool {
        self.away && !matches!(self.state, State::Stopped)
    }

    /// Returns whether it is away and no other replica does its work.
    pub(super) fn is_missed(&self) -> bool {
        self.away() && !self.of_two
    }

    /// Returns how often it ended because it lost its lease.
    pub(super) fn losses(&self) -> u32 {
        self.losses
    }

    /// Returns how often it was started again after that, by the kubelet or by the case.
    pub(super) fn started_again(&self) -> u32 {
        let not_yet = self.away && !matches!(self.state, State::Started(_));
        self.losses.saturating_sub(u32::from(not_yet))
    }

    /// Returns its log since its start, at most the last `at_most` bytes.
    fn since_start(&self, at_most: Option<u64>) -> Result<String> {
        let mut log = File::open(&self.log).with_context(|| format!("reading the log {}", self.log.display()))?;
        let end = log.metadata()?.len();
        log.seek(SeekFrom::Start(at_most.map_or(self.begin, |most| self.begin.max(end.saturating_sub(most)))))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
