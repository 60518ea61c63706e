//! How many pods of one kind are on each node?

use crate::cycle::placement::nodes::NodeId;

/// A number of pods on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub pods: u32,
    /// Those of them that are terminating.
    pub leaving: u32,
    /// Those of them that are nominated: they are not there yet.
    pub nominated: u32,
}

impl Count {
    /// Returns the number of pods that are not terminating, the nominated ones included.
    #[must_use]
    pub const fn staying(self) -> u32 {
        self.pods.saturating_sub(self.leaving)
    }

    /// Returns this number without the nominated pods.
    #[must_use]
    pub const fn without_nominated(self) -> Self {
        Self { pods: self.pods.saturating_sub(self.nominated), leaving: self.leaving, nominated: 0 }
    }
}

/// The nodes with at least one pod, each with the number of pods there. Sorted by node, which is compact and fast to read.
#[derive(Debug, Default)]
pub struct OnNodes(Vec<(NodeId, Count)>);

impl OnNodes {
    /// Adds pods on a node, or takes them away.
    pub(super) fn add(&mut self, node: NodeId, by: Count, more: bool) {
        let at = match self.0.binary_search_by_key(&node, |(node, _)| *node) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (node, Count::default()));
                at
            }
        };
        let Some((_, count)) = self.0.get_mut(at) else { return };
        let sum = |count: u32, by: u32| if more { count.saturating_add(by) } else { count.saturating_sub(by) };
        *count = Count {
            pods: sum(count.pods, by.pods),
            leaving: sum(count.leaving, by.leaving),
            nominated: sum(count.nominated, by.nominated),
        };
        if count.pods == 0 {
            self.0.remove(at);
        }
    }

    /// Returns the number of pods on the node.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Count {
        let at = self.0.binary_search_by_key(&node, |(node, _)| *node);
        at.ok().and_then(|at| self.0.get(at)).map_or_else(Count::default, |(_, count)| *count)
    }

    /// Returns whether there is no pod.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the nodes with pods, in order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, Count)> + '_ {
        self.0.iter().copied()
    }
}
