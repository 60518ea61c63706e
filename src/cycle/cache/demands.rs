//! The demand of each queue for its waiting PodGroups (S1), and the shares that follow from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{GroupFacts, GroupKey};
use crate::resources::Resources;

use crate::accounting::{ROOT_QUEUE, Shares, Waiting};

use super::gang::is_owed_a_beginning;
use super::{Cache, Change, Group};

/// The demands of the queues, and the shares that follow from them and from what is used.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Sharing {
    /// The resources that the PodGroups of each queue wait for.
    pub(in crate::cycle) demands: BTreeMap<Arc<str>, Resources>,
    /// The shares of all queues; none when an input changed and no reader needed them since.
    pub(in crate::cycle) shares: Option<Shares>,
    /// Whether the shares hold for this cycle only, because a placement took more from the demand than it added to the use.
    pub(in crate::cycle) outdated: bool,
    /// The unused part of all floors at the last check.
    unfilled: Resources,
}

impl Group {
    /// Returns the queue and the resources that the PodGroup waits for (S1): the larger of its waiting members' requests and the uncharged
    /// part of its minimum. None where all its members are placed, whatever its minimum says.
    fn waits_for(&self) -> Option<(&str, Resources)> {
        let facts = self.facts.as_ref().filter(|facts| !facts.is_over())?;
        if self.waiting.is_empty() && !(self.is_idle() && is_owed_a_beginning(self, facts)) {
            return None;
        }
        let asked = self.uncharged(facts);
        (!asked.is_zero()).then_some((&facts.queue, asked))
    }

    /// Changes the demands to what they are without the reservation of the PodGroup: then it wants its whole request (S1, A4).
    pub(in crate::cycle) fn demand_without_reservation(&self, demands: &mut BTreeMap<Arc<str>, Resources>) {
        let Some(facts) = &self.facts else { return };
        if let Some((queue, asked)) = &self.demand {
            demands.entry(Arc::clone(queue)).or_default().sub(asked);
        }
        demands.entry(Arc::from(facts.queue.as_str())).or_default().add(&self.uncharged(facts));
    }

    /// Returns the larger of the requests of its waiting members and the part of its minResources that is not charged to members. The
    /// minResources that podgroup-controller wrote are an estimate, so the members are asked alone.
    fn uncharged(&self, facts: &GroupFacts) -> Resources {
        let mut minimum = facts.min_resources.clone().filter(|_| !facts.managed).unwrap_or_default();
        minimum.sub(&self.charged);
        let mut wanted = minimum.without_negative();
        wanted.max_each(&self.asked);
        wanted
    }
}

impl Cache {
    /// The shares hold for this cycle only: a placement took more from the demand than it added to the use.
    pub(in crate::cycle) const fn shares_are_outdated(&mut self) {
        self.sharing.outdated = true;
    }

    /// Takes the shares of this cycle, for [`restore_shares`](Self::restore_shares).
    pub(in crate::cycle) const fn take_shares(&mut self) -> Option<Shares> {
        self.sharing.shares.take()
    }

    /// Brings them back.
    pub(in crate::cycle) fn restore_shares(&mut self, shares: Option<Shares>) {
        self.sharing.shares = shares;
    }

    /// The shares of all queues, as computed last; none where an input changed since.
    #[must_use]
    pub const fn shares(&self) -> Option<&Shares> {
        self.sharing.shares.as_ref()
    }

    /// The shares of all queues at this moment, for a reader that changes nothing.
    #[must_use]
    pub fn shares_now(&self) -> Cow<'_, Shares> {
        match &self.sharing.shares {
            Some(shares) if !self.sharing.outdated => Cow::Borrowed(shares),
            Some(_) | None => Cow::Owned(self.accounting.quota().shares(Waiting::Of(&self.sharing.demands))),
        }
    }

    /// Computes the shares if an input changed. They hold for the whole cycle. A placement moves resources from the demand to the use. It
    /// may take more from the demand, if it is the last placement of a PodGroup with a minimum that is larger than its members.
    pub(in crate::cycle) fn share_out(&mut self) {
        if std::mem::take(&mut self.sharing.outdated) || self.sharing.shares.is_none() {
            self.sharing.shares = Some(self.accounting.quota().shares(Waiting::Of(&self.sharing.demands)));
        }
    }

    /// Computes the shares if there are none. Shares of this cycle stay as they are.
    pub(in crate::cycle) fn share_out_if_unknown(&mut self) {
        if self.sharing.shares.is_none() {
            self.share_out();
        }
    }

    /// Whether the shares are missing or hold no longer, so that the next reader computes them.
    pub(in crate::cycle) const fn lacks_shares(&self) -> bool {
        self.sharing.shares.is_none() || self.sharing.outdated
    }

    /// Whether a queue uses more than its share of anything.
    pub(in crate::cycle) fn any_queue_over_share(&self) -> bool {
        let Some(shares) = self.shares() else { return false };
        self.accounting.quota().queues().any(|queue| shares.over(queue.name, queue.used).next().is_some())
    }

    /// Adds a change if the unused part of all floors shrank since the last call. Where pods use all floors, the nodes themselves are the limit
    /// (F3). So a smaller unused part may let in PodGroups that were refused for amounts. No other charge helps another PodGroup.
    pub(in crate::cycle) fn notice_unfilled(&mut self) {
        let now = self.accounting.quota().queue(ROOT_QUEUE).unfilled.clone();
        if self.sharing.unfilled.iter().any(|(dimension, was)| now.get(dimension.as_str()) < was) {
            self.changed(Change::Victims);
            if self.has_unreserved() {
                self.changed(Change::FloorsFilled);
            }
        }
        self.sharing.unfilled = now;
    }

    /// Updates the demand of the queue by what the PodGroup waits for beyond its reservation (S1).
    pub(in crate::cycle) fn update_demand(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let reserved = self.reserved(group);
        let mut total_demand = reserved.clone();
        let now = group.waits_for().filter(|_| !self.is_foreign(key)).and_then(|(queue, mut asked)| {
            total_demand.max_each(&asked);
            asked.sub(reserved);
            let asked = asked.without_negative();
            (!asked.is_zero()).then_some((queue, asked))
        });
        let same = group.demand.as_ref().map(|(queue, asked)| (&**queue, asked)) == now.as_ref().map(|(queue, asked)| (*queue, asked));
        if same && group.total_demand == total_demand {
            return;
        }
        let now = now.map(|(queue, asked)| (Arc::<str>::from(queue), asked));
        let Some(group) = self.groups.get_mut(key) else { return };
        let queues = || group.demand.iter().chain(&now).map(|(queue, _)| queue);
        let moved = group.demand.as_ref().zip(now.as_ref()).is_some_and(|((was, _), (is, _))| was != is);
        // A part of the demand that is reserved now changes no share. Where the queue is gone, only what is reserved counts above it.
        let quota = self.accounting.quota();
        if group.total_demand != total_demand || moved || queues().any(|queue| quota.path(queue).is_err()) {
            self.sharing.shares = None;
        }
        group.total_demand = total_demand;
        if same {
            return;
        }
        if let Some((queue, asked)) = std::mem::replace(&mut group.demand, now.clone()) {
            let left = self.sharing.demands.entry(Arc::clone(&queue)).or_default();
            left.sub(&asked);
            if left.is_zero() {
                self.sharing.demands.remove(&queue);
            }
        }
        if let Some((queue, asked)) = now {
            self.sharing.demands.entry(queue).or_default().add(&asked);
        }
    }
}
