//! Translates between an [`Intent`] and a PodGroup of Volcano's API, in both directions.
//!
//! A *dialect* is one API in which a PodGroup can be written. This file is the only place in the controller that knows the fields of Volcano's
//! PodGroup. Another API (`scheduling.k8s.io`) would be a second file like this one.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::Preconditions;
use kube::core::TypeMeta;
use serde_json::{Map, Value, json};

use crate::api::membership::controller_of;
use crate::api::names::{APPLIED, ASKED_MIN_MEMBER, CONTROLLER, COPIED_PREFIX, MANAGED_BY, RETIRING};
use crate::api::podgroup::PodGroupSpec;
use crate::api::quantities::RawQuantity;
use crate::api::{PodGroup, Uid};
use crate::lifecycle::{Applied, Existing, Intent, NotOurs, Ours, Version};

/// Reads a PodGroup for a controller that serves the schedulers `served`.
///
/// A PodGroup that another release manages for other schedulers is foreign, because the watches of this controller do not show its members.
#[must_use]
pub fn existing(group: &PodGroup, served: &[String]) -> Existing {
    let meta = &group.metadata;
    let version = Version {
        uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    };
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
    if !group.is_managed() {
        return Existing::Foreign(version, NotOurs::Unlabelled);
    }
    let applied = annotation(APPLIED).and_then(|text| serde_json::from_str::<Applied>(text).ok());
    if applied.as_ref().and_then(|applied| applied.scheduler.as_ref()).is_some_and(|scheduler| !served.contains(scheduler)) {
        return Existing::Foreign(version, NotOurs::OtherSchedulers);
    }
    Existing::Ours(Ours {
        version,
        retiring: annotation(RETIRING).is_some(),
        terminating: meta.deletion_timestamp.is_some(),
        owner: controller_of(meta).map(|owner| Uid::from(owner.uid.as_str())),
        // If the annotation cannot be read, every field is written again and every left-over key is removed.
        applied: Some(applied.unwrap_or_else(|| current_keys(group))),
    })
}

/// Returns an [`Applied`] with the keys that the object has now. Its values differ from every wanted value, except for annotations.
fn current_keys(group: &PodGroup) -> Applied {
    let names = group.spec.min_resources.iter().flatten().map(|(name, _)| (name.clone(), String::new()));
    let copied = group.metadata.annotations.iter().flatten().filter(|(key, _)| key.starts_with(COPIED_PREFIX));
    Applied {
        min_member: 0,
        asked: Some(0),
        min_resources: names.collect(),
        queue: String::new(),
        scheduler: None,
        priority_class: Some(String::new()),
        annotations: copied.map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

/// Returns the PodGroup to create for an intent.
#[must_use]
pub fn object(intent: &Intent) -> PodGroup {
    let fields = &intent.fields;
    let mut annotations = fields.annotations.clone();
    annotations.insert(APPLIED.to_owned(), applied_json(fields));
    annotations.extend(fields.asked.map(|asked| (ASKED_MIN_MEMBER.to_owned(), asked.to_string())));
    let resources = |fields: &Applied| {
        fields.min_resources.iter().map(|(name, amount)| (name.clone(), RawQuantity::Text(amount.clone()))).collect::<BTreeMap<_, _>>()
    };
    PodGroup {
        types: Some(TypeMeta::resource::<PodGroup>()),
        metadata: ObjectMeta {
            namespace: Some(intent.group.namespace.to_string()),
            name: Some(intent.group.name.to_string()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), CONTROLLER.to_owned())])),
            annotations: Some(annotations),
            owner_references: Some(vec![owner_reference(intent)]),
            ..ObjectMeta::default()
        },
        spec: PodGroupSpec {
            min_member: i32::try_from(fields.min_member).ok(),
            min_resources: Some(resources(fields)).filter(|map| !map.is_empty()),
            priority_class_name: fields.priority_class.clone(),
            queue: Some(fields.queue.clone()),
            ..PodGroupSpec::default()
        },
        status: None,
    }
}

/// Returns the merge patch from the fields that were last written to the fields of the intent.
///
/// The patch contains only fields with a changed source, so it does not overwrite a field that an admin set. It also contains the
/// resourceVersion that it was computed from. Without it, two patches could apply one after the other: the object would have
/// fields of both and remember the fields of one (L1). The UID protects another object of the same name.
#[must_use]
pub fn amendment(on: &Version, from: Option<&Applied>, to: &Intent, adopt: bool) -> Value {
    let fields = &to.fields;
    let before = from.cloned().unwrap_or_default();
    let all = from.is_none();
    let mut spec = Map::new();
    if all || before.min_member != fields.min_member {
        spec.insert("minMember".to_owned(), json!(fields.min_member));
    }
    if all || before.min_resources != fields.min_resources {
        let resources = if fields.min_resources.is_empty() { Value::Null } else { map_patch(&before.min_resources, &fields.min_resources) };
        spec.insert("minResources".to_owned(), resources);
    }
    if all || before.queue != fields.queue {
        spec.insert("queue".to_owned(), json!(fields.queue));
    }
    if all || before.priority_class != fields.priority_class {
        spec.insert("priorityClassName".to_owned(), json!(fields.priority_class));
    }
    let mut annotations = map_patch(&before.annotations, &fields.annotations);
    if let Value::Object(map) = &mut annotations {
        map.insert(APPLIED.to_owned(), json!(applied_json(fields)));
        if all || before.asked != fields.asked {
            map.insert(ASKED_MIN_MEMBER.to_owned(), fields.asked.map_or(Value::Null, |asked| json!(asked.to_string())));
        }
    }
    let mut metadata = json!({ "uid": &*on.uid, "resourceVersion": on.resource_version, "annotations": annotations });
    if adopt && let Value::Object(map) = &mut metadata {
        map.insert("ownerReferences".to_owned(), json!([owner_reference(to)]));
    }
    json!({ "metadata": metadata, "spec": spec })
}

/// Returns the patch that sets or removes the mark `podgroup.dev/retiring` on exactly this version.
#[must_use]
pub fn mark(on: &Version, retiring: bool) -> Value {
    let value = if retiring { json!("true") } else { Value::Null };
    json!({ "metadata": { "uid": &*on.uid, "resourceVersion": on.resource_version, "annotations": { RETIRING: value } } })
}

/// Returns the preconditions of a DELETE of exactly this version. It cannot delete another object or another version, however late it arrives. S1 S2
#[must_use]
pub fn preconditions(version: &Version) -> Preconditions {
    Preconditions { uid: Some(version.uid.to_string()), resource_version: Some(version.resource_version.clone()) }
}

/// Returns the merge patch from one map to another: new and changed values, and null for removed keys.
fn map_patch(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Value {
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let new = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(gone.chain(new).collect())
}

/// Returns the value of the annotation `podgroup.dev/applied`.
fn applied_json(fields: &Applied) -> String {
    // Serializing maps of texts and numbers cannot fail. An empty text would only cause one more write.
    serde_json::to_string(fields).unwrap_or_default()
}

fn owner_reference(intent: &Intent) -> OwnerReference {
    OwnerReference {
        api_version: intent.owner.api_version.clone(),
        kind: intent.owner.kind.clone(),
        name: intent.owner.name.clone(),
        uid: intent.owner.uid.to_string(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
