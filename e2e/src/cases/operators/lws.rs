//! Rows E4: LeaderWorkerSet 0.7.0, which creates a PodGroup for each group of a leader and its workers.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{
    Page, apply, as_read, change, delete, is_their_example, kind_of, pods, uid, wait_group_count, wait_minimum, wait_nothing,
    wait_replaced, wait_running, wait_whole, with_spec,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::{NAMESPACE, field, has_node, make_node, podgroups};
use crate::operator::{Names, Operator, Told, Webhooks};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::world::World;

const NAMES: Names = Names { operator: "lws-0.7.0", namespace: "lws-system", account: "lws-controller-manager" };

pub(super) const WEBHOOKS: Webhooks =
    Webhooks { secret: "lws-webhook-server-cert", told: Told::Configuration("config.lws.x-k8s.io/v1alpha1") };

pub(super) const FLAG: &str = "--leader-elect=false";

/// The LeaderWorkerSet of the page, and its pods.
const SET: &str = "lws-sample-volcano";
const PODS: &str = "leaderworkerset.sigs.k8s.io/name=lws-sample-volcano";

/// E4. Two groups of four wait with room for three. With room for seven one of them runs, with room for all both. A container restarts, and
/// its group starts anew. The set is scaled and deleted. Only the PodGroups of the operator exist meanwhile.
pub(super) async fn groups(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "3"), ("memory", "64Gi")]).await?;
    let Started { page, operator, sets } = begin(w).await?;
    let manifest = as_read(w.cluster(), &page.file_after("Apply ")?, "LeaderWorkerSet").await?;
    is_their_example(w.cluster(), manifest, &operator, "LeaderWorkerSet").await?;

    page.apply(w.cluster()).await?;
    wait_whole(&client, PODS, 8).await?;
    let made = wait_group_count(&client, 2).await?;
    for group in &made {
        ensure!(group.starts_with(SET), "PodGroups {made:?}: {group} is not one of the operator");
        group_says(&client, group, "3 of 4 members find a place").await?;
        let queue = field(&podgroups(&client).get(group).await?, "/spec/queue");
        ensure!(queue == "default", "the queue of {group} is {queue}");
    }
    make_node(&client, "n2", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    one_runs(&client, PODS).await?;
    make_node(&client, "n3", &[("cpu", "8"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 8).await?;
    queue_uses(&client, "default", "cpu", "8").await?;

    let (leader, other) = (format!("{SET}-0"), format!("{SET}-1"));
    let (lost, kept) = (uid(&client, &leader).await?, uid(&client, &other).await?);
    restart_container(&client, &format!("{SET}-0-2")).await?;
    wait_replaced(&client, &leader, lost.as_deref()).await?;
    wait_running(&client, PODS, 8).await?;
    ensure!(uid(&client, &other).await? == kept, "the other group was started anew as well");
    ensure!(wait_group_count(&client, 2).await? == made, "other PodGroups than {made:?}");

    for groups in [3, 1] {
        change(&sets, SET, json!({"spec": {"replicas": groups}})).await?;
        wait_running(&client, PODS, groups * 4).await?;
        let made = wait_group_count(&client, groups).await?;
        ensure!(made.iter().all(|group| group.starts_with(SET)), "PodGroups {made:?} are not all the operator's");
    }
    delete(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// E4-leader-ready. The operator creates the workers of a group when its leader is ready, and asks for one member and for the resources of all. With
/// `--admit-by=nodes` the leader waits where there is room for three of four, and says why. With room for four all run.
pub(super) async fn leader_ready(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "3"), ("memory", "64Gi")]).await?;
    let scheduler = w.scheduler()?;
    scheduler.also("--admit-by=nodes");
    scheduler.terminate().await?;
    scheduler.restart().await?;
    let Started { page, operator, sets } = begin(w).await?;
    let (field, value) = page.code_after("Limit: with ")?.split_once(": ").context("the page names no field with its value")?;
    let file = page.file_after("Apply ")?;
    let file = with_spec(w.cluster(), &file, "LeaderWorkerSet", &[(field, json!(value)), ("replicas", json!(1))]).await?;

    apply(w.cluster(), &file).await?;
    wait_whole(&client, PODS, 1).await?;
    let groups = wait_group_count(&client, 1).await?;
    let group = groups.first().context("no PodGroup")?;
    wait_minimum(&client, group, 1).await?;
    group_says(&client, group, "the cluster is full: cpu requested 4, used 0, available to queues in the cluster 3").await?;
    make_node(&client, "n2", &[("cpu", "1"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 4).await?;
    delete(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// LeaderWorkerSet, after its start.
struct Started {
    page: Page,
    operator: Operator,
    /// The LeaderWorkerSets.
    sets: Api<DynamicObject>,
}

/// Starts LeaderWorkerSet as the page says, with the rights of the page.
async fn begin(w: &World) -> Result<Started> {
    let page = Page::read("leaderworkerset")?;
    let operator = Operator::serving(w.cluster(), NAMES, WEBHOOKS, vec![FLAG.to_owned()], page.code_after("Configure ")?).await?;
    apply(w.cluster(), &page.file_after("Grant the rights on PodGroups with ")?).await?;
    let sets = kind_of(&w.client(), "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet");
    Ok(Started { page, operator, sets })
}

/// Waits until one of two groups runs, then fails if a pod of the other gets a node within two seconds.
async fn one_runs(client: &Client, labels: &str) -> Result<()> {
    let state = || async {
        let mut running: BTreeMap<String, usize> = BTreeMap::new();
        for pod in pods(client, labels).await? {
            let bound = has_node(&pod);
            *running.entry(pod.labels().get("leaderworkerset.sigs.k8s.io/group-index").cloned().unwrap_or_default()).or_default() +=
                usize::from(bound);
        }
        let mut counts: Vec<_> = running.values().copied().collect();
        counts.sort_unstable();
        Ok(Seen::when(counts == [0, 4], || format!("pods with a node, by group: {running:?}")))
    };
    wait_until(secs(20), "one group of four has nodes, the other none", state).await?;
    holds_for(secs(2), "the other group waits whole", state).await
}

/// Writes that a container of a pod has restarted, as its kubelet does.
pub(super) async fn restart_container(client: &Client, name: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut statuses = api.get(name).await?.status.and_then(|status| status.container_statuses).context("no container status")?;
    for status in &mut statuses {
        status.restart_count += 1;
    }
    let status = json!({"status": {"containerStatuses": statuses}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
