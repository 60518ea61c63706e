//! How much is held in each queue, and in all below it?
//!
//! The same sums are needed twice, of what pods use and of what groups have reserved; so they are one type, by the key of
//! who holds. It knows no ceiling.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::by_key::ByKey;
use crate::resources::Resources;

use super::audit::{Difference, Place, compare};
use super::tree::QueueTree;

/// Who holds how much where, with the sums by queue. Every method that takes the tree must get the same one each time,
/// and a change of the tree stands between [`lift`](Self::lift) and [`lay`](Self::lay).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Held<K: Ord + Hash> {
    holders: ByKey<K, Holding>,
    /// By queue; an entry of which both sums are 0 is taken out (B4).
    sums: BTreeMap<Arc<str>, Sums>,
    /// The inverse of `holders`: who holds in this very queue. No entry is empty (B4).
    by_queue: BTreeMap<Arc<str>, BTreeSet<K>>,
}

/// One holder's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holding {
    pub(super) queue: Arc<str>,
    pub(super) resources: Resources,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Sums {
    /// Of the holders in this very queue.
    own: Resources,
    /// Of the holders in this queue and in all whose way up leads through it (B2).
    subtree: Resources,
}

static NOTHING: Resources = Resources::new();

impl<K: Ord + Hash> Default for Held<K> {
    fn default() -> Self {
        Self { holders: ByKey::default(), sums: BTreeMap::new(), by_queue: BTreeMap::new() }
    }
}

impl<K: Ord + Hash + Clone> Held<K> {
    /// Replaces what the holder held. The queues whose sums changed by it, each with all above: that from before, and this one; none where it holds that already.
    pub(super) fn put(&mut self, key: K, queue: &str, resources: Resources, tree: &QueueTree) -> [Option<Arc<str>>; 2] {
        let resources = resources.without_negative();
        let before = match self.holders.get(&key) {
            Some(held) if *held.queue == *queue && held.resources == resources => return [None, None],
            Some(_) => self.take(&key, tree).map(|held| held.queue),
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
        self.holders.insert(key, Holding { queue: Arc::clone(&queue), resources });
        [before.filter(|before| *before != queue), Some(queue)]
    }

    /// Takes out what the holder held, if it held anything.
    pub(super) fn take(&mut self, key: &K, tree: &QueueTree) -> Option<Holding> {
        let holding = self.holders.remove(key)?;
        if let Some(there) = self.by_queue.get_mut(&holding.queue) {
            there.remove(key);
            if there.is_empty() {
                self.by_queue.remove(&holding.queue);
            }
        }
        if let Some(sums) = self.sums.get_mut(&holding.queue) {
            sums.own.sub(&holding.resources);
        }
        for queue in tree.walk(&holding.queue).0 {
            self.change_subtree(&queue, |sum| sum.sub(&holding.resources));
        }
        Some(holding)
    }

    /// Takes what these queues hold themselves out of all sums on their way up, because that is about to change.
    pub(super) fn lift(&mut self, queues: &BTreeSet<Arc<str>>, tree: &QueueTree) {
        self.shift(queues, tree, Resources::sub);
    }

    /// The inverse of [`lift`](Self::lift), by the way up as it is now.
    pub(super) fn lay(&mut self, queues: &BTreeSet<Arc<str>>, tree: &QueueTree) {
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

    pub(super) fn holding(&self, key: &K) -> Option<&Holding> {
        self.holders.get(key)
    }

    pub(super) fn holdings(&self) -> impl Iterator<Item = (&K, &Holding)> {
        self.holders.iter()
    }

    /// Who holds in the queue itself, in order.
    pub(super) fn holders_in(&self, queue: &str) -> impl Iterator<Item = &K> {
        self.by_queue.get(queue).into_iter().flatten()
    }

    /// The queues in which somebody holds something, be it nothing.
    pub(super) fn queues_of_holders(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_queue.keys()
    }

    /// The queues in which or below which something is held.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sums.keys()
    }

    /// Recounts from the holders and the tree (B2).
    pub(super) fn audit(&self, own: Place, subtree: Place, tree: &QueueTree) -> Vec<Difference> {
        let mut owns = BTreeMap::<String, Resources>::new();
        let mut subtrees = BTreeMap::<String, Resources>::new();
        for holding in self.holders.values() {
            owns.entry(holding.queue.to_string()).or_default().add(&holding.resources);
            for queue in tree.walk(&holding.queue).0 {
                subtrees.entry(queue.to_string()).or_default().add(&holding.resources);
            }
        }
        let mut differences = compare(own, self.sums.iter().map(|(name, sums)| (&**name, &sums.own)), owns);
        let kept = self.sums.iter().map(|(name, sums)| (&**name, &sums.subtree));
        differences.extend(compare(subtree, kept, subtrees));
        let mut there = BTreeMap::<&Arc<str>, BTreeSet<&K>>::new();
        for (key, holding) in self.holders.iter() {
            there.entry(&holding.queue).or_default().insert(key);
        }
        let listed = |queue: &Arc<str>| self.by_queue.get(queue).into_iter().flatten().collect::<BTreeSet<_>>();
        let recounted = |queue: &Arc<str>| there.get(queue).cloned().unwrap_or_default();
        let queues: BTreeSet<_> = self.by_queue.keys().chain(there.keys().copied()).collect();
        differences.extend(queues.into_iter().filter(|queue| listed(queue) != recounted(queue)).map(|queue| Difference {
            place: Place::Holders,
            name: queue.to_string(),
            kept: Resources::new(),
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
    fn who_holds_in_a_queue_is_listed_there_wherever_it_was_before_and_the_audit_sees_a_list_that_is_wrong() {
        let (tree, mut held) = (QueueTree::new(), Held::<u8>::default());
        let one = Resources::new().with("cpu", Amount::from_units(1));
        held.put(1, "a", one.clone(), &tree);
        held.put(2, "b", Resources::new(), &tree);
        held.put(1, "b", one, &tree);
        assert_eq!((held.holders_in("a").count(), held.holders_in("b").copied().collect::<Vec<_>>()), (0, vec![1, 2]));
        held.take(&2, &tree);
        assert_eq!(held.queues_of_holders().map(|queue| &**queue).collect::<Vec<_>>(), ["b"]);
        let audit = |held: &Held<u8>| held.audit(Place::QueueOwn, Place::QueueSubtree, &tree);
        assert!(audit(&held).is_empty());
        let before = held.clone();
        held.by_queue.clear();
        assert_eq!(audit(&held)[0].place, Place::Holders);
        held = before;
        held.by_queue.insert("c".into(), [1].into());
        assert_eq!((audit(&held).len(), audit(&held)[0].name.as_str()), (1, "c"));
    }
}
