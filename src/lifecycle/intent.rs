//! Says which PodGroup should exist for an owner of pods, and with which fields.
//!
//! The sources of a field, in order (design.md §3):
//!
//! 1. the annotations of the Deployment, for a ReplicaSet of a Deployment. (The Deployment controller copies annotations to ReplicaSets and never
//!    removes them there.) For every other owner, its own annotations;
//! 2. the annotations of the pod template;
//! 3. for the queue, the annotation of the namespace.
//!
//! When an annotation is removed, the field changes too. A value that cannot be used becomes a fault, and a default is used.

use std::collections::BTreeMap;

use crate::api::names::{COPIED_PREFIX, DEFAULT_QUEUE, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use crate::api::quantities::{self, RawResources};
use crate::api::workload::{DeploymentFacts, Gang, GroupAnnotations, ObjectRef, OwnerFacts, OwnerSet};
use crate::api::{Fault, GroupKey};
use crate::resources::{ResourceName, Resources};

use super::existing::Applied;

/// The largest total size of copied annotations, in bytes of JSON. JSON may need six bytes for one. Each copied annotation is on the PodGroup twice: as
/// itself, and inside `podgroup.dev/applied`. The API server accepts 256 KiB of annotations in all.
const COPIED_BYTES: usize = 64 * 1024;

/// The most resources in `group-min-resources`. No node has nearly as many, and they are on the PodGroup twice too.
const MOST_RESOURCES: usize = 64;

/// The PodGroup that should exist for an owner while the owner needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The namespace and name of the PodGroup.
    pub group: GroupKey,
    /// The owner of the PodGroup.
    pub owner: ObjectRef,
    /// The fields that the controller writes.
    pub fields: Applied,
}

/// The PodGroup that an owner asks for, and the faults in its annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredGroup {
    /// The PodGroup of the owner's pods.
    pub intent: Intent,
    /// Whether the owner wants any pod now.
    pub wants_pods: bool,
    /// The object that gets the Events: the one that people edit.
    pub event_target: ObjectRef,
    /// The object that created this owner together with others, if the gang that is asked for has only pods of this owner.
    pub part_of: Option<OwnerSet>,
    /// The values that could not be used.
    pub faults: Vec<Fault>,
}

/// Returns the PodGroup that the owner asks for.
///
/// `None` if the owner gets no PodGroup: it is being deleted, its pods belong to a scheduler that is not served, or its template names a PodGroup.
#[must_use]
pub fn intend(
    owner: &OwnerFacts,
    deployment: Option<&DeploymentFacts>,
    namespace_queue: Option<&str>,
    schedulers: &[String],
) -> Option<DesiredGroup> {
    let ours = schedulers.iter().any(|name| **name == *owner.scheduler);
    if owner.deleting || owner.named_group || !ours {
        return None;
    }
    let mut faults = owner.faults.clone();
    let sources = Sources {
        owner: deployment.map_or(&owner.annotations, |deployment| &deployment.annotations),
        template: &owner.template_annotations,
    };
    let asked = sources.asked_min_member(&mut faults);
    let min_member = effective_min_member(asked, &owner.gang, deployment, &mut faults);
    let fields = Applied {
        min_member,
        asked: (asked != min_member).then_some(asked),
        min_resources: quantities::written(&sources.min_resources(min_member, &owner.request, &mut faults)),
        queue: sources.queue(namespace_queue, &mut faults),
        scheduler: Some(owner.scheduler.to_string()),
        priority_class: owner.priority_class.clone(),
        annotations: sources.copied(&mut faults),
    };
    let group = GroupKey::generated(&owner.object.namespace, &owner.object.uid);
    Some(DesiredGroup {
        intent: Intent { group, owner: owner.object.clone(), fields },
        wants_pods: owner.wants_pods,
        event_target: owner.parent.as_ref().unwrap_or(&owner.object).clone(),
        part_of: owner.set.clone().filter(|_| asked > 1),
        faults,
    })
}

/// Returns the minMember to write for the minMember that is asked for.
///
/// It is never more than the pods that the owner creates now: otherwise those pods would wait for ever. A fault reports a value that is larger than the
/// owner ever creates.
fn effective_min_member(asked: u32, gang: &Gang, deployment: Option<&DeploymentFacts>, faults: &mut Vec<Fault>) -> u32 {
    match gang {
        Gang::Unknown => asked,
        Gang::One(why) => {
            if asked > 1 {
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), *why));
            }
            1
        }
        Gang::UpTo { now, in_all } => {
            let in_all = deployment.map_or(*in_all, |deployment| deployment.wants);
            if asked > in_all && in_all > 0 {
                // The text does not contain the number of wanted pods: an autoscaler changes it often, and each new text is a new Event.
                let why = "more than the pods that are wanted; the gang is as large as they allow";
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), why));
            }
            asked.min(*now).max(1)
        }
    }
}

