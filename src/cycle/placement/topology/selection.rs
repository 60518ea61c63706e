//! Which selectors match which pods?
//!
//! Pods with the same namespace and the same labels are one *label set*; what selects one of them selects all. A *selector* here is a list
//! of [`PodSelector`]s that must all match. Each pair of a label set and a selector is compared once, when the later of the two comes. Most
//! pairs are not compared at all: a selector that lists the values of a label is found by these values.
//!
//! The cost of a new label set is the selectors that list one of its labels, and the selectors that list no value of any label and reach
//! its namespace. The cost of a new selector is the label sets with one of the values that it lists; where it lists none, the label sets of
//! the namespaces that it reaches.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::label_selector::LabelSelector;
use crate::api::pod_terms::PodSelector;

use super::slab::Slab;

/// The most selectors that pods of one namespace may have and that are found in the same way: by the same value of a label, or by their
/// reach. So a label set is compared with at most this number for each of its labels, and once more, for each namespace with such pods. A
/// pod with one selector more is not placed.
pub const MOST_ALIKE: usize = 256;

/// A requirement with more values does not help to find pods.
const MOST_VALUES: usize = 64;

/// The number of a label set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LabelSetId(u32);

/// The number of a selector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SelectorId(u32);

/// The label sets and the selectors that are in use, and which match.
#[derive(Debug, Default)]
pub(super) struct Selection {
    sets: Slab<LabelSet>,
    set_ids: BTreeMap<Arc<PodLabels>, LabelSetId>,
    /// By key and value of a label.
    sets_with: BTreeMap<String, BTreeMap<String, BTreeSet<LabelSetId>>>,
    selectors: Slab<Selector>,
    selector_ids: BTreeMap<Arc<[PodSelector]>, SelectorId>,
    /// By key and value of a label, the selectors that list it.
    selectors_for: BTreeMap<String, BTreeMap<String, BTreeSet<SelectorId>>>,
    /// How many selectors of the pods of a namespace are found in the same way.
    load: BTreeMap<(Arc<str>, FoundBy), usize>,
    /// The selectors that list no value, by namespace; none where they reach namespaces by their labels.
    selectors_for_any: BTreeMap<Option<Arc<str>>, BTreeSet<SelectorId>>,
    /// By namespace.
    sets_in: BTreeMap<Arc<str>, BTreeSet<LabelSetId>>,
    /// The labels of each namespace.
    namespaces: BTreeMap<Arc<str>, BTreeMap<String, String>>,
}

/// The namespace and the labels of a pod: all that a selector reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodLabels {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The labels of the pod.
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug)]
struct LabelSet {
    labels: Arc<PodLabels>,
    users: usize,
    /// The selectors that match.
    selectors: BTreeSet<SelectorId>,
}

/// How the pods of a selector are found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FoundBy {
    /// By this value of this label.
    Label(String, String),
    /// Each pod in reach is compared.
    Reach,
}

#[derive(Debug)]
struct Selector {
    all: Arc<[PodSelector]>,
    users: usize,
    /// The namespace of the pods that had it first.
    owner: Arc<str>,
    /// How its pods are found: by one of the values of one label, or by its reach.
    found_by: Vec<FoundBy>,
    /// The label sets that match.
    sets: BTreeSet<LabelSetId>,
}

impl Selection {
    /// Adds a user of the label set. Returns its number.
    pub(super) fn join_set(&mut self, labels: PodLabels) -> LabelSetId {
        if let Some(id) = self.set_ids.get(&labels).copied() {
            if let Some(set) = self.sets.get_mut(id.0) {
                set.users = set.users.saturating_add(1);
            }
            return id;
        }
        let labels = Arc::new(labels);
        let listing = labels.labels.iter().filter_map(|(key, value)| self.selectors_for.get(key)?.get(value));
        let reach = [None, Some(Arc::clone(&labels.namespace))];
        let others = reach.iter().filter_map(|namespace| self.selectors_for_any.get(namespace));
        let candidates: BTreeSet<SelectorId> = listing.chain(others).flatten().copied().collect();
        let selectors: BTreeSet<SelectorId> = candidates.into_iter().filter(|id| self.compare(*id, &labels)).collect();
        let id = LabelSetId(self.sets.insert(LabelSet { labels: Arc::clone(&labels), users: 1, selectors: selectors.clone() }));
        for selector in &selectors {
            if let Some(selector) = self.selectors.get_mut(selector.0) {
                selector.sets.insert(id);
            }
        }
        for (key, value) in &labels.labels {
            self.sets_with.entry(key.clone()).or_default().entry(value.clone()).or_default().insert(id);
        }
        self.sets_in.entry(Arc::clone(&labels.namespace)).or_default().insert(id);
        self.set_ids.insert(labels, id);
        id
    }

