//! The order in which queues share resources.
//!
//! The tree as lists, built once and read often. A queue comes after its parent. The children of one queue are consecutive, in the order of
//! priority and then name (F2). Only queues below `root` with an allowed depth are in it: other queues take no pods, so they get no floor and
//! no share.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::tree::{MAX_DEPTH, QueueTree, ROOT_QUEUE};

/// The queues in the order in which they share resources; `root` is the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ranked(Vec<Entry>);

/// One queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    /// The positions of its children.
    pub(super) children: Range<usize>,
}

impl Ranked {
    pub(super) fn of(tree: &QueueTree, priority: impl Fn(&str) -> i32) -> Self {
        let mut entries = vec![Entry { name: Arc::from(ROOT_QUEUE), children: 0..0 }];
        let mut level = 0..1;
        // Each level is the children of the previous one, so the loop ends at the deepest allowed level.
        for _ in 0..MAX_DEPTH {
            let next = entries.len();
            for at in level {
                let begin = entries.len();
                let mut children: Vec<_> = match entries.get(at) {
                    Some(entry) => tree.children(&entry.name).cloned().collect(),
                    None => Vec::new(),
                };
                // They come by name, and a stable sort keeps that order among equals.
                children.sort_by_key(|name| Reverse(priority(name)));
                entries.extend(children.into_iter().map(|name| Entry { name, children: 0..0 }));
                let end = entries.len();
                if let Some(entry) = entries.get_mut(at) {
                    entry.children = begin..end;
                }
            }
            level = next..entries.len();
        }
        Self(entries)
    }

    /// Returns the queues, parents before their children.
    pub(super) fn down(&self) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        self.0.iter().enumerate()
    }

    /// Returns the queues, children before their parents.
    pub(super) fn up(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.down().rev()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the children of a queue.
    pub(super) fn of_children(&self, entry: &Entry) -> &[Entry] {
        Self::children(entry, &self.0)
    }

    /// Returns the values of a queue's children, out of a list in the same order.
    pub(super) fn children<'a, T>(entry: &Entry, of: &'a [T]) -> &'a [T] {
        of.get(entry.children.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::QueueShape;
    use super::*;

    #[test]
    fn siblings_are_consecutive_by_priority_and_then_by_name_and_detached_queues_are_left_out() {
        let mut tree = QueueTree::new();
        for (name, parent) in [("b", ""), ("a", ""), ("a2", "a"), ("a1", "a"), ("high", ""), ("lost", "gone"), ("x", "y"), ("y", "x")] {
            tree.upsert(&QueueShape { name: name.into(), parent: Some(parent.into()) });
        }
        let ranked = Ranked::of(&tree, |name| i32::from(name == "high"));
        let names: Vec<_> = ranked.down().map(|(_, entry)| &*entry.name).collect();
        assert_eq!(names, ["root", "high", "a", "b", "default", "a1", "a2"]);
        let of_a = ranked.0[2].children.clone();
        assert_eq!((ranked.0[0].children.clone(), of_a), (1..5, 5..7));
    }

    #[test]
    fn a_queue_that_is_too_deep_is_left_out() {
        let mut tree = QueueTree::new();
        for depth in 1..70 {
            let parent = if depth == 1 { "root".to_owned() } else { format!("q{}", depth - 1) };
            tree.upsert(&QueueShape { name: format!("q{depth}").into(), parent: Some(parent.into()) });
        }
        let ranked = Ranked::of(&tree, |_| 0);
        assert!(ranked.down().all(|(_, entry)| tree.fault(&entry.name).is_none()));
        assert_eq!(ranked.len(), 2 + MAX_DEPTH);
    }
}
