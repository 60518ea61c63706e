//! Runs an operator of another project as a process, with the rights that its own manifests give.
//!
//! The program, the manifests and the example come from the Go module of the operator: see `tools/operators.sh`.

mod webhooks;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::programs::Program;
use crate::wait::secs;
use crate::{chart, kit, kubeconfig};

use webhooks::Starting;
pub use webhooks::{Told, Webhooks};

/// What an operator is called in its manifests.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The operator, as `tools/operators.sh` knows it.
    pub operator: &'static str,
    /// The namespace of its ServiceAccount.
    pub namespace: &'static str,
    /// Its ServiceAccount.
    pub account: &'static str,
}

/// A running operator.
pub struct Operator {
    program: Program,
    folder: PathBuf,
}

impl Operator {
    /// Builds the operator if the cache has none, applies its manifests, and starts it with these flags.
    pub async fn start(cluster: &Cluster, names: Names, flags: Vec<String>) -> Result<Self> {
        let folder = installed(cluster, names).await?;
        Self::launch(cluster, names, folder, flags, None, 0).await
    }

    /// Does the same for an operator with webhooks, and returns when it is ready. `configuration` is further YAML of the operator's Configuration.
    pub async fn serving(cluster: &Cluster, names: Names, webhooks: Webhooks, mut flags: Vec<String>, configuration: &str) -> Result<Self> {
        let folder = installed(cluster, names).await?;
        let starting = Starting::new(cluster, names.namespace, names.operator, webhooks, configuration).await?;
        flags.extend_from_slice(&starting.flags);
        let temporary = ("TMPDIR".to_owned(), path(&starting.temporary)?.to_owned());
        let mut operator = Self::launch(cluster, names, folder, flags, Some(temporary), starting.health).await?;
        operator.program.unless_it_ends(starting.mount()).await?;
        operator.program.wait_ready_within(secs(60)).await?;
        Ok(operator)
    }

    /// Starts its process as its ServiceAccount.
    async fn launch(
        cluster: &Cluster,
        names: Names,
        folder: PathBuf,
        flags: Vec<String>,
        variable: Option<(String, String)>,
        port: u16,
    ) -> Result<Self> {
        let (server, authority) = kubeconfig::door(cluster.kubeconfig())?;
        let kubeconfig = chart::kubeconfig_in(cluster, names.namespace, names.account, names.operator, server, &authority).await?;
        let environment: Vec<_> = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())].into_iter().chain(variable).collect();
        let program = Program::exactly(cluster.scratch(), &folder, names.operator, names.operator, flags, &environment, port)?;
        Ok(Self { program, folder })
    }

    /// Returns the file of the project's own example.
    pub fn example(&self) -> PathBuf {
        self.folder.join("example.yaml")
    }

    /// Returns its process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Ends it. It is an error if it has ended before.
    pub async fn end(mut self) -> Result<()> {
        self.program.kill().await.with_context(|| format!("see {}", self.program.log().display()))
    }
}

/// Builds the operator if the cache has none, and applies its manifests. Returns its folder.
async fn installed(cluster: &Cluster, names: Names) -> Result<PathBuf> {
    let folder = built(names.operator).await?;
    let manifests = folder.join("manifests.yaml");
    cluster.run("kubectl", &["apply", "--server-side", "--filename", path(&manifests)?]).await?;
    cluster.crds_established().await?;
    Ok(folder)
}

/// Returns the folder of an operator, and builds it if the cache has none.
async fn built(operator: &str) -> Result<PathBuf> {
    let script = kit::crate_folder().join("tools/operators.sh");
    let mut bash = Command::new("bash");
    let output = bash.arg(&script).arg(operator).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await;
    let output = output.context("bash is needed")?;
    ensure!(output.status.success(), "{} {operator} failed", script.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Returns a path as text for a command line.
pub fn path(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
