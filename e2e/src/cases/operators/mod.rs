//! Rows E: operators of other projects create PodGroups and pods, and our programs place them.
//!
//! Each case applies the manifest of its page in docs/integrations, with the flags and the scheduler names that the page states. So the page says what was tested.

mod mpi;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::case::{CASE_TIME, Case, UnderFaults};
use crate::cluster::Cluster;
use crate::kit;
use crate::objects::{NAMESPACE, podgroups};
use crate::operator::path;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::phases;
use crate::world::Setup;

/// Returns the rows E. A case builds its operator where the cache has none, which takes minutes, so `make test` leaves them out. `make operators` runs them.
pub(super) fn rows() -> Vec<Case> {
    let serving = |scheduler| Setup { also_serves: Some(scheduler), jobs_run_on: true, ..Setup::default() };
    vec![
        case!(
            "E1",
            "mpi-operator: an MPIJob waits whole, runs whole, is suspended, scaled and ended",
            serving(mpi::SCHEDULER),
            mpi::mpi_job
        )
        .within(secs(1200))
        .only_in_soak(),
    ]
}

/// One page of docs/integrations.
struct Page {
    text: String,
}

impl Page {
    /// Reads the page with this name. It must say that the programs serve `scheduler`.
    fn read(name: &str, scheduler: &str) -> Result<Self> {
        let text = std::fs::read_to_string(kit::repository().join(format!("docs/integrations/{name}.md")))?;
        let served = format!("--set 'schedulerNames={{podgroup-scheduler,{scheduler}}}'");
        ensure!(text.contains(&served), "the page does not say {served}");
        Ok(Self { text })
    }

    /// Returns the first code after these words.
    fn code_after(&self, words: &str) -> Result<&str> {
        let code = self.text.split_once(words).and_then(|(_, rest)| rest.split('`').nth(1));
        code.with_context(|| format!("the page has no code after {words:?}"))
    }

    /// Returns the flags with which a user starts the operator.
    fn flags(&self) -> Result<Vec<String>> {
        Ok(self.code_after("Start the operator with ")?.split_whitespace().map(str::to_owned).collect())
    }

    /// Applies the manifest that the page names.
    async fn apply(&self, cluster: &Cluster) -> Result<()> {
        let manifest = kit::repository().join(self.code_after("Apply ")?);
        cluster.run("kubectl", &["apply", "--server-side", "--filename", path(&manifest)?]).await?;
        Ok(())
    }

    /// Returns the manifest that the page names, as the API server reads it.
    async fn manifest(&self, cluster: &Cluster) -> Result<Value> {
        as_read(cluster, path(&kit::repository().join(self.code_after("Apply ")?))?).await
    }
}

/// Returns metadata and spec of the object in a file.
async fn as_read(cluster: &Cluster, file: &str) -> Result<Value> {
    let text = cluster.run("kubectl", &["create", "--dry-run=client", "--output=json", "--filename", file]).await?;
    let object: Value = serde_json::from_str(&text)?;
    Ok(json!({"name": object.pointer("/metadata/name"), "spec": object.get("spec")}))
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
async fn wait_whole(client: &Client, labels: &str, count: usize) -> Result<()> {
    let waiting = || async {
        let phases = phases(&pods(client, labels).await?);
        Ok(Seen::when(phases.len() == 1 && phases.get("Pending, unbound") == Some(&count), || format!("{phases:?}")))
    };
    wait_until(secs(20), &format!("{count} pods with {labels} wait"), waiting).await?;
    holds_for(secs(2), "none of them gets a node", waiting).await
}

/// Waits until no pod has these labels, and no PodGroup exists.
async fn wait_nothing(client: &Client, labels: &str) -> Result<()> {
    wait_until(secs(30), &format!("no pod with {labels} and no PodGroup is left"), || async {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let pods: Vec<_> = api.list(&ListParams::default().labels(labels)).await?.items.iter().map(ResourceExt::name_any).collect();
        let groups = podgroups(client).list(&ListParams::default()).await?;
        let groups: Vec<_> = groups.items.iter().map(ResourceExt::name_any).collect();
        Ok(Seen::when(pods.is_empty() && groups.is_empty(), || format!("pods {pods:?}, PodGroups {groups:?}")))
    })
    .await
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
