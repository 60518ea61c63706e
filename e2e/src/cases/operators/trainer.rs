//! Row E5: Kubeflow Trainer, whose TrainJobs become JobSets.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Page, as_read, change, delete_owner_first, end_pod, group_names, is_their_example, jobset, kind_of, pods, wait_condition, wait_minimum,
    wait_nothing, wait_owners, wait_running, wait_whole,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::make_node;
use crate::operator::{Names, Operator, Told, Webhooks};
use crate::world::World;

const NAMES: Names = Names { operator: "trainer", namespace: "kubeflow-system", account: "kubeflow-trainer-controller-manager" };

const WEBHOOKS: Webhooks = Webhooks { secret: "kubeflow-trainer-webhook-cert", told: Told::Flag("--webhook-server-port") };

const JOB: &str = "train";
const PODS: &str = "jobset.sigs.k8s.io/jobset-name=train";

/// E5. A TrainJob of three nodes becomes a JobSet with one Job, whose PodGroup our controller makes. It waits with room for two and runs
/// with room for all. It is suspended and resumed, a failed pod is replaced, and it ends.
pub(super) async fn train_job(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "2"), ("memory", "64Gi")]).await?;
    let page = Page::read("trainer")?;
    let below = jobset::start(w.cluster()).await?;
    let operator = Operator::serving(w.cluster(), NAMES, WEBHOOKS, Vec::new(), "").await?;
    let jobs = kind_of(&client, "trainer.kubeflow.org", "v1alpha1", "TrainJob");
    let runtime = as_read(w.cluster(), &page.file_after("Apply ")?, "ClusterTrainingRuntime").await?;
    is_their_example(w.cluster(), runtime, &operator, "ClusterTrainingRuntime").await?;

    page.apply(w.cluster()).await?;
    wait_whole(&client, PODS, 3).await?;
    let owners = wait_owners(&client, "Job", 1).await?;
    ensure!(owners == ["train-node-0"], "the owner of the PodGroup is {owners:?}");
    let group = group_names(&client).await?.join(" ");
    wait_minimum(&client, &group, 3).await?;
    group_says(&client, &group, "2 of 3 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 3).await?;
    queue_uses(&client, "default", "cpu", "3").await?;

    change(&jobs, JOB, json!({"spec": {"suspend": true}})).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    change(&jobs, JOB, json!({"spec": {"suspend": false}})).await?;
    wait_running(&client, PODS, 3).await?;

    let lost = pods(&client, PODS).await?.first().map(ResourceExt::name_any).unwrap_or_default();
    end_pod(&client, &lost, "Failed").await?;
    wait_running(&client, PODS, 3).await?;

    for pod in pods(&client, PODS).await? {
        if pod.name_any() != lost {
            end_pod(&client, &pod.name_any(), "Succeeded").await?;
        }
    }
    wait_condition(&jobs, JOB, "Complete").await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    delete_owner_first(&jobs, JOB).await?;
    wait_nothing(&client, PODS).await?;

    page.apply(w.cluster()).await?;
    wait_running(&client, PODS, 3).await?;
    delete_owner_first(&jobs, JOB).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await?;
    below.end().await
}
