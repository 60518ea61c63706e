//! Starts, ends and asks the two programs, as whole as they ship but for the process around them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Parser;
use podgroup::runtime::client::Connection;

use podgroup::runtime::flags::{ControllerFlags, SchedulerFlags};
use podgroup::runtime::http::{DebugRoute, Exposition};
use podgroup::runtime::readiness::Readiness;
use podgroup::runtime::setup::Inside;
use podgroup::runtime::shutdown::{Shutdown, Trigger};
use podgroup::{controller, scheduler};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use crate::server::Server;

/// The namespace of the leases.
pub const NAMESPACE: &str = "podgroup-system";

/// A running program.
struct Running {
    /// The program alone; dropping it ends it.
    tasks: JoinSet<ExitCode>,
    task: AbortHandle,
    stop: Trigger,
    exposition: Exposition,
    debug: Vec<DebugRoute>,
    readiness: Readiness,
}

/// The programs, by the names that a scenario gives them: `controller`, `scheduler`, and those of further replicas, as `scheduler-2`.
#[derive(Default)]
pub struct Programs {
    running: BTreeMap<String, Running>,
}

impl Programs {
    /// Starts a program with these flags.
    pub fn start(&mut self, server: &Server, name: &str, flags: &[&str]) -> Result<()> {
        if self.running.contains_key(name) {
            bail!("{name} runs already");
        }
        let line = |program: &str| -> Vec<String> { std::iter::once(program).chain(flags.iter().copied()).map(str::to_owned).collect() };
        let (stop, shutdown) = Shutdown::new();
        let connection = Connection { client: server.client(name), namespace: NAMESPACE.to_owned(), server: "memory".to_owned() };
        let inside = match program_of(name)? {
            "controller" => {
                let flags = ControllerFlags::try_parse_from(line("podgroup-controller"))?;
                controller::inside(flags, connection, shutdown)?
            }
            _ => {
                let flags = SchedulerFlags::try_parse_from(line("podgroup-scheduler"))?;
                scheduler::inside(flags, connection, shutdown)?
            }
        };
        let Inside { program, exposition, debug, readiness } = inside;
        let mut tasks = JoinSet::new();
        let task = tasks.spawn(program.run());
        self.running.insert(name.to_owned(), Running { tasks, task, stop, exposition, debug, readiness });
        Ok(())
    }

    /// Ends a program as SIGKILL does: requests that are on their way arrive.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        self.take(name)?;
        Ok(())
    }

    /// Ends a program as SIGTERM does, and waits until it has ended.
    pub async fn stop(&mut self, name: &str) -> Result<()> {
        let mut running = self.take(name)?;
        running.stop.trigger();
        match running.tasks.join_next().await {
            Some(Err(error)) => bail!("{name} panicked: {error}"),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn take(&mut self, name: &str) -> Result<Running> {
        self.running.remove(name).ok_or_else(|| anyhow!("{name} does not run"))
    }

    /// Returns the programs that have ended by themselves, with their exit status. A leader that lost its lease does.
    pub fn ended(&self) -> impl Iterator<Item = &str> {
        self.running.iter().filter(|(_, running)| running.task.is_finished()).map(|(name, _)| name.as_str())
    }

    /// Whether the program runs.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.running.get(name).is_some_and(|running| !running.task.is_finished())
    }

    /// Returns the answer of a debug path.
    pub async fn ask(&self, name: &str, path: &str) -> Result<Value> {
        let running = self.running.get(name).ok_or_else(|| anyhow!("{name} does not run"))?;
        let route = running.debug.iter().find(|route| route.path() == path).ok_or_else(|| anyhow!("{name} has no {path}"))?;
        route.answer().await.ok_or_else(|| anyhow!("{name} does not answer {path}"))
    }

    /// Returns whether the program is ready, and what `/readyz` says.
    pub fn ready(&self, name: &str) -> Result<(bool, String)> {
        let running = self.running.get(name).ok_or_else(|| anyhow!("{name} does not run"))?;
        Ok((running.readiness.is_ready(), running.readiness.report()))
    }

    /// Forgets a program that has ended by itself; an error if it has not.
    pub fn forget_ended(&mut self, name: &str) -> Result<()> {
        if self.runs(name) {
            bail!("{name} still runs");
        }
        self.take(name).map(drop)
    }

    /// Returns the page of metrics.
    pub async fn metrics(&self, name: &str) -> Result<String> {
        let running = self.running.get(name).ok_or_else(|| anyhow!("{name} does not run"))?;
        Ok(running.exposition.text().await?)
    }
}

/// Returns which program a name stands for.
fn program_of(name: &str) -> Result<&'static str> {
    match name.split('-').next() {
        Some("controller") => Ok("controller"),
        Some("scheduler") => Ok("scheduler"),
        _ => bail!("{name} is no program: controller, scheduler, scheduler-2"),
    }
}
