//! How many pods on each node does a selector match, and which pods keep others away?
//!
//! Counts are kept for each node and not for each topology domain: which domains a node belongs to depends on the label that is asked for,
//! and on what the asking pod counts ([`verdict`](super::verdict)). A pod that comes or goes changes the counts of the selectors that match
//! it and nothing else.
//!
//! Pods of all schedulers count. So do pods for which a node is *nominated*: a pod that comes must fit with and without them. A pod on a
//! node that does not exist (any more) counts again when the node comes (back).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod_terms::{PodSelector, PodTerms};
use crate::api::{PodFacts, Uid};
use crate::by_key::ByKey;
use crate::cycle::placement::nodes::NodeId;
use crate::cycle::placement::volumes::Volumes;
use crate::resources::{ResourceName, Resources};

use super::devices::Devices;
use super::on_nodes::{Count, OnNodes};
use super::place::Place;
use super::ports::TakenPorts;
use super::selection::{LabelSetId, PodLabels, Selection, SelectorId};
use super::terms::Terms;

mod read;

/// A selector and a topology key: what a term of required anti-affinity keeps away, and in which domains.
pub type TermId = (SelectorId, Arc<str>);

/// The pods that selectors can match, and those of them on nodes.
#[derive(Debug, Default)]
pub struct PlacedPods {
    selection: Selection,
    pods: ByKey<Uid, Pod>,
    nodes: BTreeMap<Arc<str>, AtNode>,
    /// By label set, the pods on each node.
    of_sets: BTreeMap<LabelSetId, OnNodes>,
    /// By selector, the pods on each node.
    of_selectors: BTreeMap<SelectorId, OnNodes>,
    /// By term of anti-affinity.
    terms: Terms<Arc<str>>,
    ports: TakenPorts,
    /// By term of a preference of pods.
    wishes: Terms<(Arc<str>, i32)>,
    /// By controller, those of its pods on each node that are spread by default.
    replicas: BTreeMap<Uid, OnNodes>,
    /// The label sets that other terms keep away or attract than before, since they were taken last, and whether fewer may keep them away.
    changed: BTreeMap<LabelSetId, bool>,
    /// The namespaces of selectors that went, so that there may be room for others.
    rooms_made: BTreeSet<Arc<str>>,
    devices: Devices,
    /// The storage objects, and what the pods use of them.
    volumes: Volumes,
}

/// A selector, a topology key and a weight: the pods that a pod would have in its domain, or not have there (negative).
pub type WishId = (SelectorId, (Arc<str>, i32));

/// The weight of a term of required affinity of a pod that is there, as `hardPodAffinityWeight` of kube-scheduler.
const REQUIRED: i32 = 1;

#[derive(Debug)]
struct Pod {
    set: LabelSetId,
    facts: Arc<PodTerms>,
    /// What its affinity and spread count, while it has no node. Its class finds these selectors in use, so there is room for them.
    counted: Vec<SelectorId>,
    /// Those of its anti-affinity.
    terms: Vec<TermId>,
    /// Its preferences about other pods, and its required affinity.
    wishes: Vec<WishId>,
    /// The kinds of devices that it requests.
    devices: Vec<ResourceName>,
    leaving: bool,
    place: Option<Place>,
}

#[derive(Debug, Default)]
struct AtNode {
    id: Option<NodeId>,
    pods: BTreeSet<Uid>,
}

impl PlacedPods {
    /// Records a pod, or what changed of it. It stays on its node. Returns whether anything changed that others see: its labels, its
    /// anti-affinity, or whether it is terminating.
    pub fn learn(&mut self, pod: &PodFacts) -> bool {
        let uid = &pod.uid;
        let same = |known: &Pod| {
            known.leaving == pod.deleting && known.facts == pod.terms && self.selection.is_of(known.set, &pod.namespace, &pod.labels)
        };
        let counts = pod.node.is_none() && !(pod.terms.affinity.is_empty() && pod.terms.spread.is_empty());
        if self.pods.get(uid).is_some_and(|known| same(known) && (!counts || !known.counted.is_empty())) {
            if !counts {
                self.leave_counted(uid);
            }
            return false;
        }
        let place = self.take(uid);
        // Before the kinds of the pod as it was are released, so that none is forgotten in between.
        let devices = self.devices.request(&pod.request);
        self.unlearn(uid);
        let set = self.selection.join_set(PodLabels { namespace: Arc::clone(&pod.namespace), labels: pod.labels.clone() });
        // What must hold comes first, in the order of `has_no_room_for`.
        let counted = if counts { self.join_counted(&pod.terms) } else { Vec::new() };
        let terms = self.join_terms(&pod.terms);
        let wishes = self.join_wishes(&pod.terms);
        let known = Pod { set, facts: Arc::clone(&pod.terms), counted, terms, wishes, devices, leaving: pod.deleting, place: None };
        self.volumes.join(uid, &known.facts);
        self.pods.insert(uid.clone(), known);
        place.into_iter().for_each(|place| self.put(uid, place));
        true
    }

