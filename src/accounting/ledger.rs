//! Counts how much is used on each node.
//!
//! Pods are charged by UID. A second charge replaces the first (the pod was resized, or is on another node), and the
//! release of a pod that is not charged does nothing. The events of nodes and pods come in any order: a pod of an unknown node is
//! charged to the node's name and counts as soon as the node exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::Uid;
use crate::by_key::ByKey;
use crate::resources::Resources;

use super::audit::{Difference, Place, compare};
use super::node::{NodeRefusal, NodeView};

/// The use of every node, with the charge of every pod.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// Every node that exists or that pods are charged to. Other entries are removed, so that equal facts are
    /// equal values (B4).
    nodes: BTreeMap<Arc<str>, Node>,
    pods: ByKey<Uid, Charge>,
    /// Invariant: the sum of the allocatable amounts of the existing nodes.
    total: Resources,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Node {
    /// `None` while the node does not exist.
    allocatable: Option<Resources>,
    /// Invariant B1.
    used: Resources,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Charge {
    node: Option<Arc<str>>,
    resources: Resources,
}

impl Ledger {
    /// Makes a ledger without nodes and pods.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node or changes its allocatable amounts.
    pub fn node_upsert(&mut self, name: &str, allocatable: Resources) {
        self.total.add(&allocatable);
        if let Some(node) = self.nodes.get_mut(name) {
            if let Some(old) = node.allocatable.replace(allocatable) {
                self.total.sub(&old);
            }
        } else {
            let node = Node { allocatable: Some(allocatable), used: Resources::new() };
            self.nodes.insert(Arc::from(name), node);
        }
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn node_delete(&mut self, name: &str) {
        if let Some(old) = self.nodes.get_mut(name).and_then(|node| node.allocatable.take()) {
            self.total.sub(&old);
        }
        self.drop_if_empty(name);
    }

    /// Charges a pod to a node, or to no node. Never refuses; negative amounts count as 0.
    pub fn charge(&mut self, uid: &Uid, node: Option<&str>, resources: Resources) {
        let resources = resources.without_negative();
        if let Some(old) = self.pods.get(uid) {
            if old.node.as_deref() == node && old.resources == resources {
                return;
            }
            self.release(uid);
        }
        let node = node.map(|name| {
            let name = self.nodes.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
            if !resources.is_zero() {
                self.nodes.entry(Arc::clone(&name)).or_default().used.add(&resources);
            }
            name
        });
        self.pods.insert(uid.clone(), Charge { node, resources });
    }

    /// Takes a pod's charge back. Returns whether there was one.
    pub fn release(&mut self, uid: &Uid) -> bool {
        let Some(charge) = self.pods.remove(uid) else {
            return false;
        };
        if let Some(name) = charge.node {
            if let Some(node) = self.nodes.get_mut(&name) {
                node.used.sub(&charge.resources);
            }
            self.drop_if_empty(&name);
        }
        true
    }

    /// Returns one node; `None` if it does not exist (pods may still be charged to it).
    #[must_use]
    pub fn node(&self, name: &str) -> Option<NodeView<'_>> {
        let (name, node) = self.nodes.get_key_value(name)?;
        node.view(name)
    }

    /// Returns the existing nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.nodes.iter().filter_map(|(name, node)| node.view(name))
    }

    /// Returns the allocatable amounts of all existing nodes together.
    #[must_use]
    pub fn total(&self) -> &Resources {
        &self.total
    }

    /// Returns the missing nodes that pods are charged to, by name, with the amounts used.
    pub fn missing_nodes(&self) -> impl Iterator<Item = (&str, &Resources)> {
        self.nodes.iter().filter(|(_, node)| node.allocatable.is_none()).map(|(name, node)| (&**name, &node.used))
    }

    /// Checks whether an amount more fits on a node. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The node does not exist, or the first dimension, by name, in which too little is left.
    pub fn fits(&self, node: &str, asked: &Resources) -> Result<(), NodeRefusal> {
        let node = self.node(node).ok_or(NodeRefusal::UnknownNode)?;
        node.fits(asked).map_err(NodeRefusal::Short)
    }

    /// Returns the node (if any) and the amounts of a pod's charge; `None` if it is not charged.
    #[must_use]
    pub fn charge_of(&self, uid: &Uid) -> Option<(Option<&str>, &Resources)> {
        self.pods.get(uid).map(|charge| (charge.node.as_deref(), &charge.resources))
    }

    /// Returns the charged pods, by UID, with their node and amounts.
    pub fn charges(&self) -> impl Iterator<Item = (&Uid, Option<&str>, &Resources)> {
        self.pods.iter().map(|(uid, charge)| (uid, charge.node.as_deref(), &charge.resources))
    }

    /// Recounts every node from the pods (B1), and the total from the nodes.
    #[must_use]
    pub fn audit(&self) -> Vec<Difference> {
        let mut recounted = BTreeMap::<String, Resources>::new();
        for charge in self.pods.values() {
            if let Some(node) = &charge.node {
                recounted.entry(node.to_string()).or_default().add(&charge.resources);
            }
        }
        let mut differences = compare(Place::Node, self.nodes.iter().map(|(name, node)| (&**name, &node.used)), recounted);
        let mut total = Resources::new();
        self.nodes().for_each(|node| total.add(node.allocatable));
        differences.extend(compare(Place::Total, [("", &self.total)].into_iter(), [(String::new(), total)].into()));
        differences
    }

    fn drop_if_empty(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| node.allocatable.is_none() && node.used.is_zero()) {
            self.nodes.remove(name);
        }
    }
}

