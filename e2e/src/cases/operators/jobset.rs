//! Rows E2 and E2-whole: JobSet, which creates no PodGroup.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{
    Page, apply, as_read, change, delete, end_pod, group_names, is_their_example, kind_of, pods, variant, wait_condition, wait_minimum,
    wait_nothing, wait_owners, wait_running, wait_whole, with_spec,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::cluster::Cluster;
use crate::objects::{has_node, make_node, podgroups};
use crate::operator::{Names, Operator, Told, Webhooks};
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::MIN_MEMBER;
use crate::workloads::events::wait_warning;
use crate::world::World;

const NAMES: Names = Names { operator: "jobset", namespace: "jobset-system", account: "jobset-controller-manager" };

const WEBHOOKS: Webhooks = Webhooks { secret: "jobset-webhook-server-cert", told: Told::Configuration("config.jobset.x-k8s.io/v1alpha1") };

const SET: &str = "paralleljobs";
/// The PodGroups of its first attempt and of the one after a restart.
const FIRST: &str = "jobset-paralleljobs-0";
const SECOND: &str = "jobset-paralleljobs-1";
const PODS: &str = "jobset.sigs.k8s.io/jobset-name=paralleljobs";

/// The metadata of the pod templates of the two roles.
const WORKERS: &str = "/spec/replicatedJobs/0/template/spec/template/metadata";
const DRIVER: &str = "/spec/replicatedJobs/1/template/spec/template/metadata";

