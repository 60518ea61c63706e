//! The cache of PodGroups.

use std::collections::HashMap;

use crate::api::GroupKey;
use crate::lifecycle::{Existing, NotOurs, Version};
use crate::runtime::watch::{BadObject, WatchEvent};

use super::{Affected, bad_uid};

/// The facts about a PodGroup.
#[derive(Clone, Debug)]
pub struct ObservedGroup {
    /// Its namespace and name.
    pub key: GroupKey,
    /// The object, as the decision sees it.
    pub existing: Existing,
    /// Whether no watch shows the kind of its owner. Then the controller does not know whether the owner exists.
    pub unwatched_owner: bool,
}

/// PodGroups by name.
#[derive(Default)]
pub(super) struct Groups {
    by_key: HashMap<GroupKey, ObservedGroup>,
}

impl Groups {
    pub(super) fn get(&self, key: &GroupKey) -> Option<&Existing> {
        self.by_key.get(key).map(|seen| &seen.existing)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &GroupKey> {
        self.by_key.keys()
    }

    /// Returns whether the PodGroup exists and no watch shows the kind of its owner.
    pub(super) fn has_unwatched_owner(&self, key: &GroupKey) -> bool {
        self.by_key.get(key).is_some_and(|seen| seen.unwatched_owner)
    }

    pub(super) fn take(&mut self, event: WatchEvent<ObservedGroup>) -> Vec<Affected> {
        match event {
            WatchEvent::Reset { objects, bad, .. } => {
                let before = std::mem::take(&mut self.by_key);
                let mut affected: Vec<Affected> = objects.into_iter().chain(bad.iter().map(foreign)).map(|seen| self.put(seen)).collect();
                let mut missed: Vec<GroupKey> = before.into_keys().filter(|key| !self.by_key.contains_key(key)).collect();
                missed.sort();
                affected.extend(missed.into_iter().map(Affected::UnlistedGroup));
                affected
            }
            WatchEvent::UpToDate(_) => Vec::new(),
            WatchEvent::Apply(seen) => vec![self.put(seen)],
            WatchEvent::Delete(seen) => vec![self.drop(seen)],
            WatchEvent::Bad(bad) if bad.deleted => vec![self.drop(foreign(&bad))],
            WatchEvent::Bad(bad) => vec![self.put(foreign(&bad))],
        }
    }

    fn put(&mut self, seen: ObservedGroup) -> Affected {
        let key = seen.key.clone();
        self.by_key.insert(seen.key.clone(), seen);
        Affected::Group(key, None)
    }

    fn drop(&mut self, seen: ObservedGroup) -> Affected {
        self.by_key.remove(&seen.key);
        Affected::Group(seen.key, Some(seen.existing.version().uid.clone()))
    }
}

/// Returns a PodGroup that cannot be decoded as a foreign one. The controller does not change it, and an Event reports it.
fn foreign(bad: &BadObject) -> ObservedGroup {
    let version = Version { uid: bad_uid(bad), resource_version: bad.resource_version.clone().unwrap_or_default() };
    ObservedGroup {
        key: GroupKey::new(bad.namespace.as_deref().unwrap_or_default(), &bad.name),
        existing: Existing::Foreign(version, NotOurs::Unreadable),
        unwatched_owner: false,
    }
}
