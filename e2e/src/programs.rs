//! How do the two programs run here? As processes on this machine, with logs in the run's folder, killed and restarted as a case wants.
//!
//! A program that ends without being told to is a failure of the case, whatever else went well (rule 8 of the observer). One that a [`Kubelet`] keeps may lose
//! its lease, and is started again then.

mod again;
mod kubelet;
mod ports;
mod process;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::scratch::Scratch;
use crate::wait::{Seen, in_time, millis, secs, wait_until};
use crate::{chart, http};

pub use kubelet::{Kubelet, LEASE};
pub(crate) use ports::free_port;
use process::{Process, Shared, State};

/// Both programs promise to be gone two seconds after SIGTERM; more than that is reported as a failure.
const GRACE: Duration = Duration::from_secs(2);

/// One of the two programs, running or stopped.
pub struct Program {
    name: &'static str,
    log: PathBuf,
    port: u16,
    process: Shared,
}

impl Program {
    /// Starts `name` with `kubeconfig` and further `arguments`. Its log is appended to over restarts; its HTTP port stays the same.
    pub fn start(scratch: &Scratch, name: &'static str, kubeconfig: &Path, arguments: &[String]) -> Result<Self> {
        Self::start_as(scratch, name, name, kubeconfig, arguments, &[])
    }

    /// The same, as one of several of that name: `label` names its log. `environment` is added to this process's own.
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

    /// The one in `folder`, with these arguments and no others; it answers on `port` by them.
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

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Port of its health, metrics and debug answers, on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until `/readyz` says yes, half a minute; fails at once if it ended.
    pub async fn wait_ready(&mut self) -> Result<()> {
        self.wait_ready_within(secs(30)).await
    }

    /// The same for who has much to read first.
    pub async fn wait_ready_within(&mut self, limit: Duration) -> Result<()> {
        let (port, name) = (self.port, self.name);
        let what = format!("{name} is ready");
        let ready = wait_until(limit, &what, || async move {
            let (status, body) = http::get(port, "/readyz").await?;
            Ok(Seen::when(status == 200, || format!("/readyz says {status}: {}", body.trim())))
        });
        self.unless_it_ends(ready).await
    }

    /// What comes of a wait for it; fails at once if it ended.
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
            end = ended => bail!("while it started, {end}"),
        }
    }

    /// How it ended, if it did without being told to and is not to be started again.
    pub fn unexpected_end(&mut self) -> Option<String> {
        match self.process.lock().ended(Instant::now()) {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("{} ended by itself: {status}", self.name)),
            Err(error) => Some(format!("{} cannot be asked: {error}", self.name)),
        }
    }

    /// How often it lost its lease and was started again.
    pub fn started_again(&self) -> u32 {
        self.process.lock().started_again()
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        self.alive()?;
        if let Some(mut child) = self.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM, and it must be gone within two seconds, with status 0.
    pub async fn terminate(&mut self) -> Result<()> {
        self.alive()?;
        let Some(mut child) = self.take() else { return Ok(()) };
        let pid = child.id().context("it has no pid")?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await.context("kill")?;
        let Some(status) = in_time(GRACE, &format!("{} is gone after SIGTERM", self.name), child.wait()).await else {
            child.kill().await?;
            bail!("{} was not gone {GRACE:?} after SIGTERM", self.name);
        };
        let status = status?;
        // It may have lost its lease just before it was told.
        if !status.success() && !self.process.lock().forgives(status)? {
            bail!("{} ended with {status} after SIGTERM", self.name);
        }
        Ok(())
    }

    /// Starts it again after `kill` or `terminate`, with the same arguments, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_ready().await
    }

    /// Starts it again and does not wait for anything: for who kills it again at any moment of its start.
    pub fn launch(&mut self) -> Result<()> {
        ensure!(self.is_stopped(), "{} still runs", self.name);
        self.process.lock().start()
    }

    /// From its next start on it has this flag (`--name=value`) too; no flag may be there twice.
    pub fn also(&mut self, flag: &str) {
        self.process.lock().arguments.push(flag.to_owned());
    }

    /// From its next start on it has this variable in its environment.
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
        let pid = pid.context("it has no pid")?.to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().await.context("kill")?;
        ensure!(sent.success(), "{} could not be sent {signal}", self.name);
        Ok(())
    }

    /// Waits until it has ended by itself, as it must where it lost its lease; [`Self::restart`] starts it again, as its kubelet would.
    pub async fn wait_end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        // Taken out of what the kubelet sees: this end is the case's.
        let before = std::mem::replace(&mut self.process.lock().state, State::Stopped);
        match before {
            State::Stopped => bail!("{} is stopped", self.name),
            State::Waits(status, _) => Ok(status),
            State::Started(mut child) => match in_time(deadline, &format!("{} ends", self.name), child.wait()).await {
                Some(status) => Ok(status?),
                None => {
                    self.process.lock().state = State::Started(child);
                    bail!("{} did not end within {deadline:?}", self.name)
                }
            },
        }
    }

    /// Whether it runs at this moment.
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

    /// Makes it stopped: nobody starts it again by himself. Its process, if there is one.
    fn take(&mut self) -> Option<Child> {
        match std::mem::replace(&mut self.process.lock().state, State::Stopped) {
            State::Started(child) => Some(child),
            State::Stopped | State::Waits(..) => None,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The run's reaper ends the process, if it is to end; the kubelet must start none behind its back.
        self.take();
    }
}

/// Where the two programs are: `PODGROUP_BIN_DIR`, else beside this program (target/debug), also when this is a test in `deps/`.
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PODGROUP_BIN_DIR") {
        return PathBuf::from(folder).canonicalize().context("PODGROUP_BIN_DIR");
    }
    let this = std::env::current_exe()?;
    let found = this.ancestors().skip(1).take(2).find(|folder| folder.join("podgroup-controller").exists());
    Ok(found.with_context(|| format!("no podgroup-controller beside {}: run cargo build --workspace", this.display()))?.to_owned())
}
