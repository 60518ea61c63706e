//! Updates the cache when a node is added, changed or deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::ROOT_QUEUE;
use crate::api::{NodeFacts, Uid};

use crate::cycle::placement::capacity::pods_if_empty;
use crate::cycle::placement::class::ClassId;
use crate::cycle::placement::filter::NodeState;
use crate::cycle::placement::nodes::NodeId;

use super::{Cache, Change, Wake};

/// How many pods of a class the nodes could take if no pod were there, by the node groups that are barred and by class. It depends on the
/// objects of the nodes alone.
pub(super) type RoomIfEmpty = BTreeMap<BTreeSet<String>, BTreeMap<ClassId, CountedRoom>>;

/// The room that was counted for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedRoom {
    pods: usize,
    /// Whether all nodes were counted; if not, there may be more room.
    of_all_nodes: bool,
}

impl Cache {
    /// Adds or updates a node. A change of its images alone is no change that others see: it makes no node take or refuse a pod.
    pub fn apply_node(&mut self, mut facts: NodeFacts) {
        let (name, images) = (Arc::clone(&facts.name), std::mem::take(&mut facts.images));
        self.apply_node_but_images(facts);
        self.nodes.set_images(&name, &images);
    }

    /// Does the same without the images, which stay as they are.
    pub(super) fn apply_node_but_images(&mut self, mut facts: NodeFacts) {
        facts.csi = self.csi_nodes.get(&facts.name).cloned();
        let known = self.nodes.id(&facts.name).and_then(|id| self.nodes.get(id));
        if known.is_some_and(|known| **known == facts) {
            return;
        }
        let shrank = known.is_some_and(|known| !facts.allocatable.covers(&known.allocatable));
        let grew = known.is_none_or(|known| !known.allocatable.covers(&facts.allocatable));
        let labels =
            known.map_or_else(|| facts.labels.keys().map(|key| Arc::from(key.as_str())).collect(), |known| changed_labels(known, &facts));
        let same_taints = known.is_none_or(|known| known.taints == facts.taints);
        let (name, allocatable) = (Arc::clone(&facts.name), facts.allocatable.clone());
        self.nodes.upsert(facts);
        self.on_nodes.set_node(&name, self.nodes.id(&name));
        self.on_nodes.set_offers(&name, Some(&allocatable));
        if !labels.is_empty() {
            self.changed(Wake::Labels(labels));
        }
        if !same_taints {
            self.changed(Wake::Domains);
        }
        self.accounting.node_upsert(&name, allocatable);
        self.object_changed(&name);
        self.changed(Wake::Node(name));
        if shrank {
            // A PodGroup may be too large for the cluster as a whole now, and others waited behind that one (A6).
            self.changed(Wake::Everything);
        } else if grew {
            // The queues have more together. A cordon and labels do not change that (N2).
            self.changed(Wake::Quota(Arc::from(ROOT_QUEUE)));
        }
    }

