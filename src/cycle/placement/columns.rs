//! How much of one resource is idle on every node, and how full is each node with one more request?
//!
//! The columns of the [node table](super::node_table), which work out its formula.

use std::collections::BTreeMap;

use crate::accounting::NodeView;
use crate::resources::{Amount, ResourceName, Resources};

use super::score::{WHOLE, is_scarce};

/// The largest amount for which products with [`WHOLE`] are exact: a hundred times what one object can request. Above it, the table does not answer.
pub(super) const LARGEST: i128 = 1_000_000_000_000_000_000_000_000_000_000;

/// One resource on every node, by place.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: ResourceName,
    pub(super) idle: Vec<Amount>,
    /// The used part of each node, rounded down, and the remainder of that division.
    pub(super) full: Vec<u32>,
    pub(super) rest: Vec<i128>,
    /// The index in `offers` of the amount that each node offers.
    pub(super) offer: Vec<u32>,
    pub(super) offers: Vec<i128>,
    numbers: BTreeMap<i128, u32>,
}

/// The requested amount of one resource.
pub(super) struct Wanted<'a> {
    pub(super) column: &'a Column,
    pub(super) asked: Amount,
    /// Whether it is a kind of device.
    pub(super) is_device: bool,
    /// For each offer, the part of it that the pod requests, rounded down, and the remainder.
    pub(super) steps: Vec<(u32, i128)>,
}

impl Column {
    pub(super) fn new(name: ResourceName, nodes: usize) -> Self {
        let (idle, full, rest, offer) = (vec![Amount::ZERO; nodes], vec![0; nodes], vec![0; nodes], vec![0; nodes]);
        Self { name, idle, full, rest, offer, offers: Vec::new(), numbers: BTreeMap::new() }
    }

