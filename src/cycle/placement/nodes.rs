//! The nodes of the cluster, and a log of the nodes that changed.
//!
//! Every node has a small number while it exists. The log gets an entry for each change that can make a node take or refuse a pod: its facts, a
//! charge, the release of a charge. The node table and the shortlists remember their position in the log and read only the nodes after it.
//! The log is cut when it is much longer than the cluster. A reader with a position before the cut reads every node again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::NodeFacts;
use crate::api::images::NodeImage;

use super::images::Images;

/// The number of a node. Numbers are dense, and the number of a deleted node is reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// Returns the number of the first node.
    #[cfg(test)]
    pub(super) const fn first() -> Self {
        Self(0)
    }

    /// Returns the index of the node in a vector of all nodes.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The least length to which the log is cut, so that a small cluster does not cut it all the time.
const SHORTEST_LOG: usize = 1024;

/// The nodes of the cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    ids: BTreeMap<Arc<str>, NodeId>,
    /// By number; none where the number is free.
    slots: Vec<Option<Arc<NodeFacts>>>,
    free: Vec<NodeId>,
    log: Vec<NodeId>,
    /// How often the object of a node changed, came or went.
    version: u64,
    /// The number of entries that were cut off at the beginning of the log.
    cut: u64,
    /// The images on the nodes.
    images: Images,
}

impl Nodes {
    /// Adds or updates a node, but for its images. Returns whether anything changed.
    pub fn upsert(&mut self, facts: NodeFacts) -> bool {
        let id = match self.ids.get(&facts.name) {
            Some(id) => *id,
            None => {
                let id = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    // More than four thousand million nodes do not fit into memory either.
                    NodeId(u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX))
                });
                self.ids.insert(Arc::clone(&facts.name), id);
                id
            }
        };
        let Some(slot) = self.slots.get_mut(id.index()) else { return false };
        if slot.as_deref() == Some(&facts) {
            return false;
        }
        *slot = Some(Arc::new(facts));
        self.version = self.version.saturating_add(1);
        self.touch(id);
        true
    }

    /// Removes a node. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(id) = self.ids.remove(name) else { return false };
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = None;
        }
        self.free.push(id);
        self.images.set(id, &[]);
        self.version = self.version.saturating_add(1);
        self.touch(id);
        true
    }

    /// Sets the images of a node; does nothing if there is no such node. That is no change of the node: it makes no node take or refuse a pod.
    pub fn set_images(&mut self, name: &str, images: &[NodeImage]) {
        if let Some(id) = self.id(name) {
            self.images.set(id, images);
        }
    }

    /// Returns the images on the nodes.
    #[must_use]
    pub const fn images(&self) -> &Images {
        &self.images
    }

    /// Returns a number that grows whenever the object of a node changes, comes or goes.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Logs a change of the node that may make it take or refuse a pod.
    pub fn touch(&mut self, id: NodeId) {
        let longest = self.slots.len().max(SHORTEST_LOG);
        if self.log.len() >= longest.saturating_mul(2) {
            let cut = self.log.len().saturating_sub(longest);
            self.log.drain(..cut);
            self.cut = self.cut.saturating_add(u64::try_from(cut).unwrap_or(u64::MAX));
        }
        self.log.push(id);
    }

    /// Logs a change of the node with this name; does nothing if there is no such node.
    pub fn touch_name(&mut self, name: &str) {
        if let Some(id) = self.id(name) {
            self.touch(id);
        }
    }

    /// Returns the position of the end of the log.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.cut.saturating_add(u64::try_from(self.log.len()).unwrap_or(u64::MAX))
    }

    /// Returns the nodes that changed since the log ended at `mark`, perhaps several times each; none if the log does not reach back to `mark`.
    #[must_use]
    pub fn since(&self, mark: u64) -> Option<&[NodeId]> {
        let from = usize::try_from(mark.checked_sub(self.cut)?).ok()?;
        self.log.get(from..)
    }

    /// Returns the number of the node with this name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// Returns the node with this number; none where the number is free.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Arc<NodeFacts>> {
        self.slots.get(id.index()).and_then(Option::as_ref)
    }

    /// Returns every number that is or was in use.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// Returns the nodes in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeFacts>> {
        self.ids.values().filter_map(|id| self.get(*id))
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::node;

    #[test]
    fn the_same_facts_are_no_news() {
        let mut nodes = Nodes::default();
        assert!(nodes.upsert(node("a", &[("cpu", 4)])));
        assert!(!nodes.upsert(node("a", &[("cpu", 4)])));
        assert!(nodes.upsert(node("b", &[("cpu", 2)])));
        assert!(nodes.upsert(node("a", &[("cpu", 3)])));
        assert!(nodes.remove("a"));
        assert!(!nodes.remove("a"));
    }

    #[test]
    fn a_number_is_given_again_and_the_log_says_so() {
        let mut nodes = Nodes::default();
        nodes.upsert(node("a", &[]));
        let id = nodes.id("a").unwrap();
        let mark = nodes.head();
        nodes.remove("a");
        nodes.upsert(node("b", &[]));
        assert_eq!(nodes.id("b"), Some(id));
        assert_eq!(nodes.since(mark), Some(&[id, id][..]));
    }

    #[test]
    fn who_stood_behind_the_cut_is_told_to_look_at_everything() {
        let mut nodes = Nodes::default();
        nodes.upsert(node("a", &[]));
        let id = nodes.id("a").unwrap();
        let mark = nodes.head();
        for _ in 0..SHORTEST_LOG * 3 {
            nodes.touch(id);
        }
        assert_eq!(nodes.since(mark), None);
        assert_eq!(nodes.since(nodes.head()), Some(&[][..]));
    }
}
