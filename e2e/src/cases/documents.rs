//! Rows D1 and D2: pages that a new user follows. Each command of a page is run as printed there, and its output is compared with the page.
//!
//! All commands run in one session: those of D1 in the cluster that the page starts with `make cluster-up` and ends with
//! `make cluster-down`, those of D2 in the cluster of the case.
//!
//! * Blocks marked `sh` prepare and clean up. An exported variable stays set for later commands.
//! * Blocks marked `console` show output: a line with `$ ` is a command, the lines after it are its output.
//! * The expected lines must come in this order, with any other lines between them. `…` in a word stands for some letters; as the last word
//!   it stands for the rest of the line.
//! * A command that only reads the cluster (`kubectl get`, `kubectl auth can-i`) is repeated until its output matches.
//!
//! The `helm install` that the page shows for an existing cluster runs in the cluster of the case, which is empty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::chart;
use crate::cluster::Cluster;
use crate::programs;
use crate::scratch::{Scratch, processes_of};
use crate::wait::{Seen, secs, wait_until};
use crate::watched::Watched;
use crate::world::World;
use crate::{kit, kubeconfig};

/// The folder of the page's cluster in the folder of the case. When the case ends in any way, it is deleted with that folder.
const CLUSTER: &str = "cluster-up";

/// One command of the page.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A line of a block marked `sh`.
    Prepare(String),
    /// A command of a block marked `console`, with its expected output.
    Show { command: String, printed: Vec<String> },
}

/// D1. docs/getting-started.md.
pub(super) async fn first_ten_minutes(w: &mut World) -> Result<()> {
    let text = std::fs::read_to_string(kit::repository().join("docs/getting-started.md"))?;
    let steps = steps(&text);
    let shown = steps.iter().filter(|step| matches!(step, Step::Show { .. })).count();
    ensure!(shown >= 14 && steps.len() >= shown + 4, "only {shown} commands with output were found, of {} commands", steps.len());
    install_in_existing_cluster(w.cluster(), &text).await?;
    let folder = w.cluster().scratch().path(CLUSTER);
    let outcome = run_page(w.cluster().scratch(), &folder, &steps).await;
    if outcome.is_err() {
        keep_logs(&folder, &w.cluster().scratch().path("logs"));
    }
    outcome
}

/// D2. docs/queues.md, from the first queue to the last.
pub(super) async fn team_queues(w: &mut World) -> Result<()> {
    // The page shows a workload without the right to its queue: the PodGroup is refused, and the pod waits without one.
    w.watched()?.excuse(&[1, 8]);
    let cluster = w.cluster();
    let steps = steps(&std::fs::read_to_string(kit::repository().join("docs/queues.md"))?);
    let shown = steps.iter().filter(|step| matches!(step, Step::Show { .. })).count();
    ensure!(shown >= 14 && steps.len() >= shown + 3, "only {shown} commands with output were found, of {} commands", steps.len());
    let mut shell = Shell::new(cluster.scratch());
    shell.meet(cluster)?;
    shell.run("kubectl apply -f docs/getting-started/nodes.yaml -f docs/getting-started/more-nodes.yaml").await?;
    for step in &steps {
        match step {
            Step::Prepare(line) => shell.prepare(line).await?,
            Step::Show { command, printed } => shell.show(command, printed).await?,
        }
    }
    Ok(())
}

/// Runs the `helm install …` of the page and checks that it installed the two Deployments of the chart.
async fn install_in_existing_cluster(cluster: &Cluster, text: &str) -> Result<()> {
    let command = text.split('`').find(|span| span.starts_with("helm install ")).context("the page has no helm install")?;
    let mut shell = Shell::new(cluster.scratch());
    shell.meet(cluster)?;
    shell.run(command).await?;
    let format = "jsonpath={range .items[*]}{.metadata.name}={.spec.replicas} {end}";
    let deployments = cluster.run("kubectl", &["get", "deployments", "--namespace", chart::NAMESPACE, "--output", format]).await?;
    ensure!(deployments.trim() == "podgroup-controller=2 podgroup-scheduler=2", "{command} created these Deployments: {deployments}");
    Ok(())
}

