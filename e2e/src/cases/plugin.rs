//! Rows U6 to U8: the output of `kubectl podgroup` is right. kubectl starts it as a plugin, on the real control plane.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use super::plugin_secure::{of_another_version, one_version, over_tls};
use super::plugin_shown::{coloured, completed};
use super::queues::{HALF, tree};
use super::seen::{group_says, queue_is};
use crate::chart;
use crate::http;
use crate::objects::{NAMESPACE, field, make_bound_pod, make_node, make_queue, queues};
use crate::programs::folder;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::owner::Owner;
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;

/// The output and the exit status of a command.
pub(super) struct Said {
    pub(super) status: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Said {
    pub(super) fn json(&self) -> Result<Value> {
        ensure!(self.status == 0, "the exit status is {}: {}", self.status, self.err);
        serde_json::from_str(&self.out).with_context(|| format!("it is no JSON: {}", self.out))
    }

    /// Fails unless the exit status is `status` and the output contains all `parts`.
    pub(super) fn must(&self, status: i32, parts: &[&str]) -> Result<()> {
        let all = format!("{}{}", self.out, self.err);
        ensure!(self.status == status, "it ended with {}, wanted {status}: {all}", self.status);
        for part in parts {
            ensure!(all.contains(part), "the output does not contain {part:?}: {all}");
        }
        ensure!(!all.chars().any(|c| c.is_control() && c != '\n'), "control characters, and no terminal: {all:?}");
        Ok(())
    }
}

/// Runs `kubectl podgroup LINE` with the admin's kubeconfig.
pub(super) async fn plugin(w: &World, line: &str) -> Result<Said> {
    let words: Vec<_> = std::iter::once("podgroup").chain(line.split_whitespace()).collect();
    said(&mut kubectl(w, &words)?).await
}

/// Returns a kubectl command with these arguments; its PATH contains the plugin and no other program.
pub(super) fn kubectl(w: &World, words: &[&str]) -> Result<Command> {
    let bin = bin(w)?;
    let mut command = Command::new(bin.join("kubectl"));
    command.args(words).env("KUBECONFIG", w.cluster().kubeconfig()).env("HOME", w.cluster().scratch().folder()).env("PATH", bin);
    Ok(command)
}

/// Returns the folder of kubectl and the plugin.
pub(super) fn bin(w: &World) -> Result<PathBuf> {
    let scratch = w.cluster().scratch();
    scratch.link(&w.cluster().kit().program("kubectl"))?;
    Ok(scratch.link(&folder()?.join("kubectl-podgroup"))?.parent().context("no folder of links")?.to_owned())
}

/// Runs a command and returns its output.
pub(super) async fn said(command: &mut Command) -> Result<Said> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("kubectl podgroup")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { status: output.status.code().context("the command was killed")?, out: text(&output.stdout), err: text(&output.stderr) })
}

/// Returns the value at a JSON pointer; null when it is missing.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    static NOTHING: Value = Value::Null;
    value.pointer(path).unwrap_or(&NOTHING)
}

/// Returns the list entry with this name.
fn named<'a>(list: &'a Value, name: &str) -> Result<&'a Value> {
    let found = list.as_array().into_iter().flatten().find(|entry| at(entry, "/name") == name || at(entry, "/resource") == name);
    found.with_context(|| format!("no {name} in {list}"))
}

