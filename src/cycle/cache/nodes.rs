//! Updates the cache when a node is added, changed or deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::accounting::ROOT_QUEUE;
use crate::api::{NodeFacts, Uid};

use crate::resources::Resources;

use crate::cycle::placement::capacity::pods_if_empty;
use crate::cycle::placement::class::ClassId;
use crate::cycle::placement::filter::NodeState;
use crate::cycle::placement::nodes::NodeId;

use super::{Cache, Change, Wake};

impl Cache {
    /// Adds or updates a node.
    pub fn apply_node(&mut self, facts: NodeFacts) {
        let known = self.nodes.id(&facts.name).and_then(|id| self.nodes.get(id));
        if known.is_some_and(|known| **known == facts) {
            return;
        }
        let shrank = known.is_some_and(|known| !facts.allocatable.covers(&known.allocatable));
        let (name, allocatable) = (Arc::clone(&facts.name), facts.allocatable.clone());
        self.nodes.upsert(facts);
        self.accounting.node_upsert(&name, allocatable);
        self.object_changed(&name);
        self.changed(Wake::Node(name));
        // The cluster as a whole has more. Where it has less, a PodGroup may be too large for it now, and others waited behind that one
        // (A6).
        self.changed(if shrank { Wake::Everything } else { Wake::Quota(Arc::from(ROOT_QUEUE)) });
    }

    /// Returns one node as predicates see it; none where there is no such node.
    pub(in crate::cycle) fn node(&self, id: NodeId) -> Option<NodeState<'_>> {
        let facts = self.nodes.get(id)?;
        Some(NodeState { facts, accounting: self.accounting.ledger().node(&facts.name)? })
    }

    /// Whether the nodes could take so many of these waiting members, if no pod were there. An upper bound: members of several classes are counted apart.
    pub(in crate::cycle) fn could_ever_take(&self, queue: &str, members: &[Uid], needed: usize) -> bool {
        let mut classes: BTreeMap<ClassId, usize> = BTreeMap::new();
        for class in members.iter().filter_map(|uid| self.pods.get(uid)?.class) {
            let count = classes.entry(class).or_default();
            *count = count.saturating_add(1);
        }
        let barred = self.barred_groups(queue);
        let mut possible = 0_usize;
        for (class, count) in classes {
            let Some(class) = self.classes.get(class) else { return true };
            let mut room = 0_usize;
            for node in self.nodes.ids().filter_map(|id| self.node(id)) {
                if room >= count {
                    break;
                }
                room = room.saturating_add(pods_if_empty(&class.request, &class.constraints, &barred, &node));
            }
            possible = possible.saturating_add(room.min(count));
        }
        members.is_empty() || possible >= needed
    }

    /// What is idle on all nodes together.
    pub(in crate::cycle) fn idle(&self) -> Resources {
        let mut idle = Resources::new();
        self.accounting.ledger().nodes().for_each(|node| idle.add(&node.idle()));
        idle
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name) {
            self.accounting.node_delete(name);
            self.object_changed(name);
            // No PodGroup has more room now, but the cluster is another.
            self.changed(Wake::Everything);
        }
    }

    fn object_changed(&mut self, name: &str) {
        self.changed(Change::NodeObject(Arc::from(name)));
        self.sharing.shares = None;
        // The labels of nodes make the domains of anti-affinity.
        if !self.anti_affinity.is_empty() {
            self.anti_affinity.nodes_changed();
            self.changed(Wake::AntiAffinity);
        }
    }
}
