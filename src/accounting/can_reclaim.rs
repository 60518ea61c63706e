//! Decides whether reclaim can free what a full queue lacks (A3).
//!
//! A PodGroup can be admitted to a full queue when two conditions hold. Its own side of the tree stays within its shares. And the other side has
//! borrowed enough from reclaimable queues. Without this no PodGroup is admitted next to a borrower, and nothing is ever reclaimed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::quota::Quota;
use super::shares::Shares;
use super::tree::Path;

/// By how much one queue refuses, by dimension.
type Lacking = BTreeMap<ResourceName, Amount>;

impl Quota {
    /// Whether the amount is refused by ceilings only, and reclaim can free the excess at each of them.
    #[must_use]
    pub fn can_reclaim(&self, queue: &str, asked: &Resources, shares: &Shares) -> bool {
        let Ok(path) = self.path(queue) else { return false };
        if self.first_closed(path.iter()).is_some() {
            return false;
        }
        let mut refusing: BTreeMap<Arc<str>, Lacking> = BTreeMap::new();
        self.each_refusal(&path, asked, |lack, ceiling| {
            let of = refusing.entry(ceiling.queue).or_default().entry(ceiling.dimension).or_default();
            *of = (*of).max(lack);
            ControlFlow::Continue(())
        });
        refusing.iter().all(|(above, lacking)| self.can_reclaim_at(above, lacking, &path, asked, shares))
    }

    /// Whether reclaim can free the excess at one queue that refuses.
    fn can_reclaim_at(&self, refusing: &Arc<str>, lacking: &Lacking, path: &Path, asked: &Resources, shares: &Shares) -> bool {
        let way: Vec<_> = path.iter().take_while(|queue| *queue != refusing).collect();
        let within = |queue: &&Arc<str>| {
            let (charged, reserved, share) = (self.charged.subtree(queue), self.reserved.subtree(queue), shares.of(queue));
            let taken = |dimension| charged.get(dimension).plus(reserved.get(dimension));
            asked
                .iter()
                .filter(|(_, asked)| asked.is_positive())
                .all(|(dimension, asked)| taken(dimension).plus(asked) <= share.get(dimension))
        };
        if !way.iter().all(within) {
            return false;
        }
        lacking.iter().all(|(dimension, lack)| self.borrowed_by_siblings(path, way.len(), dimension, shares) >= *lack)
    }

    /// Returns what the reclaimable siblings of the first `upto` queues of the way use beyond their shares.
    fn borrowed_by_siblings(&self, path: &Path, upto: usize, dimension: &ResourceName, shares: &Shares) -> Amount {
        let mut borrowed = Amount::ZERO;
        for own in path.iter().take(upto) {
            let Some(fork) = self.tree.parent(own) else { continue };
            // A deleted queue has no share, so all that it uses is borrowed.
            for sibling in self.tree.children(fork).chain(self.tree.deleted_below(fork)).filter(|sibling| *sibling != own) {
                if self.limits.get(sibling).is_none_or(|limits| limits.reclaimable) {
                    let over = self.charged.subtree(sibling).get(dimension).minus(shares.of(sibling).get(dimension));
                    borrowed = borrowed.plus(over.max(Amount::ZERO));
                }
            }
        }
        borrowed
    }
}
