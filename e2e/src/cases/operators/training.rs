//! Row E3: training-operator of Kubeflow, with a PyTorchJob.

use anyhow::Result;
use serde_json::json;

use super::{
    Page, as_read, change, delete, end_pod, is_their_example, kind_of, uid, wait_condition, wait_minimum, wait_nothing, wait_replaced,
    wait_running, wait_whole,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::make_node;
use crate::operator::{Names, Operator, Told, Webhooks};
use crate::world::World;

const NAMES: Names = Names { operator: "training-operator", namespace: "kubeflow", account: "training-operator" };

const WEBHOOKS: Webhooks = Webhooks { secret: "training-operator-webhook-cert", told: Told::Flag("--webhook-server-port") };

/// The scheduler name that the operator writes into pods whose template names none.
pub(super) const SCHEDULER: &str = "volcano";

const JOB: &str = "pytorch-simple";
const PODS: &str = "training.kubeflow.org/job-name=pytorch-simple";
const MASTER: &str = "pytorch-simple-master-0";
const WORKER: &str = "pytorch-simple-worker-0";

/// E3. A gang of a master and a worker waits with room for one, and runs with room for both. A worker fails and is replaced by the
/// operator. The job is suspended, resumed and scaled, and ends. A second one is deleted while it runs. Nothing is left of either.
pub(super) async fn pytorch_job(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "1"), ("memory", "64Gi")]).await?;
    let page = Page::read("training-operator")?;
    page.serves(SCHEDULER)?;
    let operator = Operator::serving(w.cluster(), NAMES, WEBHOOKS, page.flags()?, "").await?;
    let jobs = kind_of(&client, "kubeflow.org", "v1", "PyTorchJob");
    let manifest = as_read(w.cluster(), &page.file_after("Apply ")?, "PyTorchJob").await?;
    is_their_example(w.cluster(), manifest, &operator, "PyTorchJob").await?;

    page.apply(w.cluster()).await?;
    wait_whole(&client, PODS, 2).await?;
    wait_minimum(&client, JOB, 2).await?;
    group_says(&client, JOB, "1 of 2 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 2).await?;
    wait_condition(&jobs, JOB, "Running").await?;
    queue_uses(&client, "default", "cpu", "2").await?;

    let lost = uid(&client, WORKER).await?;
    end_pod(&client, WORKER, "Failed").await?;
    wait_replaced(&client, WORKER, lost.as_deref()).await?;
    wait_running(&client, PODS, 2).await?;

    change(&jobs, JOB, json!({"spec": {"runPolicy": {"suspend": true}}})).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    change(&jobs, JOB, json!({"spec": {"runPolicy": {"suspend": false}}})).await?;
    wait_running(&client, PODS, 2).await?;

    for workers in [3, 1] {
        change(&jobs, JOB, json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers}}}})).await?;
        wait_running(&client, PODS, workers + 1).await?;
        wait_minimum(&client, JOB, workers + 1).await?;
    }

    end_pod(&client, MASTER, "Succeeded").await?;
    wait_condition(&jobs, JOB, "Succeeded").await?;
    // By its default, the operator deletes the PodGroup now, and leaves the worker.
    wait_running(&client, PODS, 1).await?;
    end_pod(&client, WORKER, "Succeeded").await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    delete(&jobs, JOB).await?;
    wait_nothing(&client, PODS).await?;

    page.apply(w.cluster()).await?;
    wait_running(&client, PODS, 2).await?;
    delete(&jobs, JOB).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}
