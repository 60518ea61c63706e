//! Carries out a step. **The only file of the controller that writes to the API server.**
//!
//! This file decides nothing. A [`Step`] contains everything that its request needs. The request is sent once, and the result is an [`Answer`] that
//! the decision learns from. When the response to a write is lost, the write may have happened or may still happen. That is [`Answer::Unknown`].

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use serde_json::json;

use crate::api::membership::group_of;
use crate::api::names::{CONTROLLER, GROUP_LABEL, GROUP_NAME};
use crate::api::{GroupKey, Pod, PodGroup, event};
use crate::lifecycle::{Answer, Reply, Step, Version, Warning, answer};
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;

use super::dialect;
use super::observed::PodRef;

/// The page size of a list of pods.
const PAGE: u32 = 500;

/// The delay before a retry after a 429 response without `retryAfterSeconds`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Sends the requests of the controller to the API server.
#[derive(Clone)]
pub struct Actor {
    client: Client,
    caller: Caller,
    schedulers: Vec<String>,
}

impl Actor {
    /// Returns an actor that sends through `caller`, which applies timeouts and counts requests. As in the watches, only pods of `schedulers` are
    /// members.
    #[must_use]
    pub fn new(client: Client, caller: Caller, schedulers: &[String]) -> Self {
        Self { client, caller, schedulers: schedulers.to_vec() }
    }

