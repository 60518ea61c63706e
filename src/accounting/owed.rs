//! Would reclaim bring back what a queue lacks? (A3)
//!
//! A group may come in although its queue is full, where its own side of the tree stays within its shares and the other side has borrowed enough that may be taken
//! back. Without this nobody would ever be admitted beside a borrower, and so nothing would ever be taken back from one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::quota::Quota;
use super::rules::{Rule, holds};
use super::shares::Shares;
use super::tree::Path;

/// By how much one queue refuses, by dimension.
type Lacking = BTreeMap<ResourceName, Amount>;

impl Quota {
    /// Whether everything that refuses so much more in a queue does so for amounts alone, and those are owed to it.
    #[must_use]
    pub fn owed(&self, queue: &str, asked: &Resources, shares: &Shares) -> bool {
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
        refusing.iter().all(|(above, lacking)| self.owes(above, lacking, &path, asked, shares))
    }

    /// The same of one queue that refuses.
    fn owes(&self, refusing: &Arc<str>, lacking: &Lacking, path: &Path, asked: &Resources, shares: &Shares) -> bool {
        let way: Vec<_> = path.iter().take_while(|queue| *queue != refusing).collect();
        let within = |queue: &&Arc<str>| {
            let (charged, reserved, share) = (self.charged.subtree(queue), self.reserved.subtree(queue), shares.of(queue));
            let taken = |dimension| charged.get(dimension).plus(reserved.get(dimension));
            asked
                .iter()
                .filter(|(_, asked)| asked.is_positive())
                .all(|(dimension, asked)| taken(dimension).plus(asked) <= share.get(dimension))
        };
        if holds(Rule::A3Share) && !way.iter().all(within) {
            return false;
        }
        lacking.iter().all(|(dimension, lack)| self.borrowed_beside(path, way.len(), dimension, shares) >= *lack)
    }

    /// What the reclaimable queues beside the first `upto` of the way use beyond their shares.
    fn borrowed_beside(&self, path: &Path, upto: usize, dimension: &ResourceName, shares: &Shares) -> Amount {
        let mut borrowed = Amount::ZERO;
        for own in path.iter().take(upto) {
            let Some(fork) = self.tree.parent(own) else { continue };
            for beside in self.tree.children(fork).filter(|beside| *beside != own) {
                let reclaimable = self.limits.get(beside).is_none_or(|limits| limits.reclaimable);
                if reclaimable || !holds(Rule::A3Reclaimable) {
                    let over = self.charged.subtree(beside).get(dimension).minus(shares.of(beside).get(dimension));
                    borrowed = borrowed.plus(over.max(Amount::ZERO));
                }
            }
        }
        borrowed
    }
}