/// Runs the page from its first to its last command.
async fn run_page(scratch: &Scratch, folder: &Path, steps: &[Step]) -> Result<()> {
    let mut shell = Shell::new(scratch);
    // The environment is that of a user of `make`, but nothing is compiled, and the user's own cluster is not touched. The runner is a link
    // in the case's folder, so that the cleanup of the folder finds its processes, too.
    let runner = scratch.link(&std::env::current_exe()?)?;
    for (name, value) in [
        ("PODGROUP_E2E", runner),
        ("BIN", programs::folder()?),
        ("PODGROUP_CLUSTER", folder.to_owned()),
        ("PODGROUP_BUILT", PathBuf::from("1")),
    ] {
        shell.set(name, value.display().to_string());
    }
    let mut watched = None;
    for step in steps {
        match step {
            Step::Prepare(line) if line.starts_with("make cluster-down") => {
                // Check the rules of a cluster at rest once more before it ends.
                let findings = match watched.take() {
                    Some(watched) => Watched::finish(watched, true).await.0,
                    None => vec!["there was no observer".to_owned()],
                };
                ensure!(findings.is_empty(), "the observer: {}", findings.join("; "));
                shell.prepare(line).await?;
            }
            Step::Prepare(line) => {
                shell.prepare(line).await?;
                if let (None, Some(kubeconfig)) = (&watched, shell.environment.get("KUBECONFIG")) {
                    let client = kubeconfig::client(Path::new(kubeconfig)).await?;
                    watched = Some(Watched::at(client, folder.join("kwok/clusters/up/logs/audit.log")).await?);
                }
            }
            Step::Show { command, printed } => shell.show(command, printed).await?,
        }
    }
    wait_until(secs(10), "folder and processes of the cluster are gone", || async {
        let (exists, left) = (folder.exists(), processes_of(folder));
        Ok(Seen::when(!exists && left.is_empty(), || format!("the folder exists: {exists}, processes: {left:?}")))
    })
    .await
}

/// A shell session: it keeps variables and the output of the last command.
pub(super) struct Shell<'a> {
    environment: BTreeMap<String, String>,
    /// The output of the last command.
    before: String,
    scratch: &'a Scratch,
    /// The working folder.
    folder: PathBuf,
}

impl<'a> Shell<'a> {
    /// Creates a session in the repository.
    fn new(scratch: &'a Scratch) -> Self {
        Self { environment: BTreeMap::new(), before: String::new(), scratch, folder: kit::repository().to_owned() }
    }

    /// Creates a session in a folder of the case, with links to the named parts of the repository. It is for commands that write into their
    /// working folder.
    pub(super) fn beside_the_clone(scratch: &'a Scratch, names: &[&str]) -> Result<Self> {
        let folder = scratch.path("shell");
        std::fs::create_dir(&folder)?;
        for name in names {
            std::os::unix::fs::symlink(kit::repository().join(name), folder.join(name))?;
        }
        Ok(Self { folder, ..Self::new(scratch) })
    }

    /// Gives the session the tools and this cluster.
    pub(super) fn meet(&mut self, cluster: &Cluster) -> Result<()> {
        let helm = cluster.kit().program("helm");
        self.set("PATH", format!("{}:{}", helm.parent().context("the kit's folder")?.display(), path_now()));
        self.set("KUBECONFIG", cluster.kubeconfig().display().to_string());
        Ok(())
    }

    fn set(&mut self, name: &str, value: String) {
        self.environment.insert(name.to_owned(), value);
    }

    /// Runs a line of a block marked `sh`. `export NAME=…` takes the line `export NAME=` from the output of the last command.
    async fn prepare(&mut self, line: &str) -> Result<()> {
        let Some((name, value)) = line.strip_prefix("export ").and_then(|rest| rest.split_once('=')) else {
            self.before = self.run(line).await?;
            return Ok(());
        };
        let line = if value.starts_with('…') { exported(&self.before, name)? } else { line };
        let value = self.run(&format!("{line}\nprintf %s \"${name}\"")).await?;
        self.set(name, value);
        Ok(())
    }

    /// Runs a command of a block marked `console` and compares its output.
    async fn show(&self, command: &str, printed: &[String]) -> Result<()> {
        let reads = ["kubectl get ", "kubectl auth can-i "].iter().any(|start| command.starts_with(start));
        let again = if reads { 40 } else { 0 };
        wait_until(secs(again), &format!("`{command}` prints the expected output"), || async {
            let out = self.run(command).await?;
            Ok(Seen::when(fits(printed, &out), || format!("it printed:\n{out}")))
        })
        .await
    }