    /// Adds a user of what affinity and spread of the pod count.
    fn join_counted(&mut self, facts: &PodTerms) -> Vec<SelectorId> {
        facts.counted().map(|all| self.join_selector(&all, &facts.namespace)).collect()
    }

    /// Removes the pod from the users of what its affinity and spread count, because it has a node.
    fn leave_counted(&mut self, uid: &Uid) {
        let counted = self.pods.get_mut(uid).map(|pod| std::mem::take(&mut pod.counted)).unwrap_or_default();
        counted.into_iter().for_each(|selector| self.leave_selector(selector));
    }

    /// Adds a user of each of the pod's terms of anti-affinity.
    fn join_terms(&mut self, facts: &PodTerms) -> Vec<TermId> {
        let mut terms: Vec<TermId> = Vec::new();
        for term in &facts.anti_affinity {
            let id = self.join_selector(std::slice::from_ref(&term.pods), &facts.namespace);
            terms.push((id, Arc::clone(&term.topology_key)));
        }
        for term in &terms {
            if self.terms.join(term) {
                self.note_changed(term.0, false);
            }
        }
        terms
    }

    /// Adds a user of each of the pod's preferences about other pods, and of its required affinity.
    fn join_wishes(&mut self, facts: &PodTerms) -> Vec<WishId> {
        let required = facts.affinity.iter().map(|term| (REQUIRED, term));
        let preferred = facts.preferences.iter().flat_map(|all| &all.others).map(|(weight, term)| (*weight, term));
        let mut wishes: Vec<WishId> = Vec::new();
        for (weight, term) in required.chain(preferred) {
            let id = self.join_selector(std::slice::from_ref(&term.pods), &facts.namespace);
            wishes.push((id, (Arc::clone(&term.topology_key), weight)));
        }
        for wish in &wishes {
            if self.wishes.join(wish) {
                self.note_changed(wish.0, false);
            }
        }
        wishes
    }

