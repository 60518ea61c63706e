//! Says which PodGroup should exist for several owners together, as for all Jobs of a JobSet, or a leader and the StatefulSet of its workers.
//!
//! The object that created the owners is not watched. What it wants is derived from the owners that are there:
//!
//! * Owners appear, and leave suspension, one after the other. So `minMember` counts each owner that is not there yet as one pod. The gang
//!   cannot be placed before all of them are there, and no part of it starts alone.
//! * A suspended owner counts with the pods that it wants afterwards. A finished owner counts nothing. One that is being deleted counts as not there.
//! * A stated `group-min-member` is that of the whole PodGroup, and owners that are not there do not count. It is for objects that create
//!   some owners only when others are ready.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{AWAITED_OWNERS, COMPLETIONS, COPIED_PREFIX, MIN_MEMBER, MIN_RESOURCES, QUEUE_NAME};
use crate::api::quantities;
use crate::api::workload::{Gang, GroupAnnotations, NamespaceQueue, OwnerFacts, OwnerSet};
use crate::api::{Fault, GroupKey};
use crate::resources::Resources;

use super::existing::Applied;
use super::intent::{DesiredGroup, Intent};
use super::sources::{Sources, requests_of};

/// The largest minMember that the API takes.
const MOST_MEMBERS: u32 = 2_147_483_647;

/// The name of the field in a fault about priority classes.
const PRIORITY_CLASS: &str = "spec.priorityClassName";

/// The name of the copied annotations in a fault about several of them.
const ANNOTATIONS: &str = "metadata.annotations";

/// An owner with what it says about its set.
type Part<'a> = (&'a OwnerSet, &'a OwnerFacts);

/// Returns the PodGroup of these owners together. `owners` are all owners that would belong to it, also those that have a PodGroup of their
/// own, in any order.
///
/// `None` if no owner asks for it that exists and has a scheduler that is served. If an object of the same name was deleted and created
/// again, the owners of the new one count.
#[must_use]
pub fn intend_for_set(
    group: &GroupKey,
    owners: &[&OwnerFacts],
    namespace_queue: &NamespaceQueue,
    schedulers: &[String],
) -> Option<DesiredGroup> {
    let alive = owners.iter().filter(|owner| !owner.deleting);
    let alive: Vec<Part<'_>> = alive.filter_map(|owner| Some((owner.set.as_ref()?, *owner))).collect();
    let joins = |(set, owner): &Part<'_>| set.joins && schedulers.iter().any(|name| **name == *owner.scheduler);
    let (newest, _) = alive.iter().copied().filter(joins).max_by_key(|(set, owner)| (set.born, &owner.object.uid))?;
    let here: Vec<Part<'_>> = alive.into_iter().filter(|(set, _)| set.object.uid == newest.object.uid).collect();
    let mut parts: Vec<Part<'_>> = here.iter().copied().filter(joins).collect();
    parts.sort_by_key(|(set, owner)| (set.index, &owner.object.name));
    let (_, first) = *parts.first()?;

    let mut faults = Vec::new();
    let (own, template) = (merged(&parts, |owner| &owner.annotations), merged(&parts, |owner| &owner.template_annotations));
    let sources = Sources { owner: &own, template: &template };
    let missing = newest.owners.saturating_sub(u32::try_from(here.len()).unwrap_or(u32::MAX));
    let asked = asked_min_member(&parts, &mut faults);
    let min_member = min_member(&parts, missing, asked, &mut faults);
    note_differences(&parts, &mut faults);
    let fields = Applied {
        min_member,
        asked: asked.filter(|asked| *asked != min_member),
        min_resources: quantities::written(
            &sources.asked_min_resources(&mut faults).unwrap_or_else(|| requests_of_first(min_member, &parts)),
        ),
        queue: sources.queue(namespace_queue, &mut faults),
        scheduler: Some(first.scheduler.to_string()),
        priority_class: parts.iter().find_map(|(_, owner)| owner.priority_class.clone()),
        annotations: sources.copied(&mut faults).into_iter().chain(completions(&parts, missing)).chain(awaited(missing, asked)).collect(),
    };
    faults.extend(parts.iter().flat_map(|(_, owner)| owner.faults.iter().cloned()));
    sources.misspelt(namespace_queue, &mut faults);
    // Owners of one template have the same faults, and only a few faults become Events.
    let mut said = BTreeSet::new();
    faults.retain(|fault| said.insert(fault.to_string()));
    Some(DesiredGroup {
        intent: Intent { group: group.clone(), owner: newest.object.clone(), fields },
        wants_pods: parts.iter().any(|(_, owner)| owner.wants_pods),
        event_target: newest.object.clone(),
        part_of: None,
        faults,
    })
}

