//! Rows O9, B7 and B8: a webhook for what the programs write in one namespace accepts connections and never answers. The other namespaces go on.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::handover::make_classes;
use super::seen::{accounting_matches_api, queue_uses_within};
use crate::faults::{Fault, Rule, Verb};
use crate::objects::{NAMESPACE, SCHEDULER_NAME, container, has_node, make_node, podgroups_in};
use crate::programs::LONG_REQUESTS;
use crate::wait::{Seen, millis, secs, wait_until};
use crate::workloads::owner::{Owner, group_name, groups_made, wait_min_member};
use crate::world::World;

/// The namespace without a webhook.
const OTHER: &str = "other";

/// A webhook for one kind of request in [`NAMESPACE`].
struct Webhook {
    api: Api<ValidatingWebhookConfiguration>,
    /// The kernel accepts, and no process reads.
    silent: TcpListener,
}

impl Webhook {
    /// Creates the webhook for this operation on a resource of an API group and version.
    async fn create(client: &Client, operation: &str, (group, version): (&str, &str), resource: &str) -> Result<Self> {
        let silent = TcpListener::bind("127.0.0.1:0")?;
        silent.set_nonblocking(true)?;
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let hook = serde_json::from_value(json!({
            "metadata": {"name": "hangs"},
            "webhooks": [{
                "name": "hangs.example.com",
                "clientConfig": {"url": format!("https://{}/", silent.local_addr()?)},
                "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                // The longest that the API server accepts.
                "timeoutSeconds": 30,
            }],
        }))?;
        api.create(&PostParams::default(), &hook).await?;
        Ok(Self { api, silent })
    }

    /// Waits until the API server calls the webhook for a request.
    async fn wait_in_force<T, F>(&self, request: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = kube::Result<T>>,
    {
        wait_until(secs(10), "the webhook is in force", || async {
            // There is no answer once the webhook is in force.
            let _answer = timeout(millis(500), request()).await;
            Ok(Seen::when(self.silent.accept().is_ok(), || "it is not called".to_owned()))
        })
        .await
    }

    /// Deletes the webhook, and ends the calls that hang.
    async fn delete(self) -> Result<()> {
        self.api.delete("hangs", &DeleteParams::default()).await?;
        drop(self.silent);
        Ok(())
    }
}

/// The parameters of a request that changes nothing.
fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// How many ReplicaSets need a PodGroup in the namespace with the webhook: more than the controller has workers.
const BLOCKED_OWNERS: usize = 20;

/// O9. A webhook for PodGroups. Its requests take half a minute, so no worker that waits for one of them is free again before the end. A ReplicaSet of another
/// namespace has its PodGroup within seconds, and when the webhook is removed, those of the namespace are there, too.
pub(super) async fn for_podgroups(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "64Gi")]).await?;
    Owner::namespace(OTHER).make(&client).await?;
    // A worker is busy as long as its request.
    w.controller()?.restart_with(&LONG_REQUESTS).await?;
    let hook = Webhook::create(&client, "CREATE", ("scheduling.volcano.sh", "v1beta1"), "podgroups").await?;
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "probe"}, "spec": {"minMember": 1},
    }))?;
    let (groups, parameters) = (podgroups_in(&client, NAMESPACE), dry_run());
    hook.wait_in_force(|| groups.create(&parameters, &group)).await?;
    w.watched()?.excuse(&[1]);
    let mut blocked = Vec::new();
    for number in 0..BLOCKED_OWNERS {
        blocked.push(Owner::replica_set(&format!("blocked-{number}")).replicas(1).make(&client).await?);
    }
    // Every worker that the namespace can have is busy with it.
    tokio::time::sleep(secs(1)).await;
    for round in 0..4 {
        let name = format!("free-{round}");
        let free = Owner::replica_set(&name).replicas(1).make_in(&client, OTHER).await?;
        wait_until(secs(10), &format!("{name} has its PodGroup"), || async {
            let there = podgroups_in(&client, OTHER).get_opt(&group_name(&free)).await?;
            Ok(Seen::when(there.is_some(), || "it has none".to_owned()))
        })
        .await?;
        tokio::time::sleep(secs(1)).await;
    }
    ensure!(groups_made(&client).await?.is_empty(), "a PodGroup came past the webhook");
    hook.delete().await?;
    for owner in &blocked {
        wait_min_member(&client, owner, 1, 90).await?;
    }
    w.watched()?.insist(&[1]);
    Ok(())
}

