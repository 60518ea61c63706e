//! Which of two queues uses the larger part of its share?
//!
//! A share is a fraction of two integers, compared exactly: cross-multiplying could overflow, so whole parts are compared and then, upside
//! down, what is left, as Euclid does.

use std::cmp::Ordering;

use crate::resources::{Amount, Resources};

/// A part of a whole. Of an empty whole: 0 if nothing is used, else more than any other share.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    part: u128,
    whole: u128,
}

impl Share {
    /// `part` of `whole`; what is negative counts as 0.
    #[must_use]
    pub fn new(part: Amount, whole: Amount) -> Self {
        let natural = |amount: Amount| u128::try_from(amount.nanos()).unwrap_or(0);
        match (natural(part), natural(whole)) {
            (0, _) => Self::default(),
            // 1/0: infinite, however much it is.
            (_, 0) => Self { part: 1, whole: 0 },
            (part, whole) => Self { part, whole },
        }
    }

    /// Returns the largest part over all resources in use: how much of the share of the queue is used.
    #[must_use]
    pub fn dominant(used: &Resources, share: &Resources) -> Self {
        used.iter().map(|(name, used)| Self::new(used, share.get(name))).max().unwrap_or_default()
    }
}

impl Default for Share {
    fn default() -> Self {
        Self { part: 0, whole: 1 }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (*self, *other);
        let mut flipped = false;
        // Each round shortens the numbers as Euclid's algorithm does: at most about 180 rounds for 128 bits.
        loop {
            let order = match (a.whole, b.whole) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Greater,
                (_, 0) => Ordering::Less,
                _ => {
                    let quotient = |share: Self| share.part.checked_div(share.whole).unwrap_or(0);
                    let rest = |share: Self| Self { part: share.whole, whole: share.part.checked_rem(share.whole).unwrap_or(0) };
                    match quotient(a).cmp(&quotient(b)) {
                        // Of what is left the inverses are compared, so the sense turns round.
                        Ordering::Equal => {
                            (a, b) = (rest(a), rest(b));
                            flipped = !flipped;
                            continue;
                        }
                        order @ (Ordering::Less | Ordering::Greater) => order,
                    }
                }
            };
            return if flipped { order.reverse() } else { order };
        }
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::amounts;
    use proptest::prelude::*;

    fn share(part: i128, whole: i128) -> Share {
        Share::new(Amount::from_nanos(part), Amount::from_nanos(whole))
    }

    #[test]
    fn nothing_of_nothing_is_nothing_and_something_of_nothing_is_more_than_all() {
        assert_eq!(share(0, 0), share(0, 7));
        assert!(share(1, 0) > share(i128::MAX, 1));
        assert_eq!(share(1, 0), share(5, 0));
    }

    #[test]
    fn the_dominant_part_is_the_largest_and_of_no_share_more_than_any() {
        let used = amounts(&[("cpu", 2), ("memory", 3)]);
        assert_eq!(Share::dominant(&used, &amounts(&[("cpu", 4), ("memory", 4), ("pods", 1)])), share(3, 4));
        assert_eq!(Share::dominant(&used, &amounts(&[("cpu", 2)])), share(1, 0));
        assert_eq!(Share::dominant(&Resources::new(), &amounts(&[])), share(0, 1));
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn small_fractions_compare_as_their_cross_products(a in 0_i128..50, b in 1_i128..50, c in 0_i128..50, d in 1_i128..50) {
            prop_assert_eq!(share(a, b).cmp(&share(c, d)), (a * d).cmp(&(c * b)));
        }

        #[test]
        fn huge_fractions_compare_as_the_small_ones_they_are_multiples_of(a in 0_i128..50, b in 1_i128..50, c in 0_i128..50, d in 1_i128..50, k in (i128::MAX / 200)..(i128::MAX / 100)) {
            prop_assert_eq!(share(a * k, b * k).cmp(&share(c, d)), (a * d).cmp(&(c * b)));
        }
    }
}
