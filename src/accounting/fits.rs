//! Decides whether an amount more fits in a queue, at every level.
//!
//! [`Quota::fits`] is the one function that answers for a queue and all its ancestors (F4). Admission, placement and preemption use it;
//! beside it, a pod that may not be preempted also stays within the entitlement of its queue (`within_entitlement`). Its cost is the depth
//! times the dimensions, however many queues there are.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::quota::Quota;
use super::refusal::{Bound, Ceiling, QueueRefusal};
use super::tree::{Path, ROOT_QUEUE};
use super::unused_guarantees::UnusedChange;

impl Quota {
    /// Checks whether an amount more fits at every level of a queue (F1, F3, O1, T1b). Only requested dimensions are checked, also those
    /// that no node has.
    ///
    /// # Errors
    ///
    /// In this order: a broken queue on the way up; a queue that is no leaf; the nearest closed queue; the nearest queue in which the amount
    /// does not fit, with its first dimension.
    pub fn fits(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        let path = self.path(queue).map_err(QueueRefusal::Fault)?;
        if let Some(queue) = self.first_closed(path.iter()) {
            return Err(QueueRefusal::Closed { queue: Arc::clone(queue) });
        }
        let mut first = Ok(());
        self.each_refusal(&path, asked, |_, ceiling| {
            first = Err(QueueRefusal::Ceiling(ceiling));
            ControlFlow::Break(())
        });
        first
    }

    /// Every ceiling that refuses so much more, as [`Quota::fits`] would name them one after the other: from the queue upwards, in each by
    /// dimension. Empty where the queue is broken.
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

    /// Whether the amount could fit in an otherwise empty cluster: no capability on the way up is below it, and all nodes together offer it (A6).
    /// `offered` is what they offer, whatever pods outside our queues use of it: such pods end.
    #[must_use]
    pub fn ever_fits(&self, queue: &str, asked: &Resources, offered: &Resources) -> bool {
        let Ok(path) = self.path(queue) else { return false };
        let offered = asked.iter().all(|(dimension, asked)| asked <= offered.get(dimension));
        let below = |queue: &Arc<str>| {
            let capability = self.limits.get(queue).map(|limits| &limits.capability);
            asked.iter().all(|(dimension, asked)| capability.and_then(|most| most.get(dimension)).is_none_or(|most| asked <= most))
        };
        offered && path.iter().all(below)
    }

