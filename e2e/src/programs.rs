//! How do the two programs run here? As processes on this machine, with logs in the run's folder, killed and restarted as a case wants.
//!
//! A program that ends without being told to is a failure of the case, whatever else went well (rule 8 of the observer).

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::http;
use crate::proxy::Dice;
use crate::scratch::{self, Scratch};
use crate::wait::{Seen, secs, wait_until};

/// Both programs promise to be gone two seconds after SIGTERM; more than that is reported as a failure.
const GRACE: Duration = Duration::from_secs(2);

/// One of the two programs, running or stopped.
pub struct Program {
    name: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    port: u16,
    child: Option<Child>,
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
        let path = scratch.link(&folder()?.join(name))?;
        let log = scratch.folder().join("logs").join(format!("{label}.log"));
        let mut program = Self { name, path, arguments: all, environment: environment.to_vec(), log, port, child: None };
        program.run()?;
        Ok(program)
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

    /// Waits until `/readyz` says yes; fails at once if it ended.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let (port, name) = (self.port, self.name);
        let what = format!("{name} is ready");
        let ready = wait_until(secs(30), &what, || async move {
            let (status, body) = http::get(port, "/readyz").await?;
            Ok(Seen::when(status == 200, || format!("/readyz says {status}: {}", body.trim())))
        });
        let child = self.child.as_mut().with_context(|| format!("{name} is stopped"))?;
        tokio::select! {
            outcome = ready => outcome,
            status = child.wait() => bail!("{name} ended while it started: {}", status?),
        }
    }

    /// How it ended, if it did without being told to.
    pub fn unexpected_end(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait();
        match status {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("{} ended by itself: {status}", self.name)),
            Err(error) => Some(format!("{} cannot be asked: {error}", self.name)),
        }
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<()> {
        self.alive()?;
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM, and it must be gone within two seconds, with status 0.
    pub async fn terminate(&mut self) -> Result<()> {
        self.alive()?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let pid = child.id().context("it has no pid")?.to_string();
        Command::new("kill").args(["-TERM", &pid]).status().await.context("kill")?;
        let Ok(status) = timeout(GRACE, child.wait()).await else {
            child.kill().await?;
            bail!("{} was not gone {GRACE:?} after SIGTERM", self.name);
        };
        let status = status?;
        if !status.success() {
            bail!("{} ended with {status} after SIGTERM", self.name);
        }
        Ok(())
    }

    /// Starts it again after `kill` or `terminate`, with the same arguments, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} still runs", self.name);
        }
        self.run()?;
        self.wait_ready().await
    }

    /// Starts it again and does not wait for anything: for who kills it again at any moment of its start.
    pub fn launch(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} still runs", self.name);
        }
        self.run()
    }

    /// From its next start on it has this flag (`--name=value`) too; no flag may be there twice.
    pub fn also(&mut self, flag: &str) {
        self.arguments.push(flag.to_owned());
    }

    /// From its next start on it has this variable in its environment.
    pub fn environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Sends it a signal that does not end it (`STOP`, `CONT`).
    pub async fn signal(&mut self, signal: &str) -> Result<()> {
        self.alive()?;
        let pid = self.child.as_ref().and_then(Child::id).context("it has no pid")?.to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status().await.context("kill")?;
        ensure!(sent.success(), "{} could not be sent {signal}", self.name);
        Ok(())
    }

    /// Waits until it has ended by itself, as it must where it lost its lease; [`Self::restart`] starts it again, as its kubelet would.
    pub async fn wait_end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let child = self.child.as_mut().with_context(|| format!("{} is stopped", self.name))?;
        let Ok(status) = timeout(deadline, child.wait()).await else { bail!("{} did not end within {deadline:?}", self.name) };
        self.child = None;
        Ok(status?)
    }

    /// Whether it runs at this moment.
    pub fn runs(&mut self) -> bool {
        self.child.is_some() && self.unexpected_end().is_none()
    }

    fn alive(&mut self) -> Result<()> {
        match self.unexpected_end() {
            Some(end) => bail!(end),
            None => Ok(()),
        }
    }

    fn run(&mut self) -> Result<()> {
        let log: File = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .env_remove("KUBECONFIG")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own: Ctrl-C at the terminal is for the runner, and a demo's programs outlive it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.path.display()))?;
        self.child = Some(child);
        Ok(())
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

/// A port that nobody has now. Outside of what the system gives to outgoing connections (32768 and up) and of what kwokctl takes (32767 downwards), so
/// that it is still free a moment later.
fn free_port() -> Result<u16> {
    let mut dice = Dice(scratch::random());
    for _ in 0..100 {
        let port = 20_000 + u16::try_from(dice.roll() % 8_000)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 28000")
}
