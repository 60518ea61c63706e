//! Row C6: a program loses the right to read or to write a kind. It says once what is missing and what to do, everything else goes on, and
//! the `helm upgrade` that it names restores the right.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::installs::wait_readyz;
use crate::cluster::Cluster;
use crate::objects::{field, has_node, make_node, make_queue, podgroups, queues};
use crate::programs::Program;
use crate::rendered::Rendered;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{MIN_MEMBER, Workload, annotate, groups_of, pods_of, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kit};

const VOLCANO: &str = "scheduling.volcano.sh";

/// The advice in the log.
const ADVICE: &str = "`helm upgrade` (in Helm 4 with --force-conflicts) writes the chart's ClusterRole again";

/// C6.
pub(super) async fn are_missing(w: &mut World) -> Result<()> {
    let cluster = w.cluster();
    let client = w.client();
    chart::install(cluster, &[]).await?;
    chart::settle(cluster, true).await?;
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "32Gi")]).await?;
    let mut controller = Rendered::start(cluster, chart::CONTROLLER, "controller").await?;
    let mut scheduler = Rendered::start(cluster, chart::SCHEDULER, "scheduler").await?;
    controller.wait_ready().await?;
    scheduler.wait_ready().await?;
    to_write_the_status_of_queues(cluster, &scheduler.program).await.context("queues/status")?;
    to_see_all_kinds(cluster, &mut scheduler.program).await.context("lists")?;
    to_make_podgroups(cluster, &controller.program).await.context("podgroups")?;
    controller.end().await?;
    scheduler.end().await
}

async fn to_write_the_status_of_queues(cluster: &Cluster, scheduler: &Program) -> Result<()> {
    let client = cluster.client();
    take(cluster, chart::SCHEDULER, VOLCANO, "queues/status", "patch").await?;
    make_queue(&client, "team", None, &[("cpu", "8")]).await?;
    Workload::new("train").replicas(2).gang("2").queue("team").make(&client).await?;
    wait_running(&client, "train", 2, 10).await?;
    wait_until(secs(10), "the PodGroup's status is still written", || async {
        let group = wait_one_group(&client, "train", 10).await?;
        Ok(Seen::when(field(&group, "/status/phase") == "Running", || field(&group, "/status").to_string()))
    })
    .await?;
    // The program tries again for each of three queues.
    logged_once(scheduler, "cannot patch resource \"queues/status\"").await?;
    let status = field(&queues(&client).get("team").await?, "/status");
    ensure!(status.is_null(), "the queue's status was written: {status}");
    give_back(cluster).await?;
    wait_until(secs(75), "the queue's status is written", || async {
        let status = field(&queues(&client).get("team").await?, "/status");
        let whole = status.pointer("/state") == Some(&json!("Open")) && status.pointer("/allocated/cpu") == Some(&json!("2"));
        Ok(Seen::when(whole, || status.to_string()))
    })
    .await
}

/// Rights to read that are missing at the start, as beside a chart that is older than the program: without priority classes, claims and
/// volumes the scheduler decides nothing and names each, and the controller still creates PodGroups.
async fn to_see_all_kinds(cluster: &Cluster, scheduler: &mut Program) -> Result<()> {
    let client = cluster.client();
    scheduler.terminate().await?;
    // One rule of the chart is for claims and volumes.
    for (group, resource) in [("scheduling.k8s.io", "priorityclasses"), ("", "persistentvolumes")] {
        take(cluster, chart::SCHEDULER, group, resource, "list").await?;
    }
    scheduler.launch()?;
    for kind in ["priorityclasses", "persistentvolumeclaims", "persistentvolumes"] {
        wait_readyz(scheduler, 503, &format!("{kind}: waiting (forbidden")).await?;
        logged_once(scheduler, &format!("cannot list resource \"{kind}\"")).await?;
    }
    Workload::new("later").replicas(2).gang("2").make(&client).await?;
    wait_one_group(&client, "later", 10).await?;
    holds_for(secs(3), "nothing is bound while a list is missing", || async {
        let bound = pods_of(&client, "later").await?.iter().filter(|pod| has_node(pod)).count();
        Ok(Seen::when(bound == 0, || format!("{bound} pods")))
    })
    .await?;
    give_back(cluster).await?;
    wait_readyz(scheduler, 200, "priorityclasses: complete").await?;
    wait_running(&client, "later", 2, 10).await
}

