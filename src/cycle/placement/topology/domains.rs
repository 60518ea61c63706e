//! Which topology domain does each node belong to?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cycle::placement::nodes::{NodeId, Nodes};

/// The largest number of topology keys for which domains are kept. With more, all are dropped and computed again. It is more than one pod may have.
const MOST_KEYS: usize = 256;

/// The domains of each topology key that was asked for, for the nodes as they are.
#[derive(Debug, Default)]
pub struct Domains {
    /// The version of the nodes' objects for which they were computed.
    version: u64,
    keys: BTreeMap<Arc<str>, Arc<KeyDomains>>,
}

/// The domains of one topology key.
#[derive(Debug)]
pub struct KeyDomains {
    /// By the index of the node: the number of its domain; none where the node has no such label.
    of: Vec<Option<u32>>,
    /// The value of the label, by the number of the domain.
    values: Vec<Arc<str>>,
}

impl Domains {
    /// Returns the domains of the key.
    pub fn of(&mut self, key: &Arc<str>, nodes: &Nodes) -> Arc<KeyDomains> {
        if self.version != nodes.version() || self.keys.len() >= MOST_KEYS && !self.keys.contains_key(key) {
            self.keys.clear();
            self.version = nodes.version();
        }
        Arc::clone(self.keys.entry(Arc::clone(key)).or_insert_with(|| Arc::new(KeyDomains::new(key, nodes))))
    }
}

impl KeyDomains {
    fn new(key: &str, nodes: &Nodes) -> Self {
        let (mut of, mut values, mut numbers) = (Vec::new(), Vec::new(), BTreeMap::<Arc<str>, u32>::new());
        for id in nodes.ids() {
            let label = nodes.get(id).and_then(|facts| facts.labels.get(key));
            of.push(label.map(|value| {
                *numbers.entry(Arc::from(value.as_str())).or_insert_with(|| {
                    values.push(Arc::from(value.as_str()));
                    u32::try_from(values.len().saturating_sub(1)).unwrap_or(u32::MAX)
                })
            }));
        }
        Self { of, values }
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
