//! Who must be told what is wrong, and in which words?
//!
//! A complaint becomes one Event on the object that people edit, once for each change: the same complaint again is no news.

use crate::api::workload::ObjectRef;

use super::existing::{Existing, NotOurs};
use super::intent::Wish;

/// Something that a person has to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Complaint {
    /// On which object people look for it.
    pub about: ObjectRef,
    /// What programs read: one of a bounded set.
    pub reason: &'static str,
    /// What people read.
    pub message: String,
}

/// All that is wrong with what this owner wishes, in order. `refused` is what the API server said when it would not have the group. Nothing while it
/// wants no pods: the old ReplicaSets of a Deployment keep in their templates what was mended long ago.
#[must_use]
pub fn complaints(wish: &Wish, existing: Option<&Existing>, refused: Option<&str>) -> Vec<Complaint> {
    let complaint = |reason, message| Complaint { about: wish.told.clone(), reason, message };
    if !wish.wants_pods {
        return Vec::new();
    }
    let mut found: Vec<Complaint> = wish.faults.iter().map(|fault| complaint("InvalidPodGroupSource", fault.to_string())).collect();
    if let Some(Existing::Foreign(_, why)) = existing {
        let name = &wish.intent.group.name;
        let why = match why {
            NotOurs::Unlabelled => "was not made by podgroup-controller",
            NotOurs::OtherSchedulers => "is kept for a scheduler that this podgroup-controller does not serve",
            NotOurs::Unreadable => "cannot be decoded, so nobody can say whose it is",
        };
        let message = format!("PodGroup {name} {why}; it is left alone, and its spec does not follow this object");
        found.push(complaint("PodGroupNotOurs", message));
    }
    if let Some(why) = refused {
        found.push(complaint("PodGroupRefused", format!("the API server refuses PodGroup {}: {why}", wish.intent.group.name)));
    }
    found
}

#[cfg(test)]
#[path = "complaint_tests.rs"]
mod tests;
