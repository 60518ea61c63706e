//! Would so much more fit in a queue, at every level?
//!
//! [`Quota::fits`] is the one function that answers for a queue and all its ancestors (F6); admit, allocate, and what
//! later preempts or reclaims, ask it and nothing else. It costs the depth and the dimensions, however many queues there are.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::kept::Change;
use super::quota::Quota;
use super::refusal::{Bound, Ceiling, QueueRefusal};
use super::rules::{Rule, holds};
use super::tree::{Path, ROOT_QUEUE};

impl Quota {
    /// Whether so much more fits at every level of a queue (F1, F5, O2, T2). A dimension that is not asked for is not looked at, one
    /// that no node has is.
    ///
    /// # Errors
    ///
    /// What is broken on the way; else that it is no leaf; else the nearest queue that is closed; else the nearest in which it does not
    /// fit, and its first dimension.
    pub fn fits(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        let path = self.path(queue).map_err(QueueRefusal::Fault)?;
        let open = || match self.first_closed(path.iter()).cloned() {
            Some(queue) => Err(QueueRefusal::Closed { queue }),
            None => Ok(()),
        };
        if holds(Rule::O2) && holds(Rule::F6Closed) {
            open()?;
        }
        let mut first = Ok(());
        self.each_refusal(&path, asked, |_, ceiling| {
            first = Err(QueueRefusal::Ceiling(ceiling));
            ControlFlow::Break(())
        });
        first?;
        if holds(Rule::F6Closed) { Ok(()) } else { open() }
    }

    /// Every ceiling that refuses so much more, as [`Quota::fits`] would name them one after the other: from the queue upwards, in each by dimension. Empty where the
    /// queue is broken.
    #[must_use]
    pub fn refusals(&self, queue: &str, asked: &Resources) -> Vec<Ceiling> {
        let mut all = Vec::new();
        if let Ok(path) = self.path(queue) {
            self.each_refusal(&path, asked, |_, ceiling| {
                all.push(ceiling);
                ControlFlow::Continue(())
            });
        }
        all
    }

    /// Whether so much could come in if nobody else were there: no capability on the way up is below it, nor what all nodes offer (A6).
    #[must_use]
    pub fn ever_fits(&self, queue: &str, asked: &Resources) -> bool {
        let Ok(path) = self.path(queue) else { return false };
        let offered = asked.iter().all(|(dimension, asked)| asked <= self.total.get(dimension));
        let below = |queue: &Arc<str>| {
            let capability = self.limits.get(queue).map(|limits| &limits.capability);
            asked.iter().all(|(dimension, asked)| capability.and_then(|most| most.get(dimension)).is_none_or(|most| asked <= most))
        };
        offered && path.iter().all(below)
    }

    /// Every ceiling that refuses so much more (F1, F5), with by how much, from the queue upwards, and in each queue by dimension; a queue may refuse
    /// in one dimension twice. Stops when it is told to.
    pub(super) fn each_refusal(&self, path: &Path, asked: &Resources, mut refuses: impl FnMut(Amount, Ceiling) -> ControlFlow<()>) {
        let kept = self.kept();
        // By dimension: what the charge changes in what the queue below keeps, and in what pods do not fill there. Empty where nobody keeps anything.
        let mut changes: Vec<Option<[Change; 2]>> = vec![None; if kept.is_empty() { 0 } else { asked.len() }];
        for queue in path.iter() {
            let limits = self.limits.get(queue);
            let (charged, reserved) = (self.charged.subtree(queue), self.reserved.subtree(queue));
            for (at, (dimension, asked)) in asked.iter().enumerate().filter(|(_, (_, asked))| asked.is_positive()) {
                let capability = limits.and_then(|limits| limits.capability.get(dimension));
                if capability.is_none() && changes.is_empty() {
                    continue;
                }
                let reserved = if holds(Rule::T4) { reserved.get(dimension) } else { Amount::ZERO };
                let charged = charged.get(dimension);
                let used = charged.plus(reserved);
                let change = changes.get_mut(at).map(|change| {
                    let sums = [used, charged].map(|sum| sum.plus(asked));
                    *change.insert(kept.change(queue, dimension, sums, *change))
                });
                let [change, by_pods] = change.unwrap_or_default();
                let level = Level { queue, dimension, asked, used, change, unfilled: by_pods.after };
                let open = if holds(Rule::F5Filled) { level.unfilled } else { level.change.after };
                let for_others = open.is_positive() || !holds(Rule::F5Others);
                let of_cluster = **queue == *ROOT_QUEUE && for_others && holds(Rule::F5Cluster);
                let cluster = of_cluster.then(|| (self.total.get(dimension), Bound::Cluster));
                for (limit, bound) in capability.map(|limit| (limit, Bound::Capability)).into_iter().chain(cluster) {
                    let Some((lack, ceiling)) = level.refusal(limit, bound) else { continue };
                    if refuses(lack, ceiling).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the queue and all above it use no more than they have a right to with so much more (S3), in what is asked for.
    ///
    /// # Errors
    ///
    /// What is broken on the way; else the nearest queue, and its first dimension, in which it would be borrowed.
    pub fn by_right(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        let rights = self.rights();
        let levels = if holds(Rule::S3Above) { usize::MAX } else { 1 };
        for queue in self.path(queue).map_err(QueueRefusal::Fault)?.iter().take(levels) {
            let (charged, right) = (self.charged.subtree(queue), rights.of(queue));
            for (dimension, asked) in asked.iter().filter(|(_, asked)| asked.is_positive()) {
                let (used, limit) = (charged.get(dimension), right.get(dimension));
                if used.plus(asked) > limit {
                    let (queue, dimension) = (Arc::clone(queue), dimension.clone());
                    let bound = Bound::Right;
                    return Err(QueueRefusal::Ceiling(Ceiling { queue, dimension, asked, used, kept: Amount::ZERO, limit, bound }));
                }
            }
        }
        Ok(())
    }
}

/// One dimension at one queue on the way up.
struct Level<'a> {
    queue: &'a Arc<str>,
    dimension: &'a ResourceName,
    asked: Amount,
    /// What is taken already.
    used: Amount,
    change: Change,
    /// What pods do not fill then of the floors in it and below it.
    unfilled: Amount,
}

impl Level<'_> {
    /// F1: what is taken, which always grows, stays below the ceiling; and F5: so does what is held, if it grows. Else by how much it is too much.
    fn refusal(&self, limit: Amount, bound: Bound) -> Option<(Amount, Ceiling)> {
        let taken = self.used.plus(self.asked);
        let held = taken.plus(self.change.after);
        let grows = held > self.used.plus(self.change.before) || !holds(Rule::F5Grows);
        let capable = bound == Bound::Cluster || taken <= limit || !holds(Rule::F1);
        let takes_kept = held > limit && grows && holds(Rule::F5);
        if capable && !takes_kept {
            return None;
        }
        let lack = if takes_kept { held } else { taken }.minus(limit);
        let kept = if capable || !holds(Rule::F6Ceiling) { self.change.after } else { Amount::ZERO };
        // What is reserved to fill a floor is kept there, for whoever reads this.
        let promised = if bound == Bound::Cluster { self.unfilled.minus(self.change.after) } else { Amount::ZERO };
        let (queue, dimension) = (Arc::clone(self.queue), self.dimension.clone());
        Some((
            lack,
            Ceiling { queue, dimension, asked: self.asked, used: self.used.minus(promised), kept: kept.plus(promised), limit, bound },
        ))
    }
}

#[cfg(test)]
#[path = "fits_tests.rs"]
mod tests;
