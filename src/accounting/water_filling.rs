//! Divides a rest by weight, up to the target of each part.
//!
//! It works in rounds. Each round divides the rest in proportion to the weights of the parts below their target, rounded down. What a part
//! beyond its target does not take is divided again. A round in which no part reaches its target is the last; the rest from its rounding,
//! less than a nano for each part, goes to the first of them.

use crate::resources::Amount;

/// One participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) has: Amount,
    /// The target; a target below what the part has counts as what it has.
    pub(super) target: Amount,
    /// At least 1.
    pub(super) weight: u32,
}

impl Part {
    fn wants(&self) -> Amount {
        self.target.minus(self.has).max(Amount::ZERO)
    }
}

/// Raises the parts towards their targets; their order matters for the rest from rounding. Returns what is left.
pub(super) fn fill(rest: Amount, parts: &mut [&mut Part]) -> Amount {
    let mut rest = rest.max(Amount::ZERO);
    // Each round but the last brings a part to its target.
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
        if satisfied {
            continue;
        }
        for part in parts.iter_mut() {
            let nano = Amount::from_nanos(1).min(rest).min(part.wants());
            part.has = part.has.plus(nano);
            rest = rest.minus(nano);
        }
        break;
    }
    rest
}

/// Returns `amount × weight ÷ weights`, rounded down, for `weight ≤ weights`. The whole multiples come first, so that nothing overflows.
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
    fn a_rest_is_divided_by_weight_and_what_one_part_does_not_take_is_divided_again() {
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
    fn the_rest_from_rounding_goes_to_the_first() {
        assert_eq!(filled(5, &[(0, 99, 1), (0, 99, 1), (0, 99, 1)]), (vec![2, 2, 1], 0));
        assert_eq!(filled(2, &[(0, 99, 1), (0, 99, 9), (0, 99, 1)]), (vec![1, 1, 0], 0));
    }

    #[test]
    fn the_largest_amounts_and_weights_neither_overflow_nor_loop() {
        let most = i128::MAX;
        assert_eq!(filled(most, &[(0, most, u32::MAX), (0, most, u32::MAX)]), (vec![most / 2 + 1, most / 2], 0));
        assert_eq!(filled(-5, &[(0, most, 1)]), (vec![0], 0));
        assert_eq!(filled(7, &[]), (Vec::new(), 7));
        let many: Vec<_> = (0..2_000).map(|number| (0, 1 << (number % 100), 1 + number as u32 % 65_535)).collect();
        let (parts, left) = filled(most, &many);
        assert_eq!(parts.iter().sum::<i128>() + left, most);
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn all_is_given_or_every_part_has_its_target_and_no_part_has_more(
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
            // A part below its target got no less than its weight says, compared with any other part, except for rounding.
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
