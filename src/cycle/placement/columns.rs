//! How much of one resource is idle on every node, and how full is each node with one more request?
//!
//! The columns of the [node table](super::node_table), which work out its formula.

use std::collections::BTreeMap;

use crate::accounting::NodeView;
use crate::resources::{Amount, ResourceName, Resources};

use super::score::{WHOLE, is_scarce};

/// The largest amount for which products with [`WHOLE`] are exact: a hundred times what one object can request. Above it, the table does not answer.
pub(super) const LARGEST: i128 = 1_000_000_000_000_000_000_000_000_000_000;

/// By how many bits the parts of the columns `fine` are smaller than those of [`WHOLE`]. With them the sum of two parts that were rounded down is nearly always
/// rounded as the whole is, so that nodes that are equally full are told apart from better ones without a division.
pub(super) const FINER: u32 = 24;

/// One resource on every node, by place.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: ResourceName,
    pub(super) idle: Vec<Amount>,
    /// The used part of each node, rounded down, and the remainder of that division.
    pub(super) full: Vec<u32>,
    pub(super) rest: Vec<i128>,
    /// The used part of each node [`FINER`], rounded down.
    pub(super) fine: Vec<u64>,
    /// The index in `offers` of the amount that each node offers.
    pub(super) offer: Vec<usize>,
    pub(super) offers: Vec<i128>,
    numbers: BTreeMap<i128, usize>,
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
        let (idle, full, rest, fine, offer) = (vec![Amount::ZERO; nodes], vec![0; nodes], vec![0; nodes], vec![0; nodes], vec![0; nodes]);
        Self { name, idle, full, rest, fine, offer, offers: Vec::new(), numbers: BTreeMap::new() }
    }

    /// Updates the node in this place. Returns whether its amounts are at most [`LARGEST`], so that the results are exact.
    pub(super) fn set(&mut self, place: usize, accounting: Option<NodeView<'_>>) -> bool {
        let amount = |of: &Resources| of.get(&self.name);
        let (offered, used) =
            accounting.map_or((Amount::ZERO, Amount::ZERO), |accounting| (amount(accounting.allocatable), amount(accounting.used)));
        let offers = offered.nanos().max(0);
        let number = *self.numbers.entry(offers).or_insert_with(|| {
            self.offers.push(offers);
            self.offers.len().saturating_sub(1)
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
        put(&mut self.fine, place, finer(full, rest, offers));
        put(&mut self.offer, place, number);
        offers <= LARGEST && used.nanos() <= LARGEST
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
        let offered = self.column.offer.get(place).and_then(|at| self.column.offers.get(*at)).copied().unwrap_or_default();
        (self.is_device && is_scarce(self.asked, Amount::from_nanos(offered))).then(|| self.fullness(place))
    }

    /// Returns the used part of a node with the pod on it; exact, as in [`score`](super::score::score).
    pub(super) fn fullness(&self, place: usize) -> u32 {
        let (full, rest) = (self.column.full.get(place), self.column.rest.get(place));
        let offer = self.column.offer.get(place).copied().unwrap_or_default();
        self.fullness_of(full.copied().unwrap_or_default(), rest.copied().unwrap_or_default(), offer)
    }

    /// Does the same for the used part of a node, the remainder of that division, and the index of what the node offers.
    pub(super) fn fullness_of(&self, full: u32, rest: i128, offer: usize) -> u32 {
        let (step, rest_of_step) = self.steps.get(offer).copied().unwrap_or_default();
        let rests = rest.saturating_add(rest_of_step);
        let carried = u32::from(self.column.offers.get(offer).is_some_and(|offered| rests >= *offered));
        full.saturating_add(step).saturating_add(carried).min(WHOLE)
    }
}

/// Returns `amount / whole` in parts of [`WHOLE`], rounded down, and the remainder; [`WHOLE`] and 0 if `whole` is 0.
pub(super) fn parts(amount: i128, whole: i128) -> (u32, i128) {
    let scaled = amount.saturating_mul(i128::from(WHOLE));
    let quotient = scaled.checked_div(whole).map_or(WHOLE, |parts| u32::try_from(parts).unwrap_or(u32::MAX));
    (quotient, scaled.checked_rem(whole).unwrap_or(0))
}

/// Returns the part of which this is the quotient and the remainder, [`FINER`] and rounded down.
pub(super) fn finer(full: u32, rest: i128, whole: i128) -> u64 {
    let more = rest.saturating_mul(1 << FINER).checked_div(whole).unwrap_or(0);
    (u64::from(full) << FINER).saturating_add(u64::try_from(more).unwrap_or(0))
}
