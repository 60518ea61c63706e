//! Which nodes are there, and which of them changed since somebody last looked?
//!
//! Every node has a small number for as long as it exists. Whatever can change the answer of a node (its facts, a charge, a charge taken back) is
//! written into a log; the node table and the shortlists remember how far they have read, and read again only the nodes that follow.
//! The log is cut when it is longer than the cluster: who stood further back looks at every node again, which is then cheaper anyway.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::NodeFacts;

/// A node's number: dense, and given to another node once its owner is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// The place of the node in a vector of all nodes.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shortest log that is kept, so that a small cluster does not cut it all the time.
const SHORTEST_LOG: usize = 1024;

/// The nodes of the cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    ids: BTreeMap<Arc<str>, NodeId>,
    /// By number; none where the number is free.
    slots: Vec<Option<Arc<NodeFacts>>>,
    free: Vec<NodeId>,
    log: Vec<NodeId>,
    /// How many entries were cut off the log's front.
    cut: u64,
}

impl Nodes {
    /// A node is there, with these facts. Whether that is news.
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
        self.touch(id);
        true
    }

    /// A node is gone. Whether it had been there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(id) = self.ids.remove(name) else { return false };
        if let Some(slot) = self.slots.get_mut(id.index()) {
            *slot = None;
        }
        self.free.push(id);
        self.touch(id);
        true
    }

    /// Something about the node changed that may change a verdict.
    pub fn touch(&mut self, id: NodeId) {
        let longest = self.slots.len().max(SHORTEST_LOG);
        if self.log.len() >= longest.saturating_mul(2) {
            let cut = self.log.len().saturating_sub(longest);
            self.log.drain(..cut);
            self.cut = self.cut.saturating_add(u64::try_from(cut).unwrap_or(u64::MAX));
        }
        self.log.push(id);
    }

    /// The same by name; nothing where there is no such node.
    pub fn touch_name(&mut self, name: &str) {
        if let Some(id) = self.id(name) {
            self.touch(id);
        }
    }

    /// Where the log ends now.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.cut.saturating_add(u64::try_from(self.log.len()).unwrap_or(u64::MAX))
    }

    /// The nodes that changed since the log ended at `mark`, perhaps several times each; none when nobody remembers.
    #[must_use]
    pub fn since(&self, mark: u64) -> Option<&[NodeId]> {
        let from = usize::try_from(mark.checked_sub(self.cut)?).ok()?;
        self.log.get(from..)
    }

    /// The number of the node of this name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// The node of this number; none where the number is free.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Arc<NodeFacts>> {
        self.slots.get(id.index()).and_then(Option::as_ref)
    }

    /// Every number that is or was in use.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// The nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeFacts>> {
        self.ids.values().filter_map(|id| self.get(*id))
    }

    /// How many nodes there are.
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
