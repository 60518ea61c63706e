//! Row S1: a standby with an old view of pods takes over. It lists again before its first decision.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::old_views::{gang, silent, stays_unbound};
use crate::faults::HttpProxy;
use crate::objects::{NAMESPACE, make_member, make_node, make_podgroup, podgroups};
use crate::programs::Program;
use crate::proxy::Proxy;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig};

/// For how long a watch of the standby says nothing: shorter than the time after which it counts as dead.
const SILENT: std::time::Duration = secs(40);

/// A second scheduler behind proxies of its own, which does not lead.
struct Standby {
    program: Program,
    faults: HttpProxy,
    path: Proxy,
}

impl Standby {
    async fn start(w: &World) -> Result<Self> {
        let (server, _) = kubeconfig::door(w.cluster().kubeconfig())?;
        let path = Proxy::start(server, w.seed).await?;
        let faults = HttpProxy::start(w.cluster().kubeconfig(), path.port(), &w.cluster().scratch().path("logs"), "standby").await?;
        let config = chart::kubeconfig_as(w.cluster(), chart::SCHEDULER, "standby", faults.port(), faults.authority()).await?;
        let mut program = Program::start_as(w.cluster().scratch(), chart::SCHEDULER, "standby", &config, &[], &[])?;
        program.wait_ready().await?;
        Ok(Self { program, faults, path })
    }

    /// From now on its watch of this resource says nothing, and it does not know that.
    async fn silence(&self, resource: &'static str) -> Result<()> {
        self.faults.rule(silent(resource, SILENT));
        self.path.cut();
        wait_until(secs(10), &format!("the standby's watch of {resource} is silent"), || async {
            Ok(Seen::when(self.faults.counts().contains_key("watch-silent"), || "it is not open yet".to_owned()))
        })
        .await
    }

    /// Ends the leader. Returns when the standby may take over.
    async fn takes_over(&self, w: &mut World) -> Result<()> {
        // Its other watches may still open again after the cut.
        wait_until(secs(10), "the standby does not know that its view is old", || async {
            let (status, body) = http::get(self.program.port(), "/readyz").await?;
            Ok(Seen::when(status == 200, || format!("/readyz returned {status}: {body}")))
        })
        .await?;
        w.scheduler()?.terminate().await
    }

    /// Ends it and gives the world its scheduler back.
    async fn end(mut self, w: &mut World) -> Result<()> {
        let never = self.faults.never_injected();
        ensure!(never.is_empty(), "faults that were never injected: {never:?}");
        w.scheduler()?.restart().await?;
        self.program.terminate().await
    }
}

/// S1. The standby's watch of pods says nothing while the leader fills the only node, and then the leader ends. A gang whose pods the
/// standby knows already becomes complete: it is not bound before there is room.
pub(super) async fn in_pods(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    // One more member is wanted than there is.
    make_podgroup(&client, "second", json!({"minMember": 5, "queue": "default"})).await?;
    for number in 0..4 {
        make_member(&client, &format!("second-{number}"), "second", &[("cpu", "1")]).await?;
    }
    let standby = Standby::start(w).await?;
    standby.silence("pods").await?;
    gang(&client, "first", 4, "default").await?;
    wait_running(&client, "first", 4, 10).await?;
    standby.takes_over(w).await?;
    podgroups(&client).patch("second", &PatchParams::default(), &Patch::Merge(json!({"spec": {"minMember": 4}}))).await?;
    stays_unbound(&client, "second").await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods_of(&client, "first").await? {
        pods.delete(&pod.metadata.name.unwrap_or_default(), &DeleteParams::default().grace_period(0)).await?;
    }
    wait_running(&client, "second", 4, 10).await?;
    standby.end(w).await
}
