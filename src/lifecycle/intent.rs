//! Which PodGroup should exist for an owner of pods, with how many members?
//!
//! The sources of each field, in order (design.md §3): for a ReplicaSet that a Deployment owns the annotations of the *Deployment* (its
//! controller copies them to ReplicaSets and never removes them there), else its own; then the template's; for the queue then the namespace's.
//! Absent is absent: taking an annotation away is followed too. What cannot be read is a fault, and the next best value stands in.

use std::collections::BTreeMap;

use crate::api::names::{COPIED_PREFIX, DEFAULT_QUEUE, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use crate::api::quantities::{self, RawResources};
use crate::api::workload::{DeploymentFacts, Gang, GroupAnnotations, ObjectRef, OwnerFacts};
use crate::api::{Fault, GroupKey};
use crate::resources::{ResourceName, Resources};

use super::existing::Applied;

/// The most that copied annotations may come to, in bytes as JSON writes them, which may be six for one: they stand twice on the PodGroup (once, as
/// JSON, to remember what was written), and the API server takes 256 KiB of annotations in all.
const COPIED_BYTES: usize = 64 * 1024;

/// The most resources that may be asked for. No node has nearly as many, and what is asked for stands twice on the PodGroup too.
const MOST_RESOURCES: usize = 64;

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

/// What the owner wishes. None where no group is made for it: it is going, its pods are another scheduler's, or somebody else names their group.
#[must_use]
pub fn intend(
    owner: &OwnerFacts,
    deployment: Option<&DeploymentFacts>,
    namespace_queue: Option<&str>,
    schedulers: &[String],
) -> Option<Wish> {
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
    let min_member = in_force(asked, &owner.gang, deployment, &mut faults);
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
    Some(Wish {
        intent: Intent { group, owner: owner.object.clone(), fields },
        wants_pods: owner.wants_pods,
        told: owner.above.as_ref().unwrap_or(&owner.object).clone(),
        faults,
    })
}

/// The size that is in force of the one that is asked for: never more than the owner makes, or those that it made would wait for ever. People are
/// told where they ask for more than it ever makes.
fn in_force(asked: u32, gang: &Gang, deployment: Option<&DeploymentFacts>, faults: &mut Vec<Fault>) -> u32 {
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
                // Without the number that is wanted: an autoscaler changes it all day, and each text is an Event.
                let why = "more than the pods that are wanted; the gang is as large as they allow";
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), why));
            }
            asked.min(*now).max(1)
        }
    }
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

    /// The size that is asked for: a positive 32-bit number, else 1.
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

    /// What is asked for, else what `min_member` pods of the template ask for; the number of pods is minMember's own matter.
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
            let with = bytes.saturating_add(key.len()).saturating_add(length_as_json(value));
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

/// How many bytes the text has as JSON: a control character has six.
fn length_as_json(text: &str) -> usize {
    text.bytes().fold(2_usize, |length, byte| {
        length.saturating_add(match byte {
            b'"' | b'\\' => 2,
            0..0x20 => 6,
            _ => 1,
        })
    })
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
