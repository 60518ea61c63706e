//! In which order do the kinds of faults come? Like the cards of a shuffled pack: each comes once before any comes again.
//!
//! A request gets the first card that fits it, and a card that fits no request stays on top. So a kind comes at the latest when as many
//! requests that it fits got a fault as there are kinds, and a short run has every kind, too. Only the first pack has one card of each
//! kind. In later ones the seed decides whether a kind has 1, 2 or 4 cards, so that a run has many faults of one kind.
//!
//! Pure: the same seed and the same requests in the same order give the same faults.

use std::collections::BTreeMap;

use super::fault::KINDS;
use super::mix::hash;
use crate::proxy::SeededRandom;

/// A kind that was dealt to so many requests must have been injected.
pub(super) const DUE_OF_REQUESTS: u32 = 3;
/// The same for open watches. Each open watch is dealt a card at once, and its fault comes some seconds later: one that ends before has none.
pub(super) const DUE_OF_WATCHES: u32 = 12;

/// The cards of one proxy, for requests or for open watches.
#[derive(Clone, Debug, Default)]
pub(super) struct OrderOfKinds {
    seed: u64,
    /// A kind that was dealt so often must have been injected.
    due: u32,
    /// How often cards were shuffled.
    shuffled: u64,
    /// The next card is the first one.
    left: Vec<&'static str>,
    dealt: BTreeMap<&'static str, u32>,
}

impl OrderOfKinds {
    pub(super) fn new(seed: u64, due: u32) -> Self {
        Self { seed, due, ..Self::default() }
    }

    /// Deals one of these faults; `None` where there is none.
    pub(super) fn deal<T: Copy>(&mut self, faults: &[T], kind: fn(&T) -> &'static str) -> Option<T> {
        if faults.is_empty() {
            return None;
        }
        let first = |left: &[&str]| left.iter().position(|card| faults.iter().any(|fault| kind(fault) == *card));
        let at = match first(&self.left) {
            Some(at) => at,
            None => {
                self.shuffle();
                first(&self.left)?
            }
        };
        let card = self.left.remove(at);
        *self.dealt.entry(card).or_default() += 1;
        faults.iter().copied().find(|fault| kind(fault) == card)
    }

    /// Returns the kinds that must have been injected.
    pub(super) fn due(&self) -> impl Iterator<Item = &'static str> {
        self.dealt.iter().filter(|(_, times)| **times >= self.due).map(|(kind, _)| *kind)
    }

    /// Adds a shuffled pack, without the kinds that are left of earlier ones: those fitted no request, and must not come in a row when one fits.
    fn shuffle(&mut self) {
        let cards = |kind: &str| if self.shuffled == 0 { 1 } else { 1 << (SeededRandom(self.seed ^ hash(kind)).draw_number() % 3) };
        let missing = KINDS.into_iter().filter(|kind| !self.left.contains(kind));
        let mut more: Vec<&'static str> = missing.flat_map(|kind| std::iter::repeat_n(kind, cards(kind))).collect();
        let mut random = SeededRandom(self.seed ^ self.shuffled.wrapping_mul(0xd6e8_feb8_6659_fd93));
        for last in (1..more.len()).rev() {
            let other = usize::try_from(random.draw_number() % (last as u64 + 1)).unwrap_or(last);
            more.swap(last, other);
        }
        self.shuffled += 1;
        self.left.append(&mut more);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ANY: [&str; 5] = ["500", "502", "503", "504", "429"];
    const WRITES: [&str; 7] = ["500", "502", "503", "504", "429", "409", "lost-reply"];

    fn deal(order: &mut OrderOfKinds, faults: &[&'static str]) -> &'static str {
        order.deal(faults, |kind| *kind).unwrap()
    }

    #[test]
    fn every_kind_comes_once_before_any_comes_again() {
        for seed in 0..50 {
            let mut order = OrderOfKinds::new(seed, DUE_OF_REQUESTS);
            let first: Vec<_> = (0..KINDS.len()).map(|_| deal(&mut order, &KINDS)).collect();
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), KINDS.len(), "{first:?}");
            assert_eq!(order.due().count(), 0);
            for _ in 0..2 * KINDS.len() * 4 {
                deal(&mut order, &KINDS);
            }
            assert_eq!(order.due().count(), KINDS.len());
        }
    }

    #[test]
    fn a_request_without_a_fault_takes_no_card_and_shuffles_none() {
        for seed in 0..50 {
            let (mut order, mut other) = (OrderOfKinds::new(seed, DUE_OF_REQUESTS), OrderOfKinds::new(seed, DUE_OF_REQUESTS));
            for _ in 0..100 {
                assert!(order.deal(&[] as &[&str], |kind| *kind).is_none());
                assert_eq!(deal(&mut order, &ANY), deal(&mut other, &ANY));
            }
        }
    }

    #[test]
    fn a_kind_that_fits_few_requests_comes_with_one_of_the_first_of_these() {
        for seed in 0..50 {
            let mut order = OrderOfKinds::new(seed, DUE_OF_REQUESTS);
            // Many requests that no write's fault fits.
            (0..100).for_each(|_| assert!(ANY.contains(&deal(&mut order, &ANY))));
            let mut writes: Vec<_> = (0..10).map(|_| deal(&mut order, &WRITES)).collect();
            assert!(writes.iter().any(|kind| ANY.contains(kind)), "they were saved up: {writes:?}");
            writes.truncate(2);
            writes.sort_unstable();
            assert_eq!(writes, ["409", "lost-reply"]);
        }
    }

    #[test]
    fn a_seed_decides_the_order_and_how_often_each_kind_comes_later() {
        let dealt = |seed| {
            let mut order = OrderOfKinds::new(seed, DUE_OF_REQUESTS);
            let order: Vec<_> = (0..500).map(|_| deal(&mut order, &ANY)).collect();
            let often = |kind: &str| order.iter().filter(|dealt| **dealt == kind).count();
            let often = ANY.map(often);
            (order, often)
        };
        assert_eq!(dealt(7), dealt(7));
        assert_ne!(dealt(7).0, dealt(8).0);
        assert!((0..20).any(|seed| dealt(seed).1.iter().max() > dealt(seed).1.iter().min().map(|least| least * 3).as_ref()));
    }
}