/// U6. One gang has a queue with a full parent, and the nodes lack cpu for another gang. `why` names the level, the resource and the amounts, and how
/// many of all nodes refuse; with and without the scheduler's endpoint. `tree`, `nodes` and `audit` agree with the API and the ledger.
pub(super) async fn why_it_waits(w: &mut World) -> Result<()> {
    let client = w.client();
    let url = format!("--scheduler-url http://127.0.0.1:{}", w.scheduler()?.port());
    tree(&client).await?;
    Workload::new("job-1").replicas(2).gang("2").asks(HALF).queue("test-sub-0").make(&client).await?;
    wait_running(&client, "job-1", 2, 10).await?;
    make_node(&client, "n2", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    Workload::new("job-2").replicas(2).gang("2").asks(HALF).queue("test-sub-1").make(&client).await?;
    let group = wait_one_group(&client, "job-2", 10).await?.name_any();
    group_says(&client, &group, "queue \"test-root\" is over its quota").await?;
    // Without the scheduler's endpoint, what is used is known from there alone.
    wait_until(secs(10), "the queue's status tells what it uses", || async {
        let status = field(&queues(&client).get("test-root").await?, "/status");
        Ok(Seen::when(at(&status, "/allocated/cpu") == "2", || status.to_string()))
    })
    .await?;

    let alone = plugin(w, "why deploy/job-2").await?;
    alone.must(
        0,
        &[
            "waits: Pending",
            "QueueQuotaExceeded: queue \"test-root\" is over its quota",
            "its spec.capability be raised",
            "Not known",
            "reservations",
            "--scheduler-url",
        ],
    )?;
    // By the name of the Deployment alone, and by the name of the PodGroup.
    plugin(w, "why job-2").await?.must(0, &[&group])?;
    // The numbers are the scheduler's.
    let asked = plugin(w, &format!("why job-2 {url}")).await?;
    asked.must(0, &["2 too much", "4Gi too much", "from cpu 2 to 4", "from memory 4Gi to 8Gi"])?;
    let value = plugin(w, &format!("why pg/{group} -o json {url}")).await?.json()?;
    ensure!(*at(&value, "/unknown") == json!([]), "with the scheduler all is known: {}", at(&value, "/unknown"));
    let names: Vec<_> = at(&value, "/queues").as_array().into_iter().flatten().map(|level| at(level, "/name").clone()).collect();
    ensure!(names == ["test-sub-1", "test-root", "root"], "the way up is {names:?}");
    let cpu = named(at(named(at(&value, "/queues"), "test-root")?, "/resources"), "cpu")?;
    let amounts = ["/capability", "/used", "/reserved", "/asked"].map(|key| at(cpu, key).as_str().unwrap_or("null"));
    ensure!(amounts == ["2", "2", "0", "2"], "cpu of test-root is {cpu}");
    let why = at(&value, "/explanation");
    let amounts = ["/code", "/queue", "/quota/short"].map(|key| at(why, key).as_str().unwrap_or("null"));
    ensure!(amounts == ["QueueQuotaExceeded", "test-root", "2"], "why it waits is {why}");
    ensure!(at(&value, "/nodes/verdict") == "enough", "the nodes are not in the way: {}", at(&value, "/nodes"));

    Workload::new("big").replicas(3).gang("3").asks(&[("cpu", "6")]).make(&client).await?;
    let group = wait_one_group(&client, "big", 10).await?.name_any();
    group_says(&client, &group, "2 of 3 members find a place").await?;
    let big = plugin(w, "why big").await?;
    big.must(
        0,
        &[
            "2 of 3 members that go together find a place",
            "2 of 2  Insufficient cpu (requested 6, most free 4)",
            "a node must have cpu 6 free",
        ],
    )?;
    let nodes = at(&plugin(w, "why big -o json").await?.json()?, "/nodes").clone();
    ensure!(at(&nodes, "/needed") == 3 && at(&nodes, "/placed") == 2 && at(&nodes, "/nodes") == 2, "{nodes}");
    ensure!(
        at(&nodes, "/reasons/0/nodes") == 2 && at(&nodes, "/reasons/0/resource") == "cpu" && at(&nodes, "/reasons/0/mostFree") == "4",
        "{nodes}"
    );

    agrees(w, &url).await?;
    make_bound_pod(&client, "placed", "n2", &[("cpu", "5")]).await?;
    wait_running(&client, "placed", 1, 10).await?;
    plugin(w, "nodes").await?.must(0, &["OVERCOMMITTED by cpu 1", "5 / 4"])?;
    agrees(w, &url).await?;
    plugin(w, &format!("audit {url}")).await?.must(0, &["no differences"])?;
    let audit = plugin(w, &format!("audit -o json {url}")).await?.json()?;
    ensure!(*at(&audit, "/differences") == json!([]) && *at(&audit, "/unknown") == json!([]), "{audit}");
    ensure!(at(&audit, "/checked/nodes") == 2, "there are two nodes: {audit}");
    coloured(w).await?;
    one_version(w).await?;
    // The scheduler of a case is not a pod, so there is no port-forward to it.
    plugin(w, "audit").await?.must(1, &["only the scheduler knows", "--scheduler-url"])?;
    of_a_cron_job(w).await?;
    refused(w).await?;
    completed(w).await
}

/// A CronJob has the PodGroups of its Jobs. For a CronJob without Jobs the plugin says so.
async fn of_a_cron_job(w: &World) -> Result<()> {
    Owner::cron_job("nightly", 1).with("/spec", "suspend", json!(true)).make(&w.client()).await?;
    plugin(w, "why cj/nightly").await?.must(1, &["has no PodGroup", "it has no Job yet", "it is suspended"])
}

/// `tree` and `nodes` show the same as the Queues' status and the scheduler's ledger.
async fn agrees(w: &mut World, url: &str) -> Result<()> {
    let client = w.client();
    let port = w.scheduler()?.port();
    let w: &World = w;
    wait_until(secs(10), "tree and nodes agree with the API and the ledger", || async {
        let tree = plugin(w, &format!("tree --groups -o json {url}")).await?.json()?;
        for name in ["root", "test-root", "test-sub-0", "test-sub-1", "default"] {
            let said = named(at(&tree, "/queues"), name)?;
            let status = field(&queues(&client).get(name).await?, "/status");
            let used = named(at(said, "/resources"), "cpu").map(|cpu| at(cpu, "/used").clone()).unwrap_or_default();
            let allocated = at(&status, "/allocated/cpu");
            let same = used == *allocated || (allocated.is_null() && used.as_str().is_none_or(|used| used == "0"));
            if !same || at(said, "/state") != at(&status, "/state") {
                return Ok(Seen::NotYet(format!("{said} but {status}")));
            }
        }
        let groups = at(named(at(&tree, "/queues"), "test-sub-0")?, "/groups").clone();
        ensure!(at(&groups, "/0/placed") == 2 && at(&groups, "/0/minMember") == 2, "the groups of test-sub-0 are {groups}");
        let nodes = plugin(w, &format!("nodes -o json {url}")).await?.json()?;
        let ledger = http::json(port, "/debug/ledger").await?;
        for name in ["n1", "n2"] {
            let (said, kept) = (named(at(&nodes, "/nodes"), name)?, named(at(&ledger, "/nodes"), name)?);
            if at(said, "/used") != at(kept, "/used")
                || at(said, "/overcommitted") != at(kept, "/overcommitted")
                || at(said, "/pods") != at(kept, "/pods")
            {
                return Ok(Seen::NotYet(format!("{said} but {kept}")));
            }
        }
        Ok(Seen::Yes(()))
    })
    .await
}

/// An impossible request has a message that says what to do, and the documented exit status.
async fn refused(w: &World) -> Result<()> {
    plugin(w, "why nobody").await?.must(1, &["there is no PodGroup, Deployment", "-n"])?;
    plugin(w, "why service/x").await?.must(2, &["is none of podgroup"])?;
    plugin(w, "tree --gruops").await?.must(2, &["--groups"])?;
    plugin(w, "why deploy/job1").await?.must(1, &["there is no Deployment \"job1\"", "did you mean deployment/job-1?"])?;
    plugin(w, "why deploy/job-2 -n kube-system").await?.must(1, &["there is one in namespace default (say -n default)"])?;
    plugin(w, "queue close tset-root").await?.must(1, &["there is no queue tset-root; did you mean test-root?"])?;
    plugin(w, "tree --context nowhere").await?.must(1, &["error:", "nowhere"])?;
    plugin(w, "tree --scheduler-url http://127.0.0.1:1")
        .await?
        .must(0, &["test-root", "Not known", "nothing answers at --scheduler-url"])?;
    completes(w).await?;
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef kubectl-podgroup"), ("fish", "complete -c kubectl-podgroup")] {
        let said = plugin(w, &format!("completion {shell}")).await?;
        ensure!(said.status == 0 && said.out.contains(part), "no script for {shell}: {}{}", said.out, said.err);
    }
    Ok(())
}