    /// Removes a user of the label set. Returns whether that was the last one; then the set is gone.
    pub(super) fn leave_set(&mut self, id: LabelSetId) -> bool {
        let Some(set) = self.sets.get_mut(id.0) else { return false };
        set.users = set.users.saturating_sub(1);
        if set.users > 0 {
            return false;
        }
        let Some(set) = self.sets.remove(id.0) else { return false };
        self.set_ids.remove(&set.labels);
        for selector in &set.selectors {
            if let Some(selector) = self.selectors.get_mut(selector.0) {
                selector.sets.remove(&id);
            }
        }
        for (key, value) in &set.labels.labels {
            remove(&mut self.sets_with, key, value, &id);
        }
        remove_from(&mut self.sets_in, &set.labels.namespace, &id);
        true
    }

    /// Adds a user of the selector. Returns its number, and whether it is new; none where there is no room for another selector of this owner.
    pub(super) fn join_selector(&mut self, all: &[PodSelector], owner: &Arc<str>) -> Option<(SelectorId, bool)> {
        if let Some(id) = self.selector_ids.get(all).copied() {
            self.hold_selector(id);
            return Some((id, false));
        }
        let found_by = self.found_by(all, &BTreeMap::new());
        self.has_room(&found_by, owner).then(|| self.insert_selector(all, owner, found_by))
    }

    /// Adds a user of the selector of all pods, or of all pods of this namespace. Returns its number, and whether it is new.
    pub(super) fn join_everything(&mut self, namespace: &Arc<str>, within: bool) -> (SelectorId, bool) {
        let all = [PodSelector::everything(namespace, within)];
        if let Some(id) = self.selector_ids.get(all.as_slice()).copied() {
            self.hold_selector(id);
            return (id, false);
        }
        // It takes no room from the selectors of a namespace.
        self.insert_selector(&all, &Arc::from(""), vec![FoundBy::Reach])
    }

    /// Returns whether there is room for those of the selectors of one pod that are not in use, if they are added in this order.
    pub(super) fn has_room_for(&self, selectors: &[&[PodSelector]], owner: &Arc<str>) -> bool {
        let mut more: BTreeMap<FoundBy, usize> = BTreeMap::new();
        let mut known: BTreeSet<&[PodSelector]> = BTreeSet::new();
        for all in selectors {
            if self.selector_ids.contains_key(*all) || !known.insert(all) {
                continue;
            }
            let found_by = self.found_by(all, &more);
            if !self.has_room_beside(&more, &found_by, owner) {
                return false;
            }
            for way in found_by {
                let load = more.entry(way).or_default();
                *load = load.saturating_add(1);
            }
        }
        true
    }

    fn has_room(&self, found_by: &[FoundBy], owner: &Arc<str>) -> bool {
        self.has_room_beside(&BTreeMap::new(), found_by, owner)
    }

    /// Returns whether there is room beside `more` selectors of the owner.
    fn has_room_beside(&self, more: &BTreeMap<FoundBy, usize>, found_by: &[FoundBy], owner: &Arc<str>) -> bool {
        let load = |way: &FoundBy| self.load.get(&(Arc::clone(owner), way.clone())).copied().unwrap_or(0);
        found_by.iter().all(|way| load(way).saturating_add(more.get(way).copied().unwrap_or(0)) < MOST_ALIKE)
    }

