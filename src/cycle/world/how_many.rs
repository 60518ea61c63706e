//! How many are there of each?

use std::collections::BTreeMap;

/// Counts by key, in the order of the keys; who is not there any more has no entry.
#[derive(Debug)]
pub(in crate::cycle) struct HowMany<K>(BTreeMap<K, usize>);

impl<K> Default for HowMany<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> HowMany<K> {
    /// One more.
    pub(super) fn join(&mut self, key: K) {
        let count = self.0.entry(key).or_default();
        *count = count.saturating_add(1);
    }

    /// One less.
    pub(super) fn leave(&mut self, key: &K) {
        let Some(count) = self.0.get_mut(key) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.0.remove(key);
        }
    }

    /// Whether there is any.
    pub(super) fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// The least of which there is any.
    #[must_use]
    pub(in crate::cycle) fn lowest(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, _)| key)
    }
}
