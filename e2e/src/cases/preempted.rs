//! What do cases of preemption create and check? Gangs with priorities, victims that say why, and pods that stay.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::reclaim::disruption_message;
use super::seen::bound;
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, make_pod, make_podgroup};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::pods_of;
use crate::world::World;

/// Creates a gang of `members` pods with this priority class in this queue; all members are needed.
pub(super) async fn gang(client: &Client, name: &str, queue: &str, class: &str, members: usize, cpu: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": members, "queue": queue})).await?;
    for number in 0..members {
        ranked(client, &format!("{name}-{number}"), name, class, cpu).await?;
    }
    Ok(())
}

/// Creates a member of this PodGroup with this priority class.
pub(super) async fn ranked(client: &Client, name: &str, group: &str, class: &str, cpu: &str) -> Result<()> {
    let containers = [container(&[("cpu", cpu)])];
    make_pod(
        client,
        json!({
            "metadata": {"name": name, "labels": {"app": group}, "annotations": {"scheduling.k8s.io/group-name": group}},
            "spec": {"schedulerName": SCHEDULER_NAME, "priorityClassName": class, "terminationGracePeriodSeconds": 0, "containers": containers},
        }),
    )
    .await
}

/// Returns the names of the pods that exist and do not terminate.
async fn names(client: &Client, group: &str) -> Result<BTreeSet<String>> {
    Ok(pods_of(client, group).await?.iter().map(ResourceExt::name_any).collect())
}

/// The conditions of a victim can be read while it exists: from now on the case deletes these pods, not kwok.
pub(super) async fn add_finalizers(client: &Client, group: &str) -> Result<()> {
    let held = json!({"metadata": {"annotations": {"kwok.x-k8s.io/status": "custom"}, "finalizers": ["example.com/looked-at"]}});
    patch_all(client, group, held).await
}

pub(super) async fn release(client: &Client, group: &str) -> Result<()> {
    patch_all(client, group, json!({"metadata": {"finalizers": null}})).await
}

/// Lets one of these pods go.
pub(super) async fn release_one(client: &Client, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.patch(name, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    Ok(())
}

async fn patch_all(client: &Client, group: &str, patch: serde_json::Value) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default().labels(&format!("app={group}"))).await? {
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    Ok(())
}

/// Waits until the whole gang terminates and each pod names the reason.
pub(super) async fn wait_evicted(w: &World, group: &str, members: usize, why: &str, must_say: bool) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(w.client(), NAMESPACE);
    wait_until(secs(15), &format!("all pods of {group} terminate with a DisruptionTarget condition"), || async {
        let all = pods.list(&ListParams::default().labels(&format!("app={group}"))).await?.items;
        let leaving: Vec<&Pod> = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).collect();
        let said: Vec<String> = leaving.iter().filter_map(|pod| disruption_message(pod)).collect();
        let all_say = said.iter().filter(|message| message.contains(why)).count() == leaving.len();
        Ok(Seen::when(leaving.len() == members && (all_say || !must_say), || format!("{} are, {said:?}", leaving.len())))
    })
    .await
}

/// Checks that each PodGroup keeps `members` bound pods for a while.
pub(super) async fn no_other_pod_is_evicted(client: &Client, groups: &[(&str, usize)]) -> Result<()> {
    holds_for(secs(2), "no other pod is evicted", || async {
        let mut wrong = Vec::new();
        for (group, members) in groups {
            let there = bound(client, group).await?;
            if there != *members {
                wrong.push(format!("{there} of {members} of {group}: {:?}", names(client, group).await?));
            }
        }
        Ok(Seen::when(wrong.is_empty(), || wrong.join(", ")))
    })
    .await
}
