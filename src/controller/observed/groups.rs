//! Which PodGroups are there?

use std::collections::HashMap;

use crate::api::GroupKey;
use crate::lifecycle::{Existing, NotOurs, Version};
use crate::runtime::watch::{BadObject, WatchEvent};

use super::{Touched, bad_uid};

/// A PodGroup.
#[derive(Clone, Debug)]
pub struct SeenGroup {
    /// Its namespace and name.
    pub key: GroupKey,
    /// What is there.
    pub existing: Existing,
    /// Whether its owner is of a kind that is not watched: then nobody can say whether that one lives.
    pub unwatched_owner: bool,
}

/// PodGroups by name.
#[derive(Default)]
pub(super) struct Groups {
    by_key: HashMap<GroupKey, SeenGroup>,
}

impl Groups {
    pub(super) fn get(&self, key: &GroupKey) -> Option<&Existing> {
        self.by_key.get(key).map(|seen| &seen.existing)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &GroupKey> {
        self.by_key.keys()
    }

    /// Whether the group is there and its owner of a kind that is not watched.
    pub(super) fn has_unwatched_owner(&self, key: &GroupKey) -> bool {
        self.by_key.get(key).is_some_and(|seen| seen.unwatched_owner)
    }

    pub(super) fn take(&mut self, event: WatchEvent<SeenGroup>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, bad } => {
                let before = std::mem::take(&mut self.by_key);
                let mut touched: Vec<Touched> = objects.into_iter().chain(bad.iter().map(foreign)).map(|seen| self.put(seen)).collect();
                let mut missed: Vec<GroupKey> = before.into_keys().filter(|key| !self.by_key.contains_key(key)).collect();
                missed.sort();
                touched.extend(missed.into_iter().map(Touched::MissedGroup));
                touched
            }
            WatchEvent::Apply(seen) => vec![self.put(seen)],
            WatchEvent::Delete(seen) => vec![self.drop(seen)],
            WatchEvent::Bad(bad) if bad.deleted => vec![self.drop(foreign(&bad))],
            WatchEvent::Bad(bad) => vec![self.put(foreign(&bad))],
        }
    }

    fn put(&mut self, seen: SeenGroup) -> Touched {
        let key = seen.key.clone();
        self.by_key.insert(seen.key.clone(), seen);
        Touched::Group(key, None)
    }

    fn drop(&mut self, seen: SeenGroup) -> Touched {
        self.by_key.remove(&seen.key);
        Touched::Group(seen.key, Some(seen.existing.version().uid.clone()))
    }
}

/// A PodGroup that cannot be read is somebody else's: it is left alone, and people are told.
fn foreign(bad: &BadObject) -> SeenGroup {
    let version = Version { uid: bad_uid(bad), resource_version: bad.resource_version.clone().unwrap_or_default() };
    SeenGroup {
        key: GroupKey::new(bad.namespace.as_deref().unwrap_or_default(), &bad.name),
        existing: Existing::Foreign(version, NotOurs::Unreadable),
        unwatched_owner: false,
    }
}