/// kubectl completes arguments, including names of objects.
async fn completes(w: &World) -> Result<()> {
    let plugin = w.cluster().scratch().link(&folder()?.join("kubectl-podgroup"))?;
    let asked = plugin.with_file_name("kubectl_complete-podgroup");
    std::os::unix::fs::symlink(&plugin, &asked)?;
    for (words, want) in [
        (vec!["why", "deploy/job-"], "deploy/job-1\ndeploy/job-2\n:4\n"),
        (vec!["queue", "close", "test-sub"], "test-sub-0\ntest-sub-1\n:4\n"),
        (vec!["-n", "kube-pub"], "kube-public\n:4\n"),
        (vec!["tree", "--gr"], "--groups\n:4\n"),
    ] {
        // The plugin waits two seconds for names, so that the shell does not hang, and then offers none.
        wait_until(secs(10), &format!("{words:?} is completed"), || async {
            let output = Command::new(&asked).args(&words).env("KUBECONFIG", w.cluster().kubeconfig()).output().await?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(Seen::when(text == want, || text.into_owned()))
        })
        .await?;
    }
    Ok(())
}

/// U7. `queue close` closes it and all below, `open` opens them again, and both report the consequences. `--dry-run` and users without
/// the permission change nothing. A user with access to one namespace gets the answer without the objects that are forbidden, and a list of these.
pub(super) async fn queues_and_rights(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "up", None, &[]).await?;
    make_queue(&client, "below", Some("up"), &[]).await?;
    for name in ["up", "below"] {
        queue_is(&client, name, "Open").await?;
    }
    plugin(w, "queue close up --dry-run").await?.must(0, &["would be closed", "the queue below it (below)"])?;
    plugin(w, "queue close up --as nobody").await?.must(1, &["forbidden"])?;
    queue_is(&client, "below", "Open").await?;
    plugin(w, "queue close up").await?.must(0, &["queue up closed"])?;
    queue_is(&client, "below", "Closed").await?;
    // The plugin waits a few seconds for the status. On a busy machine it may say that it is not written yet, and shows the state at the next call.
    says(w, "queue close up", &["is closed already", "its status says Closed"]).await?;
    Workload::new("late").queue("below").make(&client).await?;
    let group = wait_one_group(&client, "late", 10).await?.name_any();
    group_says(&client, &group, "queue \"up\" is closed").await?;
    let value = plugin(w, "why late -o json").await?.json()?;
    ensure!(at(named(at(&value, "/queues"), "below")?, "/closedBy") == "up", "{}", at(&value, "/queues"));
    plugin(w, "tree").await?.must(0, &["closed by queue up"])?;
    tenant(w, &group).await?;
    let opened = plugin(w, "queue open up -o json").await?.json()?;
    ensure!(at(&opened, "/state") == "Open" || at(&opened, "/state").is_null(), "{opened}");
    ensure!(at(&opened, "/changed") == true && *at(&opened, "/below") == json!(["below"]), "{opened}");
    says(w, "queue open up", &["is open already", "its status says Open"]).await?;
    wait_running(&client, "late", 1, 10).await?;
    // The pod is on its node before the status of its PodGroup says so.
    says(w, "why late", &["does not wait: Running"]).await
}

