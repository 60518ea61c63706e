//! How is a step carried out? **The only file of the controller that writes to the API server.**
//!
//! It chooses nothing: a step holds all that it needs, is sent once, and whatever comes of it is an [`Answer`] for the decision to learn from. A
//! write whose answer is lost may have been done or may be done later; that is an answer too.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use serde_json::json;

use crate::api::membership::group_of;
use crate::api::names::{CONTROLLER, GROUP_LABEL, GROUP_NAME};
use crate::api::{GroupKey, Pod, PodGroup};
use crate::lifecycle::{Answer, Complaint, Reply, Step, Version, answer};
use crate::runtime::call::{CallError, Caller};
use crate::runtime::clock;

use super::dialect;
use super::observed::PodRef;

/// Pods per page of a look.
const PAGE: u32 = 500;

/// How long to wait where the API server says "later" and not how much later.
const LATER: Duration = Duration::from_secs(1);

/// The hands of the controller.
#[derive(Clone)]
pub struct Actor {
    client: Client,
    caller: Caller,
    schedulers: Vec<String>,
}

impl Actor {
    /// Hands that send through `caller`, which limits and counts. Members are the pods of these schedulers, as they are for the watch.
    #[must_use]
    pub fn new(client: Client, caller: Caller, schedulers: &[String]) -> Self {
        Self { client, caller, schedulers: schedulers.to_vec() }
    }

    /// Carries out one step about the group `key`. `selector` narrows a look to the owner's pods, where the owner is known.
    pub async fn carry_out(&self, key: &GroupKey, step: &Step, selector: Option<&str>) -> Answer {
        let groups: Api<PodGroup> = Api::namespaced(self.client.clone(), &key.namespace);
        let reply = match step {
            Step::Rest => return Answer::Absent,
            Step::Read => self.read(&groups, key).await,
            Step::Create(intent) => {
                let object = dialect::object(intent);
                let params = PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() };
                let sent = self.caller.once("create", "podgroups", groups.create(&params, &object)).await;
                sent.map_or_else(refused, |group| Reply::Object(dialect::existing(&group, &self.schedulers)))
            }
            Step::Amend { on, from, to, adopt } => self.patch(&groups, key, dialect::amendment(on, from.as_ref(), to, *adopt)).await,
            Step::Mark(on) => self.patch(&groups, key, dialect::mark(on, true)).await,
            Step::Unmark(on) => self.patch(&groups, key, dialect::mark(on, false)).await,
            Step::Look(_) => self.look(key, selector).await,
            Step::Delete(version) => self.delete(&groups, key, version).await,
        };
        answer(step, reply)
    }

    async fn read(&self, groups: &Api<PodGroup>, key: &GroupKey) -> Reply {
        match self.caller.once("get", "podgroups", groups.get_opt(&key.name)).await {
            Ok(Some(group)) => Reply::Object(dialect::existing(&group, &self.schedulers)),
            Ok(None) => Reply::NotFound,
            Err(error) => refused(error),
        }
    }

    async fn patch(&self, groups: &Api<PodGroup>, key: &GroupKey, patch: serde_json::Value) -> Reply {
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let sent = self.caller.once("patch", "podgroups", groups.patch(&key.name, &params, &Patch::Merge(patch))).await;
        sent.map_or_else(refused, |group| Reply::Object(dialect::existing(&group, &self.schedulers)))
    }

    /// Sends the DELETE with both preconditions: no other object and no other version can be hit, however late it lands. S1 S2
    async fn delete(&self, groups: &Api<PodGroup>, key: &GroupKey, version: &Version) -> Reply {
        let params = DeleteParams { preconditions: Some(dialect::preconditions(version)), ..DeleteParams::background() };
        match self.caller.once("delete", "podgroups", groups.delete(&key.name, &params)).await {
            // With finalizers the answer is the object, which is still there and says that it is ending.
            Ok(answer) => match answer.left() {
                Some(group) if group.meta().deletion_timestamp.is_some() => Reply::Object(dialect::existing(&group, &self.schedulers)),
                _ => Reply::Deleted,
            },
            Err(error) => refused(error),
        }
    }

    /// Lists the members that have not ended, from a quorum, metadata only, and asks the one function whose each is. One list for each scheduler that is
    /// served: a selector of fields knows no "or", and pods of other schedulers would keep a group alive that no watch of ours can explain.
    async fn look(&self, key: &GroupKey, selector: Option<&str>) -> Reply {
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &key.namespace);
        for scheduler in &self.schedulers {
            let fields = format!("status.phase!=Succeeded,status.phase!=Failed,spec.schedulerName={scheduler}");
            let mut params = ListParams::default().fields(&fields).limit(PAGE);
            params.label_selector = selector.map(str::to_owned);
            loop {
                let page = match self.caller.once("list", "pods", pods.list(&params)).await {
                    Ok(page) => page,
                    Err(error) => return refused(error),
                };
                if page.items.iter().any(|pod| group_of(&pod.metadata) == *key) {
                    return Reply::Members(true);
                }
                params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
                if params.continue_token.is_none() {
                    break;
                }
            }
        }
        Reply::Members(false)
    }

    /// Writes the group's name onto a pod that nobody stamped. Says whether it was done.
    pub async fn stamp(&self, pod: &PodRef, key: &GroupKey) -> bool {
        let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &key.namespace);
        let metadata = json!({ "uid": &*pod.uid, "annotations": { GROUP_NAME: &*key.name }, "labels": { GROUP_LABEL: &*key.name } });
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.caller.once("patch", "pods", pods.patch_metadata(&pod.name, &params, &patch)).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(pod = %pod.name, group = %key, %error, "the pod was not stamped");
                false
            }
        }
    }

    /// Tells people on the object that they edit. The Event's name is a function of what it says, so that it is there once, also after a restart.
    /// True where nothing more is to be done about it: it is there, or the server will never have it.
    pub async fn tell(&self, complaint: &Complaint) -> bool {
        let about = &complaint.about;
        let events: Api<Event> = Api::namespaced(self.client.clone(), &about.namespace);
        let told = fnv1a([&*about.uid, complaint.reason, &complaint.message]);
        let now = Time(clock::now());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(event_name(&about.name, told)),
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
            reason: Some(complaint.reason.to_owned()),
            message: Some(beginning(&complaint.message)),
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
                tracing::warn!(kind = about.kind, namespace = about.namespace, name = about.name, %error, "the Event was not written");
                !error.is_transient() && !matches!(error, CallError::Unauthorized(_))
            }
        }
    }
}