/// A right to write that the controller loses: its other writes go on, and an Event is on the owner.
async fn to_make_podgroups(cluster: &Cluster, controller: &Program) -> Result<()> {
    let client = cluster.client();
    take(cluster, chart::CONTROLLER, VOLCANO, "podgroups", "create").await?;
    Workload::new("third").replicas(2).gang("2").make(&client).await?;
    logged_once(controller, "cannot create resource \"podgroups\"").await?;
    let events: Api<Event> = Api::default_namespaced(client.clone());
    wait_until(secs(10), "an Event on the Deployment says why it has no PodGroup", || async {
        let about = ListParams::default().fields("involvedObject.name=third,reason=PodGroupRefused");
        let events: Vec<_> = events.list(&about).await?.items.into_iter().filter_map(|event| event.message).collect();
        Ok(Seen::when(events.iter().any(|text| text.contains("cannot create resource \"podgroups\"")), || format!("{events:?}")))
    })
    .await?;
    annotate(&client, "train", MIN_MEMBER, "1").await?;
    wait_until(secs(10), "the PodGroup of another Deployment follows its owner", || async {
        let group = wait_one_group(&client, "train", 10).await?;
        Ok(Seen::when(field(&group, "/spec/minMember") == 1, || field(&group, "/spec").to_string()))
    })
    .await?;
    let made = groups_of(&client, "third").await?.len();
    ensure!(made == 0, "{made} PodGroups were created without the right");
    give_back(cluster).await?;
    wait_one_group(&client, "third", 75).await?;
    wait_running(&client, "third", 2, 10).await?;
    let all = podgroups(&client).list(&ListParams::default()).await?.items.len();
    ensure!(all == 3, "{all} PodGroups for three Deployments");
    Ok(())
}

/// Does what the log advises.
async fn give_back(cluster: &Cluster) -> Result<()> {
    let chart = kit::repository().join("charts/podgroup");
    let chart = chart.to_str().context("the clone's path is no UTF-8")?;
    let flags = ["--namespace", chart::NAMESPACE, "--reset-then-reuse-values", "--force-conflicts"];
    cluster.run("helm", &[["upgrade", "podgroup", chart].as_slice(), &flags].concat()).await?;
    Ok(())
}

/// Removes a verb on a resource from the chart's role for this account, and waits until the authorizer refuses it.
async fn take(cluster: &Cluster, account: &str, group: &str, resource: &str, verb: &str) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let role = serde_json::to_value(roles.get(account).await?)?;
    let mut rules = role.pointer("/rules").cloned().unwrap_or_default();
    let names =
        |rule: &Value, key: &str, name: &str| rule.pointer(key).and_then(Value::as_array).is_some_and(|all| all.contains(&json!(name)));
    for rule in rules.as_array_mut().into_iter().flatten() {
        if names(rule, "/apiGroups", group)
            && names(rule, "/resources", resource)
            && let Some(verbs) = rule.pointer_mut("/verbs").and_then(Value::as_array_mut)
        {
            verbs.retain(|each| each != verb);
        }
    }
    if let Some(rules) = rules.as_array_mut() {
        // The API server refuses a rule without verbs.
        rules.retain(|rule| rule.pointer("/verbs").and_then(Value::as_array).is_none_or(|verbs| !verbs.is_empty()));
    }
    roles.patch(account, &PatchParams::default(), &Patch::Merge(json!({"rules": rules}))).await?;

    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": chart::user(account),
        "resourceAttributes": {"group": group, "resource": resource, "subresource": subresource, "verb": verb},
    }}))?;
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client());
    wait_until(secs(10), &format!("{account} may not {verb} {resource}"), || async {
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        Ok(Seen::when(status.is_some_and(|status| !status.allowed), || "it may".to_owned()))
    })
    .await
}

/// Waits until the log names what is missing, and checks that it does so in one line with the advice.
async fn logged_once(program: &Program, what: &str) -> Result<()> {
    let lines = || -> Result<Vec<String>> {
        // With the chart's defaults the log is JSON.
        let log = std::fs::read_to_string(program.log())?.replace("\\\"", "\"");
        Ok(log.lines().filter(|line| line.contains(what) && line.contains(ADVICE)).map(str::to_owned).collect())
    };
    wait_until(secs(10), &format!("the log says {what}, and what to do"), || async {
        Ok(Seen::when(!lines()?.is_empty(), || "nothing".to_owned()))
    })
    .await?;
    let lines = lines()?;
    ensure!(lines.len() == 1, "the log names the missing right {} times: {lines:#?}", lines.len());
    Ok(())
}
