//! Owners of pods of any kind, as untyped objects like a user's YAML: creation, changes, and the PodGroup of each.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{MIN_MEMBER, QUEUE};
use crate::objects::{Amounts, NAMESPACE, SCHEDULER_NAME, container, field, podgroups};
use crate::wait::{Seen, holds_for, secs, wait_until};

/// A kind of object that pods can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    Job,
    CronJob,
    Pod,
    /// Stands for the object of any operator: the API server and its garbage collector require only that an owner exists.
    ConfigMap,
    Namespace,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::Deployment => ("apps", "Deployment", "deployments"),
            Self::ReplicaSet => ("apps", "ReplicaSet", "replicasets"),
            Self::StatefulSet => ("apps", "StatefulSet", "statefulsets"),
            Self::Job => ("batch", "Job", "jobs"),
            Self::CronJob => ("batch", "CronJob", "cronjobs"),
            Self::Pod => ("", "Pod", "pods"),
            Self::ConfigMap => ("", "ConfigMap", "configmaps"),
            Self::Namespace => ("", "Namespace", "namespaces"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }

    /// Returns the objects of this kind in the case's namespace.
    pub fn api(self, client: &Client) -> Api<DynamicObject> {
        self.api_in(client, NAMESPACE)
    }

    /// Returns the objects of this kind in a namespace. A Namespace has none.
    pub fn api_in(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self == Self::Namespace {
            Api::all_with(client.clone(), &self.resource())
        } else {
            Api::namespaced_with(client.clone(), namespace, &self.resource())
        }
    }
}

/// An owner of pods to be created.
#[derive(Clone, Debug)]
pub struct Owner {
    kind: Kind,
    object: Value,
    /// The JSON pointer of its pod template (`/spec/template`); for a bare pod, of the pod.
    template: &'static str,
}

impl Owner {
    /// Returns an object with a `spec` and a pod template: one container of 1 cpu, the label `app=NAME`, no grace period.
    pub(super) fn new(kind: Kind, name: &str, template: &'static str, spec: Value) -> Self {
        let object = json!({"metadata": {"name": name, "annotations": {}}, "spec": spec});
        let pod = json!({
            "metadata": {"labels": {"app": name}, "annotations": {}},
            "spec": {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container(&[("cpu", "1")])]},
        });
        let mut owner = Self { kind, object, template };
        for part in ["metadata", "spec"] {
            for (key, value) in pod.pointer(&format!("/{part}")).and_then(Value::as_object).into_iter().flatten() {
                owner.put(&format!("{template}/{part}"), key, value.clone());
            }
        }
        owner
    }

    /// Returns an object that creates no pods itself.
    pub(super) fn object(kind: Kind, object: Value) -> Self {
        Self { kind, object, template: "" }
    }

    /// Sets `key` of the object at `place` (a JSON pointer). A missing place is created.
    pub fn with(mut self, place: &str, key: &str, value: Value) -> Self {
        self.put(place, key, value);
        self
    }

    /// Does the same in its pod template.
    pub fn with_pod(mut self, place: &str, key: &str, value: Value) -> Self {
        let place = format!("{}{place}", self.template);
        self.put(&place, key, value);
        self
    }

    /// Sets the replicas.
    pub fn replicas(self, replicas: u32) -> Self {
        self.with("/spec", "replicas", json!(replicas))
    }

    /// Sets the requests of each pod.
    pub fn asks(self, requests: Amounts<'_>) -> Self {
        self.with_pod("/spec", "containers", json!([container(requests)]))
    }

    /// Sets an annotation of the owner.
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.with("/metadata/annotations", key, json!(value))
    }

    /// Sets an annotation of its pods.
    pub fn pod_annotation(self, key: &str, value: &str) -> Self {
        self.with_pod("/metadata/annotations", key, json!(value))
    }

    /// Sets `group-min-member`, as the text that a user typed.
    pub fn gang(self, members: &str) -> Self {
        self.annotation(MIN_MEMBER, members)
    }

    /// Sets the queue.
    pub fn queue(self, queue: &str) -> Self {
        self.annotation(QUEUE, queue)
    }

    /// Sets the scheduler of its pods; ours by default.
    pub fn scheduler(self, name: &str) -> Self {
        self.with_pod("/spec", "schedulerName", json!(name))
    }

    /// Creates it; returns the object as the API server stores it.
    pub async fn make(self, client: &Client) -> Result<DynamicObject> {
        self.make_in(client, NAMESPACE).await
    }

    /// Creates it in another namespace.
    pub async fn make_in(self, client: &Client, namespace: &str) -> Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(self.object)?;
        let what = format!("making {:?} {}", self.kind, object.name_any());
        let made = self.kind.api_in(client, namespace).create(&PostParams::default(), &object).await.context(what)?;
        if self.kind == Kind::Namespace {
            // Until then the API server refuses pods in it.
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &made.name_any());
            wait_until(secs(20), "the namespace has its ServiceAccount", || async {
                Ok(Seen::when(accounts.get_opt("default").await?.is_some(), || "it has none".to_owned()))
            })
            .await?;
        }
        Ok(made)
    }

    fn put(&mut self, place: &str, key: &str, value: Value) {
        let mut at = &mut self.object;
        for step in place.split('/').skip(1) {
            if at.get(step).is_none_or(Value::is_null)
                && let Value::Object(map) = at
            {
                map.insert(step.to_owned(), json!({}));
            }
            let Some(next) = at.get_mut(step) else { return };
            at = next;
        }
        if let Value::Object(map) = at {
            map.insert(key.to_owned(), value);
        }
    }
}

