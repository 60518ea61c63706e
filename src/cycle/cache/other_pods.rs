//! Which pods do affinity, anti-affinity and spread count, and what changes when one comes or goes?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::unsupported::Unsupported;
use crate::api::{PodFacts, Uid};
use crate::cycle::placement::topology::place::Place;
use crate::cycle::placement::topology::selection::SelectorId;

use super::{Cache, Change, Member, Wake};

/// The most pods that are tried again at once after selectors went.
const MOST_AT_ONCE: usize = 16;

impl Cache {
    /// Records a pod, and where it counts; none where it has no node or has ended. The terms of a pod that is refused for its fields count
    /// for nothing: they may be what it is refused for, and take no room from those of other pods.
    pub(super) fn count_on(&mut self, facts: &PodFacts, place: Option<Place>) {
        let left = self.interested_on_its_node(&facts.uid);
        let is_refused = facts.node.is_none() && place.is_none() && !(facts.unsupported.is_empty() && facts.faults.is_empty());
        let without_terms = is_refused.then(|| PodFacts { terms: Arc::default(), ..facts.clone() });
        if !self.on_nodes.learn(without_terms.as_ref().unwrap_or(facts)) && self.on_nodes.place_of(&facts.uid) == place.as_ref() {
            return;
        }
        self.move_pod(&facts.uid, left, place);
        self.reclassify();
    }

    /// Notes that a node is nominated for the pod; none where it is no more.
    pub(in crate::cycle) fn count_nominated(&mut self, uid: &Uid, node: Option<&str>) {
        let left = self.interested_on_its_node(uid);
        self.move_pod(uid, left, node.map(Place::nominated));
    }

    fn move_pod(&mut self, uid: &Uid, left: Vec<SelectorId>, to: Option<Place>) {
        let rivals = self.rivals_of(uid);
        match to {
            Some(place) => self.on_nodes.put(uid, place),
            None => _ = self.on_nodes.take(uid),
        }
        if !left.is_empty() {
            self.changed(Wake::PodLeft(left));
        }
        self.claims_left(uid, &rivals);
        self.came(uid);
    }

    /// Returns the selectors that the pod is of interest to, if it counts on a node.
    fn interested_on_its_node(&self, uid: &Uid) -> Vec<SelectorId> {
        if self.on_nodes.place_of(uid).is_some() { self.on_nodes.interested(uid) } else { Vec::new() }
    }

    /// Notes that a pod counts on its node now, if it has one.
    pub(super) fn came(&mut self, uid: &Uid) {
        let came = self.interested_on_its_node(uid);
        if !came.is_empty() {
            self.changed(Wake::PodCame(came));
        }
    }

    /// The pod is gone, or is no pod of ours and has no node.
    pub(super) fn count_no_more(&mut self, uid: &Uid) {
        let (left, rivals) = (self.interested_on_its_node(uid), self.rivals_of(uid));
        self.on_nodes.forget(uid);
        self.claims_left(uid, &rivals);
        if !left.is_empty() {
            self.changed(Wake::PodLeft(left));
        }
        self.reclassify();
    }

    /// Refuses a waiting pod with more selectors than are told apart in its namespace. One that cannot be read says that instead.
    pub(super) fn refuse_for_selectors(&mut self, facts: &mut PodFacts) {
        if facts.node.is_none() && facts.faults.is_empty() && self.on_nodes.has_no_room_for(&facts.terms) {
            facts.unsupported.push(Unsupported::Selector);
            self.refused_for_selectors.insert(&facts.uid, &facts.terms.namespace);
        } else {
            self.refused_for_selectors.remove(&facts.uid);
        }
    }

    /// Tries some of the pods again that were refused for their selectors, after selectors of their namespaces went.
    pub(in crate::cycle) fn retry_refused_for_selectors(&mut self) {
        // A class outlives its pods for a while, and holds their selectors.
        if !self.refused_for_selectors.is_empty() && self.classes.free_selectors(&mut self.on_nodes) {
            self.room_if_empty.clear();
        }
        for namespace in self.on_nodes.take_rooms_made() {
            self.refused_for_selectors.room_made(&namespace);
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(uid) = self.refused_for_selectors.take_next() else { return };
            let Some(member) = self.pods.get(&uid) else { continue };
            if self.on_nodes.has_no_room_for(&member.facts.terms) {
                self.refused_for_selectors.insert(&uid, &member.facts.terms.namespace);
                continue;
            }
            let mut facts = PodFacts::clone(&member.facts);
            facts.unsupported.retain(|field| *field != Unsupported::Selector);
            // Its claims may have changed meanwhile: the terms of a refused pod are not known.
            self.resolve_claims(&mut facts);
            self.apply_pod(facts);
        }
    }

    /// Returns whether pods that were refused for their selectors are to be tried again.
    pub(in crate::cycle) fn has_refused_for_selectors_to_try(&self) -> bool {
        self.refused_for_selectors.is_due()
    }

    /// Adds a waiting pod to the users of its class.
    pub(super) fn join_class(&mut self, member: &mut Member) {
        member.class = Some(self.classes.join(&member.facts, &mut self.on_nodes));
        if let Some(set) = self.on_nodes.set_of(&member.facts.uid) {
            self.waiting_with.entry(set).or_default().insert(member.facts.uid.clone());
        }
    }

    /// Removes a pod from the users of its class, if it has one.
    pub(super) fn leave_class(&mut self, member: &mut Member) {
        let Some(class) = member.class.take() else { return };
        self.classes.leave(class);
        let Some(set) = self.on_nodes.set_of(&member.facts.uid) else { return };
        if let Some(waiting) = self.waiting_with.get_mut(&set) {
            waiting.remove(&member.facts.uid);
            if waiting.is_empty() {
                self.waiting_with.remove(&set);
            }
        }
    }

    /// Finds the classes of those waiting pods again that other terms of anti-affinity keep away than before. Where that may be fewer,
    /// their PodGroups are tried again: what they wait for is recorded by their former class.
    pub(super) fn reclassify(&mut self) {
        for (set, may_be_fewer) in self.on_nodes.take_changed() {
            for uid in self.waiting_with.get(&set).cloned().unwrap_or_default() {
                let Some(member) = self.pods.get_mut(&uid) else { continue };
                let class = self.classes.join(&member.facts, &mut self.on_nodes);
                let before = member.class.replace(class);
                before.into_iter().for_each(|before| self.classes.leave(before));
                if may_be_fewer && before != Some(class) {
                    let group = member.facts.group.clone();
                    self.changed(Change::Group(group));
                }
            }
        }
    }

    /// Records the labels of a namespace; none where it is gone.
    pub(in crate::cycle) fn set_namespace(&mut self, name: &str, labels: Option<BTreeMap<String, String>>) {
        if self.on_nodes.set_namespace(name, labels) {
            // The same pods are selected otherwise, in any domain.
            self.changed(Wake::Domains);
            self.reclassify();
        }
    }

    /// Returns the names of the known namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.on_nodes.namespaces()
    }
}
