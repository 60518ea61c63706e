//! Row C8: the commands of docs/from-volcano.md, from Volcano and back. Each line of steps 1 to 5 and of the way back is run as printed
//! there, beside a release with the names, CRDs, Deployments and webhooks of Volcano and with both programs running. No PodGroup and no
//! Queue is lost.
//!
//! Step 6 is part of the chart's own check (C2), because there is no way back after it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::documents::Shell;
use crate::cluster::Cluster;
use crate::objects::{field, make_member, make_node, make_podgroup, make_queue_of, podgroups, queues};
use crate::rendered::Rendered;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kit, say};

/// The webhooks have no effect: they have no backend and fail open. The pods wait for a scheduler, because no kubelet would run them.
const VOLCANO: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: volcano-scheduler, namespace: volcano-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: volcano}}
  template: {metadata: {labels: {app: volcano}}, spec: {containers: [{name: main, image: example/1}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: volcano-controllers, namespace: volcano-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: volcano-controllers}}
  template: {metadata: {labels: {app: volcano-controllers}}, spec: {containers: [{name: main, image: example/1}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: volcano-admission-service-pods-validate}
webhooks:
  - name: validatepod.volcano.sh
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    timeoutSeconds: 1
    clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /pods/validate}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: volcano-admission-service-podgroups-mutate}
webhooks:
  - name: mutatepodgroup.volcano.sh
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    timeoutSeconds: 1
    clientConfig: {service: {name: volcano-admission-service, namespace: volcano-system, path: /podgroups/mutate}}
    rules: [{apiGroups: [scheduling.volcano.sh], apiVersions: [v1beta1], operations: [CREATE], resources: [podgroups]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobs.batch.volcano.sh}
spec:
  group: batch.volcano.sh
  scope: Namespaced
  names: {kind: Job, plural: jobs, singular: job}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
"#;

/// C8.
pub(super) async fn forward_and_back(w: &mut World) -> Result<()> {
    let (cluster, client) = (w.cluster(), w.client());
    let page = std::fs::read_to_string(kit::repository().join("docs/from-volcano.md"))?;
    let mut shell = Shell::beside_the_clone(cluster.scratch(), &["charts"])?;
    shell.meet(cluster)?;
    let volcano = volcano(cluster).await?;
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "32Gi")]).await?;
    // As Volcano left them: a queue, a queue that `vcctl` closed, and a running gang.
    make_queue_of(&client, "team", json!({"weight": 2})).await?;
    make_queue_of(&client, "closed", json!({"weight": 1})).await?;
    let state = json!({"status": {"state": "Closed", "allocated": {}}});
    queues(&client).patch_status("closed", &PatchParams::default(), &Patch::Merge(state)).await?;
    make_podgroup(&client, "job", json!({"minMember": 1, "queue": "team"})).await?;
    let status = json!({"status": {"phase": "Running", "running": 1}});
    podgroups(&client).patch("job", &PatchParams::default(), &Patch::Merge(status)).await?;
    let of_volcano = uids(cluster).await?;

    run(&shell, &page, "Before anything").await?;
    run(&shell, &page, "**1. ").await?;
    let mut controller = Rendered::start(cluster, chart::CONTROLLER, "controller-beside").await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, "scheduler-beside").await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    Workload::new("one").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "one", 2, 10).await?;
    stays_closed(&client, "closed").await?;

    run(&shell, &page, "**3. ").await?;
    scaled(cluster, "0").await?;
    controller.end().await?;
    scheduler.end().await?;
    let mut controller = Rendered::start(cluster, chart::CONTROLLER, "controller-both").await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, "scheduler-both").await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    Workload::new("rest").replicas(2).gang("2").scheduler("volcano").queue("team").make(&client).await?;
    wait_running(&client, "rest", 2, 10).await?;
    // A pod of a job of Volcano's controllers, which write the group annotation.
    make_member(&client, "job-1", "job", &[("cpu", "1")]).await?;
    wait_running(&client, "job", 1, 10).await?;
    stays_closed(&client, "closed").await?;

    let webhooks = ["get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--output=name"];
    let before = cluster.run("kubectl", &webhooks).await?;
    ensure!(before.matches("volcano-admission").count() == 2, "expected two webhooks of Volcano: {before}");
    run(&shell, &page, "**4. ").await?;
    let left = cluster.run("kubectl", &webhooks).await?;
    ensure!(!left.contains("volcano"), "webhooks are left: {left}");

    for name in ["one", "rest"] {
        wait_one_group(&client, name, 10).await?;
    }
    let all = uids(cluster).await?;
    let kept = of_volcano.iter().all(|(name, uid)| all.get(name) == Some(uid));
    ensure!(kept && all.len() == 7, "expected job, one, rest, team, closed, root and default: {all:?}; before: {of_volcano:?}");
    handed_over(&shell, &page).await?;
    stays(cluster, &all, "step 5").await?;

    run(&shell, &page, "## Back").await?;
    controller.end().await?;
    scheduler.end().await?;
    scaled(cluster, "1").await?;
    let policies = cluster.run("kubectl", &["get", "mutatingadmissionpolicies", "--output=name"]).await?;
    ensure!(policies.is_empty(), "pods are still annotated by {policies}");
    stays(cluster, &all, "the way back").await?;
    let back = page.split_once("## Back").context("the page has no way back")?.1;
    let uninstall = back.split('`').find(|span| span.starts_with("helm uninstall ")).context("the way back has no helm uninstall")?;
    shell.run(uninstall).await?;
    stays(cluster, &all, uninstall).await?;
    for line in block(back, "What steps 4 and 5 took")? {
        shell.run(&line.replace("VOLCANO", volcano.to_str().context("the folder's path")?)).await?;
    }
    stays(cluster, &all, "Volcano's own upgrade").await?;
    ensure!(cluster.run("kubectl", &webhooks).await? == before, "Volcano's webhooks are not back");
    let crd = cluster.run("kubectl", &["get", "crd", "podgroups.scheduling.volcano.sh", "--output=yaml"]).await?;
    ensure!(crd.contains("preemptable") && crd.contains("release-name: volcano"), "the CRD is not Volcano's again: {crd}");
    holds_for(secs(2), "the running pods still run", || async {
        for (name, count) in [("one", 2), ("rest", 2), ("job", 1)] {
            wait_running(&client, name, count, 0).await?;
        }
        Ok(Seen::Yes(()))
    })
    .await
}

