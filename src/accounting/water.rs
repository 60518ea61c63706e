//! How is a rest divided by weight, so that nobody gets more than it can use?
//!
//! In rounds: the rest is divided in the proportion of the weights of those who want more, rounded down, and what somebody who has enough does not take is
//! divided again. A round in which nobody gets enough is the last: what rounding left of it, less than a nano for each, goes to the first of them.

use crate::resources::Amount;

use super::rules::{Rule, holds};

/// One who takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) has: Amount,
    /// Below what it has already it is as if it were that.
    pub(super) target: Amount,
    /// At least 1.
    pub(super) weight: u32,
}

impl Part {
    fn wants(&self) -> Amount {
        self.target.minus(self.has).max(Amount::ZERO)
    }
}

/// Raises the parts towards their targets, in their order where that matters. What is left then.
pub(super) fn fill(rest: Amount, parts: &mut [&mut Part]) -> Amount {
    let mut rest = rest.max(Amount::ZERO);
    // Each round but the last satisfies somebody.
    for _ in 0..=parts.len() {
        let weights =
            parts.iter().filter(|part| part.wants().is_positive()).fold(0_i128, |sum, part| sum.saturating_add(i128::from(part.weight)));
        if rest.is_zero() || weights == 0 {
            break;
        }
        let (divided, mut satisfied) = (rest, false);
        for part in parts.iter_mut().filter(|part| part.wants().is_positive()) {
            let takes = portion(divided, part.weight, weights).min(part.wants());
            part.has = part.has.plus(takes);
            rest = rest.minus(takes);
            satisfied |= part.wants().is_zero();
        }
        if satisfied && holds(Rule::S2Again) {
            continue;
        }
        for part in parts.iter_mut().filter(|_| holds(Rule::S2Rounding)) {
            let nano = Amount::from_nanos(1).min(rest).min(part.wants());
            part.has = part.has.plus(nano);
            rest = rest.minus(nano);
        }
        break;
    }
    rest
}

/// `amount × weight ÷ weights`, rounded down, for `weight ≤ weights`: the whole multiples first, so that nothing overflows.
fn portion(amount: Amount, weight: u32, weights: i128) -> Amount {
    let weight = i128::from(weight);
    let whole = amount.nanos().checked_div(weights).unwrap_or(0);
    let part = amount.nanos().checked_rem(weights).unwrap_or(0);
    let of_part = part.saturating_mul(weight).checked_div(weights).unwrap_or(0);
    Amount::from_nanos(whole.saturating_mul(weight).saturating_add(of_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(rest: i128, parts: &[(i128, i128, u32)]) -> (Vec<i128>, i128) {
        let amount = Amount::from_nanos;
        let mut parts: Vec<_> =
            parts.iter().map(|(has, target, weight)| Part { has: amount(*has), target: amount(*target), weight: *weight }).collect();
        let left = fill(amount(rest), &mut parts.iter_mut().collect::<Vec<_>>());
        (parts.iter().map(|part| part.has.nanos()).collect(), left.nanos())
    }

    #[test]
    fn a_rest_is_divided_by_weight_and_what_one_does_not_take_again() {
        assert_eq!(filled(12, &[(0, 99, 1), (0, 99, 2)]), (vec![4, 8], 0));
        assert_eq!(
            filled(12, &[(0, 1, 1), (0, 99, 2), (0, 99, 1)]),
            (vec![1, 8, 3], 0),
            "12 as 3, 6, 3; then 2 as 1 and 0, then the last nano"
        );
        assert_eq!(filled(12, &[(0, 2, 1), (0, 3, 1)]), (vec![2, 3], 7));
        assert_eq!(filled(10, &[(5, 3, 9), (0, 99, 1)]), (vec![5, 10], 0), "a target below what it has is what it has");
    }

    #[test]
    fn what_rounding_leaves_goes_to_the_first() {
        assert_eq!(filled(5, &[(0, 99, 1), (0, 99, 1), (0, 99, 1)]), (vec![2, 2, 1], 0));
        assert_eq!(filled(2, &[(0, 99, 1), (0, 99, 9), (0, 99, 1)]), (vec![1, 1, 0], 0));
    }

    #[test]
    fn the_largest_amounts_and_weights_neither_wrap_nor_take_for_ever() {
        let most = i128::MAX;
        assert_eq!(filled(most, &[(0, most, u32::MAX), (0, most, u32::MAX)]), (vec![most / 2 + 1, most / 2], 0));
        assert_eq!(filled(-5, &[(0, most, 1)]), (vec![0], 0));
        assert_eq!(filled(7, &[]), (Vec::new(), 7));
        let many: Vec<_> = (0..2_000).map(|number| (0, 1 << (number % 100), 1 + number as u32 % 65_535)).collect();
        let (parts, left) = filled(most, &many);
        assert_eq!(parts.iter().sum::<i128>() + left, most);
    }

    proptest! {
        #[test]
        fn all_is_given_or_everybody_has_enough_and_nobody_more(
            rest in 0_i128..1_000,
            parts in prop::collection::vec((0_i128..50, 0_i128..200, 1_u32..9), 0..9),
        ) {
            let (has, left) = filled(rest, &parts);
            let (before, after): (i128, i128) = (parts.iter().map(|part| part.0).sum(), has.iter().sum());
            prop_assert_eq!(before + rest, after + left);
            for (has, (had, target, _)) in has.iter().zip(&parts) {
                prop_assert!(*has >= *had && *has <= *target.max(had));
                prop_assert!(left == 0 || *has >= *target);
            }
            // Who wants more did not get less than its weight says, beside anybody else, but for what rounding costs.
            for (a, pa) in has.iter().zip(&parts).filter(|(has, part)| **has < part.1) {
                for (b, pb) in has.iter().zip(&parts) {
                    let (a, b) = (a - pa.0, b - pb.0);
                    let rounds = i128::try_from(parts.len()).unwrap() + 1;
                    prop_assert!(b * i128::from(pa.2) <= (a + rounds) * i128::from(pb.2) + rounds * i128::from(pa.2));
                }
            }
        }
    }
}
