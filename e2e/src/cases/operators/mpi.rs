//! Row E1: mpi-operator of Kubeflow.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{Page, as_read, end_pod, only_pod, pods, wait_nothing, wait_running, wait_whole};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::{NAMESPACE, condition, field, make_node, podgroups};
use crate::operator::{Names, Operator, path};
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;

const NAMES: Names = Names { operator: "mpi-operator", namespace: "mpi-operator", account: "mpi-operator" };

/// The operator serves its health here; no flag changes it.
const PORT: u16 = 8080;

/// The scheduler name that the operator writes into all pods.
pub(super) const SCHEDULER: &str = "volcano";

const PODS: &str = "training.kubeflow.org/job-name=pi";
const LAUNCHER: &str = "training.kubeflow.org/job-name=pi,training.kubeflow.org/job-role=launcher";

/// E1. A gang of a launcher and two workers waits with room for two, and runs with room for all. It is suspended, resumed and scaled, loses a worker, and ends.
/// A second one is deleted while it runs. Nothing is left of either.
pub(super) async fn mpi_job(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    wait_until(secs(120), "no other process listens on the port of mpi-operator", || async {
        let free = TcpListener::bind(("0.0.0.0", PORT));
        Ok(Seen::when(free.is_ok(), || format!("port {PORT}: {:?}", free.err())))
    })
    .await?;
    let page = Page::read("mpi-operator", SCHEDULER)?;
    let operator = Operator::start(w.cluster(), NAMES, page.flags()?).await?;
    is_their_example(w, &page, &operator).await?;

    page.apply(w.cluster()).await?;
    wait_whole(&client, PODS, 3).await?;
    wait_minimum(&client, 3).await?;
    group_says(&client, "pi", "2 of 3 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 3).await?;
    wait_condition(&client, "Running").await?;
    queue_uses(&client, "default", "cpu", "3").await?;

    let lost = pods(&client, PODS).await?.into_iter().find(|pod| pod.name_any() == "pi-worker-0").unwrap_or_default();
    end_pod(&client, "pi-worker-0", "Failed").await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    api.delete("pi-worker-0", &DeleteParams::default()).await?;
    wait_until(secs(20), "the failed worker is replaced", || async {
        let uid = api.get_opt("pi-worker-0").await?.and_then(|pod| pod.uid());
        Ok(Seen::when(uid.is_some() && uid != lost.uid(), || format!("{uid:?}")))
    })
    .await?;
    wait_running(&client, PODS, 3).await?;

    change(&client, json!({"spec": {"runPolicy": {"suspend": true}}})).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    change(&client, json!({"spec": {"runPolicy": {"suspend": false}}})).await?;
    wait_running(&client, PODS, 3).await?;

    for workers in [3, 1] {
        change(&client, json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}}})).await?;
        wait_running(&client, PODS, workers + 1).await?;
        wait_minimum(&client, workers + 1).await?;
    }

    end_pod(&client, &only_pod(&client, LAUNCHER).await?.name_any(), "Succeeded").await?;
    wait_condition(&client, "Succeeded").await?;
    delete(&client).await?;

    page.apply(w.cluster()).await?;
    wait_running(&client, PODS, 3).await?;
    delete(&client).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// The manifest of the page is the example of the project, and also names a queue.
async fn is_their_example(w: &World, page: &Page, operator: &Operator) -> Result<()> {
    let mut ours = page.manifest(w.cluster()).await?;
    if let Some(Value::Object(policy)) = ours.pointer_mut("/spec/runPolicy") {
        ensure!(policy.remove("schedulingPolicy") == Some(json!({"queue": "default"})), "the manifest of the page names no queue");
    }
    let theirs = as_read(w.cluster(), path(&operator.example())?).await?;
    ensure!(ours == theirs, "the manifest of the page is {ours}, the example {theirs}");
    Ok(())
}

/// Deletes the MPIJob, and waits until nothing of it is left.
async fn delete(client: &Client) -> Result<()> {
    mpi_jobs(client).delete("pi", &DeleteParams::foreground()).await?;
    wait_until(secs(30), "the MPIJob is gone", || async {
        Ok(Seen::when(mpi_jobs(client).get_opt("pi").await?.is_none(), || "it exists".to_owned()))
    })
    .await?;
    wait_nothing(client, PODS).await
}

async fn change(client: &Client, patch: Value) -> Result<()> {
    mpi_jobs(client).patch("pi", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn wait_minimum(client: &Client, members: usize) -> Result<()> {
    wait_until(secs(10), &format!("minMember of the PodGroup is {members}"), || async {
        let seen = podgroups(client).get("pi").await.map(|group| field(&group, "/spec/minMember"))?;
        Ok(Seen::when(seen == json!(members), || seen.to_string()))
    })
    .await
}

async fn wait_condition(client: &Client, kind: &str) -> Result<()> {
    wait_until(secs(20), &format!("the MPIJob is {kind}"), || async {
        let job = mpi_jobs(client).get("pi").await?;
        let holds = condition(&job, kind).is_some_and(|(status, _, _)| status == "True");
        Ok(Seen::when(holds, || field(&job, "/status/conditions").to_string()))
    })
    .await
}

fn mpi_jobs(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kubeflow.org", "v2beta1", "MPIJob"), "mpijobs");
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}
