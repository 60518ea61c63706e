//! Runs the two programs as local processes, with logs in the run's folder. A case can kill and restart them.
//!
//! A program that ends by itself fails the case, whatever else happened (rule 8 of the observer). An exception is a program that a
//! [`Restarts`] manages and that has lost its lease: it is started again.

mod again;
mod ports;
mod process;
mod restarts;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::scratch::Scratch;
use crate::wait::{DeadlinePassed, Seen, in_time, millis, secs, wait_until};
use crate::{chart, http};

pub(crate) use ports::free_port;
use process::{Process, Shared, State};
pub use restarts::{LEASE, Restarts};

/// Flags for requests that last up to a minute. By default one without an answer ends after ten seconds, and a leader's ends with its
/// lease; a write is then sent again.
pub const LONG_REQUESTS: [&str; 2] = ["--leader-elect=false", "--request-timeout=60s"];

/// Both programs must end within this time after SIGTERM, unless requests of the scheduler are held back: the four seconds of
/// docs/operations.md, and a second in which the runner does not see the end.
const GRACE: Duration = Duration::from_secs(5);

/// One of the two programs, running or stopped.
pub struct Program {
    name: &'static str,
    log: PathBuf,
    port: u16,
    process: Shared,
}

impl Program {
    /// Starts `name` with `kubeconfig` and further `arguments`. The log is appended to over restarts; the HTTP port stays the same.
    pub fn start(scratch: &Scratch, name: &'static str, kubeconfig: &Path, arguments: &[String]) -> Result<Self> {
        Self::start_as(scratch, name, name, kubeconfig, arguments, &[])
    }

    /// Starts one of several programs with that name: `label` names its log. `environment` is added to the environment of this process.
    pub fn start_as(
        scratch: &Scratch,
        name: &'static str,
        label: &str,
        kubeconfig: &Path,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> Result<Self> {
        let port = free_port()?;
        let mut all = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--http-address=127.0.0.1:{port}"),
            "--log-format=text".to_owned(),
        ];
        all.extend_from_slice(arguments);
        Self::exactly(scratch, &folder()?, name, label, all, environment, port)
    }

    /// Starts the program in `folder` with exactly these arguments, which make it serve on `port`.
    pub fn exactly(
        scratch: &Scratch,
        folder: &Path,
        name: &'static str,
        label: &str,
        arguments: Vec<String>,
        environment: &[(String, String)],
        port: u16,
    ) -> Result<Self> {
        let path = scratch.link(&folder.join(name))?;
        let log = scratch.folder().join("logs").join(format!("{label}.log"));
        let program = Self::of(name, path, arguments, environment, log, port);
        program.process.lock().start()?;
        Ok(program)
    }

    fn of(name: &'static str, path: PathBuf, all: Vec<String>, environment: &[(String, String)], log: PathBuf, port: u16) -> Self {
        let lease = format!("{}/{name}", chart::NAMESPACE);
        Self { name, log: log.clone(), port, process: Shared::new(Process::new(path, all, environment.to_vec(), log, lease)) }
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the local port of its health, metrics and debug endpoints.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits up to half a minute until `/readyz` is 200; fails at once if the program ended.
    pub async fn wait_ready(&mut self) -> Result<()> {
        self.wait_ready_within(secs(30)).await
    }

    /// Does the same with another time limit, for a program that has much to read first.
    pub async fn wait_ready_within(&mut self, limit: Duration) -> Result<()> {
        let (port, name) = (self.port, self.name);
        let what = format!("{name} is ready");
        let ready = wait_until(limit, &what, || async move {
            let (status, body) = http::get(port, "/readyz").await?;
            Ok(Seen::when(status == 200, || format!("/readyz returns {status}: {}", body.trim())))
        });
        self.unless_it_ends(ready).await
    }

    /// Returns the result of a wait for it; fails at once if the program ended.
    pub async fn unless_it_ends<T>(&mut self, wait: impl Future<Output = Result<T>>) -> Result<T> {
        ensure!(!self.is_stopped(), "{} is stopped", self.name);
        let ended = async {
            loop {
                if let Some(end) = self.unexpected_end() {
                    return end;
                }
                sleep(millis(20)).await;
            }
        };
        tokio::select! {
            outcome = wait => outcome,
            end = ended => bail!("during its start: {end}"),
        }
    }

    /// Describes how it ended, if it ended by itself and is not started again. The text has the line of its log that says why: where only
    /// the output of a run is kept, nothing else does.
    pub fn unexpected_end(&mut self) -> Option<String> {
        let mut process = self.process.lock();
        match process.ended(Instant::now()) {
            Ok(None) => None,
            Ok(Some(status)) => {
                let reason = process.reason().unwrap_or_else(|error| error.to_string());
                Some(format!("{} ended by itself: {status}; the reason in its log: {reason}", self.name))
            }
            Err(error) => Some(format!("the state of {} is unknown: {error}", self.name)),
        }
    }

    /// Returns how often it lost its lease and was started again.
    pub fn started_again(&self) -> u32 {
        self.process.lock().started_again()
    }

    /// Kills it with `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        self.alive()?;
        if let Some(mut child) = self.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Sends SIGTERM; it must end within [`GRACE`] with status 0.
    pub async fn terminate(&mut self) -> Result<()> {
        self.terminate_within(GRACE).await
    }

    /// Sends SIGTERM; it must end within this time with status 0. A scheduler with bindings under way takes longer.
    pub async fn terminate_within(&mut self, grace: Duration) -> Result<()> {
        self.alive()?;
        let Some(mut child) = self.take() else { return Ok(()) };
        let pid = child.id().context("the process has no pid")?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await.context("kill")?;
        let Some(status) = in_time(grace, &format!("{} is gone after SIGTERM", self.name), child.wait()).await else {
            child.kill().await?;
            return Err(DeadlinePassed::new(format!("{} was not gone {grace:?} after SIGTERM", self.name)).into());
        };
        let status = status?;
        // It may have lost its lease just before the signal.
        if !status.success() && !self.process.lock().counts_as_lost_lease(status)? {
            bail!("{} ended with {status} after SIGTERM", self.name);
        }
        Ok(())
    }

    /// Starts it again after `kill` or `terminate` with the same arguments, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_ready().await
    }

