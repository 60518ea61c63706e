//! A map with fast lookups and iteration in the order of the keys.
//!
//! The pods and PodGroups of a large cluster do not fit into the caches of a processor. A lookup in a tree reads about six places in
//! memory, in a hash table one or two. Every placement needs several lookups, so the difference is measurable. An iteration sorts the
//! entries first, so no result depends on the order of hashes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

/// A map from keys to values. It behaves as a `BTreeMap`, but every iteration sorts the entries first.
#[derive(Clone, PartialEq, Eq)]
pub struct ByKey<K: Hash + Eq, V>(HashMap<K, V, BuildHasherDefault<DefaultHasher>>);

impl<K: Hash + Eq, V> Default for ByKey<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Ord + Hash, V> ByKey<K, V> {
    /// Returns the value of the key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Returns the value of the key, mutable.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Returns whether the map has the key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Returns the value of the key, mutable; a new default where there was none.
    pub fn get_or_default(&mut self, key: &K) -> &mut V
    where
        K: Clone,
        V: Default,
    {
        self.0.entry(key.clone()).or_default()
    }

    /// Sets the value of the key. Returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes the key. Returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
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
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn the_map_behaves_as_a_btree_map(steps in prop::collection::vec((0_u16..40, any::<bool>()), 0..100)) {
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
