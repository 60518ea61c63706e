//! Which waiting pods are refused because their namespace has too many selectors, and which of them is tried next?
//!
//! When a selector of a namespace goes, every such pod of that namespace is tried once more: the pods in the order in which they were
//! refused, the namespaces in turn. So no pod waits because of pods that still have no room.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::api::Uid;

/// The pods that are refused for their selectors.
#[derive(Debug, Default)]
pub(super) struct RefusedForSelectors {
    /// Each with its namespace and its ticket.
    pods: BTreeMap<Uid, (Arc<str>, u64)>,
    /// By namespace.
    lines: BTreeMap<Arc<str>, Line>,
    /// The namespaces with pods to be tried.
    due: BTreeSet<Arc<str>>,
    /// The namespace of the pod that was tried last.
    last: Option<Arc<str>>,
    next_ticket: u64,
}

/// The pods of a namespace.
#[derive(Debug, Default)]
struct Line {
    pods: BTreeMap<u64, Uid>,
    /// The pods with lower tickets are to be tried.
    until: u64,
}

impl RefusedForSelectors {
    /// Adds a pod that is refused, as the last of its namespace; nothing if it is there.
    pub(super) fn insert(&mut self, uid: &Uid, namespace: &Arc<str>) {
        if self.pods.contains_key(uid) {
            return;
        }
        let ticket = self.next_ticket;
        self.next_ticket = self.next_ticket.saturating_add(1);
        self.pods.insert(uid.clone(), (Arc::clone(namespace), ticket));
        self.lines.entry(Arc::clone(namespace)).or_default().pods.insert(ticket, uid.clone());
    }

    /// Removes a pod that is refused no more, or is gone.
    pub(super) fn remove(&mut self, uid: &Uid) {
        let Some((namespace, ticket)) = self.pods.remove(uid) else { return };
        let Some(line) = self.lines.get_mut(&namespace) else { return };
        line.pods.remove(&ticket);
        if line.next().is_none() {
            self.due.remove(&namespace);
        }
        if line.pods.is_empty() {
            self.lines.remove(&namespace);
        }
    }

    /// Notes that a selector of the namespace went.
    pub(super) fn room_made(&mut self, namespace: &Arc<str>) {
        if let Some(line) = self.lines.get_mut(namespace) {
            line.until = self.next_ticket;
            self.due.insert(Arc::clone(namespace));
        }
    }

    /// Takes the pod that is tried next; none where none is to be tried.
    pub(super) fn take_next(&mut self) -> Option<Uid> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let namespace = self.due.range::<Arc<str>, _>((after, Bound::Unbounded)).next().or_else(|| self.due.first()).cloned()?;
        let uid = self.lines.get(&namespace).and_then(Line::next).cloned()?;
        self.last = Some(namespace);
        self.remove(&uid);
        Some(uid)
    }

    /// Returns whether a pod is to be tried.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns whether no pod is refused for its selectors.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

impl Line {
    fn next(&self) -> Option<&Uid> {
        self.pods.first_key_value().filter(|(ticket, _)| **ticket < self.until).map(|(_, uid)| uid)
    }
}
