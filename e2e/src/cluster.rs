//! How is a real control plane started, and what can a case ask of it?
//!
//! etcd, kube-apiserver (RBAC, TLS, audit log) and kube-controller-manager are the real ones; nodes and kubelets are kwok's. kwokctl chooses free
//! ports, so several clusters live side by side. Who removes it all: `scratch`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::kit::Kit;
use crate::scratch::Scratch;
use crate::wait::{Seen, secs, wait_until};
use crate::{kubeconfig, say};

/// kwokctl asks which ports are free and binds them later; whoever was quicker wins, so it is tried again.
const ATTEMPTS: u32 = 3;

/// What a case may want different. The default is what production looks like, without the stock scheduler.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The cluster's name; a label only, folders are unique anyway.
    pub name: String,
    /// Runs the stock kube-scheduler too. It places pods of `default-scheduler` and of the names in `also_places`.
    pub kube_scheduler: bool,
    /// Further scheduler names that the stock scheduler answers to.
    pub also_places: Vec<String>,
    /// Lifts the client-side request limits of kube-controller-manager and kwok. Switches API Priority and Fairness off as well.
    pub disable_qps_limits: bool,
    /// Feature gates of all components, `Name=true`.
    pub feature_gates: Vec<String>,
    /// API versions that are off by default, `group/version=true`.
    pub runtime_config: Vec<String>,
    /// `component=key=value`.
    pub extra_args: Vec<String>,
}

/// A running control plane. Dropping it removes it with all that was started in its folder.
pub struct Cluster {
    name: String,
    scratch: Scratch,
    kubeconfig: PathBuf,
    client: kube::Client,
    kit: Kit,
}