/// Merges a patch into an object of the case's namespace.
pub async fn patch(client: &Client, kind: Kind, name: &str, patch: Value) -> Result<DynamicObject> {
    let what = format!("patching {kind:?} {name}");
    kind.api(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context(what)
}

/// Sets the replicas like `kubectl scale`.
pub async fn resize(client: &Client, kind: Kind, name: &str, replicas: u32) -> Result<()> {
    kind.api(client).patch_scale(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": replicas}}))).await?;
    Ok(())
}

/// Deletes it: `Background` deletes its pods, too; `Orphan` (`--cascade=orphan`) keeps them.
pub async fn delete_as(client: &Client, kind: Kind, name: &str, propagation: PropagationPolicy) -> Result<()> {
    let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    kind.api(client).delete(name, &params).await.with_context(|| format!("deleting {kind:?} {name}"))?;
    Ok(())
}

/// Returns the name of an owner's generated PodGroup.
pub fn group_name(owner: &DynamicObject) -> String {
    format!("podgroup-{}", owner.uid().unwrap_or_default())
}

/// Waits until the owner's PodGroup exists, has the owner as controller, and `wrong` returns no fault.
pub async fn wait_group(
    client: &Client,
    owner: &DynamicObject,
    seconds: u64,
    what: &str,
    wrong: impl Fn(&DynamicObject) -> Option<String>,
) -> Result<DynamicObject> {
    let (name, uid) = (group_name(owner), owner.uid().unwrap_or_default());
    wait_until(secs(seconds), &format!("the PodGroup of {}: {what}", owner.name_any()), || async {
        let Some(group) = podgroups(client).get_opt(&name).await? else {
            return Ok(Seen::NotYet(format!("PodGroup {name} does not exist")));
        };
        if !group.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true)) {
            return Ok(Seen::NotYet(format!("owned by {:?}", group.owner_references())));
        }
        Ok(match wrong(&group) {
            Some(text) => Seen::NotYet(text),
            None => Seen::Yes(group),
        })
    })
    .await
}

/// Waits until the owner's PodGroup has this minMember.
pub async fn wait_min_member(client: &Client, owner: &DynamicObject, members: i64, seconds: u64) -> Result<DynamicObject> {
    wait_group(client, owner, seconds, &format!("minMember is {members}"), |group| {
        let seen = field(group, "/spec/minMember");
        (seen != members).then(|| format!("minMember {seen}"))
    })
    .await
}

/// Waits until the owner has no PodGroup.
pub async fn wait_no_group(client: &Client, owner: &DynamicObject, seconds: u64) -> Result<()> {
    wait_until(secs(seconds), &format!("{} has no PodGroup", owner.name_any()), || async {
        let found = podgroups(client).get_opt(&group_name(owner)).await?;
        Ok(Seen::when(found.is_none(), || "the PodGroup exists".to_owned()))
    })
    .await
}

/// Checks that the owner has no PodGroup for `seconds`.
pub async fn stays_without_group(client: &Client, owner: &DynamicObject, seconds: u64) -> Result<()> {
    holds_for(secs(seconds), &format!("{} has no PodGroup", owner.name_any()), || async {
        let found = podgroups(client).get_opt(&group_name(owner)).await?;
        Ok(Seen::when(found.is_none(), || "the PodGroup exists".to_owned()))
    })
    .await
}

/// Returns all PodGroups of the case's namespace that the controller created.
pub async fn groups_made(client: &Client) -> Result<Vec<String>> {
    let ours = ListParams::default().labels("podgroup.dev/managed-by=podgroup-controller");
    Ok(podgroups(client).list(&ours).await?.iter().map(ResourceExt::name_any).collect())
}
