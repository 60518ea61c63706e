//! Row E1: mpi-operator of Kubeflow.

use std::net::TcpListener;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::{
    Page, as_read, change, delete, end_pod, is_their_example, kind_of, only_pod, uid, wait_condition, wait_minimum, wait_nothing,
    wait_replaced, wait_running, wait_whole,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::{NAMESPACE, make_node};
use crate::operator::{Names, Operator};
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;

const NAMES: Names = Names { operator: "mpi-operator", namespace: "mpi-operator", account: "mpi-operator" };

/// The operator serves its health here; no flag changes it.
const PORT: u16 = 8080;

/// The scheduler name that the operator writes into all pods.
pub(super) const SCHEDULER: &str = "volcano";

const PODS: &str = "training.kubeflow.org/job-name=pi";
const LAUNCHER: &str = "training.kubeflow.org/job-name=pi,training.kubeflow.org/job-role=launcher";

/// E1. A gang of a launcher and two workers waits with room for two, and runs with room for all. It is suspended, resumed and scaled, loses
/// a worker, and ends. A second one is deleted while it runs. Nothing is left of either.
pub(super) async fn mpi_job(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    wait_until(secs(120), "no other process listens on the port of mpi-operator", || async {
        let free = TcpListener::bind(("0.0.0.0", PORT));
        Ok(Seen::when(free.is_ok(), || format!("port {PORT}: {:?}", free.err())))
    })
    .await?;
    let page = Page::read("mpi-operator")?;
    page.serves(SCHEDULER)?;
    let operator = Operator::start(w.cluster(), NAMES, page.flags()?).await?;
    let jobs = kind_of(&client, "kubeflow.org", "v2beta1", "MPIJob");
    let manifest = as_read(w.cluster(), &page.file_after("Apply ")?, "MPIJob").await?;
    is_their_example(w.cluster(), manifest, &operator, "MPIJob").await?;

    page.apply(w.cluster()).await?;
    wait_whole(&client, PODS, 3).await?;
    wait_minimum(&client, "pi", 3).await?;
    group_says(&client, "pi", "2 of 3 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 3).await?;
    wait_condition(&jobs, "pi", "Running").await?;
    queue_uses(&client, "default", "cpu", "3").await?;

    let lost = uid(&client, "pi-worker-0").await?;
    end_pod(&client, "pi-worker-0", "Failed").await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    api.delete("pi-worker-0", &DeleteParams::default()).await?;
    wait_replaced(&client, "pi-worker-0", lost.as_deref()).await?;
    wait_running(&client, PODS, 3).await?;

    change(&jobs, "pi", json!({"spec": {"runPolicy": {"suspend": true}}})).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    change(&jobs, "pi", json!({"spec": {"runPolicy": {"suspend": false}}})).await?;
    wait_running(&client, PODS, 3).await?;

    for workers in [3, 1] {
        change(&jobs, "pi", json!({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}}})).await?;
        wait_running(&client, PODS, workers + 1).await?;
        wait_minimum(&client, "pi", workers + 1).await?;
    }

    end_pod(&client, &only_pod(&client, LAUNCHER).await?.name_any(), "Succeeded").await?;
    wait_condition(&jobs, "pi", "Succeeded").await?;
    delete(&jobs, "pi").await?;
    wait_nothing(&client, PODS).await?;

    page.apply(w.cluster()).await?;
    wait_running(&client, PODS, 3).await?;
    delete(&jobs, "pi").await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}