    /// The pod is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.take(uid);
        self.unlearn(uid);
    }

    fn unlearn(&mut self, uid: &Uid) {
        self.leave_counted(uid);
        let Some(pod) = self.pods.remove(uid) else { return };
        self.volumes.leave(uid, &pod.facts);
        self.devices.release(&pod.devices);
        for term in pod.terms {
            if self.terms.leave(&term) {
                self.note_changed(term.0, true);
            }
            self.leave_selector(term.0);
        }
        for wish in pod.wishes {
            if self.wishes.leave(&wish) {
                self.note_changed(wish.0, false);
            }
            self.leave_selector(wish.0);
        }
        if self.selection.leave_set(pod.set) {
            self.of_sets.remove(&pod.set);
            self.changed.remove(&pod.set);
        }
    }

    /// Notes that other terms than before keep away or attract the pods that the selector matches, and whether fewer may keep them away.
    fn note_changed(&mut self, selector: SelectorId, may_be_fewer: bool) {
        for set in self.selection.sets_of(selector) {
            *self.changed.entry(set).or_default() |= may_be_fewer;
        }
    }

    /// Puts a known pod on the node. A pod is on one node at a time.
    pub fn put(&mut self, uid: &Uid, mut place: Place) {
        self.take(uid);
        // One name is shared by all pods of a node.
        if let Some((name, _)) = self.nodes.get_key_value(&place.node) {
            place.node = Arc::clone(name);
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.place = Some(place.clone());
        self.volumes.count(&pod.facts, &place.node, place.is_nominated, true);
        let at = self.nodes.entry(Arc::clone(&place.node)).or_default();
        at.pods.insert(uid.clone());
        if let Some(id) = at.id {
            self.count(uid, id, place.is_nominated, true);
        }
    }

    /// Takes the pod from its node. Returns its place; none where it has none.
    pub fn take(&mut self, uid: &Uid) -> Option<Place> {
        let pod = self.pods.get_mut(uid)?;
        let place = pod.place.take()?;
        self.volumes.count(&pod.facts, &place.node, place.is_nominated, false);
        let Some(at) = self.nodes.get_mut(&place.node) else { return Some(place) };
        at.pods.remove(uid);
        let id = at.id;
        if id.is_none() && at.pods.is_empty() {
            self.nodes.remove(&place.node);
        }
        if let Some(id) = id {
            self.count(uid, id, place.is_nominated, false);
        }
        Some(place)
    }

    /// Records the number of a node; none where the node is gone.
    pub fn set_node(&mut self, name: &Arc<str>, id: Option<NodeId>) {
        let at = self.nodes.entry(Arc::clone(name)).or_default();
        let before = std::mem::replace(&mut at.id, id);
        let pods: Vec<Uid> = at.pods.iter().cloned().collect();
        if id.is_none() && pods.is_empty() {
            self.nodes.remove(name);
        }
        if before == id {
            return;
        }
        for uid in &pods {
            let is_nominated = self.place_of(uid).is_some_and(|place| place.is_nominated);
            before.into_iter().for_each(|id| self.count(uid, id, is_nominated, false));
            id.into_iter().for_each(|id| self.count(uid, id, is_nominated, true));
        }
    }

    /// Records what a node offers; none where it is gone.
    pub fn set_offers(&mut self, name: &Arc<str>, offers: Option<&Resources>) {
        self.devices.set_node(name, offers);
    }

    /// Records the labels of a namespace; none where it is gone. Returns whether that changed what any selector matches.
    pub fn set_namespace(&mut self, name: &str, labels: Option<BTreeMap<String, String>>) -> bool {
        let changed = self.selection.set_namespace(name, labels);
        for (id, sets) in &changed {
            for set in sets {
                let matches = self.selection.matches(*id, *set);
                let of_set = self.of_sets.get(set).into_iter().flat_map(OnNodes::iter);
                let of_selector = self.of_selectors.entry(*id).or_default();
                of_set.for_each(|(node, count)| of_selector.add(node, count, matches));
                self.changed.insert(*set, true);
            }
        }
        !changed.is_empty()
    }

    /// Returns the names of the known namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.selection.namespaces()
    }

    /// Adds a user of the selector: of what is selected by all of these. Its pods are counted from now on. `owner` is the namespace of the pods that
    /// have the selector. Where it has too many, all pods that these might reach are selected, so that nothing is placed where it must not be.
    pub fn join_selector(&mut self, all: &[PodSelector], owner: &Arc<str>) -> SelectorId {
        let (id, is_new) = match self.selection.join_selector(all, owner) {
            Some(joined) => joined,
            None => self.selection.join_everything(owner, all.iter().all(|one| one.is_within(owner))),
        };
        if is_new {
            let mut sum = OnNodes::default();
            for set in self.selection.sets_of(id) {
                self.of_sets.get(&set).into_iter().flat_map(OnNodes::iter).for_each(|(node, count)| sum.add(node, count, true));
            }
            self.of_selectors.insert(id, sum);
        }
        id
    }

    /// Takes the namespaces of the selectors that went since they were taken last.
    pub fn take_rooms_made(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.rooms_made)
    }

    /// Returns whether the namespace has too many selectors for those of this pod to be told apart. Where it has not,
    /// [`learn`](Self::learn) gives each of them a number of its own while the pod waits. Preferences take what room is left.
    #[must_use]
    pub fn has_no_room_for(&self, terms: &PodTerms) -> bool {
        let all: Vec<Cow<'_, [PodSelector]>> = terms.required().collect();
        let all: Vec<&[PodSelector]> = all.iter().map(AsRef::as_ref).collect();
        !all.is_empty() && !self.selection.has_room_for(&all, &terms.namespace)
    }

    /// Adds a user of a selector that is in use.
    pub fn hold_selector(&mut self, id: SelectorId) {
        self.selection.hold_selector(id);
    }

    /// Removes a user of the selector.
    pub fn leave_selector(&mut self, id: SelectorId) {
        if let Some(owner) = self.selection.leave_selector(id) {
            self.of_selectors.remove(&id);
            self.rooms_made.insert(owner);
        }
    }

    fn count(&mut self, uid: &Uid, node: NodeId, is_nominated: bool, more: bool) {
        let Some(pod) = self.pods.get(uid) else { return };
        let count = Count { pods: 1, leaving: u32::from(pod.leaving), nominated: u32::from(is_nominated) };
        self.of_sets.entry(pod.set).or_default().add(node, count, more);
        for selector in self.selection.selectors_of(pod.set) {
            self.of_selectors.entry(selector).or_default().add(node, count, more);
        }
        pod.terms.iter().for_each(|term| self.terms.count(term, node, count, more));
        pod.wishes.iter().for_each(|wish| self.wishes.count(wish, node, count, more));
        if let Some(controller) = &pod.facts.replica_of {
            match self.replicas.get_mut(controller) {
                Some(pods) => pods.add(node, count, more),
                None => self.replicas.entry(controller.clone()).or_default().add(node, count, more),
            }
            if self.replicas.get(controller).is_some_and(OnNodes::is_empty) {
                self.replicas.remove(controller);
            }
        }
        pod.facts.host_ports.iter().for_each(|port| self.ports.count(port, node, count, more));
    }

    /// Takes the label sets that other terms keep away than before, and whether that may be fewer.
    pub fn take_changed(&mut self) -> BTreeMap<LabelSetId, bool> {
        std::mem::take(&mut self.changed)
    }

    /// Returns whether nothing is remembered but the labels of namespaces.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            selection,
            pods,
            nodes,
            of_sets,
            of_selectors,
            terms,
            ports,
            wishes,
            replicas,
            changed,
            volumes,
            devices,
            rooms_made: _,
        } = self;
        selection.sizes() == (0, 0)
            && pods.is_empty()
            && nodes.is_empty()
            && of_sets.is_empty()
            && of_selectors.is_empty()
            && terms.is_empty()
            && ports.is_empty()
            && wishes.is_empty()
            && replicas.is_empty()
            && changed.is_empty()
            && volumes.has_no_pods()
            && devices.has_no_pods()
    }
}
