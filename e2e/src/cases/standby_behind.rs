//! Rows S1 to S3: a standby with an old view of pods, of nodes or of queues takes over. It lists again before its first decision.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use super::old_views::{cordon, gang, silent, stays_unbound};
use super::seen::{bound, group_says, group_says_within};
use crate::faults::{Fault, HttpProxy, Rule, Verb};
use crate::objects::{
    NAMESPACE, SCHEDULER_NAME, container, make_member, make_node, make_pod, make_podgroup, make_queue, patch_queue, podgroups,
    set_allocatable,
};
use crate::programs::Program;
use crate::proxy::Proxy;
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{pods_of, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig};

/// For how long a watch of the standby says nothing: shorter than the time after which it counts as dead.
const SILENT: std::time::Duration = secs(40);

/// How late the first list of a new leader is that shows what it had missed.
const LATE: std::time::Duration = secs(3);

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
        .await?;
        // The list before the watch is over, and shows the old state.
        sleep(secs(2)).await;
        Ok(())
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

    /// The same. The list of this resource with which the takeover begins comes late.
    async fn takes_over_with_late_list(&self, w: &mut World, resource: &'static str) -> Result<()> {
        self.faults.rule(Rule { verb: Some(Verb::List), resource, name: None, fault: Fault::DelayRequest(LATE), times: 1 });
        self.takes_over(w).await
    }

    /// Ends it and gives the world its scheduler back.
    async fn end(mut self, w: &mut World) -> Result<()> {
        let never = self.faults.never_injected();
        ensure!(never.is_empty(), "faults that were never injected: {never:?}");
        w.scheduler()?.restart().await?;
        self.program.terminate().await
    }
}

/// S1. The standby's watch of pods says nothing while the leader fills the only node, and then the leader ends. A gang whose pods the standby knows already becomes
/// complete: it is not bound before there is room.
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

/// The nodes of S2, each with what happens to it. Each has 4 cpu before.
const NODES: [&str; 3] = ["shrunk", "cordoned", "deleted"];

/// S2. The standby's watch of nodes says nothing while one node shrinks, one is cordoned and one is deleted, and then the leader ends. A pod for each of these nodes
/// is not bound before the node is as it was.
pub(super) async fn in_nodes(w: &mut World) -> Result<()> {
    let client = w.client();
    for node in NODES {
        make_node(&client, node, &[("cpu", "4"), ("memory", "64Gi")]).await?;
    }
    let standby = Standby::start(w).await?;
    standby.silence("nodes").await?;
    set_allocatable(&client, "shrunk", &[("cpu", "1")]).await?;
    cordon(&client, "cordoned", true).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("deleted", &DeleteParams::default()).await?;
    standby.takes_over_with_late_list(w, "nodes").await?;
    for node in NODES {
        pod_for(&client, node).await?;
    }
    none_is_bound(&client, &NODES).await?;
    for node in NODES {
        group_says_within(&client, 10, node, "").await?;
    }
    none_is_bound(&client, &NODES).await?;
    set_allocatable(&client, "shrunk", &[("cpu", "4")]).await?;
    cordon(&client, "cordoned", false).await?;
    make_node(&client, "deleted", &[("cpu", "4"), ("memory", "64Gi")]).await?;
    for node in NODES {
        wait_running(&client, node, 1, 10).await?;
    }
    standby.end(w).await
}

/// S3. The standby's watch of queues says nothing while a capability is lowered, and then the leader ends. A gang that fits only the old capability is not bound
/// before it is raised again.
pub(super) async fn in_queues(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    make_queue(&client, "team", None, &[("cpu", "4")]).await?;
    let standby = Standby::start(w).await?;
    standby.silence("queues").await?;
    patch_queue(&client, "team", json!({"spec": {"capability": {"cpu": "1"}}})).await?;
    standby.takes_over_with_late_list(w, "queues").await?;
    gang(&client, "gang", 4, "team").await?;
    none_is_bound(&client, &["gang"]).await?;
    group_says(&client, "gang", "queue \"team\" is over its quota: cpu requested 4, used 0, capability 1").await?;
    none_is_bound(&client, &["gang"]).await?;
    patch_queue(&client, "team", json!({"spec": {"capability": {"cpu": "4"}}})).await?;
    wait_running(&client, "gang", 4, 10).await?;
    standby.end(w).await
}

/// Creates a PodGroup of one pod of 4 cpu that fits this node only. Both have the name of the node.
async fn pod_for(client: &Client, node: &str) -> Result<()> {
    make_podgroup(client, node, json!({"minMember": 1, "queue": "default"})).await?;
    pod_on(client, node, node).await
}

/// Creates a pod of 4 cpu that fits this node only, in the PodGroup of the same name.
pub(super) async fn pod_on(client: &Client, name: &str, node: &str) -> Result<()> {
    let spec = json!({
        "schedulerName": SCHEDULER_NAME,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container(&[("cpu", "4")])],
    });
    let metadata = json!({"name": name, "labels": {"app": name}, "annotations": {"scheduling.k8s.io/group-name": name}});
    make_pod(client, json!({"metadata": metadata, "spec": spec})).await
}

/// No pod of these PodGroups is bound for longer than the takeover takes with its late list.
async fn none_is_bound(client: &Client, groups: &[&str]) -> Result<()> {
    holds_for(secs(5), &format!("no pod of {groups:?} is bound"), || async {
        let mut wrong = Vec::new();
        for group in groups {
            let count = bound(client, group).await?;
            if count > 0 {
                wrong.push(format!("{group}: {count}"));
            }
        }
        Ok(Seen::when(wrong.is_empty(), || format!("bound: {}", wrong.join(", "))))
    })
    .await
}