/// Waits until the output contains all `parts`. One call of the plugin may take ten seconds, and the scheduler remembers a refused token for as long.
pub(super) async fn says(w: &World, line: &str, parts: &[&str]) -> Result<()> {
    wait_until(secs(40), &format!("{line} says {parts:?}"), || async {
        let said = plugin(w, line).await?;
        let all = format!("{}{}", said.out, said.err);
        Ok(Seen::when(parts.iter().all(|part| all.contains(part)), || all))
    })
    .await
}

/// A tenant with the role `view` in the namespace. Later it gets the permission to read PodGroups and queues, and no other one.
async fn tenant(w: &World, group: &str) -> Result<()> {
    let client = w.client();
    plugin(w, "why late --as tenant").await?.must(1, &["forbidden", "ask an administrator"])?;
    let subject = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant"}]);
    let view = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let binding: RoleBinding = serde_json::from_value(json!({"metadata": {"name": "tenant"}, "subjects": subject, "roleRef": view}))?;
    Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &binding).await?;
    wait_until(secs(10), "the tenant can read in its namespace", || async {
        let said = plugin(w, "why late --as tenant").await?;
        Ok(Seen::when(said.status == 0, || said.err))
    })
    .await?;
    let said = plugin(w, "why late --as tenant").await?;
    said.must(0, &[group, "queue \"up\" is closed", "1 pod: 1 waiting", "Not known", "queues:", "nodes:", "pods of all namespaces:"])?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "tenant"}, "subjects": subject,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "podgroup-view"},
    }))?;
    Api::<ClusterRoleBinding>::all(client).create(&PostParams::default(), &binding).await?;
    wait_until(secs(10), "the tenant can read the queues, too", || async {
        let value = plugin(w, "why late --as tenant -o json").await?.json()?;
        Ok(Seen::when(at(&value, "/queues/0/closedBy") == "up" && at(&value, "/nodes").is_null(), || value.to_string()))
    })
    .await
}

