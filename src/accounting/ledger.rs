//! Counts how much is used on each node.
//!
//! A pod outside our queues (of another scheduler, of a DaemonSet) takes its room away from the total of the cluster, which is
//! there to be guaranteed and shared. Every other pod only uses a part of that total.
//!
//! Pods are charged by UID. A second charge replaces the first (the pod was resized, or is on another node), and the
//! release of a pod that is not charged does nothing. The events of nodes and pods come in any order: a pod of an unknown node is
//! charged to the node's name and counts as soon as the node exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::Uid;
use crate::by_key::ByKey;
use crate::resources::{Amount, Resources};

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
    offered: Resources,
    /// Invariant: the sum of what the existing nodes leave to our queues ([`Node::left_to_queues`]).
    total: Resources,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Node {
    /// `None` while the node does not exist.
    allocatable: Option<Resources>,
    /// Invariant B1.
    used: Resources,
    /// Invariant: the part of `used` that belongs to pods outside our queues.
    foreign: Resources,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Charge {
    node: Option<Arc<str>>,
    resources: Resources,
    /// Whether the pod is outside our queues.
    foreign: bool,
}

impl Ledger {
    /// Makes a ledger without nodes and pods.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node or changes its allocatable amounts.
    pub fn node_upsert(&mut self, name: &str, allocatable: Resources) {
        self.offered.add(&allocatable);
        if !self.nodes.contains_key(name) {
            self.nodes.insert(Arc::from(name), Node::default());
        }
        if let Some(old) = self.change(name, |node| node.allocatable.replace(allocatable)).flatten() {
            self.offered.sub(&old);
        }
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn node_delete(&mut self, name: &str) {
        if let Some(old) = self.change(name, |node| node.allocatable.take()).flatten() {
            self.offered.sub(&old);
        }
        self.drop_if_empty(name);
    }

    /// Changes a node, and the total with it. `None` if there is no such node and no pod is charged to its name.
    fn change<T>(&mut self, name: &str, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let node = self.nodes.get_mut(name)?;
        let before = node.left_to_queues();
        let changed = change(node);
        self.total.add(&node.left_to_queues());
        self.total.sub(&before);
        Some(changed)
    }

    /// Charges a pod to a node, or to no node. Never refuses; negative amounts count as 0. `foreign` says that the pod is outside our queues.
    pub fn charge(&mut self, uid: &Uid, node: Option<&str>, resources: Resources, foreign: bool) {
        let resources = resources.without_negative();
        if let Some(old) = self.pods.get(uid) {
            if old.node.as_deref() == node && old.resources == resources && old.foreign == foreign {
                return;
            }
            self.release(uid);
        }
        let node = node.map(|name| {
            let name = self.nodes.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
            if !resources.is_zero() {
                self.nodes.entry(Arc::clone(&name)).or_default().used.add(&resources);
                if foreign {
                    self.change(&name, |node| node.foreign.add(&resources));
                }
            }
            name
        });
        self.pods.insert(uid.clone(), Charge { node, resources, foreign });
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
            if charge.foreign {
                self.change(&name, |node| node.foreign.sub(&charge.resources));
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

    /// Returns the allocatable amounts of all existing nodes together, whatever is used of them.
    #[must_use]
    pub fn offered(&self) -> &Resources {
        &self.offered
    }

    /// Returns what is there to be guaranteed and shared: what all existing nodes leave to our queues (N2).
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

    /// Whether the amount would fit on a node without the pods of our queues. Allocates nothing.
    #[must_use]
    pub fn fits_without_our_pods(&self, node: &str, asked: &Resources) -> bool {
        let Some((Some(allocatable), foreign)) = self.nodes.get(node).map(|node| (&node.allocatable, &node.foreign)) else { return false };
        asked.iter().all(|(name, asked)| asked <= allocatable.get(name).minus(foreign.get(name)).max(Amount::ZERO))
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

    /// Recounts every node from the pods (B1), and the two totals from the nodes.
    #[must_use]
    pub fn audit(&self) -> Vec<Difference> {
        let [mut recounted, mut foreign] = [(); 2].map(|()| BTreeMap::<String, Resources>::new());
        for charge in self.pods.values() {
            let Some(node) = &charge.node else { continue };
            recounted.entry(node.to_string()).or_default().add(&charge.resources);
            if charge.foreign {
                foreign.entry(node.to_string()).or_default().add(&charge.resources);
            }
        }
        let [mut offered, mut total] = [Resources::new(), Resources::new()];
        for node in self.nodes() {
            offered.add(node.allocatable);
            let mut left = node.allocatable.clone();
            foreign.get(node.name).into_iter().for_each(|foreign| left.sub(foreign));
            total.add(&left.without_negative());
        }
        let mut differences = compare(Place::Node, self.nodes.iter().map(|(name, node)| (&**name, &node.used)), recounted);
        differences.extend(compare(Place::Foreign, self.nodes.iter().map(|(name, node)| (&**name, &node.foreign)), foreign));
        for (stored, recounted) in [(&self.offered, offered), (&self.total, total)] {
            differences.extend(compare(Place::Total, [("", stored)].into_iter(), [(String::new(), recounted)].into()));
        }
        differences
    }

    fn drop_if_empty(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| node.allocatable.is_none() && node.used.is_zero()) {
            self.nodes.remove(name);
        }
    }
}

impl Node {
    /// Returns what the node leaves to our queues: what it offers less what pods outside our queues use, in no dimension below 0. Nothing while it
    /// does not exist.
    fn left_to_queues(&self) -> Resources {
        let mut left = self.allocatable.clone().unwrap_or_default();
        left.sub(&self.foreign);
        left.without_negative()
    }

    fn view<'a>(&'a self, name: &'a str) -> Option<NodeView<'a>> {
        Some(NodeView { name, allocatable: self.allocatable.as_ref()?, used: &self.used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Shortage;

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
            ledger.charge(&format!("pod-{pod}").as_str().into(), Some("n"), gpus(1), false);
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
        ledger.charge(&pod, Some("n"), cpus(1), false);
        ledger.charge(&pod, Some("n"), cpus(1), false);
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
        ledger.charge(&pod, Some("a"), cpus(1), false);
        ledger.charge(&pod, Some("a"), cpus(3), false);
        assert_eq!(ledger.node("a").unwrap().used, &cpus(3));
        ledger.charge(&pod, Some("b"), cpus(3), false);
        assert!(ledger.node("a").unwrap().used.is_zero());
        assert_eq!(ledger.node("b").unwrap().used, &cpus(3));
    }

    #[test]
    fn the_pods_of_a_node_that_is_deleted_and_comes_back_still_count() {
        let mut ledger = Ledger::new();
        ledger.charge(&"early".into(), Some("n"), cpus(1), false);
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
        ledger.charge(&"early".into(), Some("a"), cpus(9), false);
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
    fn n2_what_pods_outside_our_queues_use_is_not_in_the_total_and_no_node_counts_below_zero() {
        let mut ledger = Ledger::new();
        let (pod, other) = (Uid::from("pod"), Uid::from("other"));
        ledger.charge(&pod, Some("a"), cpus(9), true);
        for (name, count) in [("a", 4), ("b", 3)] {
            ledger.node_upsert(name, cpus(count));
        }
        assert_eq!((ledger.total(), ledger.offered()), (&cpus(3), &cpus(7)), "node a has nothing left, and takes nothing from b");
        ledger.charge(&other, Some("b"), cpus(1), false);
        assert_eq!(ledger.total(), &cpus(3), "a pod of our queues uses a part of the total");
        ledger.charge(&pod, Some("a"), cpus(1), true);
        assert_eq!(ledger.total(), &cpus(6));
        ledger.charge(&other, Some("b"), cpus(1), true);
        assert_eq!(ledger.total(), &cpus(5));
        ledger.node_delete("a");
        assert_eq!((ledger.total(), ledger.offered()), (&cpus(2), &cpus(3)));
        ledger.release(&other);
        assert_eq!(ledger.total(), &cpus(3));
        assert!(ledger.audit().is_empty());
        ledger.nodes.get_mut("a").unwrap().foreign = Resources::new();
        assert_eq!(ledger.audit()[0].place, Place::Foreign);
    }

    #[test]
    fn the_audit_reports_a_wrong_sum_and_a_missing_one() {
        let mut ledger = Ledger::new();
        ledger.charge(&"pod".into(), Some("n"), cpus(1), false);
        ledger.nodes.get_mut("n").unwrap().used = cpus(2);
        let differences = ledger.audit();
        assert_eq!(differences.len(), 1);
        assert_eq!((&differences[0].stored, &differences[0].recounted), (&cpus(2), &cpus(1)));
        ledger.nodes.clear();
        assert_eq!(ledger.audit()[0].recounted, cpus(1));
    }

    #[test]
    fn without_our_pods_a_node_takes_what_pods_outside_our_queues_leave() {
        let mut ledger = Ledger::new();
        ledger.node_upsert("n", cpus(4));
        ledger.charge(&"ours".into(), Some("n"), cpus(3), false);
        ledger.charge(&"other".into(), Some("n"), cpus(1), true);
        let fits = |ledger: &Ledger, cpu| ledger.fits_without_our_pods("n", &cpus(cpu));
        assert_eq!([3, 4].map(|cpu| fits(&ledger, cpu)), [true, false]);
        ledger.charge(&"other".into(), Some("n"), cpus(9), true);
        assert_eq!([0, 1].map(|cpu| fits(&ledger, cpu)), [true, false]);
        assert!(!ledger.fits_without_our_pods("unknown", &cpus(0)));
    }

    #[test]
    fn b4_nothing_is_left_of_a_node_that_is_deleted_with_its_last_pod() {
        let mut ledger = Ledger::new();
        ledger.node_upsert("n", cpus(4));
        ledger.charge(&"pod".into(), Some("n"), cpus(1), false);
        ledger.node_delete("n");
        assert_eq!(ledger.missing_nodes().count(), 1);
        ledger.release(&"pod".into());
        assert_eq!(ledger, Ledger::new());
        ledger.node_upsert("n", cpus(4));
        ledger.node_delete("n");
        assert_eq!(ledger, Ledger::new());
    }
}
