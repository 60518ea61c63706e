//! Says which warnings an owner gets, and their texts.
//!
//! A warning becomes one Event on the object that people edit. The same warning is written only once.

use std::cmp::Ordering;

use crate::api::Fault;
use crate::api::misspelt::UNKNOWN_SCHEDULER;
use crate::api::names::{GANG, GANG_OF_JOBSET, MIN_MEMBER};
use crate::api::workload::{ObjectRef, OwnerFacts, OwnerSet};

use super::existing::{Existing, NotOurs};
use super::intent::DesiredGroup;

/// A fault that a person must correct. Two that differ only in the numbers at the end are the same one: an autoscaler changes how many pods
/// are wanted, and each new warning is an Event.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The object of the Event.
    pub about: ObjectRef,
    /// The reason of the Event, from a bounded set.
    pub reason: &'static str,
    /// The message of the Event.
    pub message: String,
}

impl Warning {
    fn without_last_numbers(&self) -> (&ObjectRef, &'static str, &str, String) {
        let (before, end) = self.message.rsplit_once(": ").unwrap_or(("", &self.message));
        (&self.about, self.reason, before, end.chars().filter(|letter| !letter.is_ascii_digit()).collect())
    }
}

impl PartialEq for Warning {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Warning {}

impl PartialOrd for Warning {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Warning {
    fn cmp(&self, other: &Self) -> Ordering {
        self.without_last_numbers().cmp(&other.without_last_numbers())
    }
}

/// The most warnings of one owner at a time. There are fewer reasons, so this bounds only the number of faults.
const MAX_WARNINGS: usize = 8;

/// Returns the warnings about the PodGroup that an owner asks for: at most eight, in a fixed order. Warnings about the PodGroup come first.
/// A template can have any number of faults, and a default replaces each of these values.
///
/// `refused` is the message of the API server when it refuses the PodGroup. `deleted` is whether other clients delete the PodGroup again
/// and again. Empty while the owner wants no pods: the templates of old ReplicaSets still have faults that were corrected in the Deployment
/// long ago.
#[must_use]
pub fn warnings(desired: &DesiredGroup, existing: Option<&Existing>, refused: Option<&str>, deleted: bool) -> Vec<Warning> {
    let warning = |reason, message| Warning { about: desired.event_target.clone(), reason, message };
    if !desired.wants_pods {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(Existing::Foreign(_, why)) = existing {
        let name = &desired.intent.group.name;
        let why = match why {
            NotOurs::Unlabelled => "was not created by podgroup-controller",
            NotOurs::OtherSchedulers => "is for a scheduler that this podgroup-controller does not serve",
            NotOurs::Unreadable => "cannot be decoded",
        };
        let message = format!("PodGroup {name} {why}; podgroup-controller does not change it, and its spec does not follow this object");
        found.push(warning("PodGroupNotOurs", message));
    }
    if let Some(why) = refused {
        found.push(warning("PodGroupRefused", format!("the API server refuses PodGroup {}: {why}", desired.intent.group.name)));
    }
    if deleted {
        // The text has no number, so an episode is one Event.
        let name = &desired.intent.group.name;
        let message = format!(
            "other clients delete PodGroup {name} again and again; podgroup-controller creates it again after a wait of 5 s to 60 s. \
             The audit log of the API server names the client"
        );
        found.push(warning("PodGroupDeletedRepeatedly", message));
    }
    if let Some(set) = &desired.part_of {
        let OwnerSet { object: ObjectRef { kind, name, .. }, owners, .. } = set;
        let message = format!(
            "{MIN_MEMBER} is for this object alone: {kind} {name} creates {owners} such objects, each with its own PodGroup, and they do not wait \
             for each other. For one gang write the annotation {GANG}: {GANG_OF_JOBSET} on every pod template"
        );
        found.push(warning("GangOfOnePart", message));
    }
    found.extend(desired.faults.iter().map(|fault| warning("InvalidPodGroupSource", fault.to_string())));
    found.truncate(MAX_WARNINGS);
    found
}

/// Returns the warning about an owner without a PodGroup that names nearly a scheduler that is served.
#[must_use]
pub fn misnamed(owner: &OwnerFacts, fault: &Fault) -> Warning {
    let made_by = owner.set.as_ref().map(|set| &set.object).or(owner.parent.as_ref());
    Warning { about: made_by.unwrap_or(&owner.object).clone(), reason: UNKNOWN_SCHEDULER, message: fault.to_string() }
}

#[cfg(test)]
#[path = "warning_tests.rs"]
mod tests;
