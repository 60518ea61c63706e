//! Creates, scales, annotates and rolls out Deployments as kubectl does, and finds the PodGroup of each.
//!
//! Other owners of pods: `owner` (any kind), `kinds` (the constructors), `kubelet` (the status of their pods), `events` (Events about them).

pub mod events;
pub mod kinds;
pub mod owner;
pub mod pod_status;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::objects::{Amounts, NAMESPACE, SCHEDULER_NAME, container, has_node, podgroups};
use crate::wait::{Seen, secs, wait_until};

/// Annotation: how many members must run together.
pub const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";

/// Annotation: the queue.
pub const QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// A Deployment to be created. By default it has one replica of 1 cpu and no annotations.
#[derive(Clone, Debug)]
pub struct Workload {
    name: String,
    object: Value,
}

impl Workload {
    /// Returns one replica that requests 1 cpu.
    pub fn new(name: &str) -> Self {
        let object = json!({
            "metadata": {"name": name, "annotations": {}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", "1")])]},
                },
            },
        });
        Self { name: name.to_owned(), object }
    }

    /// Sets the replicas.
    pub fn replicas(self, replicas: u32) -> Self {
        self.with("/spec", "replicas", json!(replicas))
    }

    /// Sets the requests of each pod.
    pub fn asks(self, requests: Amounts<'_>) -> Self {
        self.with("/spec/template/spec", "containers", json!([container(requests)]))
    }

    /// Sets `group-min-member`, as the text that a user typed.
    pub fn gang(self, members: &str) -> Self {
        self.with("/metadata/annotations", MIN_MEMBER, json!(members))
    }

    /// Sets the queue.
    pub fn queue(self, queue: &str) -> Self {
        self.with("/metadata/annotations", QUEUE, json!(queue))
    }

    /// Sets the strategy of a rollout.
    pub fn rolling(self, max_surge: u32, max_unavailable: u32) -> Self {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": max_surge, "maxUnavailable": max_unavailable}});
        self.with("/spec", "strategy", strategy)
    }

    /// Sets the scheduler; ours by default.
    pub fn scheduler(self, name: &str) -> Self {
        self.with("/spec/template/spec", "schedulerName", json!(name))
    }

    /// Restricts the pods to this node with the node affinity that the DaemonSet controller uses.
    pub fn on_node(self, node: &str) -> Self {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        self.with("/spec/template/spec", "affinity", affinity)
    }

    /// Sets a field of the pods' spec.
    pub fn pod_spec(self, field: &str, value: Value) -> Self {
        self.with("/spec/template/spec", field, value)
    }

    /// Sets `podAffinity` or `podAntiAffinity` of the pods.
    pub fn affinity(self, kind: &str, terms: Value) -> Self {
        self.pod_spec("affinity", json!({kind: terms}))
    }

    /// Sets a further label of the pods.
    pub fn label(self, key: &str, value: &str) -> Self {
        self.with("/spec/template/metadata/labels", key, json!(value))
    }

    /// Creates the Deployment.
    pub async fn make(self, client: &Client) -> Result<()> {
        let object: Deployment = serde_json::from_value(self.object)?;
        deployments(client).create(&PostParams::default(), &object).await.with_context(|| format!("making Deployment {}", self.name))?;
        Ok(())
    }

    fn with(mut self, place: &str, key: &str, value: Value) -> Self {
        if let Some(Value::Object(place)) = self.object.pointer_mut(place) {
            place.insert(key.to_owned(), value);
        }
        self
    }
}

