//! Scheduling classes: pods with the same request and the same constraints, which are the same to every node.
//! Constraints on other pods are a part of that, and so are the pods that keep them away.
//!
//! Nodes are filtered once for a class and not once for each pod. A class exists while pods of it wait. It also exists for some time after that,
//! because the next pod of a Deployment is usually like the last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::PodFacts;
use crate::api::pod_facts::Constraints;
use crate::resources::{Amount, ResourceName, Resources};

use super::topology::class_terms::ClassTerms;
use super::topology::placed::PlacedPods;

/// The number of a class. A number is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(u64);

/// What the pods of a class have in common.
#[derive(Debug, PartialEq)]
pub struct Class {
    /// The request of each pod.
    pub request: Resources,
    /// The constraints of each pod on its node.
    pub constraints: Constraints,
    /// What each pod requires of other pods, and which pods keep it away.
    pub terms: ClassTerms,
}

/// The number of unused classes above which all unused classes are dropped.
const KEPT: usize = 64;

/// The classes of the waiting pods.
#[derive(Debug, Default)]
pub struct Classes {
    ids: BTreeMap<Key, ClassId>,
    classes: BTreeMap<ClassId, Entry>,
    next: u64,
    /// Invariant: the sum of all users.
    users: usize,
    /// Whether a class with selectors may have lost its last user since the unused ones were dropped.
    may_free_selectors: bool,
}

type Key = (Vec<(ResourceName, Amount)>, Constraints, ClassTerms);

#[derive(Debug)]
struct Entry {
    class: Arc<Class>,
    users: usize,
}

impl Classes {
    /// Adds the pod to the users of its class, and returns the class.
    pub fn join(&mut self, pod: &PodFacts, placed: &mut PlacedPods) -> ClassId {
        let terms = placed
            .set_of(&pod.uid)
            .map(|set| ClassTerms::join(&pod.terms, pod.constraints.volumes.as_ref(), set, placed))
            .unwrap_or_default();
        let key: Key = (pod.request.iter().map(|(name, amount)| (name.clone(), amount)).collect(), pod.constraints.clone(), terms.clone());
        let id = match self.ids.get(&key).copied() {
            Some(id) => {
                // The class has joined its selectors already.
                terms.leave(placed);
                id
            }
            None => {
                let id = ClassId(self.next);
                self.next = self.next.saturating_add(1);
                let class = Arc::new(Class { request: pod.request.clone(), constraints: pod.constraints.clone(), terms });
                self.classes.insert(id, Entry { class, users: 0 });
                self.ids.insert(key, id);
                id
            }
        };
        if let Some(entry) = self.classes.get_mut(&id) {
            entry.users = entry.users.saturating_add(1);
            self.users = self.users.saturating_add(1);
        }
        id
    }

    /// Removes one pod from the users of the class.
    pub fn leave(&mut self, id: ClassId) {
        if let Some(entry) = self.classes.get_mut(&id) {
            entry.users = entry.users.saturating_sub(1);
            self.users = self.users.saturating_sub(1);
            self.may_free_selectors |= entry.users == 0 && entry.class.has_selectors();
        }
    }

    /// Returns the number of waiting pods in all classes.
    #[must_use]
    pub const fn users(&self) -> usize {
        self.users
    }

    /// Returns the number of waiting pods of the class.
    #[must_use]
    pub fn users_of(&self, id: ClassId) -> usize {
        self.classes.get(&id).map_or(0, |entry| entry.users)
    }

    /// Returns the class with this number; none if it was dropped.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.classes.get(&id).map(|entry| &entry.class)
    }

    /// Drops all unused classes if there are too many of them. Returns whether a class was dropped.
    pub fn tidy(&mut self, placed: &mut PlacedPods) -> bool {
        let unused = self.classes.values().filter(|entry| entry.users == 0).count();
        if unused <= KEPT {
            return false;
        }
        self.drop_unused(placed, |_| true);
        true
    }

    /// Drops the unused classes that hold selectors, so that there is room for others. Returns whether there may have been any.
    pub fn free_selectors(&mut self, placed: &mut PlacedPods) -> bool {
        let may_free = std::mem::replace(&mut self.may_free_selectors, false);
        if may_free {
            self.drop_unused(placed, Class::has_selectors);
        }
        may_free
    }

    fn drop_unused(&mut self, placed: &mut PlacedPods, which: impl Fn(&Class) -> bool) {
        let is_dropped = |entry: &Entry| entry.users == 0 && which(&entry.class);
        self.classes.values().filter(|entry| is_dropped(entry)).for_each(|entry| entry.class.terms.leave(placed));
        self.classes.retain(|_, entry| !is_dropped(entry));
        self.ids.retain(|_, id| self.classes.contains_key(id));
    }
}

impl Class {
    /// Returns whether pods of the class hold selectors: terms of their own, or those of others against them.
    fn has_selectors(&self) -> bool {
        !self.terms.is_empty() || self.terms.preferences.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{keeps_away, pod, running};

    #[test]
    fn pods_with_equal_needs_share_a_class_whatever_they_are_called() {
        let (mut classes, mut placed) = (Classes::default(), PlacedPods::default());
        let a = classes.join(&pod("ns", "a", "g", &[("cpu", 1)]), &mut placed);
        assert_eq!(classes.join(&pod("other", "b", "h", &[("cpu", 1)]), &mut placed), a);
        assert_ne!(classes.join(&pod("ns", "c", "g", &[("cpu", 2)]), &mut placed), a);
        let mut choosy = pod("ns", "d", "g", &[("cpu", 1)]);
        choosy.constraints.node_selector.insert("zone".into(), "a".into());
        assert_ne!(classes.join(&choosy, &mut placed), a);
    }

    #[test]
    fn pods_with_labels_of_their_own_share_a_class_unless_a_term_of_another_pod_matches_them() {
        let (mut classes, mut placed) = (Classes::default(), PlacedPods::default());
        let labelled = |name: &str, app: &str| {
            let labels = [("app".to_owned(), app.to_owned()), ("index".to_owned(), name.to_owned())].into();
            PodFacts { labels, ..pod("ns", name, "g", &[("cpu", 1)]) }
        };
        let keeper = PodFacts { terms: keeps_away("ns", ("app", "db"), "zone"), ..labelled("keeper", "keeper") };
        placed.learn(&running(keeper, "n0"));
        let mut class = |name: &str, app: &str| {
            let facts = labelled(name, app);
            placed.learn(&facts);
            classes.join(&facts, &mut placed)
        };
        let web = class("web-0", "web");
        for name in ["web-1", "web-2", "web-3"] {
            assert_eq!(class(name, "web"), web, "{name}");
        }
        let db = class("db-0", "db");
        assert_ne!(db, web, "the keeper keeps it away");
        assert_eq!(class("db-1", "db"), db);
        assert_eq!(classes.classes.len(), 2);
    }

    #[test]
    fn only_many_unused_classes_are_dropped_and_never_a_used_one() {
        let (mut classes, mut placed) = (Classes::default(), PlacedPods::default());
        let used = classes.join(&pod("ns", "used", "g", &[("cpu", 1_000)]), &mut placed);
        for cpu in 0..100 {
            let id = classes.join(&pod("ns", "p", "g", &[("cpu", cpu)]), &mut placed);
            classes.leave(id);
        }
        assert!(classes.tidy(&mut placed));
        assert!(classes.get(used).is_some());
        assert_eq!(classes.classes.len(), 1);
        assert!(!classes.tidy(&mut placed));
    }
}