    /// Returns one node as predicates see it; none where there is no such node.
    pub(in crate::cycle) fn node(&self, id: NodeId) -> Option<NodeState<'_>> {
        let facts = self.nodes.get(id)?;
        Some(NodeState { id, facts, accounting: self.accounting.ledger().node(&facts.name)? })
    }

    /// Whether the nodes could take so many of these waiting members, if no pod were there. An upper bound: members of several classes are
    /// counted apart.
    pub(in crate::cycle) fn could_ever_take(&mut self, queue: &str, members: &[Uid], needed: usize) -> bool {
        let mut classes: BTreeMap<ClassId, usize> = BTreeMap::new();
        for class in members.iter().filter_map(|uid| self.pods.get(uid)?.class) {
            let count = classes.entry(class).or_default();
            *count = count.saturating_add(1);
        }
        let barred = self.barred_groups(queue);
        let mut possible = 0_usize;
        for (class, count) in classes {
            let Some(room) = self.room_if_empty(class, &barred, count) else { return true };
            possible = possible.saturating_add(room.min(count));
        }
        members.is_empty() || possible >= needed
    }

    /// Returns how many pods of the class the nodes could take if no pod were there; where that is `wanted` or more, a number that is not
    /// below it. None where the class is unknown.
    fn room_if_empty(&mut self, id: ClassId, barred: &BTreeSet<String>, wanted: usize) -> Option<usize> {
        let counted = self.room_if_empty.get(barred).and_then(|classes| classes.get(&id)).copied();
        if let Some(counted) = counted.filter(|counted| counted.of_all_nodes || counted.pods >= wanted) {
            return Some(counted.pods);
        }
        let class = self.classes.get(id)?;
        let mut counted = CountedRoom { pods: 0, of_all_nodes: true };
        for node in self.nodes.ids().filter_map(|id| self.node(id)) {
            if counted.pods >= wanted {
                counted.of_all_nodes = false;
                break;
            }
            counted.pods = counted.pods.saturating_add(pods_if_empty(&class.request, &class.constraints, barred, &node));
        }
        self.room_if_empty.entry(barred.clone()).or_default().insert(id, counted);
        Some(counted.pods)
    }

    /// Drops the unused classes if there are too many of them, and what was counted for them.
    pub(in crate::cycle) fn tidy_classes(&mut self) -> bool {
        let forgot = self.classes.tidy(&mut self.on_nodes);
        if forgot {
            self.room_if_empty.clear();
        }
        forgot
    }

    /// Forgets the places of deleted queues in which nothing is charged or reserved any more (T3).
    pub(in crate::cycle) fn forget_unused_places(&mut self) {
        self.accounting.forget_unused_places();
    }

    /// Removes a node. Its pods stay charged to its name.
    pub fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name) {
            self.on_nodes.set_node(&Arc::from(name), None);
            self.on_nodes.set_offers(&Arc::from(name), None);
            self.accounting.node_delete(name);
            self.object_changed(name);
            // No PodGroup has more room now, but the cluster is another.
            self.changed(Wake::Everything);
        }
    }

    fn object_changed(&mut self, name: &str) {
        self.changed(Change::NodeObject(Arc::from(name)));
        self.room_if_empty.clear();
        self.sharing.shares = None;
        // What the cluster offers is named where it is full.
        self.dirty_path(ROOT_QUEUE);
        // A queue that states another one may mean a resource that is offered from now on.
        let offered = || self.accounting.ledger().total().iter().map(|(resource, _)| resource);
        if !offered().eq(&self.offered) {
            self.offered = offered().cloned().collect();
            self.dirty_all_queues();
        }
    }
}