/// Installs a chart that looks like Volcano, as a Helm release. Returns the folder of the chart.
async fn volcano(cluster: &Cluster) -> Result<PathBuf> {
    let folder = cluster.scratch().path("volcano");
    std::fs::create_dir_all(folder.join("templates"))?;
    std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: volcano\nversion: 1.0.0\n")?;
    std::fs::copy(kit::crate_folder().join("crds/volcano-newer.yaml"), folder.join("templates/crds.yaml"))?;
    std::fs::write(folder.join("templates/rest.yaml"), VOLCANO)?;
    let chart = folder.to_str().context("the folder's path")?;
    cluster.run("helm", &["install", "volcano", chart, "--namespace", "volcano-system", "--create-namespace"]).await?;
    cluster.crds_established().await?;
    wait_until(secs(10), "Queues can be created", || async {
        queues(&cluster.client()).list(&ListParams::default()).await?;
        podgroups(&cluster.client()).list(&ListParams::default()).await?;
        Ok(Seen::Yes(()))
    })
    .await?;
    Ok(folder)
}

/// Runs each line of the first block after these words on the page.
async fn run(shell: &Shell<'_>, page: &str, after: &str) -> Result<()> {
    for line in block(page, after)? {
        shell.run(line).await.with_context(|| after.to_owned())?;
    }
    Ok(())
}

fn block<'a>(page: &'a str, after: &str) -> Result<Vec<&'a str>> {
    let block = page
        .split_once(after)
        .and_then(|(_, rest)| rest.split_once("```sh\n"))
        .and_then(|(_, rest)| rest.split_once("\n```"))
        .map(|(block, _)| block.lines().filter(|line| !line.is_empty()).collect());
    block.with_context(|| format!("the page has no commands after {after}"))
}

/// Runs step 5 as the page describes it: the line, the commands that it prints, the line again.
async fn handed_over(shell: &Shell<'_>, page: &str) -> Result<()> {
    let lines = block(page, "**5. ")?;
    let [line] = lines.as_slice() else { bail!("step 5 has the lines {lines:?}") };
    for name in ["podgroups", "queues"] {
        let Err(error) = shell.run(line).await else { bail!("it changed the owner of the CRD {name} without a command to do so") };
        let printed = error.to_string();
        let start = format!("kubectl label crd {name}.");
        let commands = printed
            .split_once(&start)
            .with_context(|| format!("no command for {name} in: {printed}"))?
            .1
            .lines()
            .next()
            .unwrap_or_default();
        shell.run(&format!("{start}{commands}")).await?;
    }
    match shell.run(line).await {
        Ok(_) => Ok(()),
        Err(error) if say::brief(&error).contains("conflict") => shell.run(&format!("{line} --force-conflicts")).await.map(|_| ()),
        Err(error) => Err(error),
    }
}

/// A scheduler that read only the annotation of the queue would open it.
async fn stays_closed(client: &Client, queue: &str) -> Result<()> {
    holds_for(secs(2), &format!("queue {queue} is closed"), || async {
        let state = field(&queues(client).get(queue).await?, "/status/state");
        Ok(Seen::when(state == "Closed", || state.to_string()))
    })
    .await
}

type Uids = BTreeMap<String, String>;

/// Returns all PodGroups and Queues with their UIDs.
async fn uids(cluster: &Cluster) -> Result<Uids> {
    let groups = podgroups(&cluster.client()).list(&ListParams::default()).await?.items;
    let queues = queues(&cluster.client()).list(&ListParams::default()).await?.items;
    let named = |kind: &'static str| {
        move |object: kube::api::DynamicObject| (format!("{kind} {}", object.name_any()), object.uid().unwrap_or_default())
    };
    Ok(groups.into_iter().map(named("PodGroup")).chain(queues.into_iter().map(named("Queue"))).collect())
}

async fn stays(cluster: &Cluster, all: &Uids, after: &str) -> Result<()> {
    let now = uids(cluster).await?;
    ensure!(now == *all, "after {after}: expected {all:?}, found {now:?}");
    Ok(())
}

async fn scaled(cluster: &Cluster, replicas: &str) -> Result<()> {
    let format = "jsonpath={.items[*].spec.replicas}";
    let found = cluster.run("kubectl", &["get", "deployments", "--namespace=volcano-system", "--output", format]).await?;
    ensure!(found == format!("{replicas} {replicas}"), "the replicas of Volcano's Deployments are {found}");
    Ok(())
}