    /// Returns the ways that are shared with the fewest other selectors, those in use and `more`.
    fn found_by(&self, all: &[PodSelector], more: &BTreeMap<FoundBy, usize>) -> Vec<FoundBy> {
        let shared = |key: &str, values: &BTreeSet<String>| {
            let in_use = |value: &String| self.selectors_for.get(key).and_then(|with| with.get(value)).map_or(0, BTreeSet::len);
            let new = |value: &String| more.get(&FoundBy::Label(key.to_owned(), value.clone())).copied().unwrap_or(0);
            values.iter().map(|value| in_use(value).saturating_add(new(value))).fold(0, usize::saturating_add)
        };
        let listed = all.iter().flat_map(|one| one.labels.listed()).filter(|(_, values)| values.len() <= MOST_VALUES);
        let best = listed.min_by_key(|(key, values)| (shared(key, values), values.len()));
        best.map_or_else(
            || vec![FoundBy::Reach],
            |(key, values)| values.iter().map(|value| FoundBy::Label(key.to_owned(), value.clone())).collect(),
        )
    }

    fn insert_selector(&mut self, all: &[PodSelector], owner: &Arc<str>, found_by: Vec<FoundBy>) -> (SelectorId, bool) {
        let all: Arc<[PodSelector]> = Arc::from(all);
        let selector =
            Selector { all: Arc::clone(&all), users: 1, owner: Arc::clone(owner), found_by: found_by.clone(), sets: BTreeSet::new() };
        let id = SelectorId(self.selectors.insert(selector));
        self.selector_ids.insert(Arc::clone(&all), id);
        let mut candidates: Vec<LabelSetId> = Vec::new();
        for way in found_by {
            match &way {
                FoundBy::Label(key, value) => {
                    self.selectors_for.entry(key.clone()).or_default().entry(value.clone()).or_default().insert(id);
                    candidates.extend(self.sets_with.get(key).and_then(|with| with.get(value)).into_iter().flatten());
                }
                FoundBy::Reach => {
                    for namespace in reached(&all) {
                        match &namespace {
                            Some(name) => candidates.extend(self.sets_in.get(name).into_iter().flatten()),
                            None => candidates.extend(self.sets.iter().map(|(number, _)| LabelSetId(number))),
                        }
                        self.selectors_for_any.entry(namespace).or_default().insert(id);
                    }
                }
            }
            let load = self.load.entry((Arc::clone(owner), way)).or_default();
            *load = load.saturating_add(1);
        }
        self.rematch(id, candidates);
        (id, true)
    }

    /// Adds a user of a selector that is in use.
    pub(super) fn hold_selector(&mut self, id: SelectorId) {
        if let Some(selector) = self.selectors.get_mut(id.0) {
            selector.users = selector.users.saturating_add(1);
        }
    }

    /// Removes a user of the selector. If that was the last one, the selector is gone; then returns the namespace of the pods that had it first.
    pub(super) fn leave_selector(&mut self, id: SelectorId) -> Option<Arc<str>> {
        let selector = self.selectors.get_mut(id.0)?;
        selector.users = selector.users.saturating_sub(1);
        if selector.users > 0 {
            return None;
        }
        let selector = self.selectors.remove(id.0)?;
        self.selector_ids.remove(&selector.all);
        for set in &selector.sets {
            if let Some(set) = self.sets.get_mut(set.0) {
                set.selectors.remove(&id);
            }
        }
        for way in selector.found_by {
            match &way {
                FoundBy::Label(key, value) => remove(&mut self.selectors_for, key, value, &id),
                FoundBy::Reach => {
                    reached(&selector.all).iter().for_each(|namespace| remove_from(&mut self.selectors_for_any, namespace, &id))
                }
            }
            let key = (Arc::clone(&selector.owner), way);
            if let Some(load) = self.load.get_mut(&key) {
                *load = load.saturating_sub(1);
                if *load == 0 {
                    self.load.remove(&key);
                }
            }
        }
        Some(selector.owner)
    }

    /// Records the labels of a namespace; none where it is gone. Returns the selectors that match other label sets than before, with these.
    pub(super) fn set_namespace(
        &mut self,
        name: &str,
        labels: Option<BTreeMap<String, String>>,
    ) -> Vec<(SelectorId, BTreeSet<LabelSetId>)> {
        if self.namespaces.get(name) == labels.as_ref() {
            return Vec::new();
        }
        match labels {
            Some(labels) => _ = self.namespaces.insert(Arc::from(name), labels),
            None => _ = self.namespaces.remove(name),
        }
        let reads = |selector: &Selector| selector.all.iter().any(PodSelector::reads_namespace_labels);
        let reading: Vec<SelectorId> = self.selectors.iter().filter(|(_, one)| reads(one)).map(|(number, _)| SelectorId(number)).collect();
        if reading.is_empty() {
            return Vec::new();
        }
        let sets: Vec<LabelSetId> = self.sets_in.get(name).into_iter().flatten().copied().collect();
        let changed = reading.into_iter().map(|id| (id, self.rematch(id, sets.iter().copied())));
        changed.filter(|(_, sets)| !sets.is_empty()).collect()
    }

