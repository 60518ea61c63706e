//! Which topology domain does each node belong to?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::placement::nodes::{NodeId, Nodes};

/// The most topology keys for which domains are kept. A further one takes the place of the one whose last use is the longest ago. Nodes
/// rarely have as many labels.
const MOST_KEYS: usize = 512;

/// The domains of each topology key that was asked for, for the nodes as they are.
#[derive(Debug, Default)]
pub struct Domains {
    /// The version of the nodes' objects for which they were computed.
    version: u64,
    /// The keys of all labels of the nodes. What pods name beside them has no domains, and takes neither time nor room.
    labels: BTreeSet<String>,
    keys: BTreeMap<Arc<str>, Kept>,
    /// How many times a key with domains was asked for.
    uses: u64,
    /// The domains of a key that no node has.
    none: Arc<KeyDomains>,
}

#[derive(Debug)]
struct Kept {
    domains: Arc<KeyDomains>,
    /// The number of its last use.
    used: u64,
}

/// The domains of one topology key.
#[derive(Debug, Default)]
pub struct KeyDomains {
    /// By the index of the node: the number of its domain; none where the node has no such label.
    of: Vec<Option<u32>>,
    /// The value of the label, by the number of the domain.
    values: Vec<Arc<str>>,
    /// Whether there are nodes, and each has such a label.
    is_everywhere: bool,
}

impl Domains {
    /// Returns the domains of the key.
    pub fn of(&mut self, key: &Arc<str>, nodes: &Nodes) -> Arc<KeyDomains> {
        if self.version != nodes.version() {
            self.keys.clear();
            self.labels = keys_of_labels(nodes);
            self.version = nodes.version();
        }
        if !self.labels.contains(&**key) {
            return Arc::clone(&self.none);
        }
        self.uses = self.uses.saturating_add(1);
        if let Some(kept) = self.keys.get_mut(key) {
            kept.used = self.uses;
            return Arc::clone(&kept.domains);
        }
        if self.keys.len() >= MOST_KEYS {
            let oldest = self.keys.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| Arc::clone(key));
            oldest.into_iter().for_each(|key| _ = self.keys.remove(&key));
        }
        let domains = Arc::new(KeyDomains::new(key, nodes));
        self.keys.insert(Arc::clone(key), Kept { domains: Arc::clone(&domains), used: self.uses });
        domains
    }
}

fn keys_of_labels(nodes: &Nodes) -> BTreeSet<String> {
    let mut keys: BTreeSet<String> = BTreeSet::new();
    for key in nodes.iter().flat_map(|facts| facts.labels.keys()) {
        // Most nodes have the same keys.
        if !keys.contains(key) {
            keys.insert(key.clone());
        }
    }
    keys
}

impl KeyDomains {
    fn new(key: &str, nodes: &Nodes) -> Self {
        let (mut of, mut values, mut numbers) = (Vec::new(), Vec::new(), BTreeMap::<Arc<str>, u32>::new());
        let mut is_everywhere = true;
        for id in nodes.ids() {
            let node = nodes.get(id);
            let label = node.and_then(|facts| facts.labels.get(key));
            is_everywhere &= node.is_none() || label.is_some();
            of.push(label.map(|value| {
                *numbers.entry(Arc::from(value.as_str())).or_insert_with(|| {
                    values.push(Arc::from(value.as_str()));
                    u32::try_from(values.len().saturating_sub(1)).unwrap_or(u32::MAX)
                })
            }));
        }
        is_everywhere &= !values.is_empty();
        Self { of, values, is_everywhere }
    }

    /// Returns the number of the domain of each node, by the index of the node; none where the node has no such label. Empty where no node has one.
    #[must_use]
    pub fn by_node(&self) -> &[Option<u32>] {
        &self.of
    }

    /// Returns whether there are nodes, and each has such a label.
    #[must_use]
    pub const fn is_everywhere(&self) -> bool {
        self.is_everywhere
    }

    /// Returns the number of the node's domain; none where the node has no such label.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<usize> {
        self.of.get(node.index()).copied().flatten().map(|number| number as usize)
    }

    /// Returns the number of domains.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether no node has such a label.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of the label in the domain.
    #[must_use]
    pub fn value(&self, domain: usize) -> Option<&Arc<str>> {
        self.values.get(domain)
    }
}

#[cfg(test)]
#[path = "domains_tests.rs"]
mod tests;