/// Returns the keys of the labels that one of the two has and the other has not, or has with another value.
fn changed_labels(before: &NodeFacts, after: &NodeFacts) -> Vec<Arc<str>> {
    let differs = |key: &&String| before.labels.get(*key) != after.labels.get(*key);
    let keys: BTreeSet<&String> = before.labels.keys().chain(after.labels.keys()).filter(differs).collect();
    keys.into_iter().map(|key| Arc::from(key.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::CountedRoom;
    use crate::accounting::ROOT_QUEUE;
    use crate::api::images::NodeImage;
    use crate::api::node::Taint;
    use crate::api::{NodeFacts, Uid};
    use crate::cycle::cache::{Change, Wake};
    use crate::cycle::testing::steps::empty_state;
    use crate::cycle::testing::{node, pod};

    #[test]
    fn other_images_on_a_node_change_nothing_else() {
        let mut state = empty_state();
        let with = |names: &[&str]| {
            let image = |name: &&str| NodeImage { name: Arc::from(*name), size: 7 };
            NodeFacts { images: names.iter().map(image).collect(), ..node("n", &[("cpu", 2)]) }
        };
        let cache = &mut state.cache;
        cache.apply_node(with(&["a"]));
        assert!(!cache.take_changes().is_empty());
        let (version, head) = (cache.nodes.version(), cache.nodes.head());
        for (names, count) in [(&["a", "b"][..], 2), (&[], 0), (&["c"], 1)] {
            cache.apply_node(with(names));
            assert_eq!(cache.nodes.images().len(), count);
            assert!(cache.take_changes().is_empty(), "no PodGroup is tried again");
            assert_eq!((cache.nodes.version(), cache.nodes.head()), (version, head), "no shortlist and no domain is worked out again");
        }
        cache.delete_node("n");
        assert_eq!(cache.nodes.images().len(), 0);
    }

    #[test]
    fn n2_only_a_node_that_offers_more_leaves_more_to_the_queues() {
        let offers = |cpu, gpus| node("n", &[("cpu", cpu), ("gpu", gpus)]);
        let labelled = || {
            let mut facts = offers(2, 0);
            facts.labels.insert("a".into(), "b".into());
            facts
        };
        let taint = || Taint { key: "t".into(), value: None, effect: "NoSchedule".into() };
        let (quota, everything) = (Wake::Quota(ROOT_QUEUE.into()), Wake::Everything);
        let cases: [(&str, NodeFacts, Option<&Wake>); 9] = [
            ("new", offers(2, 0), Some(&quota)),
            ("a label", labelled(), None),
            ("a cordon", NodeFacts { unschedulable: true, ..offers(2, 0) }, None),
            ("a taint", NodeFacts { taints: vec![taint()], ..offers(2, 0) }, None),
            ("made again", NodeFacts { uid: Uid::from("again"), ..offers(2, 0) }, None),
            ("more", offers(3, 0), Some(&quota)),
            ("more and a label", NodeFacts { labels: labelled().labels, ..offers(3, 1) }, Some(&quota)),
            ("more of one and less of the other", offers(2, 2), Some(&everything)),
            ("less", offers(2, 0), Some(&everything)),
        ];
        let mut state = empty_state();
        let cache = &mut state.cache;
        for (what, facts, expected) in cases {
            cache.apply_node(facts);
            let changes = cache.take_changes();
            let of_all = |change: &&Change| [&quota, &everything].iter().any(|wake| **change == Change::Wake(Wake::clone(wake)));
            let found: Vec<&Change> = changes.iter().filter(of_all).collect();
            assert_eq!(found, expected.map(|wake| Change::Wake(wake.clone())).iter().collect::<Vec<_>>(), "{what}");
            assert!(changes.contains(&Wake::Node("n".into()).into()), "{what}: it may take other pods");
        }
    }

    #[test]
    fn a6_the_nodes_are_counted_once_for_a_class_until_a_node_changes() {
        let mut state = empty_state();
        (0..3).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 2)])));
        let members: Vec<Uid> = (0..9).map(|at| Uid::from(format!("ns/p{at}").as_str())).collect();
        (0..9).for_each(|at| state.apply_pod(pod("ns", &format!("p{at}"), "g", &[("cpu", 1)])));
        let known =
            |state: &super::super::Cache| state.room_if_empty.values().flat_map(|classes| classes.values().copied()).collect::<Vec<_>>();
        let cache = &mut state.cache;
        assert!(cache.could_ever_take("default", &members[..2], 2));
        assert_eq!(known(cache), [CountedRoom { pods: 2, of_all_nodes: false }], "one node is enough");
        assert!(cache.could_ever_take("default", &members[..6], 6) && !cache.could_ever_take("default", &members, 9));
        assert_eq!(known(cache), [CountedRoom { pods: 6, of_all_nodes: true }]);
        // What is known is used, whatever the nodes are.
        cache.room_if_empty.values_mut().flat_map(|classes| classes.values_mut()).for_each(|counted| counted.pods = 9);
        assert!(cache.could_ever_take("default", &members, 9));
        state.apply_node(node("n0", &[("cpu", 4)]));
        assert!(!state.cache.could_ever_take("default", &members, 9) && state.cache.could_ever_take("default", &members[..8], 8));
        state.delete_node("n0");
        assert!(!state.cache.could_ever_take("default", &members[..8], 8));
    }
}
