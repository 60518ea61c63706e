//! Says which PodGroup should exist for an owner of pods, and with which fields.
//!
//! The sources of a field, in order:
//!
//! 1. the annotations of the Deployment, for a ReplicaSet of a Deployment. (The Deployment controller copies annotations to ReplicaSets and never
//!    removes them there.) For every other owner, its own annotations;
//! 2. the annotations of the pod template;
//! 3. for the queue, the annotation of the namespace.
//!
//! When an annotation is removed, the field changes too. A value that cannot be used becomes a fault, and a default is used.
//! [`super::set_intent`] does the same for several owners that have one PodGroup.

use crate::api::names::{COMPLETIONS, MIN_MEMBER};
use crate::api::quantities;
use crate::api::workload::{DeploymentFacts, Gang, NamespaceQueue, ObjectRef, OwnerFacts, OwnerSet};
use crate::api::{Fault, GroupKey};

use super::existing::Applied;
use super::sources::{Sources, requests_of};

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
    namespace_queue: &NamespaceQueue,
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
    let asked = sources.asked_min_member("1 is used", &mut faults).unwrap_or(1);
    let min_member = effective_min_member(asked, &owner.gang, deployment, &mut faults);
    let fields = Applied {
        min_member,
        asked: (asked != min_member).then_some(asked),
        min_resources: quantities::written(
            &sources.asked_min_resources(&mut faults).unwrap_or_else(|| requests_of(min_member, &owner.request)),
        ),
        queue: sources.queue(namespace_queue, &mut faults),
        scheduler: Some(owner.scheduler.to_string()),
        priority_class: owner.priority_class.clone(),
        annotations: {
            let mut annotations = sources.copied(&mut faults);
            if let Gang::UpTo { completions: Some(completions), .. } = owner.gang
                && asked > 1
            {
                annotations.insert(COMPLETIONS.to_owned(), completions.to_string());
            }
            annotations
        },
    };
    // Last: a value that cannot be used is the worse mistake, and few faults become Events.
    sources.misspelt(namespace_queue, &mut faults);
    let group = GroupKey::generated(&owner.object.namespace, &owner.object.uid);
    Some(DesiredGroup {
        intent: Intent { group, owner: owner.object.clone(), fields },
        wants_pods: owner.wants_pods,
        event_target: owner.parent.as_ref().unwrap_or(&owner.object).clone(),
        part_of: owner.set.clone().filter(|set| set.owners > 1 && asked > 1),
        faults,
    })
}

/// Returns the minMember to write for the minMember that is asked for.
///
/// It is never more than the pods that the owner creates now: otherwise those pods would wait for ever. A fault reports a value that is
/// larger than the owner ever creates.
fn effective_min_member(asked: u32, gang: &Gang, deployment: Option<&DeploymentFacts>, faults: &mut Vec<Fault>) -> u32 {
    match gang {
        Gang::Unknown => asked,
        Gang::One(why) => {
            if asked > 1 {
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), *why));
            }
            1
        }
        Gang::UpTo { now, in_all, .. } => {
            let in_all = deployment.map_or(*in_all, |deployment| deployment.wants);
            if asked > in_all && in_all > 0 {
                let why = format!("more than the pods that are wanted; the gang is as large as they allow: {in_all}");
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), why));
            }
            asked.min(*now).max(1)
        }
    }
}

#[cfg(test)]
#[path = "intent_tests.rs"]
mod tests;
