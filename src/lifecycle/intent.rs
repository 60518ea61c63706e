//! Which PodGroup should exist for an owner of pods, with how many members?
//!
//! The sources of each field, in order (design.md §3): for a ReplicaSet that a Deployment owns the annotations of the *Deployment* (its
//! controller copies them to ReplicaSets and never removes them there), else its own; then the template's; for the queue then the namespace's.
//! Absent is absent: taking an annotation away is followed too. What cannot be read is a fault, and the next best value stands in.

use std::collections::BTreeMap;

use crate::api::names::{COPIED_PREFIX, DEFAULT_QUEUE, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use crate::api::quantities::{self, RawResources};
use crate::api::workload::{DeploymentFacts, GroupAnnotations, ObjectRef, PodSource, ReplicaSetFacts};
use crate::api::{Fault, GroupKey};
use crate::resources::{ResourceName, Resources};

use super::existing::Applied;

/// The most that copied annotations may come to, in bytes of keys and values: they stand twice on the PodGroup (once to remember what was
/// written), and the API server takes 256 KiB of annotations in all.
const COPIED_BYTES: usize = 64 * 1024;

/// The PodGroup that should exist for an owner while it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its namespace and name.
    pub group: GroupKey,
    /// For whom.
    pub owner: ObjectRef,
    /// What the controller writes into it.
    pub fields: Applied,
}

/// What an owner wishes, and what was wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The group of the owner's pods.
    pub intent: Intent,
    /// Whether the owner wants any pod now.
    pub wants_pods: bool,
    /// Who is told of the faults: the object that people edit.
    pub told: ObjectRef,
    /// What could not be used.
    pub faults: Vec<Fault>,
}

/// What the ReplicaSet wishes. None where no group is made for it: it is going, its pods are another scheduler's, or somebody else names their group.
#[must_use]
pub fn intend(
    replica_set: &ReplicaSetFacts,
    deployment: Option<&DeploymentFacts>,
    namespace_queue: Option<&str>,
    schedulers: &[String],
) -> Option<Wish> {
    let ours = schedulers.iter().any(|name| **name == *replica_set.scheduler);
    if replica_set.deleting || replica_set.named_group || !ours {
        return None;
    }
    let mut faults = replica_set.faults.clone();
    let sources = Sources {
        owner: deployment.map_or(&replica_set.annotations, |deployment| &deployment.annotations),
        template: &replica_set.template_annotations,
    };
    let wants_in_all = deployment.map_or(replica_set.wants, |deployment| deployment.wants);
    let asked = sources.min_member(wants_in_all, &mut faults);
    let min_member = asked.min(replica_set.wants).max(1);
    let fields = Applied {
        min_member,
        asked: (asked != min_member).then_some(asked),
        min_resources: quantities::written(&sources.min_resources(min_member, &replica_set.request, &mut faults)),
        queue: sources.queue(namespace_queue, &mut faults),
        priority_class: replica_set.priority_class.clone(),
        annotations: sources.copied(&mut faults),
    };
    let group = GroupKey::generated(&replica_set.object.namespace, &replica_set.object.uid);
    Some(Wish {
        intent: Intent { group, owner: replica_set.object.clone(), fields },
        wants_pods: replica_set.wants > 0,
        told: deployment.map_or(&replica_set.object, |deployment| &deployment.object).clone(),
        faults,
    })
}

/// What an owner wishes that is known only through a living pod of it (a bare pod is its own): a group of one, so that each pod is placed by itself.
#[must_use]
pub fn intend_for_pod(source: &PodSource, namespace_queue: Option<&str>) -> Wish {
    let mut faults = source.faults.clone();
    let none = GroupAnnotations::new();
    let sources = Sources { owner: &source.annotations, template: &none };
    let fields = Applied {
        min_member: 1,
        asked: None,
        min_resources: quantities::written(&sources.min_resources(1, &source.request, &mut faults)),
        queue: sources.queue(namespace_queue, &mut faults),
        priority_class: source.priority_class.clone(),
        annotations: sources.copied(&mut faults),
    };
    let group = GroupKey::generated(&source.owner.namespace, &source.owner.uid);
    Wish { intent: Intent { group, owner: source.owner.clone(), fields }, wants_pods: true, told: source.owner.clone(), faults }
}

/// The annotations that a field is looked up in, in order.
struct Sources<'a> {
    owner: &'a GroupAnnotations,
    template: &'a GroupAnnotations,
}

impl Sources<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.owner.get(key).or_else(|| self.template.get(key)).map(String::as_str)
    }

    /// The size that is asked for: a positive 32-bit number, else 1. More than the owner wants at all is told, and then `min` does the rest.
    fn min_member(&self, wants_in_all: u32, faults: &mut Vec<Fault>) -> u32 {
        let Some(text) = self.get(MIN_MEMBER) else {
            return 1;
        };
        match text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0) {
            None => {
                faults.push(Fault::new(MIN_MEMBER, text, "not a positive 32-bit number; 1 is used"));
                1
            }
            Some(asked) => {
                if asked > wants_in_all && wants_in_all > 0 {
                    // Without the number: an autoscaler changes it all day, and each text is an Event.
                    faults.push(Fault::new(
                        MIN_MEMBER,
                        text,
                        "more than the replicas that are wanted; the gang is as large as the replicas allow",
                    ));
                }
                asked
            }
        }
    }

    /// What is asked for, else what `min_member` pods of the template ask for; the number of pods is minMember's own matter.
    fn min_resources(&self, min_member: u32, request: &Resources, faults: &mut Vec<Fault>) -> Resources {
        if let Some(text) = self.get(MIN_RESOURCES) {
            match serde_json::from_str::<RawResources>(text) {
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

    /// The queue that is named, if its name could be one's.
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

    /// The owner's annotations that every tool expects to find on the PodGroup.
    fn copied(&self, faults: &mut Vec<Fault>) -> BTreeMap<String, String> {
        let mut bytes = 0_usize;
        let mut copied = BTreeMap::new();
        let mut full = None;
        for (key, value) in self.owner.iter().filter(|(key, _)| key.starts_with(COPIED_PREFIX)) {
            let with = bytes.saturating_add(key.len()).saturating_add(value.len());
            if with > COPIED_BYTES {
                // One fault, for the first: there may be thousands.
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

/// Whether the text is a DNS-1123 subdomain, as the names of queues must be.
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