/// How many pods of the namespace with the webhook are to be evicted, each for another PodGroup: more than the scheduler evicts for at the same time.
const BLOCKED_VICTIMS: usize = 20;

/// B7. A webhook for evictions. Pods of high priority need the places of pods of the namespace, and nothing moves there. A pod of another namespace is evicted
/// within seconds. When the webhook is removed, those of the namespace are evicted, too.
pub(super) async fn for_evictions(w: &mut World) -> Result<()> {
    let client = w.client();
    make_classes(&client).await?;
    Owner::namespace(OTHER).make(&client).await?;
    make_node(&client, "blocked", &[("cpu", &BLOCKED_VICTIMS.to_string()), ("memory", "64Gi")]).await?;
    make_node(&client, "free", &[("cpu", "1"), ("memory", "64Gi")]).await?;
    for number in 0..BLOCKED_VICTIMS {
        pod_on(&client, NAMESPACE, &format!("low-{number}"), "low", "blocked").await?;
    }
    pod_on(&client, OTHER, "low-free", "low", "free").await?;
    wait_bound(&client, NAMESPACE, "low", BLOCKED_VICTIMS, 10).await?;
    wait_bound(&client, OTHER, "low", 1, 10).await?;
    let hook = Webhook::create(&client, "CREATE", ("", "v1"), "pods/eviction").await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "low-0"}});
    let parameters = dry_run();
    hook.wait_in_force(|| pods.create_subresource::<Value, Value>("eviction", "low-0", &parameters, &eviction)).await?;
    // These requests are only counted.
    w.aim(Rule {
        verb: Some(Verb::Create),
        resource: "pods/eviction",
        name: None,
        fault: Fault::DelayRequest(millis(0)),
        times: u32::MAX,
    })?;
    for number in 0..BLOCKED_VICTIMS {
        pod_on(&client, OTHER, &format!("high-{number}"), "high", "blocked").await?;
    }
    wait_until(secs(10), "evictions are under way", || async {
        let hits = w.hits("delay-request")?;
        Ok(Seen::when(hits > 0, || "none is".to_owned()))
    })
    .await?;
    // Every slot that the namespace can have is in use.
    tokio::time::sleep(secs(1)).await;
    pod_on(&client, OTHER, "high-free", "high", "free").await?;
    wait_until(secs(10), "the pod of the other namespace is evicted, and another one has its place", || async {
        let node = Api::<Pod>::namespaced(client.clone(), OTHER).get("high-free").await?.spec.and_then(|spec| spec.node_name);
        Ok(Seen::when(node.as_deref() == Some("free"), || format!("it has the node {node:?}")))
    })
    .await?;
    wait_bound(&client, NAMESPACE, "low", BLOCKED_VICTIMS, 0).await?;
    hook.delete().await?;
    wait_bound(&client, OTHER, "high", BLOCKED_VICTIMS + 1, 90).await?;
    accounting_matches_api(w).await
}

/// How many PodGroups of the namespace with the webhook have a new status: more than the scheduler writes at the same time.
const BLOCKED_GROUPS: usize = 20;

