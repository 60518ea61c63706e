//! Sums amounts by queue, and by queue with everything below it.
//!
//! The same sums are needed twice: of what pods use, and of what PodGroups have reserved. So they are one type, generic over the key
//! (a pod or a PodGroup). It contains no limits.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::by_key::ByKey;
use crate::resources::Resources;

use super::audit::{Difference, Place, compare};
use super::tree::QueueTree;

/// The amount of each key in its queue, with the sums by queue. Every method that takes the tree must get the same one each time. A change of the
/// tree goes between [`detach`](Self::detach) and [`attach`](Self::attach).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SubtreeSums<K: Ord + Hash> {
    entries: ByKey<K, Entry>,
    /// The sums by queue; an entry with both sums 0 is removed (B4).
    sums: BTreeMap<Arc<str>, Sums>,
    /// The inverse of `entries`: the keys in each queue. No value is empty (B4).
    by_queue: BTreeMap<Arc<str>, BTreeSet<K>>,
}

/// The queue and the amount of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) queue: Arc<str>,
    pub(super) resources: Resources,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Sums {
    /// The sum of the entries in this queue itself.
    own: Resources,
    /// The sum of the entries in this queue and in all queues below it (B2).
    subtree: Resources,
}

static NOTHING: Resources = Resources::new();

impl<K: Ord + Hash> Default for SubtreeSums<K> {
    fn default() -> Self {
        Self { entries: ByKey::default(), sums: BTreeMap::new(), by_queue: BTreeMap::new() }
    }
}

impl<K: Ord + Hash + Clone> SubtreeSums<K> {
    /// Replaces the entry of a key. Returns the previous queue and the new one: the sums of both and of all queues above them changed.
    /// Returns none when the entry is the same.
    pub(super) fn put(&mut self, key: K, queue: &str, resources: Resources, tree: &QueueTree) -> [Option<Arc<str>>; 2] {
        let resources = resources.without_negative();
        let before = match self.entries.get(&key) {
            Some(entry) if *entry.queue == *queue && entry.resources == resources => return [None, None],
            Some(_) => self.take(&key, tree).map(|entry| entry.queue),
            None => None,
        };
        let (way, _) = tree.walk(queue);
        if !resources.is_zero() {
            for queue in &way {
                self.sums.entry(Arc::clone(queue)).or_default().subtree.add(&resources);
            }
        }
        let Some(queue) = way.into_iter().next() else {
            return [before, None];
        };
        if !resources.is_zero() {
            self.sums.entry(Arc::clone(&queue)).or_default().own.add(&resources);
        }
        self.by_queue.entry(Arc::clone(&queue)).or_default().insert(key.clone());
        self.entries.insert(key, Entry { queue: Arc::clone(&queue), resources });
        [before.filter(|before| *before != queue), Some(queue)]
    }