    /// Updates the node in this place. Returns whether its amounts are at most [`LARGEST`], so that the results are exact.
    pub(super) fn set(&mut self, place: usize, accounting: Option<NodeView<'_>>) -> bool {
        let amount = |of: &Resources| of.get(&self.name);
        let (offered, used) =
            accounting.map_or((Amount::ZERO, Amount::ZERO), |accounting| (amount(accounting.allocatable), amount(accounting.used)));
        let offers = offered.nanos().max(0);
        let number = *self.numbers.entry(offers).or_insert_with(|| {
            self.offers.push(offers);
            u32::try_from(self.offers.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        let (full, rest) = parts(used.nanos().max(0), offers);
        fn put<T>(column: &mut [T], place: usize, value: T) {
            if let Some(slot) = column.get_mut(place) {
                *slot = value;
            }
        }
        put(&mut self.idle, place, offered.minus(used));
        put(&mut self.full, place, full);
        put(&mut self.rest, place, rest);
        put(&mut self.offer, place, number);
        offers <= LARGEST && used.nanos() <= LARGEST
    }

    /// Returns whether the node in this place has at most the idle amount that `most` has for what it offers.
    pub(super) fn has_at_most(&self, place: usize, most: &[Amount]) -> bool {
        let most = self.offer.get(place).and_then(|offer| most.get(*offer as usize));
        self.idle.get(place).zip(most).is_some_and(|(idle, most)| idle <= most)
    }
}

impl Wanted<'_> {
    /// Returns the idle amount on the node in this place, if it is less than the requested amount.
    pub(super) fn short(&self, place: usize) -> Option<Amount> {
        let free = self.column.idle.get(place).copied().unwrap_or_default().max(Amount::ZERO);
        (self.asked > free).then_some(free)
    }

    /// Returns the used part of the devices of a node with the pod on it; none where these are no devices, or not scarce on the node.
    pub(super) fn device_fullness(&self, place: usize) -> Option<u32> {
        let offered = self.column.offer.get(place).and_then(|at| self.column.offers.get(*at as usize)).copied().unwrap_or_default();
        (self.is_device && is_scarce(self.asked, Amount::from_nanos(offered))).then(|| self.fullness(place))
    }

    /// Returns the used part of a node with the pod on it; exact, as in [`score`](super::score::score).
    pub(super) fn fullness(&self, place: usize) -> u32 {
        let (full, rest) = (self.column.full.get(place), self.column.rest.get(place));
        let offer = self.column.offer.get(place).copied().unwrap_or_default();
        self.fullness_of(full.copied().unwrap_or_default(), rest.copied().unwrap_or_default(), offer)
    }

    /// Does the same for the used part of a node, the remainder of that division, and the index of what the node offers.
    pub(super) fn fullness_of(&self, full: u32, rest: i128, offer: u32) -> u32 {
        let offer = offer as usize;
        let (step, rest_of_step) = self.steps.get(offer).copied().unwrap_or_default();
        let rests = rest.saturating_add(rest_of_step);
        let carried = u32::from(self.column.offers.get(offer).is_some_and(|offered| rests >= *offered));
        full.saturating_add(step).saturating_add(carried).min(WHOLE)
    }

    /// Returns for each offer the largest idle amount with which a node is at least so full with the pod on it.
    ///
    /// ```text
    /// fullness ≤ ⌊(offered − idle + asked) · WHOLE / offered⌋   where   idle ≤ asked + ⌊(WHOLE − fullness) · offered / WHOLE⌋
    /// ```
    pub(super) fn most_idle(&self, fullness: u32) -> Vec<Amount> {
        let left = i128::from(WHOLE).saturating_sub(i128::from(fullness));
        let most = |offer: &i128| self.asked.plus(Amount::from_nanos(left.saturating_mul(*offer).div_euclid(i128::from(WHOLE))));
        self.column.offers.iter().map(most).collect()
    }
}

/// Returns `amount / whole` in parts of [`WHOLE`], rounded down, and the remainder; [`WHOLE`] and 0 if `whole` is 0.
pub(super) fn parts(amount: i128, whole: i128) -> (u32, i128) {
    let scaled = amount.saturating_mul(i128::from(WHOLE));
    let quotient = scaled.checked_div(whole).map_or(WHOLE, |parts| u32::try_from(parts).unwrap_or(u32::MAX));
    (quotient, scaled.checked_rem(whole).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn on(column: &Column, asked: i128) -> Wanted<'_> {
        let steps = column.offers.iter().map(|offer| parts(asked, *offer)).collect();
        Wanted { column, asked: Amount::from_nanos(asked), is_device: false, steps }
    }

    fn of_one(offered: i128, used: i128) -> Column {
        let resource = |nanos| Resources::new().with("r", Amount::from_nanos(nanos));
        let (name, allocatable, used) = ("r".into(), resource(offered), resource(used));
        let mut column = Column::new(name, 1);
        assert!(column.set(0, Some(NodeView { name: "n", allocatable: &allocatable, used: &used })), "the column is exact");
        column
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(2_048))]

        #[test]
        fn the_most_idle_tells_exactly_the_nodes_that_are_as_full(
            offered in prop_oneof![0..200_i128, Just(LARGEST), 0..LARGEST], used in 0..200_i128, asked in 1..200_i128, of in 1..200_i128, units: bool
        ) {
            // Few parts of the offered amount, so that sums are often whole millionths; or any amounts.
            let unit = if units { (offered / of).max(1) } else { 1 };
            let (used, asked) = (used * unit, asked * unit);
            prop_assume!(used <= LARGEST && asked <= LARGEST);
            let column = of_one(offered, used);
            let want = on(&column, asked);
            let is = want.fullness(0);
            for fullness in [0, is.saturating_sub(1), is, (is + 1).min(WHOLE), WHOLE] {
                prop_assert_eq!(column.has_at_most(0, &want.most_idle(fullness)), is >= fullness, "{} of {}", is, fullness);
            }
        }
    }
}