/// E2. First without the opt-in: our controller makes a PodGroup for each Job, and with room for four of five one role runs without the
/// other. Then with it: the JobSet waits with room for four and runs with room for all. It is suspended and resumed, ends, restarts as a
/// whole after a failed worker, and leaves nothing. Last with a PodGroup of the user.
pub(super) async fn job_set(w: &mut World) -> Result<()> {
    let client = w.client();
    let Started { operator, sets, file } = begin(w).await?;

    let gang = json!({"annotations": {MIN_MEMBER: "4"}});
    let alone = variant(w.cluster(), &file, "JobSet", &[(WORKERS, gang), (DRIVER, json!({}))]).await?;
    apply(w.cluster(), &alone).await?;
    let owners = wait_owners(&client, "Job", 2).await?;
    ensure!(owners == ["paralleljobs-driver-0", "paralleljobs-workers-0"], "the owners of the PodGroups are {owners:?}");
    wait_warning(&client, "Job", "paralleljobs-workers-0", "GangOfOnePart", "JobSet paralleljobs creates 2").await?;
    one_role_runs(&client).await?;
    delete(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;

    waits_and_runs_whole(w, &file).await?;

    change(&sets, SET, json!({"spec": {"suspend": true}})).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    change(&sets, SET, json!({"spec": {"suspend": false}})).await?;
    wait_running(&client, PODS, 5).await?;
    wait_groups(&client, &[FIRST]).await?;
    wait_minimum(&client, FIRST, 5).await?;

    ends_and_leaves_nothing(&client, &sets).await?;

    // One that may restart is the example with a failure policy. The driver has succeeded by then, and does not count for the next attempt.
    let restarting = with_spec(w.cluster(), &file, "JobSet", &[("failurePolicy", json!({"maxRestarts": 1}))]).await?;
    apply(w.cluster(), &restarting).await?;
    wait_running(&client, PODS, 5).await?;
    let before = uids(&client).await?;
    end_one(&client, "driver", "Succeeded").await?;
    end_one(&client, "workers", "Failed").await?;
    wait_until(secs(30), "all pods of the JobSet are replaced", || async {
        let now = uids(&client).await?;
        Ok(Seen::when(now.len() == 5 && now.iter().all(|uid| !before.contains(uid)), || format!("{now:?}, before {before:?}")))
    })
    .await?;
    wait_running(&client, PODS, 5).await?;
    wait_groups(&client, &[SECOND]).await?;
    wait_minimum(&client, SECOND, 5).await?;
    delete(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;

    let named = || json!({"annotations": {"scheduling.k8s.io/group-name": SET}});
    apply(w.cluster(), &Page::read("jobset")?.file_after("as its `minMember`, as in ")?).await?;
    apply(w.cluster(), &variant(w.cluster(), &file, "JobSet", &[(WORKERS, named()), (DRIVER, named())]).await?).await?;
    wait_running(&client, PODS, 5).await?;
    wait_groups(&client, &[SET]).await?;
    delete(&sets, SET).await?;
    podgroups(&client).delete(SET, &DeleteParams::default()).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// E2-whole. The middle of E2 alone: the JobSet of the page waits with room for four of five, runs with room for all, ends, and leaves nothing.
pub(super) async fn whole(w: &mut World) -> Result<()> {
    let client = w.client();
    let Started { operator, sets, file } = begin(w).await?;
    waits_and_runs_whole(w, &file).await?;
    ends_and_leaves_nothing(&client, &sets).await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// JobSet, after its start.
struct Started {
    operator: Operator,
    /// The JobSets.
    sets: Api<DynamicObject>,
    /// The file of the manifest of the page.
    file: String,
}

/// Makes a node with room for four pods, starts JobSet, and compares the manifest of the page with the example of the project.
async fn begin(w: &World) -> Result<Started> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    let file = Page::read("jobset")?.file_after("Apply ")?;
    let operator = start(w.cluster()).await?;
    let sets = kind_of(&client, "jobset.x-k8s.io", "v1alpha2", "JobSet");
    let manifest = as_read(w.cluster(), &file, "JobSet").await?;
    is_their_example(w.cluster(), manifest, &operator, "JobSet").await?;
    Ok(Started { operator, sets, file })
}

/// Applies the manifest of the page with room for four of its five pods: they wait in one PodGroup of the JobSet. Then a second node has
/// room for all.
async fn waits_and_runs_whole(w: &World, file: &str) -> Result<()> {
    let client = w.client();
    apply(w.cluster(), file).await?;
    wait_whole(&client, PODS, 5).await?;
    group_says(&client, FIRST, "4 of 5 members find a place").await?;
    wait_groups(&client, &[FIRST]).await?;
    let owners = wait_owners(&client, "JobSet", 1).await?;
    ensure!(owners == [SET], "the owner of the PodGroup is {owners:?}");
    wait_minimum(&client, FIRST, 5).await?;
    make_node(&client, "n2", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 5).await?;
    queue_uses(&client, "default", "cpu", "5").await
}

/// Ends all pods of the JobSet well, and deletes the JobSet.
async fn ends_and_leaves_nothing(client: &Client, sets: &Api<DynamicObject>) -> Result<()> {
    for pod in pods(client, PODS).await? {
        end_pod(client, &pod.name_any(), "Succeeded").await?;
    }
    wait_condition(sets, SET, "Completed").await?;
    wait_groups(client, &[]).await?;
    queue_uses(client, "default", "cpu", "0").await?;
    delete(sets, SET).await?;
    wait_nothing(client, PODS).await
}

/// Starts JobSet.
pub(super) async fn start(cluster: &Cluster) -> Result<Operator> {
    Operator::serving(cluster, NAMES, WEBHOOKS, vec!["--leader-elect=false".to_owned()], "").await
}

/// Waits until all pods of one role have nodes, and none of the other. Which one depends on the Job that was created first.
async fn one_role_runs(client: &Client) -> Result<()> {
    wait_until(secs(20), "the pods of one role have nodes, those of the other wait", || async {
        let mut bound: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for pod in pods(client, PODS).await? {
            let role = pod.labels().get("jobset.sigs.k8s.io/replicatedjob-name").cloned().unwrap_or_default();
            let counts = bound.entry(role).or_default();
            counts.0 += usize::from(has_node(&pod));
            counts.1 += 1;
        }
        let counts: Vec<_> = bound.values().copied().collect();
        Ok(Seen::when(counts == [(1, 1), (0, 4)] || counts == [(0, 1), (4, 4)], || format!("with a node, of all: {bound:?}")))
    })
    .await
}

/// Waits until exactly these PodGroups exist.
async fn wait_groups(client: &Client, expected: &[&str]) -> Result<()> {
    wait_until(secs(20), &format!("the PodGroups are {expected:?}"), || async {
        let names = group_names(client).await?;
        Ok(Seen::when(names == expected, || format!("{names:?}")))
    })
    .await
}

/// Ends one pod of a role.
async fn end_one(client: &Client, role: &str, phase: &str) -> Result<()> {
    let found = pods(client, &format!("batch.kubernetes.io/job-name={SET}-{role}-0")).await?;
    let pod = found.first().map(ResourceExt::name_any).with_context(|| format!("no pod of {role}"))?;
    end_pod(client, &pod, phase).await
}

/// Returns the uids of the pods of the JobSet.
async fn uids(client: &Client) -> Result<Vec<String>> {
    Ok(pods(client, PODS).await?.iter().filter_map(ResourceExt::uid).collect())
}