/// U8. Without --scheduler-url the plugin uses a port-forward to the pod that the Lease names: kwok's kubelet forwards to the process.
pub(super) async fn through_a_port_forward(w: &mut World) -> Result<()> {
    make_node(&w.client(), "n1", &[("cpu", "4"), ("memory", "16Gi")]).await?;
    // In a pod its name is the host name.
    let scheduler = w.scheduler()?;
    scheduler.environment("HOSTNAME", "scheduler-0");
    scheduler.terminate().await?;
    scheduler.restart().await?;
    let port = scheduler.port();
    pod_of_the_scheduler(w, "scheduler-0", "HTTP").await?;
    // Already now: kwok is started again below, and plays its nodes only when its lease of before has run out.
    pod_of_the_scheduler(w, "scheduler-1", "HTTPS").await?;
    {
        let w: &World = w;
        // The scheduler is ready before it holds the Lease.
        wait_until(secs(30), "the port-forward leads to the pod that the Lease names", || async {
            let said = plugin(w, "audit --request-timeout 5s").await?;
            Ok(Seen::when(said.must(1, &["port-forward to pod podgroup-system/scheduler-0"]).is_ok(), || said.err))
        })
        .await?;
    }

    let rule = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": "scheduler"},
        "spec": {
            "selector": {"matchNamespaces": [chart::NAMESPACE]},
            "forwards": [{"ports": [8081], "target": {"address": "127.0.0.1", "port": port}}],
        },
    });
    let config = w.cluster().component_logs().with_file_name("kwok.yaml");
    let known = std::fs::read_to_string(&config).context("kwok's configuration")?;
    std::fs::write(&config, format!("{known}\n---\n{rule}\n"))?;
    w.cluster().restart("kwok-controller").await?;
    says(w, "audit", &["no differences"]).await?;
    let tree = plugin(w, "tree -o json").await?.json()?;
    ensure!(*at(&tree, "/unknown") == json!([]), "with the scheduler all is known: {}", at(&tree, "/unknown"));
    over_tls(w).await?;
    of_another_version(w).await
}

/// Creates a pod of this name as the chart does; the probes of the kubelet use this scheme.
async fn pod_of_the_scheduler(w: &World, name: &str, scheme: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(w.client(), chart::NAMESPACE);
    let probe = json!({"httpGet": {"path": "/readyz", "port": "http-metrics", "scheme": scheme}});
    let ports = json!([{"name": "http-metrics", "containerPort": 8081}]);
    let container = json!({"name": "main", "image": "example/1", "ports": ports, "readinessProbe": probe});
    let pod =
        json!({"metadata": {"name": name, "labels": {"component": "scheduler"}}, "spec": {"nodeName": "n1", "containers": [container]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    wait_until(secs(10), &format!("the pod {name} runs"), || async {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase).unwrap_or_default();
        Ok(Seen::when(phase == "Running", || phase))
    })
    .await
}
