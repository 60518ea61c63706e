//! Counts items by key.

use std::collections::BTreeMap;

/// Counts by key, in the order of the keys. A count of 0 has no entry.
#[derive(Debug)]
pub(super) struct Counter<K>(BTreeMap<K, usize>);

impl<K> Default for Counter<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Counter<K> {
    /// Adds one.
    pub(super) fn join(&mut self, key: K) {
        let count = self.0.entry(key).or_default();
        *count = count.saturating_add(1);
    }

    /// Removes one.
    pub(super) fn leave(&mut self, key: &K) {
        let Some(count) = self.0.get_mut(key) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.0.remove(key);
        }
    }

    /// Whether the count is above 0.
    pub(super) fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// The lowest key with a count above 0.
    #[must_use]
    pub(in crate::cycle) fn lowest(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, _)| key)
    }
}
