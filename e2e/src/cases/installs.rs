//! Row C4: the chart or a program needs something that is missing. It says what to do, and everything else works.

use anyhow::{Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterOptions};
use crate::objects::make_node;
use crate::programs::Program;
use crate::rendered::Rendered;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, http, say};

/// C4. A cluster without admission policies: helm says what to do if a policy is required, omits the annotation policy otherwise, and gangs run. Then
/// the right to one resource is removed from the controller and given back.
pub(super) async fn something_is_missing(_: &mut World) -> Result<()> {
    let kinds = [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    let options = ClusterOptions {
        name: "bare".to_owned(),
        runtime_config: kinds.iter().map(|kind| format!("admissionregistration.k8s.io/v1/{kind}=false")).collect(),
        // Otherwise the plugins of the API server would wait for these resources for ever.
        extra_args: vec!["kube-apiserver=disable-admission-plugins=MutatingAdmissionPolicy,ValidatingAdmissionPolicy".to_owned()],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options).await?;
    for (value, words) in [
        ("admissionPolicy.enabled=true", "this cluster does not serve MutatingAdmissionPolicy"),
        ("tenancy.enabled=true", "this cluster does not serve ValidatingAdmissionPolicy"),
    ] {
        match chart::install(&cluster, &[value]).await {
            Ok(()) => anyhow::bail!("{value} was accepted"),
            Err(error) => ensure!(say::brief(&error).contains(words), "{value}: {}", say::brief(&error)),
        }
    }
    chart::install(&cluster, &[]).await?;
    chart::settle(&cluster, false).await?;
    let client = cluster.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    let mut scheduler = Rendered::start(&cluster, chart::SCHEDULER, "scheduler").await?;
    scheduler.wait_ready().await?;

    may_see_stateful_sets(&cluster, false).await?;
    is_refused(&client, "statefulsets").await?;
    let controller = Rendered::start(&cluster, chart::CONTROLLER, "controller").await?;
    wait_readyz(&controller.program, 503, "statefulsets: waiting (forbidden").await?;
    // What /readyz says is logged a moment later.
    let lines = wait_until(secs(10), "the log names the missing right", || async {
        let log = controller.log()?;
        let lines = log.lines().filter(|line| line.contains("cannot list resource") && line.contains("statefulsets")).count();
        Ok(if lines > 0 { Seen::Yes(lines) } else { Seen::NotYet(log) })
    })
    .await?;
    ensure!(lines == 1, "the log names the missing right {lines} times");
    may_see_stateful_sets(&cluster, true).await?;
    wait_readyz(&controller.program, 200, "statefulsets: complete").await?;

    Workload::new("train").replicas(2).gang("2").make(&client).await?;
    wait_one_group(&client, "train", 10).await?;
    wait_running(&client, "train", 2, 10).await?;
    controller.end().await?;
    scheduler.end().await
}

/// Removes the right to StatefulSets from the controller's role, as a user might, or restores it.
async fn may_see_stateful_sets(cluster: &Cluster, may: bool) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let role = serde_json::to_value(roles.get("podgroup-controller").await?)?;
    let mut rules = role.pointer("/rules").cloned().unwrap_or_default();
    let all = ["deployments", "replicasets", "daemonsets", "statefulsets"];
    let wanted = Value::from(all.get(..if may { 4 } else { 3 }).unwrap_or_default());
    for rule in rules.as_array_mut().into_iter().flatten().filter(|rule| rule.pointer("/apiGroups/0") == Some(&json!("apps"))) {
        if let Some(resources) = rule.pointer_mut("/resources") {
            *resources = wanted.clone();
        }
    }
    roles.patch("podgroup-controller", &PatchParams::default(), &Patch::Merge(json!({"rules": rules}))).await?;
    Ok(())
}

/// Waits until the authorizer refuses the controller.
async fn is_refused(client: &Client, resource: &str) -> Result<()> {
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": chart::user(chart::CONTROLLER),
        "resourceAttributes": {"group": "apps", "resource": resource, "verb": "list"},
    }}))?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    wait_until(secs(10), &format!("the controller may not list {resource}"), || async {
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        Ok(Seen::when(status.is_some_and(|status| !status.allowed), || "it may".to_owned()))
    })
    .await
}

/// Waits until `/readyz` has this status and this line.
pub(super) async fn wait_readyz(program: &Program, status: u16, line: &str) -> Result<()> {
    let port = program.port();
    wait_until(secs(45), &format!("/readyz is {status} with the line {line}"), || async move {
        let (seen, body) = http::get(port, "/readyz").await?;
        Ok(Seen::when(seen == status && body.contains(line), || format!("{seen}: {body}")))
    })
    .await
}