/// B8. A webhook for changes of PodGroups. The statuses of the namespace are not written. The scheduler writes the status of a PodGroup, the condition of a
/// pod and the status of a queue for another namespace within seconds. When the webhook is removed, the statuses of the namespace are written, too.
pub(super) async fn for_statuses(w: &mut World) -> Result<()> {
    let client = w.client();
    make_classes(&client).await?;
    Owner::namespace(OTHER).make(&client).await?;
    make_node(&client, "n1", &[("cpu", "64"), ("memory", "64Gi")]).await?;
    w.scheduler()?.restart_with(&LONG_REQUESTS).await?;
    pod_on(&client, NAMESPACE, "probe", "low", "n1").await?;
    wait_phase_in(&client, NAMESPACE, "probe", "Running", 20).await?;
    let hook = Webhook::create(&client, "UPDATE", ("scheduling.volcano.sh", "v1beta1"), "podgroups").await?;
    let (groups, parameters) = (podgroups_in(&client, NAMESPACE), PatchParams { dry_run: true, ..PatchParams::default() });
    let patch = Patch::Merge(json!({"metadata": {"labels": {"probe": "true"}}}));
    hook.wait_in_force(|| groups.patch("probe", &parameters, &patch)).await?;
    for number in 0..BLOCKED_GROUPS {
        pod_on(&client, NAMESPACE, &format!("blocked-{number}"), "low", "n1").await?;
    }
    wait_bound(&client, NAMESPACE, "low", BLOCKED_GROUPS + 1, 10).await?;
    // Every slot that the namespace can have is in use.
    tokio::time::sleep(secs(2)).await;
    for round in 0..4 {
        let (free, waits) = (format!("free-{round}"), format!("waits-{round}"));
        pod_on(&client, OTHER, &free, "low", "n1").await?;
        pod_on(&client, OTHER, &waits, "low", "nowhere").await?;
        wait_phase_in(&client, OTHER, &free, "Running", 10).await?;
        wait_until(secs(10), &format!("pod {waits} says why it waits"), || async {
            let status = Api::<Pod>::namespaced(client.clone(), OTHER).get(&waits).await?.status.unwrap_or_default();
            let says = status.conditions.iter().flatten().any(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
            Ok(Seen::when(says, || "it has no condition".to_owned()))
        })
        .await?;
        queue_uses_within(&client, 5, "default", "cpu", &(BLOCKED_GROUPS + 2 + round).to_string()).await?;
        tokio::time::sleep(secs(1)).await;
    }
    for number in 0..BLOCKED_GROUPS {
        let phase = phase_in(&client, NAMESPACE, &format!("blocked-{number}")).await?;
        ensure!(phase != "Running", "a status came past the webhook");
    }
    hook.delete().await?;
    for number in 0..BLOCKED_GROUPS {
        wait_phase_in(&client, NAMESPACE, &format!("blocked-{number}"), "Running", 120).await?;
    }
    accounting_matches_api(w).await
}

async fn phase_in(client: &Client, namespace: &str, group: &str) -> Result<String> {
    let group = podgroups_in(client, namespace).get(group).await?;
    Ok(group.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Waits until the status of the PodGroup has this phase.
async fn wait_phase_in(client: &Client, namespace: &str, group: &str, wanted: &str, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("the status of {namespace}/{group} is {wanted}"), || async {
        let phase = phase_in(client, namespace, group).await?;
        Ok(Seen::when(phase == wanted, || format!("it is {phase:?}")))
    })
    .await
}

/// Creates a PodGroup of one pod of 1 cpu, with this priority class, for this node.
async fn pod_on(client: &Client, namespace: &str, name: &str, class: &str, node: &str) -> Result<()> {
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 1, "queue": "default"},
    });
    podgroups_in(client, namespace).create(&PostParams::default(), &serde_json::from_value(group)?).await?;
    let pod = json!({
        "metadata": {"name": name, "labels": {"class": class}, "annotations": {"scheduling.k8s.io/group-name": name}},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "priorityClassName": class,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container(&[("cpu", "1")])],
        },
    });
    Api::<Pod>::namespaced(client.clone(), namespace).create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

/// Waits until so many pods of this priority class are bound in this namespace.
async fn wait_bound(client: &Client, namespace: &str, class: &str, count: usize, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("{count} pods of class {class} are bound in {namespace}"), || async {
        let all = Api::<Pod>::namespaced(client.clone(), namespace).list(&ListParams::default().labels(&format!("class={class}"))).await?;
        let bound = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && has_node(pod)).count();
        Ok(Seen::when(bound == count, || format!("{bound} of {} are", all.items.len())))
    })
    .await
}