    /// Calls `refuses` for every ceiling that refuses the amount (F1, F3), with the amount by which it is exceeded. The order is from the
    /// queue upwards, and by dimension; a queue may refuse twice in one dimension. Stops on `Break`.
    pub(super) fn each_refusal(&self, path: &Path, asked: &Resources, mut refuses: impl FnMut(Amount, Ceiling) -> ControlFlow<()>) {
        let unused = self.unused_guarantees();
        // By dimension: how the charge changes the unused guarantee of the queue below, and its unfilled floors. Empty where there is no guarantee.
        let mut changes: Vec<Option<[UnusedChange; 2]>> = vec![None; if unused.is_empty() { 0 } else { asked.len() }];
        for queue in path.iter() {
            let limits = self.limits.get(queue);
            let (charged, reserved) = (self.charged.subtree(queue), self.reserved.subtree(queue));
            for (at, (dimension, asked)) in asked.iter().enumerate().filter(|(_, (_, asked))| asked.is_positive()) {
                let capability = limits.and_then(|limits| limits.capability.get(dimension));
                if capability.is_none() && changes.is_empty() {
                    continue;
                }
                let (charged, reserved) = (charged.get(dimension), reserved.get(dimension));
                let used = charged.plus(reserved);
                let change = changes.get_mut(at).map(|change| {
                    let sums = [used, charged].map(|sum| sum.plus(asked));
                    *change.insert(unused.change(queue, dimension, sums, *change))
                });
                let [change, by_pods] = change.unwrap_or_default();
                let level = Level { queue, dimension, asked, used, reserved, change, unfilled: by_pods.after };
                let of_cluster = **queue == *ROOT_QUEUE && level.unfilled.is_positive();
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

    /// Checks whether a member beyond the minimum of its PodGroup leaves room for this, which other PodGroups have reserved for their minimum and
    /// which comes before it, in what all nodes offer together (A7). What is zero needs no room, even if more is used than the nodes offer.
    ///
    /// # Errors
    ///
    /// The first dimension in which it does not.
    pub fn leaves(&self, asked: &Resources, first: &Resources) -> Result<(), Ceiling> {
        self.within_total(asked.iter().filter(|(dimension, _)| first.get(dimension).is_positive()), first, Bound::Minimums)
    }

    /// Checks whether so much more fits beside all that is charged and reserved in what all nodes offer together, less what pods outside
    /// our queues use.
    ///
    /// # Errors
    ///
    /// The first dimension in which it does not.
    pub fn within_nodes(&self, asked: &Resources) -> Result<(), Ceiling> {
        self.within_total(asked.iter(), self.reserved.subtree(ROOT_QUEUE), Bound::Cluster)
    }

    fn within_total<'a>(
        &self,
        asked: impl Iterator<Item = (&'a ResourceName, Amount)>,
        reserved: &Resources,
        bound: Bound,
    ) -> Result<(), Ceiling> {
        let used = self.charged.subtree(ROOT_QUEUE);
        for (dimension, asked) in asked.filter(|(_, asked)| asked.is_positive()) {
            let (reserved, limit) = (reserved.get(dimension), self.total.get(dimension));
            let taken = used.get(dimension).plus(reserved);
            if taken.plus(asked) > limit {
                let (queue, dimension, unused_guarantee) = (Arc::from(ROOT_QUEUE), dimension.clone(), Amount::ZERO);
                return Err(Ceiling { queue, dimension, asked, used: taken, reserved, unused_guarantee, limit, bound });
            }
        }
        Ok(())
    }

    /// Checks whether the queue and all above it stay within their entitlements with the amount (S3), in the requested dimensions.
    ///
    /// # Errors
    ///
    /// A broken queue on the way up; otherwise the nearest queue, and its first dimension, in which the amount would be borrowed.
    pub fn within_entitlement(&self, queue: &str, asked: &Resources) -> Result<(), QueueRefusal> {
        let entitlements = self.entitlements();
        for queue in self.path(queue).map_err(QueueRefusal::Fault)?.iter() {
            let (charged, entitlement) = (self.charged.subtree(queue), entitlements.of(queue));
            for (dimension, asked) in asked.iter().filter(|(_, asked)| asked.is_positive()) {
                let (used, limit) = (charged.get(dimension), entitlement.get(dimension));
                if used.plus(asked) > limit {
                    let (queue, dimension) = (Arc::clone(queue), dimension.clone());
                    let bound = Bound::Entitlement;
                    return Err(QueueRefusal::Ceiling(Ceiling {
                        queue,
                        dimension,
                        asked,
                        used,
                        reserved: Amount::ZERO,
                        unused_guarantee: Amount::ZERO,
                        limit,
                        bound,
                    }));
                }
            }
        }
        Ok(())
    }
}

/// One dimension of one queue on the way up.
struct Level<'a> {
    queue: &'a Arc<str>,
    dimension: &'a ResourceName,
    asked: Amount,
    /// What is taken so far.
    used: Amount,
    /// The part of it that is only reserved.
    reserved: Amount,
    change: UnusedChange,
    /// The part of the floors in it and below it that pods do not fill after the charge.
    unfilled: Amount,
}

impl Level<'_> {
    /// Checks that what is taken stays below the ceiling (F1), and what is held, too, if it grows (F3). Returns the excess and the refusal otherwise.
    fn refusal(&self, limit: Amount, bound: Bound) -> Option<(Amount, Ceiling)> {
        let taken = self.used.plus(self.asked);
        let held = taken.plus(self.change.after);
        let grows = held > self.used.plus(self.change.before);
        let capable = bound == Bound::Cluster || taken <= limit;
        let takes_guarantee = held > limit && grows;
        if capable && !takes_guarantee {
            return None;
        }
        let lack = if takes_guarantee { held } else { taken }.minus(limit);
        let unused = if capable { self.change.after } else { Amount::ZERO };
        // A reservation that fills a floor is shown as unused guarantee, because no pod uses it.
        let promised = if bound == Bound::Cluster { self.unfilled.minus(self.change.after) } else { Amount::ZERO };
        let (queue, dimension) = (Arc::clone(self.queue), self.dimension.clone());
        Some((
            lack,
            Ceiling {
                queue,
                dimension,
                asked: self.asked,
                used: self.used.minus(promised),
                reserved: self.reserved.minus(promised).max(Amount::ZERO),
                unused_guarantee: unused.plus(promised),
                limit,
                bound,
            },
        ))
    }
}

#[cfg(test)]
#[path = "fits_tests.rs"]
mod tests;
