//! Rows E: operators of other projects create PodGroups and pods, and our programs place them.
//!
//! Each case applies the manifest of its page in docs/integrations, with the flags and the scheduler names that the page states. So the
//! page says what was tested.

mod jobset;
mod lws;
mod lws_whole;
mod mpi;
mod page;
mod trainer;
mod training;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::objects::{NAMESPACE, condition, field, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::phases;
use crate::world::Setup;
use page::{Page, apply, as_read, is_their_example, variant, with_spec};

/// Returns the rows E. They run in `make operators` and in the soak, and each builds its operator where the cache has none, which takes minutes.
///
/// E2-whole alone runs in `make test`, which builds JobSet beside the compilers, before the first case.
pub(super) fn rows() -> Vec<Case> {
    let serving = |scheduler| Setup { also_serves: Some(scheduler), jobs_run_on: true, ..Setup::default() };
    let ours = || Setup { jobs_run_on: true, ..Setup::default() };
    vec![
        case!(
            "E1",
            "mpi-operator: an MPIJob waits whole, runs whole, is suspended, scaled and ended",
            serving(mpi::SCHEDULER),
            mpi::mpi_job
        )
        .within(secs(1200))
        .only_in_soak(),
        case!(
            "E2",
            "JobSet: with one PodGroup it waits whole, runs whole, is suspended, ends, restarts and leaves nothing; without it our controller makes one for each Job",
            ours(),
            jobset::job_set
        )
        .within(secs(1800))
        .only_in_soak(),
        case!("E2-whole", "JobSet: with one PodGroup it waits whole, runs whole, ends and leaves nothing", ours(), jobset::whole),
        case!(
            "E3",
            "training-operator: a PyTorchJob waits whole, runs whole, restarts a worker, is suspended, scaled and ended",
            serving(training::SCHEDULER),
            training::pytorch_job
        )
        .within(secs(1200))
        .only_in_soak(),
        case!(
            "E4",
            "LeaderWorkerSet 0.7.0: each group waits whole and runs whole, starts anew after a restart, the set is scaled and deleted",
            ours(),
            lws::groups
        )
        .within(secs(1200))
        .only_in_soak(),
        case!(
            "E4-leader-ready",
            "LeaderWorkerSet 0.7.0: workers that are created after their leader, with --admit-by=nodes",
            ours(),
            lws::leader_ready
        )
        .within(secs(1200))
        .only_in_soak(),
        case!(
            "E5",
            "Trainer: a TrainJob waits whole, runs whole, replaces a pod, is suspended and ended, through JobSet and the PodGroup of its Job",
            ours(),
            trainer::train_job
        )
        .within(secs(1800))
        .only_in_soak(),
        case!(
            "E6",
            "LeaderWorkerSet 0.6.0: with the opt-in each group waits whole, runs whole and restarts whole; the set is scaled and deleted",
            ours(),
            lws_whole::set
        )
        .within(secs(1200))
        .only_in_soak(),
    ]
}

/// Returns the pods with these labels that do not terminate.
async fn pods(client: &Client, labels: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = api.list(&ListParams::default().labels(labels)).await?;
    Ok(list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}

/// Waits until exactly `count` pods have these labels, and all of them run. Ended pods do not count.
async fn wait_running(client: &Client, labels: &str, count: usize) -> Result<()> {
    wait_until(secs(30), &format!("{count} pods with {labels} run"), || async {
        let mut phases = phases(&pods(client, labels).await?);
        phases.retain(|phase, _| !matches!(phase.as_str(), "Succeeded" | "Failed"));
        let running = phases.len() == 1 && phases.get("Running") == Some(&count);
        Ok(Seen::when(running, || format!("{phases:?}")))
    })
    .await
}

/// Waits until `count` pods with these labels exist. Then fails if one of them gets a node within two seconds.
pub(super) async fn wait_whole(client: &Client, labels: &str, count: usize) -> Result<()> {
    let waiting = || async {
        let phases = phases(&pods(client, labels).await?);
        Ok(Seen::when(phases.len() == 1 && phases.get("Pending, unbound") == Some(&count), || format!("{phases:?}")))
    };
    wait_until(secs(20), &format!("{count} pods with {labels} wait"), waiting).await?;
    holds_for(secs(2), "none of them gets a node", waiting).await
}

/// Waits until no pod has these labels. The garbage collector looks for kinds that are new to it every 30 s.
async fn wait_no_pods(client: &Client, labels: &str) -> Result<()> {
    wait_until(secs(60), &format!("no pod with {labels} is left"), || async {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let pods: Vec<_> = api.list(&ListParams::default().labels(labels)).await?.items.iter().map(ResourceExt::name_any).collect();
        Ok(Seen::when(pods.is_empty(), || format!("{pods:?}")))
    })
    .await
}

/// Waits until no pod has these labels, and no PodGroup exists.
async fn wait_nothing(client: &Client, labels: &str) -> Result<()> {
    wait_no_pods(client, labels).await?;
    wait_group_count(client, 0).await?;
    Ok(())
}

/// Writes the end of a pod's containers, as its kubelet does.
async fn end_pod(client: &Client, name: &str, phase: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let status = json!({"status": {"phase": phase}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// Returns the only pod with these labels that has not ended.
async fn only_pod(client: &Client, labels: &str) -> Result<Pod> {
    let mut found = pods(client, labels).await?;
    found.retain(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
    ensure!(found.len() == 1, "{} running pods have {labels}", found.len());
    found.pop().context("no pod")
}

/// Waits until a PodGroup has this minMember.
async fn wait_minimum(client: &Client, group: &str, members: usize) -> Result<()> {
    wait_until(secs(10), &format!("minMember of the PodGroup is {members}"), || async {
        let seen = podgroups(client).get(group).await.map(|group| field(&group, "/spec/minMember"))?;
        Ok(Seen::when(seen == json!(members), || seen.to_string()))
    })
    .await
}

/// Waits until an operator's object has this condition.
async fn wait_condition(api: &Api<DynamicObject>, name: &str, kind: &str) -> Result<()> {
    wait_until(secs(20), &format!("{name} is {kind}"), || async {
        let object = api.get(name).await?;
        let holds = condition(&object, kind).is_some_and(|(status, _, _)| status == "True");
        Ok(Seen::when(holds, || field(&object, "/status/conditions").to_string()))
    })
    .await
}

/// Waits until another pod has this name than the one with this uid.
async fn wait_replaced(client: &Client, name: &str, lost: Option<&str>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    wait_until(secs(20), &format!("pod {name} is replaced"), || async {
        let uid = api.get_opt(name).await?.and_then(|pod| pod.uid());
        Ok(Seen::when(uid.is_some() && uid.as_deref() != lost, || format!("{uid:?}")))
    })
    .await
}

/// Returns the uid of a pod.
async fn uid(client: &Client, name: &str) -> Result<Option<String>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    Ok(api.get(name).await?.uid())
}

/// Deletes an operator's object after what it owns, and waits until it is gone. The garbage collector looks for kinds that are new to it every 30 s.
async fn delete(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    delete_with(&DeleteParams::foreground(), api, name).await
}

/// Deletes an operator's object as `kubectl delete` does: before what it owns. With foreground deletion some operators create what it owns
/// again and again while it waits for its dependents: Trainer the JobSet, LeaderWorkerSet 0.6.0 the StatefulSet of the leaders.
async fn delete_owner_first(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    delete_with(&DeleteParams::background(), api, name).await
}

async fn delete_with(how: &DeleteParams, api: &Api<DynamicObject>, name: &str) -> Result<()> {
    api.delete(name, how).await?;
    wait_until(secs(60), &format!("{name} is gone"), || async {
        Ok(Seen::when(api.get_opt(name).await?.is_none(), || "it exists".to_owned()))
    })
    .await
}

/// Merges a patch into an operator's object.
async fn change(api: &Api<DynamicObject>, name: &str, patch: Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Returns an operator's kind. Its plural is the kind in small letters with an s.
fn kind_of(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &format!("{}s", kind.to_lowercase()));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Returns the names of all PodGroups, sorted.
async fn group_names(client: &Client) -> Result<Vec<String>> {
    let mut names: Vec<_> = podgroups(client).list(&ListParams::default()).await?.items.iter().map(ResourceExt::name_any).collect();
    names.sort_unstable();
    Ok(names)
}

/// Waits until there are so many PodGroups. Returns their names, sorted.
async fn wait_group_count(client: &Client, count: usize) -> Result<Vec<String>> {
    wait_until(secs(20), &format!("{count} PodGroups exist"), || async {
        let names = group_names(client).await?;
        Ok(if names.len() == count { Seen::Yes(names) } else { Seen::NotYet(format!("{names:?}")) })
    })
    .await
}

/// Waits until so many PodGroups exist, each with an owner of this kind. Returns the names of the owners, sorted.
async fn wait_owners(client: &Client, kind: &str, count: usize) -> Result<Vec<String>> {
    wait_until(secs(20), &format!("{count} PodGroups have an owner of the kind {kind}"), || async {
        let groups = podgroups(client).list(&ListParams::default()).await?;
        let owners: Vec<_> = groups.items.iter().flat_map(ResourceExt::owner_references).collect();
        let mut names: Vec<_> = owners.iter().map(|owner| owner.name.clone()).collect();
        names.sort_unstable();
        let right = names.len() == count && groups.items.len() == count && owners.iter().all(|owner| owner.kind == kind);
        Ok(if right { Seen::Yes(names) } else { Seen::NotYet(format!("{owners:?}")) })
    })
    .await
}
