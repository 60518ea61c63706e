//! Which domains are kept, and which are found again?

use std::sync::Arc;

use super::{Domains, KeyDomains, MOST_KEYS};
use crate::cycle::placement::nodes::Nodes;
use crate::cycle::testing::node;

fn key(number: usize) -> Arc<str> {
    Arc::from(format!("key-{number:04}"))
}

/// Two nodes; the first one has labels with so many keys.
fn nodes(keys: usize) -> Nodes {
    let mut nodes = Nodes::default();
    let mut first = node("first", &[]);
    first.labels = (0..keys).map(|number| (key(number).to_string(), "value".to_owned())).collect();
    nodes.upsert(first);
    nodes.upsert(node("second", &[]));
    nodes
}

fn is_same(one: &Arc<KeyDomains>, other: &Arc<KeyDomains>) -> bool {
    Arc::ptr_eq(one, other)
}

#[test]
fn a_further_key_drops_the_one_that_was_used_the_longest_ago_and_no_other() {
    let (nodes, mut domains) = (nodes(MOST_KEYS + 1), Domains::default());
    let before: Vec<Arc<KeyDomains>> = (0..MOST_KEYS).map(|number| domains.of(&key(number), &nodes)).collect();
    assert!(is_same(&before[0], &domains.of(&key(0), &nodes)));
    let further = domains.of(&key(MOST_KEYS), &nodes);
    assert_eq!((further.len(), domains.keys.len()), (1, MOST_KEYS));
    // The first one was used again, so the second one went.
    for (number, before) in before.iter().enumerate().filter(|(number, _)| *number != 1) {
        assert!(is_same(before, &domains.of(&key(number), &nodes)), "{number}");
    }
    assert!(!is_same(&before[1], &domains.of(&key(1), &nodes)));
}

#[test]
fn keys_that_no_node_has_drop_no_domains_and_take_no_room() {
    let (mut nodes, mut domains) = (nodes(1), Domains::default());
    let known = domains.of(&key(0), &nodes);
    for number in 1..10 * MOST_KEYS {
        assert!(domains.of(&key(number), &nodes).is_empty());
    }
    assert_eq!(domains.keys.len(), 1);
    assert!(is_same(&known, &domains.of(&key(0), &nodes)));
    let mut second = node("second", &[]);
    second.labels.insert(key(1).to_string(), "value".to_owned());
    nodes.upsert(second);
    let (first, second) = (nodes.id("first").unwrap(), nodes.id("second").unwrap());
    let (zero, one) = (domains.of(&key(0), &nodes), domains.of(&key(1), &nodes));
    assert_eq!([zero.get(first), zero.get(second), one.get(first), one.get(second)], [Some(0), None, None, Some(0)]);
    assert!(!is_same(&known, &zero), "the node is another one now");
}
