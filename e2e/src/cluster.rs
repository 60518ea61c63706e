//! Starts a real control plane and gives a case access to it.
//!
//! etcd, kube-apiserver (RBAC, TLS, audit log) and kube-controller-manager are real; kwok simulates nodes and kubelets. kwokctl chooses free
//! ports, so several clusters can run side by side. The module `scratch` removes everything.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::kit::Kit;
use crate::scratch::Scratch;
use crate::wait::{Seen, secs, wait_until};
use crate::{kubeconfig, kwok_stages, say};

/// kwokctl chooses free ports and binds them later. Another process may be faster, so the start is tried again.
const ATTEMPTS: u32 = 3;

/// The settings of a cluster. The default is like production, without the stock scheduler.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The cluster's name; a label only, folders are unique anyway.
    pub name: String,
    /// Runs the stock kube-scheduler, too. It schedules pods of `default-scheduler` and of the names in `also_places`.
    pub kube_scheduler: bool,
    /// Further scheduler names that the stock scheduler answers to.
    pub also_places: Vec<String>,
    /// Lifts the client-side request limits of kube-controller-manager and kwok. Switches API Priority and Fairness off as well.
    pub disable_qps_limits: bool,
    /// Whether the pods of Jobs run until the case ends them. By default the simulator completes them as soon as they run.
    pub jobs_run_on: bool,
    /// Feature gates of all components, `Name=true`.
    pub feature_gates: Vec<String>,
    /// API versions that are off by default, `group/version=true`.
    pub runtime_config: Vec<String>,
    /// Whether etcd waits for the disk, as in a real cluster: for measurements. In a case a slow disk would only stall the API server, and
    /// no case takes the power away.
    pub fsync: bool,
    /// `component=key=value`.
    pub extra_args: Vec<String>,
}

/// A running control plane. Dropping it removes it with everything that was started in its folder.
pub struct Cluster {
    name: String,
    scratch: Scratch,
    kubeconfig: PathBuf,
    client: kube::Client,
    kit: Kit,
}

impl Cluster {
    /// Starts a cluster in its own folder in the system's temporary folder; this takes about 3 s.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        let scratch = Scratch::new(&options.name)?;
        Self::start_in(scratch, options).await
    }

    /// Starts a cluster in `scratch`, and ends with it.
    pub async fn start_in(scratch: Scratch, options: ClusterOptions) -> Result<Self> {
        let kit = if options.kube_scheduler { Kit::locate()? } else { Kit::control_plane()? };
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

    /// Returns a client as cluster admin.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns the admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the run's folder: state, logs, kubeconfigs.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns the tools that started it.
    pub fn kit(&self) -> &Kit {
        &self.kit
    }

    /// Returns the folder of the logs of the control plane's components.
    pub fn component_logs(&self) -> PathBuf {
        self.scratch.folder().join("kwok/clusters").join(&self.name).join("logs")
    }

    /// Returns the audit log: one JSON object per line and answered request.
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

    /// Kills one component (`kube-controller-manager`) and starts it again. Returns when kwokctl reports the cluster as ready.
    pub async fn restart(&self, component: &str) -> Result<()> {
        let pid = self.pid(component)?;
        // Its ports are free for a moment, and no other cluster may choose them then.
        let _lock = ports().await?;
        // An error means that it has ended already: some components end when the API server is down for long.
        let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status().await.context("kill")?;
        wait_until(secs(5), &format!("{component} is gone"), || async {
            let there = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().await?.success();
            Ok(Seen::when(!there, || format!("process {}", pid.trim())))
        })
        .await?;
        self.start_all().await
    }

    /// Starts every component that has ended by itself, as a kubelet would: some components end when the API server is down for long.
    pub async fn start_missing(&self) -> Result<()> {
        let _lock = ports().await?;
        self.start_all().await
    }

    /// Starts every component that does not run, and waits until the cluster is ready.
    async fn start_all(&self) -> Result<()> {
        kwokctl(&self.kit, &self.scratch, &["start", "cluster", "--name", &self.name, "--wait=60s"]).await
    }

    /// Copies the data of etcd, as a backup of this moment. etcd stands still meanwhile, so the copy is what a machine that lost power would have.
    pub async fn backup(&self) -> Result<PathBuf> {
        let backup = self.scratch.path("etcd-backup");
        self.signal("etcd", "STOP").await?;
        let copied = copy_folder(&self.etcd_data(), &backup).await;
        self.signal("etcd", "CONT").await?;
        copied?;
        Ok(backup)
    }

    /// Restores etcd from a backup, as its documents say: the whole control plane is stopped, and started on the data of the backup.
    pub async fn restore(&self, backup: &Path) -> Result<()> {
        let all = ["kube-controller-manager", "kwok-controller", "kube-apiserver", "etcd"];
        let pids = all.into_iter().map(|component| Ok(self.pid(component)?.trim().to_owned())).collect::<Result<Vec<_>>>()?;
        let _lock = ports().await?;
        let _ = Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status().await.context("kill")?;
        for pid in &pids {
            wait_until(secs(5), "the control plane is gone", || async {
                let there = Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().await?.success();
                Ok(Seen::when(!there, || format!("process {pid}")))
            })
            .await?;
        }
        let data = self.etcd_data();
        std::fs::remove_dir_all(&data).with_context(|| format!("removing {}", data.display()))?;
        copy_folder(backup, &data).await?;
        self.start_all().await
    }

    fn etcd_data(&self) -> PathBuf {
        self.scratch.folder().join("kwok/clusters").join(&self.name).join("etcd")
    }

    /// Lets the cluster go on; returns its folder, which `scratch::remove` ends.
    pub fn keep(self) -> Result<PathBuf> {
        self.scratch.keep()
    }

    /// Runs a program of the tools (kubectl, helm) as cluster admin; returns its output, or an error with its stderr.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let path = self.scratch.link(&self.kit.program(program))?;
        let output = Command::new(path)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            // Neither program may read or write the settings of the user of this machine.
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

    /// Waits until the API server serves every CRD. kubectl gives up on one that has no condition yet, so it is asked again.
    pub async fn crds_established(&self) -> Result<()> {
        let wait = ["wait", "--for=condition=Established", "--all", "crd", "--timeout=10s"];
        wait_until(secs(20), "every CRD is served", || async {
            self.run("kubectl", &wait).await?;
            Ok(Seen::Yes(()))
        })
        .await
    }
}

async fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().await.context("cp")?;
    anyhow::ensure!(copied.success(), "{} could not be copied", from.display());
    Ok(())
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
        ("kwok-controller", "kwok"),
    ] {
        flag(&format!("{name}-binary"), kit.program(program).display().to_string());
    }
    if !options.kube_scheduler {
        flag("disable", "kube-scheduler".to_owned());
    } else {
        flag("kube-scheduler-binary", kit.program("kube-scheduler").display().to_string());
    }
    if options.kube_scheduler && !options.also_places.is_empty() {
        let config = scratch.path("kube-scheduler.json");
        std::fs::write(&config, serde_json::to_vec_pretty(&scheduler_config(&options.also_places))?)?;
        flag("kube-scheduler-config", config.display().to_string());
    }
    if options.disable_qps_limits {
        flag("disable-qps-limits", "true".to_owned());
    }
    if options.jobs_run_on {
        let config = scratch.path("stages.yaml");
        std::fs::write(&config, kwok_stages::JOBS_RUN_ON)?;
        flag("config", config.display().to_string());
    }
    if !options.feature_gates.is_empty() {
        flag("kube-feature-gates", options.feature_gates.join(","));
    }
    if !options.runtime_config.is_empty() {
        flag("kube-runtime-config", options.runtime_config.join(","));
    }
    // There is one instance. With an election it would wait for its own lease to expire after a restart.
    flag("extra-args", "kube-controller-manager=leader-elect=false".to_owned());
    if options.kube_scheduler {
        flag("extra-args", "kube-scheduler=leader-elect=false".to_owned());
    }
    if !options.fsync {
        // What etcd has written outlives its kill.
        flag("extra-args", "etcd=unsafe-no-fsync=true".to_owned());
    }
    // The case writes the status of a pod with this annotation: see workloads::kinds.
    flag("extra-args", "kwok-controller=disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom".to_owned());
    // One file (the default starts a new one after 100 MiB), because `audit_log` reads it from a position on.
    flag("extra-args", "kube-apiserver=audit-log-maxsize=8192".to_owned());
    for each in &options.extra_args {
        flag("extra-args", each.clone());
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    kwokctl(kit, scratch, &arguments).await?;
    drop(lock);
    Ok(())
}

/// Locks the choice of ports between all processes of this crate. The lock ends with the file handle.
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

/// Returns the audit policy for the observer: every request on PodGroups with its body (a DELETE has its preconditions there), every
/// request of the two programs, and the writes of all other clients. Their reads would only fill the disk.
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