impl Node {
    fn view<'a>(&'a self, name: &'a str) -> Option<NodeView<'a>> {
        Some(NodeView { name, allocatable: self.allocatable.as_ref()?, used: &self.used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Shortage;
    use crate::resources::Amount;

    fn gpus(count: i64) -> Resources {
        Resources::new().with("cpu", Amount::from_units(1)).with("nvidia.com/gpu", Amount::from_units(count))
    }

    fn cpus(count: i64) -> Resources {
        Resources::new().with("cpu", Amount::from_units(count))
    }

    #[test]
    fn a1_a_node_that_lost_devices_takes_no_pod_that_requests_them_and_recovers_by_itself() {
        let mut ledger = Ledger::new();
        let offers = |count| cpus(16).with("nvidia.com/gpu", Amount::from_units(count));
        ledger.node_upsert("n", offers(8));
        for pod in 0..8 {
            ledger.charge(&format!("pod-{pod}").as_str().into(), Some("n"), gpus(1));
        }
        for left in [6, 0] {
            ledger.node_upsert("n", offers(left));
            let node = ledger.node("n").unwrap();
            assert_eq!(node.overcommitted().get("nvidia.com/gpu"), Amount::from_units(8 - left));
            assert_eq!(node.overcommitted().len(), 1);
            assert_eq!(node.idle(), cpus(8));
            let short = Shortage { name: "nvidia.com/gpu".into(), asked: Amount::from_units(1), idle: Amount::ZERO };
            assert_eq!(ledger.fits("n", &gpus(1)), Err(NodeRefusal::Short(short)));
            assert_eq!(ledger.fits("n", &cpus(1)), Ok(()));
            assert!(ledger.audit().is_empty());
        }
        ledger.node_upsert("n", offers(8));
        assert!(ledger.node("n").unwrap().overcommitted().is_zero());
        ledger.release(&"pod-0".into());
        assert_eq!(ledger.fits("n", &gpus(1)), Ok(()));
    }

    #[test]
    fn a_repeated_event_counts_once_and_the_release_of_an_unknown_pod_does_nothing() {
        let mut ledger = Ledger::new();
        ledger.node_upsert("n", cpus(4));
        let pod = Uid::from("pod");
        ledger.charge(&pod, Some("n"), cpus(1));
        ledger.charge(&pod, Some("n"), cpus(1));
        assert_eq!(ledger.node("n").unwrap().used, &cpus(1));
        assert!(ledger.release(&pod));
        assert!(!ledger.release(&pod));
        assert!(ledger.node("n").unwrap().used.is_zero());
        ledger.node_delete("never-seen");
        assert_eq!(ledger.nodes().count(), 1);
    }

    #[test]
    fn a_resized_or_moved_pod_is_counted_once_with_its_present_charge() {
        let mut ledger = Ledger::new();
        ledger.node_upsert("a", cpus(4));
        ledger.node_upsert("b", cpus(4));
        let pod = Uid::from("pod");
        ledger.charge(&pod, Some("a"), cpus(1));
        ledger.charge(&pod, Some("a"), cpus(3));
        assert_eq!(ledger.node("a").unwrap().used, &cpus(3));
        ledger.charge(&pod, Some("b"), cpus(3));
        assert!(ledger.node("a").unwrap().used.is_zero());
        assert_eq!(ledger.node("b").unwrap().used, &cpus(3));
    }

    #[test]
    fn the_pods_of_a_node_that_is_deleted_and_comes_back_still_count() {
        let mut ledger = Ledger::new();
        ledger.charge(&"early".into(), Some("n"), cpus(1));
        assert_eq!(ledger.node("n"), None);
        assert_eq!(ledger.missing_nodes().collect::<Vec<_>>(), [("n", &cpus(1))]);
        assert_eq!(ledger.fits("n", &cpus(1)), Err(NodeRefusal::UnknownNode));
        ledger.node_upsert("n", cpus(4));
        assert_eq!(ledger.node("n").unwrap().idle(), cpus(3));
        ledger.node_delete("n");
        ledger.node_upsert("n", cpus(2));
        assert_eq!(ledger.node("n").unwrap().idle(), cpus(1));
    }

    #[test]
    fn the_total_is_that_of_the_existing_nodes() {
        let mut ledger = Ledger::new();
        ledger.charge(&"early".into(), Some("a"), cpus(9));
        for (name, count) in [("a", 4), ("b", 2), ("a", 3)] {
            ledger.node_upsert(name, cpus(count));
        }
        assert_eq!(ledger.total(), &cpus(5));
        ledger.node_delete("a");
        ledger.node_delete("a");
        assert_eq!(ledger.total(), &cpus(2));
        assert!(ledger.audit().is_empty());
        ledger.total = cpus(3);
        assert_eq!(ledger.audit()[0].place, Place::Total);
    }

    #[test]
    fn the_audit_reports_a_wrong_sum_and_a_missing_one() {
        let mut ledger = Ledger::new();
        ledger.charge(&"pod".into(), Some("n"), cpus(1));
        ledger.nodes.get_mut("n").unwrap().used = cpus(2);
        let differences = ledger.audit();
        assert_eq!(differences.len(), 1);
        assert_eq!((&differences[0].stored, &differences[0].recounted), (&cpus(2), &cpus(1)));
        ledger.nodes.clear();
        assert_eq!(ledger.audit()[0].recounted, cpus(1));
    }
}
