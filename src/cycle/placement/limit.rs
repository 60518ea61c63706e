//! Which nodes are no better than the worst on a full list of the best nodes?
//!
//! A search asks this of every node. So the answer is one comparison of whole numbers for each requested resource, most often for the first
//! of them only, and it is exact: a node that is as full as the worst one is told apart from a better one, however their divisions are
//! rounded.

use std::cmp::Reverse;

use crate::cycle::placement::Strategy;
use crate::resources::Amount;

use super::columns::{Column, Wanted};
use super::score::{Rank, WHOLE};

/// The nodes that are no better than a rank. Not for pods that are packed by their devices: with them another amount decides on each node.
pub(super) struct Limit<'a> {
    wasted: u32,
    /// By requested resource and by what a node offers of it: the largest idle amount with which the node is so full that it is no better.
    /// Where pods are packed, so full that it may be better. The fullest resource of one node comes first, because it is that of most
    /// nodes.
    most_idle: Vec<(&'a Column, Vec<Amount>)>,
    packs: bool,
}

impl<'a> Limit<'a> {
    /// Works out the limit, with one division for each different amount that nodes offer. `place` is that of a node that takes the pod.
    pub(super) fn new(wanted: &[Wanted<'a>], worst: Rank, strategy: Strategy, has_images: bool, place: usize) -> Self {
        let packs = strategy == Strategy::Pack;
        let fullness = if packs {
            // Where the pod needs images, they decide among nodes that are as full.
            WHOLE.saturating_sub(worst.cost).saturating_add(u32::from(!has_images))
        } else {
            worst.cost
        };
        let mut wanted: Vec<&Wanted<'a>> = wanted.iter().collect();
        wanted.sort_by_key(|want| Reverse(want.fullness(place)));
        let most_idle = wanted.into_iter().map(|want| (want.column, want.most_idle(fullness))).collect();
        Self { wasted: worst.wasted, most_idle, packs }
    }

    /// Returns whether the node in this place is no better, or cannot take the pod. `wasted` is at most that of its rank.
    pub(super) fn rules_out(&self, place: usize, wasted: u32) -> bool {
        let is_full = || self.most_idle.iter().any(|(column, most)| column.has_at_most(place, most));
        wasted > self.wasted || (wasted == self.wasted && is_full() != self.packs)
    }
}
