//! Remembers where deleted queues were in the tree.
//!
//! What is charged in a deleted queue still counts in the queues above it (T3), or its former siblings would use their parent's capability a
//! second time. A place is remembered while anything is charged or reserved in the queue or below it. There are two sources:
//!
//! ```text
//! this process saw the deletion          the last parent; precedes every pod
//! a binding wrote the path onto a pod    the parent in that path; of several pods, the one that was created last, then the larger UID
//! ```
//!
//! So the order in which pods are read does not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;

/// What says where a queue was. The greater one is believed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PlaceSource {
    /// The path that a binding wrote onto this pod.
    Pod {
        /// When the pod was created, in seconds since 1970. The youngest pod was bound in the newest tree.
        created: i64,
        /// The UID of the pod: of pods of the same second the greater one is believed.
        uid: Uid,
    },
    /// The queue was deleted while this process knew its parent.
    Seen,
}

/// The former parents of queues that do not exist.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Places {
    places: BTreeMap<Arc<str>, (Arc<str>, PlaceSource)>,
    /// The inverse of `places`. No value is empty (B4).
    below: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Places {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.keys()
    }

    /// Returns the former parent of a queue.
    pub(super) fn parent(&self, queue: &str) -> Option<&Arc<str>> {
        self.places.get(queue).map(|(parent, _)| parent)
    }

    /// Returns the queues that were below this one, by name.
    pub(super) fn below(&self, queue: &str) -> impl Iterator<Item = &Arc<str>> {
        self.below.get(queue).into_iter().flatten()
    }

    /// Whether the source is believed more than what is remembered of the queue.
    pub(super) fn believes(&self, queue: &str, source: &PlaceSource) -> bool {
        self.places.get(queue).is_none_or(|(_, known)| known < source)
    }

    pub(super) fn put(&mut self, queue: Arc<str>, parent: Arc<str>, source: PlaceSource) {
        self.remove(&queue);
        self.below.entry(Arc::clone(&parent)).or_default().insert(Arc::clone(&queue));
        self.places.insert(queue, (parent, source));
    }

    pub(super) fn remove(&mut self, queue: &str) {
        let Some((parent, _)) = self.places.remove(queue) else { return };
        if let Some(siblings) = self.below.get_mut(&parent) {
            siblings.remove(queue);
            if siblings.is_empty() {
                self.below.remove(&parent);
            }
        }
    }
}
