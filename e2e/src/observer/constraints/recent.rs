//! What changed lately, in the order of resourceVersions, and the states that come of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::objects::Objects;
use crate::observer::facts::{Kind, Release};

/// One version of one object.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) version: u64,
    /// When it arrived, in milliseconds.
    pub(super) at: i64,
    pub(super) kind: Kind,
    /// The UID of a pod, or a name.
    pub(super) key: String,
    /// The object; none where it is gone.
    pub(super) now: Option<Arc<Value>>,
    /// The scheduler that bound the pod by this change.
    pub(super) binding: Option<Release>,
}

/// A state that changed some time ago, and the changes since.
#[derive(Debug, Default)]
pub(super) struct Recent {
    state: Objects,
    log: Vec<Entry>,
    /// The newest version of each pod.
    newest: BTreeMap<String, Arc<Value>>,
}

impl Recent {
    pub(super) fn newest_pod(&self, uid: &str) -> Option<&Arc<Value>> {
        self.newest.get(uid)
    }

    /// Returns how many pods and nodes there are, at most.
    pub(super) fn size(&self) -> (usize, usize) {
        let nodes = self.log.iter().filter(|entry| entry.kind == Kind::Node && entry.now.is_some()).map(|entry| &entry.key);
        let nodes: BTreeSet<&String> = nodes.chain(self.state.nodes.keys()).collect();
        (self.newest.len(), nodes.len())
    }

    pub(super) fn add(&mut self, entry: Entry) {
        if entry.kind == Kind::Pod {
            match &entry.now {
                Some(now) => _ = self.newest.insert(entry.key.clone(), Arc::clone(now)),
                None => _ = self.newest.remove(&entry.key),
            }
        }
        let place = self.log.partition_point(|other| other.version <= entry.version);
        self.log.insert(place, entry);
    }

    /// Replaces all objects of a kind, also in the past. Returns how many bindings are not judged for it.
    pub(super) fn replace(&mut self, kind: Kind, all: BTreeMap<String, Arc<Value>>, judged_to: u64) -> u64 {
        let missed = self.log.iter().filter(|entry| entry.binding.is_some() && entry.version > judged_to && kind == Kind::Pod).count();
        self.log.retain(|entry| entry.kind != kind);
        if kind == Kind::Pod {
            self.newest = all.clone();
        }
        *self.state.of(kind) = all;
        u64::try_from(missed).unwrap_or(u64::MAX)
    }

    /// Returns the first bindings after a version that belong together: of one scheduler, each at most `pause` after the one before. None
    /// where there is no binding, or where another member may follow: one that arrives until two pauses later. Without `until` none is
    /// waited for.
    pub(super) fn next_batch(&self, after: u64, pause: i64, until: Option<i64>) -> Option<Vec<Entry>> {
        let bindings = self.log.iter().filter(|entry| entry.binding.is_some() && entry.version > after);
        let mut batch: Vec<Entry> = Vec::new();
        for entry in bindings {
            let Some(last) = batch.last() else {
                batch.push(entry.clone());
                continue;
            };
            if entry.binding != last.binding || entry.at.saturating_sub(last.at) > pause {
                break;
            }
            batch.push(entry.clone());
        }
        let last = batch.last()?.at;
        until.is_none_or(|until| last.saturating_add(pause.saturating_mul(2)) <= until).then_some(batch)
    }

    /// Returns the states that were in force since a time and before a version, the oldest first, each with its version. None where there
    /// are more than `most`.
    pub(super) fn states(&self, from: i64, before: u64, most: usize) -> Option<Vec<(u64, Objects)>> {
        let mut state = self.state.clone();
        let mut version = 0;
        let mut states = Vec::new();
        for entry in self.log.iter().take_while(|entry| entry.version < before) {
            if entry.at >= from && states.is_empty() {
                states.push((version, state.clone()));
            }
            version = entry.version;
            // A change of what the filters do not read makes no other state.
            if state.apply(entry.kind, &entry.key, entry.now.as_ref()) && entry.at >= from {
                states.push((version, state.clone()));
            }
            if states.len() > most {
                return None;
            }
        }
        if states.is_empty() {
            states.push((version, state));
        }
        Some(states)
    }

    /// Makes the changes that arrived before a time part of the state, but none after a binding that is not judged.
    pub(super) fn forget_before(&mut self, over: i64, judged_to: u64) {
        let open = self.log.iter().position(|entry| entry.at > over || (entry.binding.is_some() && entry.version > judged_to));
        for entry in self.log.drain(..open.unwrap_or(self.log.len())) {
            self.state.apply(entry.kind, &entry.key, entry.now.as_ref());
        }
    }
}