/// The annotations in which a field is looked up, in order.
struct Sources<'a> {
    owner: &'a GroupAnnotations,
    template: &'a GroupAnnotations,
}

impl Sources<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.owner.get(key).or_else(|| self.template.get(key)).map(String::as_str)
    }

    /// Returns the minMember that is asked for: a positive 32-bit number, otherwise 1.
    fn asked_min_member(&self, faults: &mut Vec<Fault>) -> u32 {
        let Some(text) = self.get(MIN_MEMBER) else {
            return 1;
        };
        let number = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        number.unwrap_or_else(|| {
            faults.push(Fault::new(MIN_MEMBER, text, "not a positive 32-bit number; 1 is used"));
            1
        })
    }

    /// Returns the minResources that are asked for, otherwise the requests of `min_member` pods of the template. The resource `pods` is left out, because
    /// minMember already says it.
    fn min_resources(&self, min_member: u32, request: &Resources, faults: &mut Vec<Fault>) -> Resources {
        if let Some(text) = self.get(MIN_RESOURCES) {
            match serde_json::from_str::<RawResources>(text) {
                Ok(raw) if raw.len() > MOST_RESOURCES => {
                    faults.push(Fault::new(MIN_RESOURCES, text, "more than 64 resources; the pods' own requests are used"));
                }
                Ok(raw) => {
                    let mut found = Vec::new();
                    let amounts = quantities::resources(Some(&raw), MIN_RESOURCES, &mut found);
                    if let Some((name, amount)) = amounts.iter().find(|(_, amount)| amount.is_negative()) {
                        found.push(Fault::new(format!("{MIN_RESOURCES}.{name}"), &amount.to_string(), "less than 0"));
                    }
                    if found.is_empty() {
                        return amounts;
                    }
                    faults.extend(found);
                }
                Err(_) => faults.push(Fault::new(MIN_RESOURCES, text, "not a JSON object of quantities; the pods' own requests are used")),
            }
        }
        request
            .iter()
            .filter(|(name, _)| &***name != ResourceName::PODS)
            .map(|(name, amount)| (name.clone(), amount.times(min_member)))
            .collect()
    }

    /// Returns the name of the queue; the default queue if the name is not valid.
    fn queue(&self, namespace: Option<&str>, faults: &mut Vec<Fault>) -> String {
        match self.get(QUEUE_NAME).or(namespace) {
            None => DEFAULT_QUEUE.to_owned(),
            Some(name) if is_subdomain(name) => name.to_owned(),
            Some(name) => {
                faults.push(Fault::new(QUEUE_NAME, name, "not the name of a queue (a DNS-1123 subdomain); the default queue is used"));
                DEFAULT_QUEUE.to_owned()
            }
        }
    }

    /// Returns the annotations of the owner that are copied to the PodGroup.
    fn copied(&self, faults: &mut Vec<Fault>) -> BTreeMap<String, String> {
        let mut bytes = 0_usize;
        let mut copied = BTreeMap::new();
        let mut full = None;
        for (key, value) in self.owner.iter().filter(|(key, _)| key.starts_with(COPIED_PREFIX)) {
            let with = bytes.saturating_add(key.len()).saturating_add(length_as_json(value));
            if with > COPIED_BYTES {
                // Only the first one becomes a fault: there may be thousands.
                full.get_or_insert_with(|| {
                    Fault::new(key.clone(), value, "not copied: the annotations to copy are larger than 64 KiB in all")
                });
                continue;
            }
            bytes = with;
            copied.insert(key.clone(), value.clone());
        }
        faults.extend(full);
        copied
    }
}

/// Returns the length of the text as JSON, in bytes. A control character has six bytes.
fn length_as_json(text: &str) -> usize {
    text.bytes().fold(2_usize, |length, byte| {
        length.saturating_add(match byte {
            b'"' | b'\\' => 2,
            0..0x20 => 6,
            _ => 1,
        })
    })
}

/// Returns whether the text is a DNS-1123 subdomain, as the name of a queue must be.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
#[path = "intent_tests.rs"]
mod tests;