impl Cluster {
    /// Starts one in a folder of its own under the system's temporary folder; about 3 s.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        let scratch = Scratch::new(&options.name)?;
        Self::start_in(scratch, options).await
    }

    /// Starts one in `scratch`, whose end is the cluster's end.
    pub async fn start_in(scratch: Scratch, options: ClusterOptions) -> Result<Self> {
        let kit = Kit::locate()?;
        let kubeconfig = scratch.path("kubeconfig");
        let policy = scratch.path("audit-policy.json");
        std::fs::write(&policy, serde_json::to_vec_pretty(&audit_policy())?)?;
        let mut attempt = 1;
        loop {
            let outcome = create(&kit, &scratch, &options, &kubeconfig, &policy).await;
            let Err(error) = outcome else { break };
            let _ = kwokctl(&kit, &scratch, &["delete", "cluster", "--name", &options.name]).await;
            if attempt == ATTEMPTS {
                return Err(error.context(format!("cluster {} did not start in {ATTEMPTS} attempts", options.name)));
            }
            say::line(format!("  cluster {} did not start ({}), trying again", options.name, say::brief(&error)));
            attempt += 1;
        }
        let client = kubeconfig::client(&kubeconfig).await?;
        Ok(Self { name: options.name, scratch, kubeconfig, client, kit })
    }

    /// A client as cluster admin.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The run's folder: state, logs, kubeconfigs.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The kit that it was started from.
    pub fn kit(&self) -> &Kit {
        &self.kit
    }

    /// Logs of the control plane's components.
    pub fn component_logs(&self) -> PathBuf {
        self.scratch.folder().join("kwok/clusters").join(&self.name).join("logs")
    }

    /// The audit log: one JSON object per line and answered request.
    pub fn audit_log(&self) -> PathBuf {
        self.component_logs().join("audit.log")
    }

    fn pid(&self, component: &str) -> Result<String> {
        let file = self.scratch.folder().join("kwok/clusters").join(&self.name).join("pids").join(format!("{component}.pid"));
        std::fs::read_to_string(&file).with_context(|| format!("no {component} runs"))
    }

    /// Sends one component (`kube-apiserver`) a signal that does not end it (`STOP`, `CONT`).
    pub async fn signal(&self, component: &str, signal: &str) -> Result<()> {
        let pid = self.pid(component)?;
        let sent = Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().await.context("kill")?;
        anyhow::ensure!(sent.success(), "{component} could not be sent {signal}");
        Ok(())
    }

    /// Ends one component (`kube-controller-manager`) and starts it again as it was. Returns when kwokctl says that the cluster is ready.
    pub async fn restart(&self, component: &str) -> Result<()> {
        let pid = self.pid(component)?;
        // Its ports are free for a moment, and no other cluster may choose them then.
        let _lock = ports().await?;
        // That it is not there any more is as good: some end by themselves when the API server stays away.
        let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status().await.context("kill")?;
        wait_until(secs(5), &format!("{component} is gone"), || async {
            let there = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().await?.success();
            Ok(Seen::when(!there, || format!("process {}", pid.trim())))
        })
        .await?;
        // It starts whatever does not run.
        kwokctl(&self.kit, &self.scratch, &["start", "cluster", "--name", &self.name, "--wait=60s"]).await
    }

    /// Lets the cluster live on; returns its folder, which `scratch::remove` ends.
    pub fn keep(self) -> Result<PathBuf> {
        self.scratch.keep()
    }

    /// Runs a program of the kit (kubectl, helm) as cluster admin; its output, or an error that holds what it wrote.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let path = self.scratch.link(&self.kit.program(program))?;
        let output = Command::new(path)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            // Neither program shall read or write the settings of the person who runs the tests.
            .env("HOME", self.scratch.folder())
            .stdin(Stdio::null())
            .output()
            .await
            .with_context(|| format!("starting {program}"))?;
        if !output.status.success() {
            bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

async fn create(kit: &Kit, scratch: &Scratch, options: &ClusterOptions, kubeconfig: &Path, policy: &Path) -> Result<()> {
    let lock = ports().await?;
    let mut arguments = vec!["create".to_owned(), "cluster".to_owned(), "--runtime=binary".to_owned(), "--wait=60s".to_owned()];
    let mut flag = |name: &str, value: String| arguments.push(format!("--{name}={value}"));
    flag("name", options.name.clone());
    flag("kubeconfig", kubeconfig.display().to_string());
    flag("kube-audit-policy", policy.display().to_string());
    for (name, program) in [
        ("etcd", "etcd"),
        ("kube-apiserver", "kube-apiserver"),
        ("kube-controller-manager", "kube-controller-manager"),
        ("kube-scheduler", "kube-scheduler"),
        ("kwok-controller", "kwok"),
    ] {
        flag(&format!("{name}-binary"), kit.program(program).display().to_string());
    }
    if !options.kube_scheduler {
        flag("disable", "kube-scheduler".to_owned());
    } else if !options.also_places.is_empty() {
        let config = scratch.path("kube-scheduler.json");
        std::fs::write(&config, serde_json::to_vec_pretty(&scheduler_config(&options.also_places))?)?;
        flag("kube-scheduler-config", config.display().to_string());
    }
    if options.disable_qps_limits {
        flag("disable-qps-limits", "true".to_owned());
    }
    if !options.feature_gates.is_empty() {
        flag("kube-feature-gates", options.feature_gates.join(","));
    }
    if !options.runtime_config.is_empty() {
        flag("kube-runtime-config", options.runtime_config.join(","));
    }
    // There is one; with an election it would wait for its own lease to run out after a restart.
    flag("extra-args", "kube-controller-manager=leader-elect=false".to_owned());
    // Whoever carries this is left to the case: see workloads::kinds.
    flag("extra-args", "kwok-controller=disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom".to_owned());
    // In one file (the default is a new one after 100 MiB): whoever asks how many calls something cost reads it from where it stood.
    flag("extra-args", "kube-apiserver=audit-log-maxsize=8192".to_owned());
    for each in &options.extra_args {
        flag("extra-args", each.clone());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    kwokctl(kit, scratch, &arguments).await?;
    drop(lock);
    Ok(())
}

/// The right to choose ports, or to give them up for a moment: one at a time between all processes of this crate. It goes with the file handle.
async fn ports() -> Result<File> {
    let lock = File::create(std::env::temp_dir().join("podgroup-e2e-ports.lock"))?;
    Ok(tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??)
}

async fn kwokctl(kit: &Kit, scratch: &Scratch, arguments: &[&str]) -> Result<()> {
    let program = scratch.link(&kit.program("kwokctl"))?;
    let command = Command::new(program)
        .args(arguments)
        .env("KWOK_WORKDIR", scratch.path("kwok"))
        .env("HOME", scratch.folder())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(120), command).await.context("kwokctl took over 120 s")??;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("kwokctl {}: {}", arguments.first().unwrap_or(&""), text.lines().last().unwrap_or_default());
    }
    Ok(())
}

fn scheduler_config(also_places: &[String]) -> serde_json::Value {
    let names = std::iter::once("default-scheduler").chain(also_places.iter().map(String::as_str));
    let profiles: Vec<_> = names.map(|name| serde_json::json!({"schedulerName": name})).collect();
    serde_json::json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles})
}

/// What the observer needs to see: every request on PodGroups with its body (the preconditions of a DELETE are in the body), every request of the two
/// programs, and the writes of all others; their reads would only fill the disk.
fn audit_policy() -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": true,
        "rules": [
            {"level": "Request", "resources": [{"group": "scheduling.volcano.sh", "resources": ["podgroups"]}]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts:podgroup-system"]},
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "Metadata"},
        ],
    })
}