    /// Runs a line and returns its output, or an error if it fails.
    pub(super) async fn run(&self, command: &str) -> Result<String> {
        let mut bash = Command::new("bash");
        bash.args(["-o", "pipefail", "-c", command]).current_dir(&self.folder).envs(&self.environment).stdin(Stdio::null());
        // make may have started the runner; its flags must not reach the make of the page.
        ["MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"].iter().for_each(|name| {
            bash.env_remove(name);
        });
        // kubectl and helm must neither read nor write the settings of the user of this machine; cargo and go, started by make, need them.
        if !command.contains("make ") {
            bash.env("HOME", self.scratch.folder());
        }
        let output = bash.kill_on_drop(true).output().await.context("bash")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(output.status.success(), "`{command}` failed: {}{}", text(&output.stdout), text(&output.stderr));
        Ok(text(&output.stdout))
    }
}

fn path_now() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Returns the last line `export NAME=…` of the output.
fn exported<'a>(printed: &'a str, name: &str) -> Result<&'a str> {
    let begin = format!("export {name}=");
    printed.lines().rfind(|line| line.starts_with(&begin)).with_context(|| format!("no line {begin}… was printed: {printed}"))
}

/// Copies the logs to the kept files of a failed case. An error here must not hide the failure itself.
fn keep_logs(folder: &Path, to: &Path) {
    for entry in std::fs::read_dir(folder.join("logs")).into_iter().flatten().flatten() {
        let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = "";
    for line in document.lines() {
        if let Some(mark) = line.strip_prefix("```") {
            block = mark;
        } else if block == "sh" && !line.is_empty() {
            steps.push(Step::Prepare(line.to_owned()));
        } else if block == "console" {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step::Show { command: command.to_owned(), printed: Vec::new() }),
                (None, Some(Step::Show { printed, .. })) => printed.push(line.to_owned()),
                (None, Some(Step::Prepare(_)) | None) => {}
            }
        }
    }
    steps
}

fn fits(wanted: &[String], printed: &str) -> bool {
    let mut lines = printed.lines();
    wanted.iter().all(|wanted| lines.any(|line| line_fits(wanted, line)))
}

fn line_fits(wanted: &str, line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut wanted = wanted.split_whitespace().peekable();
    while let Some(word) = wanted.next() {
        if word == "…" && wanted.peek().is_none() {
            return true;
        }
        let Some(found) = words.next() else { return false };
        let fits = match word.split_once('…') {
            Some((begin, end)) => found.len() >= begin.len() + end.len() && found.starts_with(begin) && found.ends_with(end),
            None => found == word,
        };
        if !fits {
            return false;
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_marked_blocks_with_their_output() {
        let document =
            "a\n```sh\nmake it\n\nexport A=b   # c\n```\n```\n$ never\n```\n```console\nodd\n$ one\nx y\n\n$ two\n```\n$ not this\n";
        let show = |command: &str, printed: &[&str]| Step::Show {
            command: command.to_owned(),
            printed: printed.iter().map(|each| (*each).to_owned()).collect(),
        };
        let prepare = |line: &str| Step::Prepare(line.to_owned());
        assert_eq!(steps(document), [prepare("make it"), prepare("export A=b   # c"), show("one", &["x y", ""]), show("two", &[])]);
    }

    #[test]
    fn an_export_is_the_last_matching_line_of_the_output() {
        let printed = "export A=old\nready\nexport A=new\nexport AB=other\n";
        assert_eq!(exported(printed, "A").unwrap(), "export A=new");
        assert!(exported(printed, "B").is_err());
    }

    #[test]
    fn lines_are_compared_word_by_word_and_in_order() {
        let fits = |wanted: &[&str], printed: &str| fits(&wanted.iter().map(|each| (*each).to_owned()).collect::<Vec<_>>(), printed);
        let printed = "NAME   AGE\npodgroup-12ab   Running  4s\npodgroup-34cd   Pending  4s";
        assert!(fits(&["NAME AGE", "podgroup-… Running …", "podgroup-… Pending 4s"], printed));
        assert!(fits(&["podgroup-… Pending …"], printed));
        assert!(fits(&[], printed));
        for wrong in [
            &["podgroup-… Pending …", "podgroup-… Running …"][..],
            &["podgroup-… Inqueue …"],
            &["podgroup-… Running"],
            &["podgroup-… Running 4s more"],
            &["other-… Running …"],
            &["podgroup-…b Pending …"],
            &["podgroup-… Running …", "podgroup-… Running …"],
        ] {
            assert!(!fits(wrong, printed), "{wrong:?}");
        }
    }
}