    /// Removes the entry of a key, and returns it.
    pub(super) fn take(&mut self, key: &K, tree: &QueueTree) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(there) = self.by_queue.get_mut(&entry.queue) {
            there.remove(key);
            if there.is_empty() {
                self.by_queue.remove(&entry.queue);
            }
        }
        if let Some(sums) = self.sums.get_mut(&entry.queue) {
            sums.own.sub(&entry.resources);
        }
        for queue in tree.walk(&entry.queue).0 {
            self.change_subtree(&queue, |sum| sum.sub(&entry.resources));
        }
        Some(entry)
    }

    /// Subtracts these queues' own sums from the sums on their way up, because the way is about to change.
    pub(super) fn detach(&mut self, queues: &BTreeSet<Arc<str>>, tree: &QueueTree) {
        self.shift(queues, tree, Resources::sub);
    }

    /// The inverse of [`detach`](Self::detach), on the way up as it is now.
    pub(super) fn attach(&mut self, queues: &BTreeSet<Arc<str>>, tree: &QueueTree) {
        self.shift(queues, tree, Resources::add);
    }

    fn shift(&mut self, queues: &BTreeSet<Arc<str>>, tree: &QueueTree, by: fn(&mut Resources, &Resources)) {
        for queue in queues {
            let own = self.own(queue).clone();
            if own.is_zero() {
                continue;
            }
            for above in tree.walk(queue).0 {
                self.change_subtree(&above, |sum| by(sum, &own));
            }
        }
    }

    fn change_subtree(&mut self, queue: &Arc<str>, change: impl FnOnce(&mut Resources)) {
        let sums = self.sums.entry(Arc::clone(queue)).or_default();
        change(&mut sums.subtree);
        if sums.subtree.is_zero() && sums.own.is_zero() {
            self.sums.remove(queue);
        }
    }

    pub(super) fn own(&self, queue: &str) -> &Resources {
        self.sums.get(queue).map_or(&NOTHING, |sums| &sums.own)
    }

    pub(super) fn subtree(&self, queue: &str) -> &Resources {
        self.sums.get(queue).map_or(&NOTHING, |sums| &sums.subtree)
    }

    pub(super) fn entry(&self, key: &K) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&K, &Entry)> {
        self.entries.iter()
    }

    /// Returns the keys in the queue itself, in order.
    pub(super) fn keys_in(&self, queue: &str) -> impl Iterator<Item = &K> {
        self.by_queue.get(queue).into_iter().flatten()
    }

    /// Returns the queues that have entries, also of zero, by name.
    pub(super) fn queues_with_entries(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_queue.keys()
    }

    /// Returns the queues with a sum, their own or of the subtree.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sums.keys()
    }

    /// Recounts the sums from the entries and the tree (B2).
    pub(super) fn audit(&self, own: Place, subtree: Place, tree: &QueueTree) -> Vec<Difference> {
        let mut owns = BTreeMap::<String, Resources>::new();
        let mut subtrees = BTreeMap::<String, Resources>::new();
        for entry in self.entries.values() {
            owns.entry(entry.queue.to_string()).or_default().add(&entry.resources);
            for queue in tree.walk(&entry.queue).0 {
                subtrees.entry(queue.to_string()).or_default().add(&entry.resources);
            }
        }
        let mut differences = compare(own, self.sums.iter().map(|(name, sums)| (&**name, &sums.own)), owns);
        let stored = self.sums.iter().map(|(name, sums)| (&**name, &sums.subtree));
        differences.extend(compare(subtree, stored, subtrees));
        let mut there = BTreeMap::<&Arc<str>, BTreeSet<&K>>::new();
        for (key, entry) in self.entries.iter() {
            there.entry(&entry.queue).or_default().insert(key);
        }
        let listed = |queue: &Arc<str>| self.by_queue.get(queue).into_iter().flatten().collect::<BTreeSet<_>>();
        let recounted = |queue: &Arc<str>| there.get(queue).cloned().unwrap_or_default();
        let queues: BTreeSet<_> = self.by_queue.keys().chain(there.keys().copied()).collect();
        differences.extend(queues.into_iter().filter(|queue| listed(queue) != recounted(queue)).map(|queue| Difference {
            place: Place::Entries,
            name: queue.to_string(),
            stored: Resources::new(),
            recounted: Resources::new(),
        }));
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Amount;

    #[test]
    fn a_key_is_listed_in_its_present_queue_and_the_audit_reports_a_wrong_list() {
        let (tree, mut entry) = (QueueTree::new(), SubtreeSums::<u8>::default());
        let one = Resources::new().with("cpu", Amount::from_units(1));
        entry.put(1, "a", one.clone(), &tree);
        entry.put(2, "b", Resources::new(), &tree);
        entry.put(1, "b", one, &tree);
        assert_eq!((entry.keys_in("a").count(), entry.keys_in("b").copied().collect::<Vec<_>>()), (0, vec![1, 2]));
        entry.take(&2, &tree);
        assert_eq!(entry.queues_with_entries().map(|queue| &**queue).collect::<Vec<_>>(), ["b"]);
        let audit = |entry: &SubtreeSums<u8>| entry.audit(Place::QueueOwn, Place::QueueSubtree, &tree);
        assert!(audit(&entry).is_empty());
        let before = entry.clone();
        entry.by_queue.clear();
        assert_eq!(audit(&entry)[0].place, Place::Entries);
        entry = before;
        entry.by_queue.insert("c".into(), [1].into());
        assert_eq!((audit(&entry).len(), audit(&entry)[0].name.as_str()), (1, "c"));
    }
}
