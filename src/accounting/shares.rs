//! Computes the share of each queue in the cluster (S1–S2).
//!
//! A pure function of the tree, the limits, the taken amounts and the waiting amounts. It passes over the tree twice, demands upwards and
//! shares downwards. Its cost is the queues times the dimensions that the nodes have; there is no share of a dimension that no node has.
//!
//! ```text
//! demand(leaf) = taken + waiting      demand(inner) = its own taken + the sum of demand of its children      each at most capability
//! share(root) = floor(root); divided: floors first, then up to what is deserved, then the demands of the queues that deserve nothing in particular
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::limits::QueueLimits;
use super::quota::Quota;
use super::ranked::{Entry, Ranked};
use super::unused_guarantees::root_floor;
use super::water_filling::{Part, fill};

/// What the PodGroups of the leaves wait for.
#[derive(Clone, Copy, Debug)]
pub enum Waiting<'a> {
    /// These amounts, by leaf: gives the shares (S2).
    Of(&'a BTreeMap<Arc<str>, Resources>),
    /// More than any queue has: gives the entitlements, which do not depend on other queues' requests (S3).
    Unlimited,
}

/// The share of every queue that is below `root` and not too deep.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Shares(BTreeMap<Arc<str>, Resources>);

static NOTHING: Resources = Resources::new();

impl Shares {
    /// Returns the share of a queue; empty for a detached one.
    #[must_use]
    pub fn of(&self, queue: &str) -> &Resources {
        self.0.get(queue).unwrap_or(&NOTHING)
    }

    /// Returns the dimensions in which a queue uses more than its share, by name (S2).
    pub fn over<'a>(&'a self, queue: &str, used: &'a Resources) -> impl Iterator<Item = &'a ResourceName> {
        let share = self.of(queue);
        used.iter().filter(move |(dimension, used)| *used > share.get(dimension)).map(|(dimension, _)| dimension)
    }
}

impl Quota {
    /// Computes the shares (S1 to S3).
    #[must_use]
    pub fn shares(&self, waiting: Waiting<'_>) -> Shares {
        let ranked = Ranked::of(&self.tree, |name| self.limits.get(name).map_or(0, |limits| limits.priority));
        let mut shares = vec![Resources::new(); ranked.len()];
        for (dimension, of_root) in root_floor(&self.limits, &self.total).iter() {
            for (share, amount) in shares.iter_mut().zip(self.shares_in(&ranked, dimension, of_root, waiting)) {
                share.set(dimension.clone(), amount);
            }
        }
        Shares(ranked.down().map(|(_, entry)| Arc::clone(&entry.name)).zip(shares).collect())
    }

    /// Computes the shares in one dimension, in the order of `ranked`.
    fn shares_in(&self, ranked: &Ranked, dimension: &ResourceName, of_root: Amount, waiting: Waiting<'_>) -> Vec<Amount> {
        let demands = self.demands(ranked, dimension, waiting);
        let mut shares = vec![Amount::ZERO; ranked.len()];
        if let Some(root) = shares.first_mut() {
            *root = of_root;
        }
        let mut claims = Vec::new();
        for (at, entry) in ranked.down().filter(|(_, entry)| !entry.children.is_empty()) {
            let share = shares.get(at).copied().unwrap_or_default();
            claims.clear();
            let children = Ranked::children(entry, &demands).iter().zip(ranked.of_children(entry));
            claims.extend(children.map(|(demand, child)| self.claim(child, dimension, *demand)));
            let floors = claims.iter().fold(Amount::ZERO, |sum, claim: &Claim| sum.plus(claim.part.has));
            let mut rest = share.minus(floors);
            for stated in [true, false] {
                let here = claims.iter_mut().filter(|claim| claim.stated == stated).map(|claim| &mut claim.part);
                rest = fill(rest, &mut here.collect::<Vec<_>>());
            }
            for (slot, claim) in shares.get_mut(entry.children.clone()).into_iter().flatten().zip(&claims) {
                *slot = claim.part.has;
            }
        }
        shares
    }

    fn claim(&self, child: &Entry, dimension: &ResourceName, demand: Amount) -> Claim {
        let limits = self.limits.get(&child.name);
        let deserved = limits.and_then(|limits| limits.deserved.get(dimension));
        let target = deserved.map_or(demand, |deserved| deserved.min(capability(limits, dimension)));
        let weight = limits.map_or(1, |limits| limits.weight.max(1));
        let has = self.unused_guarantees().floor(&child.name).get(dimension);
        Claim { stated: deserved.is_some(), part: Part { has, target, weight } }
    }

    /// Computes the demands (S1).
    fn demands(&self, ranked: &Ranked, dimension: &ResourceName, waiting: Waiting<'_>) -> Vec<Amount> {
        let mut demands = vec![Amount::ZERO; ranked.len()];
        for (at, entry) in ranked.up() {
            // What is taken in none of the children: in the queue itself, or in deleted queues below it (T3).
            let children = ranked.of_children(entry).iter().map(|child| self.taken(&child.name, dimension));
            let own = children.fold(self.taken(&entry.name, dimension), Amount::minus);
            let demand = match waiting {
                _ if !entry.children.is_empty() => Ranked::children(entry, &demands).iter().fold(own, |sum, demand| sum.plus(*demand)),
                Waiting::Of(waiting) => own.plus(waiting.get(&entry.name).map_or(Amount::ZERO, |waits| waits.get(dimension))),
                Waiting::Unlimited => Amount::MAX,
            };
            let most = capability(self.limits.get(&entry.name), dimension);
            if let Some(slot) = demands.get_mut(at) {
                *slot = demand.min(most);
            }
        }
        demands
    }
}

impl Quota {
    /// Returns what is taken in a queue and below it (T2).
    fn taken(&self, queue: &str, dimension: &ResourceName) -> Amount {
        self.charged.subtree(queue).get(dimension).plus(self.reserved.subtree(queue).get(dimension))
    }
}

/// What one child may get, and in which of the two rounds.
struct Claim {
    stated: bool,
    part: Part,
}

fn capability(limits: Option<&QueueLimits>, dimension: &ResourceName) -> Amount {
    limits.and_then(|limits| limits.capability.get(dimension)).unwrap_or(Amount::MAX)
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