/// Returns the Deployments of the case's namespace.
pub fn deployments(client: &Client) -> Api<Deployment> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Scales like `kubectl scale deployment NAME --replicas=N`.
pub async fn scale(client: &Client, name: &str, replicas: u32) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments(client).patch_scale(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Annotates like `kubectl annotate deployment NAME KEY=VALUE --overwrite`.
pub async fn annotate(client: &Client, name: &str, key: &str, value: &str) -> Result<()> {
    change(client, name, json!({"metadata": {"annotations": {key: value}}})).await
}

/// Starts a rollout like `kubectl set image deployment NAME main=IMAGE`.
pub async fn set_image(client: &Client, name: &str, image: &str) -> Result<()> {
    let containers = json!([{"name": "main", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    deployments(client).patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// Deletes the Deployment and its pods like `kubectl delete deployment NAME`.
pub async fn delete(client: &Client, name: &str) -> Result<()> {
    deployments(client).delete(name, &DeleteParams::background()).await?;
    Ok(())
}

async fn change(client: &Client, name: &str, patch: Value) -> Result<()> {
    deployments(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Returns the pods with the label `app=NAME` that do not terminate.
pub async fn pods_of(client: &Client, name: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
    Ok(list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}

/// Counts pods by phase and by `unbound`: `{"Pending, unbound": 2, "Running": 1}`.
pub fn phases(pods: &[Pod]) -> BTreeMap<String, usize> {
    let mut phases = BTreeMap::new();
    for pod in pods {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let bound = has_node(pod);
        let key = if bound { phase } else { format!("{phase}, unbound") };
        *phases.entry(key).or_default() += 1;
    }
    phases
}

/// Waits until `name` has exactly `count` pods and all of them run.
pub async fn wait_running(client: &Client, name: &str, count: usize, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("{name} has {count} pods, all Running"), || async {
        let phases = phases(&pods_of(client, name).await?);
        let wanted = if count == 0 { BTreeMap::new() } else { BTreeMap::from([("Running".to_owned(), count)]) };
        Ok(Seen::when(phases == wanted, || format!("{phases:?}")))
    })
    .await
}

/// Waits until the Deployment controller has finished the last change: every replica has the newest template and is available.
pub async fn wait_rolled_out(client: &Client, name: &str, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("the rollout of {name} finishes"), || async {
        let object = deployments(client).get(name).await?;
        let wanted = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = object.status.clone().unwrap_or_default();
        let done = status.observed_generation >= object.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|each| *each == Some(wanted));
        Ok(Seen::when(done, || {
            let (all, new, available) = (status.replicas, status.updated_replicas, status.available_replicas);
            format!("wanted {wanted}, replicas {all:?}, updated {new:?}, available {available:?}")
        }))
    })
    .await
}

/// Returns the ReplicaSets of a Deployment that have replicas.
pub async fn live_replica_sets(client: &Client, name: &str) -> Result<Vec<ReplicaSet>> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), NAMESPACE);
    let list = sets.list(&ListParams::default().labels(&format!("app={name}"))).await?;
    Ok(list.items.into_iter().filter(|set| set.spec.as_ref().and_then(|spec| spec.replicas) != Some(0)).collect())
}

/// Returns all PodGroups that a ReplicaSet of the Deployment owns.
pub async fn groups_of(client: &Client, name: &str) -> Result<Vec<DynamicObject>> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), NAMESPACE);
    let sets = sets.list(&ListParams::default().labels(&format!("app={name}"))).await?;
    let uids: Vec<String> = sets.iter().filter_map(ResourceExt::uid).collect();
    let groups = podgroups(client).list(&ListParams::default()).await?;
    Ok(groups.items.into_iter().filter(|group| group.owner_references().iter().any(|owner| uids.contains(&owner.uid))).collect())
}

/// Waits until the Deployment has exactly one PodGroup, with the generated name of the live ReplicaSet and with this ReplicaSet as controller.
pub async fn wait_one_group(client: &Client, name: &str, seconds: u64) -> Result<DynamicObject> {
    wait_until(secs(seconds), &format!("{name} has exactly one PodGroup, of its live ReplicaSet"), || one_group(client, name)).await
}

async fn one_group(client: &Client, name: &str) -> Result<Seen<DynamicObject>> {
    let sets = live_replica_sets(client, name).await?;
    let groups = groups_of(client, name).await?;
    let ([set], [group]) = (sets.as_slice(), groups.as_slice()) else {
        let names: Vec<_> = groups.iter().map(ResourceExt::name_any).collect();
        return Ok(Seen::NotYet(format!("{} ReplicaSets with replicas, PodGroups {names:?}", sets.len())));
    };
    let uid = set.uid().unwrap_or_default();
    let owned = group.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true));
    if !owned || group.name_any() != format!("podgroup-{uid}") || group.metadata.deletion_timestamp.is_some() {
        return Ok(Seen::NotYet(format!("{} is owned by {:?}, expected owner {uid}", group.name_any(), group.owner_references())));
    }
    Ok(Seen::Yes(group.clone()))
}

/// Returns whether each Deployment has one pod, which runs, and exactly one PodGroup, of its live ReplicaSet.
pub async fn each_has_one(client: &Client, names: &[String]) -> Result<Seen<()>> {
    for name in names {
        let phases = phases(&pods_of(client, name).await?);
        if phases != BTreeMap::from([("Running".to_owned(), 1)]) {
            return Ok(Seen::NotYet(format!("the pods of {name} are {phases:?}")));
        }
        if let Seen::NotYet(text) = one_group(client, name).await? {
            return Ok(Seen::NotYet(format!("{name}: {text}")));
        }
    }
    Ok(Seen::Yes(()))
}