/// An error as a reply.
fn refused(error: CallError) -> Reply {
    match error {
        CallError::Conflict(_) | CallError::AlreadyExists(_) => Reply::Conflict,
        CallError::NotFound(_) => Reply::NotFound,
        CallError::Invalid(why) | CallError::Forbidden(why) | CallError::NamespaceTerminating(why) | CallError::DisruptionBudget(why) => {
            Reply::Refused(why)
        }
        CallError::TooManyRequests { retry_after, .. } => Reply::Later(retry_after.unwrap_or(LATER)),
        // Who we are was not accepted, which says nothing of the object: an outage of authentication is one of the API server.
        CallError::Unauthorized(_) => Reply::Unknown,
        CallError::Expired(_) | CallError::Webhook(_) | CallError::Timeout(_) | CallError::Unavailable(_) | CallError::Other(_) => {
            Reply::Unknown
        }
    }
}

/// As much of a message as the API server takes. A policy that refuses says why only behind its own name and that of the object, so all of it counts.
fn beginning(message: &str) -> String {
    // It takes 1,024.
    const BYTES: usize = 1000;
    message.get(..message.floor_char_boundary(BYTES)).unwrap_or_default().to_owned()
}

/// A name for an Event: that of the object, cut so that it stays a DNS-1123 subdomain, and what is told.
fn event_name(object: &str, told: u64) -> String {
    format!("{}.{told:016x}", object.get(..200).unwrap_or(object).trim_end_matches(['-', '.']))
}

/// FNV-1a of the parts, which is the same on every machine and in every version.
fn fnv1a<const N: usize>(parts: [&str; N]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{beginning, event_name};

    #[test]
    fn a_message_is_cut_where_the_api_server_would_not_have_it() {
        assert_eq!(beginning("short"), "short");
        assert_eq!(beginning(&"x".repeat(2000)).len(), 1000);
        // Three bytes each.
        assert_eq!(beginning(&"字".repeat(2000)).len(), 999);
    }

    #[test]
    fn an_event_of_a_long_name_has_a_valid_name() {
        assert_eq!(event_name("rs", 7), "rs.0000000000000007");
        for end in ["-x", ".x", "-.x"] {
            let name = event_name(&format!("{}{end}{}", "a".repeat(201 - end.len()), "b".repeat(50)), 7);
            assert_eq!(name.trim_start_matches('a'), ".0000000000000007", "{end}");
        }
    }
}