/// Returns the annotations of all owners. If several have a key, the value of the first counts.
fn merged<'a>(parts: &[Part<'a>], of: impl Fn(&'a OwnerFacts) -> &'a GroupAnnotations) -> GroupAnnotations {
    let mut all = GroupAnnotations::new();
    for (key, value) in parts.iter().flat_map(|(_, owner)| of(owner)) {
        all.entry(key.clone()).or_insert_with(|| value.clone());
    }
    all
}

/// Returns what an owner itself says.
fn sources<'a>((_, owner): &Part<'a>) -> Sources<'a> {
    Sources { owner: &owner.annotations, template: &owner.template_annotations }
}

/// Returns the largest minMember that an owner asks for.
fn asked_min_member(parts: &[Part<'_>], faults: &mut Vec<Fault>) -> Option<u32> {
    parts.iter().filter_map(|part| sources(part).asked_min_member("it is ignored", faults)).max()
}

/// Returns the minMember to write: at least 1. With all owners there it is never more than the pods that they want, otherwise these would
/// wait for ever.
fn min_member(parts: &[Part<'_>], missing: u32, asked: Option<u32>, faults: &mut Vec<Fault>) -> u32 {
    let pods = sum(parts.iter().map(|(set, _)| set.pods));
    let number = match asked {
        None => pods.saturating_add(missing),
        Some(asked) if missing > 0 => asked,
        Some(asked) => {
            let in_all = sum(parts.iter().map(|(set, owner)| if let Gang::UpTo { in_all, .. } = owner.gang { in_all } else { set.pods }));
            if asked > in_all && in_all > 0 {
                let why = format!("more than the pods that are wanted; the gang is as large as they allow: {in_all}");
                faults.push(Fault::new(MIN_MEMBER, &asked.to_string(), why));
            }
            asked.min(pods)
        }
    };
    number.clamp(1, MOST_MEMBERS)
}

/// Returns the annotation with the number of pods that are to succeed in all, where they end: those that succeeded, and those that run at the
/// same time now. So the wave of one Job does not wait for that of another.
fn completions(parts: &[Part<'_>], missing: u32) -> Option<(String, String)> {
    let ends = parts.iter().any(|(set, _)| set.succeeded.is_some());
    let all = sum(parts.iter().map(|(set, _)| set.pods.saturating_add(set.succeeded.unwrap_or(0)))).saturating_add(missing);
    ends.then(|| (COMPLETIONS.to_owned(), all.to_string()))
}

/// Returns the annotation with the number of owners that are not created yet, where the minimum is that of all: the pods of the last one come
/// at the same time as it does, and a minimum without them would let a part of the gang start.
fn awaited(missing: u32, asked: Option<u32>) -> Option<(String, String)> {
    (missing > 0 && asked.is_none()).then(|| (AWAITED_OWNERS.to_owned(), missing.to_string()))
}

fn sum(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.fold(0, u32::saturating_add)
}

/// Returns the requests of the first `pods` pods, in the order of the owners.
fn requests_of_first(pods: u32, parts: &[Part<'_>]) -> Resources {
    let (mut total, mut left) = (Resources::new(), pods);
    for (set, owner) in parts {
        let counted = set.pods.min(left);
        left = left.saturating_sub(counted);
        total.add(&requests_of(counted, &owner.request));
    }
    total
}

/// Adds a fault for each field with different values. The text does not say which owner has which: it must not change when an owner appears.
fn note_differences(parts: &[Part<'_>], faults: &mut Vec<Fault>) {
    let of_key = |key: &'static str| parts.iter().filter_map(|part| sources(part).get(key).map(str::to_owned)).collect::<BTreeSet<_>>();
    let classes = parts.iter().filter_map(|(_, owner)| owner.priority_class.clone()).collect();
    let found = [
        (MIN_MEMBER, of_key(MIN_MEMBER), "different in parts of one gang; the largest is used"),
        (MIN_RESOURCES, of_key(MIN_RESOURCES), "different in parts of one gang; that of the first is used"),
        (QUEUE_NAME, of_key(QUEUE_NAME), "different in parts of one gang; that of the first is used"),
        (PRIORITY_CLASS, classes, "different in parts of one gang; the first that is named is used"),
    ];
    for (field, values, why) in found.into_iter().filter(|(_, values, _)| values.len() > 1) {
        faults.push(Fault::new(field, &values.into_iter().collect::<Vec<_>>().join(", "), why));
    }
    let copied = different_copied(parts);
    if !copied.is_empty() {
        // One fault for all of them: there may be thousands.
        faults.push(Fault::new(ANNOTATIONS, &copied.join(", "), "different in parts of one gang; those of the first are used"));
    }
}

/// Returns the keys of the copied annotations that have different values, in order.
fn different_copied<'a>(parts: &[Part<'a>]) -> Vec<&'a str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in parts.iter().flat_map(|(_, owner)| &owner.annotations).filter(|(key, _)| key.starts_with(COPIED_PREFIX)) {
        values.entry(key).or_default().insert(value);
    }
    values.into_iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key).collect()
}

#[cfg(test)]
#[path = "set_intent_tests.rs"]
mod tests;
