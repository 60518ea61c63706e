//! On which nodes do other schedulers keep room for their pods?
//!
//! A pod of another scheduler with `status.nominatedNodeName` waits until its victims are gone. Its request is charged to that node, and it
//! counts there as a nominated pod, for pods of the same or a lower priority. For pods of a higher priority the placer sets it aside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::by_key::ByKey;
use crate::resources::Resources;

/// The pods of other schedulers with a nominated node.
#[derive(Debug, Default)]
pub struct NominatedByOthers {
    pods: ByKey<Uid, Nominated>,
    by_priority: BTreeSet<(i32, Uid)>,
    /// What they request on each node. No entry is zero.
    on: BTreeMap<Arc<str>, Resources>,
}

/// A pod with a nominated node.
#[derive(Clone, Debug, PartialEq)]
pub struct Nominated {
    /// The node.
    pub node: Arc<str>,
    /// The priority of the pod.
    pub priority: i32,
    /// What it requests.
    pub request: Resources,
}

impl NominatedByOthers {
    /// Returns what is nominated for the pod.
    #[must_use]
    pub fn get(&self, uid: &Uid) -> Option<&Nominated> {
        self.pods.get(uid)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Adds a pod that is not there.
    pub fn insert(&mut self, uid: &Uid, nominated: Nominated) {
        self.by_priority.insert((nominated.priority, uid.clone()));
        self.on.entry(Arc::clone(&nominated.node)).or_default().add(&nominated.request);
        self.pods.insert(uid.clone(), nominated);
    }

    /// Removes the pod, and returns what was nominated for it.
    pub fn remove(&mut self, uid: &Uid) -> Option<Nominated> {
        let nominated = self.pods.remove(uid)?;
        self.by_priority.remove(&(nominated.priority, uid.clone()));
        if let Some(on) = self.on.get_mut(&nominated.node) {
            on.sub(&nominated.request);
            if on.is_zero() {
                self.on.remove(&nominated.node);
            }
        }
        Some(nominated)
    }

    /// Returns what all of them request on the node.
    #[must_use]
    pub fn on(&self, node: &str) -> Option<&Resources> {
        self.on.get(node)
    }

    /// Returns the pods with a priority below this one.
    pub fn below(&self, priority: i32) -> impl Iterator<Item = &Uid> {
        self.by_priority.iter().take_while(move |(of, _)| *of < priority).map(|(_, uid)| uid)
    }
}