    /// Returns the names of the known namespaces.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.keys()
    }

    /// Compares the selector with these label sets again. Returns those that match now and did not before, or the other way round.
    fn rematch(&mut self, id: SelectorId, candidates: impl IntoIterator<Item = LabelSetId>) -> BTreeSet<LabelSetId> {
        let mut changed = BTreeSet::new();
        for set in candidates {
            let Some(labels) = self.sets.get(set.0).map(|set| Arc::clone(&set.labels)) else { continue };
            let matches = self.compare(id, &labels);
            if matches == self.matches(id, set) {
                continue;
            }
            changed.insert(set);
            let (selector, entry) = (self.selectors.get_mut(id.0), self.sets.get_mut(set.0));
            let (Some(selector), Some(entry)) = (selector, entry) else { continue };
            if matches {
                selector.sets.insert(set);
                entry.selectors.insert(id);
            } else {
                selector.sets.remove(&set);
                entry.selectors.remove(&id);
            }
        }
        changed
    }

    fn compare(&self, id: SelectorId, pod: &PodLabels) -> bool {
        let none = BTreeMap::new();
        let of_namespace = self.namespaces.get(&pod.namespace).unwrap_or(&none);
        let matches = |one: &PodSelector| one.matches(&pod.namespace, of_namespace, &pod.labels);
        self.selectors.get(id.0).is_some_and(|selector| selector.all.iter().all(matches))
    }

    /// Returns whether the label set is of this namespace and these labels.
    pub(super) fn is_of(&self, set: LabelSetId, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.sets.get(set.0).is_some_and(|set| *set.labels.namespace == *namespace && set.labels.labels == *labels)
    }

    /// Returns whether the selector matches the label set.
    pub(super) fn matches(&self, id: SelectorId, set: LabelSetId) -> bool {
        self.sets.get(set.0).is_some_and(|set| set.selectors.contains(&id))
    }

    /// Returns the selectors that match the label set.
    pub(super) fn selectors_of(&self, set: LabelSetId) -> impl Iterator<Item = SelectorId> + '_ {
        self.sets.get(set.0).into_iter().flat_map(|set| set.selectors.iter().copied())
    }

    /// Returns the label sets that the selector matches.
    pub(super) fn sets_of(&self, id: SelectorId) -> impl Iterator<Item = LabelSetId> + '_ {
        self.selectors.get(id.0).into_iter().flat_map(|selector| selector.sets.iter().copied())
    }

    /// Returns the numbers of label sets and of selectors in use.
    #[cfg(test)]
    pub(super) const fn sizes(&self) -> (usize, usize) {
        (self.sets.len(), self.selectors.len())
    }
}

/// Returns the namespaces that are reached by name; a single `None` where namespaces are reached by their labels.
fn reached(all: &[PodSelector]) -> Vec<Option<Arc<str>>> {
    let by_name = all.iter().filter(|one| one.namespace_selector == LabelSelector::Nothing).min_by_key(|one| one.namespaces.len());
    by_name.map_or_else(|| vec![None], |one| one.namespaces.iter().cloned().map(Some).collect())
}

fn remove_from<K: Ord + Borrow<Q>, Q: Ord + ?Sized, T: Ord>(index: &mut BTreeMap<K, BTreeSet<T>>, key: &Q, what: &T) {
    let Some(some) = index.get_mut(key) else { return };
    some.remove(what);
    if some.is_empty() {
        index.remove(key);
    }
}

fn remove<T: Ord>(index: &mut BTreeMap<String, BTreeMap<String, BTreeSet<T>>>, key: &str, value: &str, what: &T) {
    let Some(values) = index.get_mut(key) else { return };
    remove_from(values, value, what);
    if values.is_empty() {
        index.remove(key);
    }
}