    /// Ends it, and starts it again with these further flags.
    pub async fn restart_with(&mut self, flags: &[&str]) -> Result<()> {
        self.terminate().await?;
        flags.iter().for_each(|flag| self.also(flag));
        self.restart().await
    }

    /// Starts it again without any wait, for a case that kills it at any moment of its start.
    pub fn launch(&mut self) -> Result<()> {
        ensure!(self.is_stopped(), "{} still runs", self.name);
        self.process.lock().start()
    }

    /// Adds a flag (`--name=value`) from its next start on. A flag must not be given twice.
    pub fn also(&mut self, flag: &str) {
        self.process.lock().arguments.push(flag.to_owned());
    }

    /// Adds an environment variable from its next start on.
    pub fn environment(&mut self, name: &str, value: &str) {
        self.process.lock().environment.push((name.to_owned(), value.to_owned()));
    }

    /// Sends it a signal that does not end it (`STOP`, `CONT`).
    pub async fn signal(&mut self, signal: &str) -> Result<()> {
        self.alive()?;
        let pid = match &self.process.lock().state {
            State::Started(child) => child.id(),
            State::Stopped | State::Waits(..) => None,
        };
        let pid = pid.context("the process has no pid")?.to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().await.context("kill")?;
        ensure!(sent.success(), "{} could not be sent {signal}", self.name);
        Ok(())
    }

    /// Waits until it ends by itself, as it must when it loses its lease. [`Self::restart`] starts it again, as its kubelet would.
    pub async fn wait_end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        // The kubelet must not see this end, which belongs to the case.
        let before = std::mem::replace(&mut self.process.lock().state, State::Stopped);
        match before {
            State::Stopped => bail!("{} is stopped", self.name),
            State::Waits(status, _) => Ok(status),
            State::Started(mut child) => match in_time(deadline, &format!("{} ends", self.name), child.wait()).await {
                Some(status) => Ok(status?),
                None => {
                    self.process.lock().state = State::Started(child);
                    Err(DeadlinePassed::new(format!("{} did not end within {deadline:?}", self.name)).into())
                }
            },
        }
    }

    /// Returns whether it runs at this moment.
    pub fn runs(&mut self) -> bool {
        self.unexpected_end().is_none() && matches!(self.process.lock().state, State::Started(_))
    }

    fn alive(&mut self) -> Result<()> {
        match self.unexpected_end() {
            Some(end) => bail!(end),
            None => Ok(()),
        }
    }

    fn is_stopped(&self) -> bool {
        matches!(self.process.lock().state, State::Stopped)
    }

    /// Marks it as stopped, so that no kubelet starts it again. Returns its process, if there is one.
    fn take(&mut self) -> Option<Child> {
        match std::mem::replace(&mut self.process.lock().state, State::Stopped) {
            State::Started(child) => Some(child),
            State::Stopped | State::Waits(..) => None,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The reaper ends the process with the run. The kubelet must not start another one.
        self.take();
    }
}

/// Returns the folder of the release programs, which a part of the cases runs: `PODGROUP_SHIPPED_DIR`. `None` where the run has none.
pub fn shipped() -> Option<PathBuf> {
    std::env::var_os("PODGROUP_SHIPPED_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Returns the folder of the two programs: `PODGROUP_BIN_DIR`, or the folder of this program (target/debug), also when this program is a
/// test in `deps/`.
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PODGROUP_BIN_DIR") {
        return PathBuf::from(folder).canonicalize().context("PODGROUP_BIN_DIR");
    }
    let this = std::env::current_exe()?;
    let found = this.ancestors().skip(1).take(2).find(|folder| folder.join("podgroup-controller").exists());
    Ok(found
        .with_context(|| format!("podgroup-controller is not in the folder of {}: run cargo build --workspace", this.display()))?
        .to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn release_programs_check_for_overflows_as_the_tested_ones_do() {
        let manifest = std::fs::read_to_string(crate::kit::repository().join("Cargo.toml")).unwrap();
        let release = manifest.split("[profile.release]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
        assert!(release.lines().any(|line| line == "overflow-checks = true"), "{release}");
    }
}
