//! What is known of each of very many, where hardly anybody asks for an order?
//!
//! The pods of a large cluster do not fit into a processor's caches. A tree is walked down to a pod by half a dozen places in memory, a hash table by one or two; where
//! every placement asks several of them that is felt. Who walks through all gets them in the order of their keys, and pays for the sorting: nothing ever
//! follows from the order of a hash.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

/// Values by key. As a `BTreeMap`, but that a walk through all sorts them first.
#[derive(Clone, PartialEq, Eq)]
pub struct ByKey<K: Hash + Eq, V>(HashMap<K, V, BuildHasherDefault<DefaultHasher>>);

impl<K: Hash + Eq, V> Default for ByKey<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Ord + Hash, V> ByKey<K, V> {
    /// What is known of it.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The same, to be changed.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Whether anything is known of it.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// This is known of it. What was before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Nothing is known of it any more. What was before.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// Of how many something is known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is known of anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord + Hash + fmt::Debug, V: fmt::Debug> fmt::Debug for ByKey<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
impl<K: Ord + Hash, V> std::ops::Index<&K> for ByKey<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is known")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_tree_to_who_looks(steps in prop::collection::vec((0_u16..40, any::<bool>()), 0..100)) {
            let (mut map, mut tree) = (ByKey::default(), BTreeMap::new());
            for (at, (key, comes)) in steps.into_iter().enumerate() {
                if comes {
                    prop_assert_eq!(map.insert(key, at), tree.insert(key, at));
                } else {
                    prop_assert_eq!(map.remove(&key), tree.remove(&key));
                }
                prop_assert!(map.iter().eq(tree.iter()) && map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
                prop_assert_eq!((map.len(), map.get(&key), map.contains_key(&key)), (tree.len(), tree.get(&key), tree.contains_key(&key)));
                prop_assert_eq!(format!("{map:?}"), format!("{tree:?}"));
            }
        }
    }
}