    /// Carries out one step for the PodGroup `key` and returns the answer. `selector` is the label selector of the owner's pods. It limits a list of
    /// members; `None` if it is not known.
    pub async fn carry_out(&self, key: &GroupKey, step: &Step, selector: Option<&str>) -> Answer {
        let groups: Api<PodGroup> = Api::namespaced(self.client.clone(), &key.namespace);
        let reply = match step {
            Step::Wait => return Answer::Absent,
            Step::Read => self.read(&groups, key).await,
            Step::Create(intent) => {
                let object = dialect::object(intent);
                let params = PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() };
                let sent = self.caller.once("create", "podgroups", groups.create(&params, &object)).await;
                sent.map_or_else(reply_to_error, |group| Reply::Object(dialect::existing(&group, &self.schedulers)))
            }
            Step::Amend { on, from, to, adopt } => self.patch(&groups, key, dialect::amendment(on, from.as_ref(), to, *adopt)).await,
            Step::Mark(on) => self.patch(&groups, key, dialect::mark(on, true)).await,
            Step::Unmark(on) => self.patch(&groups, key, dialect::mark(on, false)).await,
            Step::ListMembers(_) => self.list_members(key, selector).await,
            Step::Delete(version) => self.delete(&groups, key, version).await,
        };
        answer(step, reply)
    }

    async fn read(&self, groups: &Api<PodGroup>, key: &GroupKey) -> Reply {
        match self.caller.once("get", "podgroups", groups.get_opt(&key.name)).await {
            Ok(Some(group)) => Reply::Object(dialect::existing(&group, &self.schedulers)),
            Ok(None) => Reply::NotFound,
            Err(error) => reply_to_error(error),
        }
    }

    async fn patch(&self, groups: &Api<PodGroup>, key: &GroupKey, patch: serde_json::Value) -> Reply {
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let sent = self.caller.once("patch", "podgroups", groups.patch(&key.name, &params, &Patch::Merge(patch))).await;
        sent.map_or_else(reply_to_error, |group| Reply::Object(dialect::existing(&group, &self.schedulers)))
    }

    /// Sends a DELETE with preconditions on UID and resourceVersion. It cannot delete another object or another version, however late it arrives.
    /// S1 S2
    async fn delete(&self, groups: &Api<PodGroup>, key: &GroupKey, version: &Version) -> Reply {
        let params = DeleteParams { preconditions: Some(dialect::preconditions(version)), ..DeleteParams::background() };
        match self.caller.once("delete", "podgroups", groups.delete(&key.name, &params)).await {
            // If the object has finalizers, the response is the object itself with a deletionTimestamp.
            Ok(answer) => match answer.left() {
                Some(group) if group.meta().deletion_timestamp.is_some() => Reply::Object(dialect::existing(&group, &self.schedulers)),
                _ => Reply::Deleted,
            },
            Err(error) => reply_to_error(error),
        }
    }

    /// Lists the members that are neither Succeeded nor Failed, and says whether there is any.
    ///
    /// The lists are quorum reads of metadata only. [`group_of`] says which PodGroup a pod belongs to. There are lists for each served scheduler,
    /// because a field selector has no "or". Pods of other schedulers must not count: the watches do not show them, so they would keep a PodGroup
    /// for no visible reason.
    async fn list_members(&self, key: &GroupKey, selector: Option<&str>) -> Reply {
        for scheduler in &self.schedulers {
            for labels in labels_of_members(key, selector) {
                match self.has_member(key, scheduler, labels).await {
                    Ok(false) => {}
                    Ok(true) => return Reply::Members(true),
                    Err(error) => return reply_to_error(error),
                }
            }
        }
        Reply::Members(false)
    }

    async fn has_member(&self, key: &GroupKey, scheduler: &str, labels: Option<String>) -> Result<bool, CallError> {
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &key.namespace);
        let fields = format!("status.phase!=Succeeded,status.phase!=Failed,spec.schedulerName={scheduler}");
        let mut params = ListParams { label_selector: labels, ..ListParams::default().fields(&fields).limit(PAGE) };
        loop {
            let page = self.caller.once("list", "pods", pods.list(&params)).await?;
            if page.items.iter().any(|pod| group_of(&pod.metadata) == *key) {
                return Ok(true);
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(false);
            }
        }
    }

    /// Writes the name of its PodGroup into the annotations and labels of a pod (a *stamp*). Returns whether the write succeeded.
    pub async fn stamp(&self, pod: &PodRef, key: &GroupKey) -> bool {
        let metadata = json!({ "uid": &*pod.uid, "annotations": { GROUP_NAME: &*key.name }, "labels": { GROUP_LABEL: label_of(key) } });
        self.patch_pod(pod, key, metadata).await
    }

    /// Mends the label of a pod that names the PodGroup of its owner though the pod belongs to this one. A name that is no value of a label
    /// removes it. Returns whether the write succeeded.
    pub async fn label(&self, pod: &PodRef, key: &GroupKey) -> bool {
        self.patch_pod(pod, key, json!({ "uid": &*pod.uid, "labels": { GROUP_LABEL: label_of(key) } })).await
    }

    async fn patch_pod(&self, pod: &PodRef, key: &GroupKey, metadata: serde_json::Value) -> bool {
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.caller.once("patch", "pods", pods.patch_metadata(&pod.name, &params, &patch)).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(pod = %pod.name, group = %key, %error, "failed to annotate the pod with its PodGroup");
                false
            }
        }
    }

    /// Writes a warning about the name of this scheduler as an Event, unless some scheduler takes pods of this name in the namespace: then it
    /// is one of another release, and no slip. Returns whether the warning is done.
    pub async fn write_event_of_slip(&self, warning: &Warning, scheduler: &str) -> bool {
        match self.is_served(&warning.about.namespace, scheduler).await {
            Ok(is_served) => is_served || self.write_event(warning).await,
            Err(error) => {
                tracing::debug!(scheduler, %error, "failed to list the pods of the scheduler");
                false
            }
        }
    }

    /// Whether one of the first [`PAGE`] pods that name this scheduler has a node, or a condition that says why it has none. A scheduling gate
    /// is told by the API server itself.
    async fn is_served(&self, namespace: &str, scheduler: &str) -> Result<bool, CallError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().fields(&format!("spec.schedulerName={scheduler}")).limit(PAGE);
        let page = self.caller.once("list", "pods", pods.list(&params)).await?;
        let is_told = |pod: &Pod| {
            let mut conditions = pod.status.conditions.iter();
            conditions.any(|condition| condition.kind == "PodScheduled" && condition.reason.as_deref() != Some("SchedulingGated"))
        };
        Ok(page.items.iter().any(|pod| pod.spec.node_name.is_some() || is_told(pod)))
    }

    /// Writes a warning as an Event. The Event's name is a hash of its content, so the same Event is not written twice, even after a restart.
    ///
    /// Returns whether the warning is done: the Event exists, or the API server will never accept it.
    pub async fn write_event(&self, warning: &Warning) -> bool {
        let about = &warning.about;
        let events: Api<Event> = Api::namespaced(self.client.clone(), &about.namespace);
        let now = Time(clock::now());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(event::name(&about.name, [&*about.uid, warning.reason, &warning.message])),
                namespace: Some(about.namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(about.api_version.clone()),
                kind: Some(about.kind.clone()),
                namespace: Some(about.namespace.clone()),
                name: Some(about.name.clone()),
                uid: Some(about.uid.to_string()),
                ..ObjectReference::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(warning.reason.to_owned()),
            message: Some(event::message(&warning.message)),
            source: Some(EventSource { component: Some(CONTROLLER.to_owned()), host: None }),
            reporting_component: Some(CONTROLLER.to_owned()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        match self.caller.once("create", "events", events.create(&PostParams::default(), &event)).await {
            Ok(_) | Err(CallError::AlreadyExists(_)) => true,
            Err(error) => {
                tracing::warn!(kind = about.kind, namespace = about.namespace, name = about.name, %error, "failed to write the Event");
                !error.is_transient() && !matches!(error, CallError::Unauthorized(_))
            }
        }
    }
}

/// Returns the label selectors whose pods together contain every member. `own` is the label selector of the owner's pods; if it is not
/// known, all pods of the namespace are listed.
///
/// The pods of the selector are not all: an owner keeps a pod that a user relabelled until its controller has seen that. Such a pod has the
/// label that [`Actor::stamp`] writes, or it has none. A list of all pods would find the same at a price that grows with the namespace:
/// Jobs end all the time.
#[must_use]
pub fn labels_of_members(key: &GroupKey, own: Option<&str>) -> Vec<Option<String>> {
    let Some(own) = own else { return vec![None] };
    vec![Some(own.to_owned()), Some(format!("{GROUP_LABEL}={}", key.name)), Some(format!("!{GROUP_LABEL}"))]
}

/// The longest value of a label. The name of an object may be longer.
const MOST_LABEL: usize = 63;

/// Returns the label of the members of a PodGroup; `None` if its name is too long for one.
fn label_of(key: &GroupKey) -> Option<&str> {
    (key.name.len() <= MOST_LABEL).then_some(&*key.name)
}

/// Translates an error of a request into a [`Reply`].
fn reply_to_error(error: CallError) -> Reply {
    match error {
        CallError::Conflict(_) | CallError::AlreadyExists(_) => Reply::Conflict,
        CallError::NotFound(_) => Reply::NotFound,
        CallError::Invalid(why) | CallError::Forbidden(why) | CallError::NamespaceTerminating(why) | CallError::DisruptionBudget(why) => {
            Reply::Refused(why)
        }
        CallError::TooManyRequests { retry_after, .. } => Reply::Later(retry_after.unwrap_or(DEFAULT_RETRY_AFTER)),
        // A 401 says nothing about the object. It is treated as an outage of the API server.
        CallError::Unauthorized(_) => Reply::Unknown,
        CallError::Expired(_) | CallError::Webhook(_) | CallError::Timeout(_) | CallError::Unavailable(_) | CallError::Other(_) => {
            Reply::Unknown
        }
    }
}

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
