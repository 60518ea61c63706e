//! One exact amount of a resource, and its arithmetic.
//!
//! An amount is an `i128` of nano-units, the finest step of Kubernetes. It has room for ten billion times the largest quantity that
//! [`quantity::parse`](super::quantity::parse) accepts, so the sums of real clusters are exact. A larger sum saturates at [`Amount::MAX`].

use std::fmt;

use super::quantity::{self, Style};

/// An exact amount of one resource, in nano-units (1 cpu = 10⁹, 1 byte = 10⁹, 1 pod = 10⁹). May be negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i128);

/// The number of nano-units in one unit.
pub(super) const NANOS_PER_UNIT: i128 = 1_000_000_000;

impl Amount {
    /// The amount 0.
    pub const ZERO: Self = Self(0);
    /// The largest amount; sums stop here.
    pub const MAX: Self = Self(i128::MAX);
    /// The smallest amount: the negative of [`Amount::MAX`], so that negation is always exact.
    pub const MIN: Self = Self(-i128::MAX);

    /// Returns the amount of this many whole units (cores, bytes, pods).
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        // i64::MAX × 10⁹ ≈ 9.2 × 10²⁷, far below i128::MAX ≈ 1.7 × 10³⁸: this never saturates.
        Self((units as i128).saturating_mul(NANOS_PER_UNIT))
    }

    /// Returns the amount of this many nano-units, limited to [`Amount::MIN`]..[`Amount::MAX`].
    #[must_use]
    pub const fn from_nanos(nanos: i128) -> Self {
        if nanos == i128::MIN { Self::MIN } else { Self(nanos) }
    }

    /// Returns the amount in nano-units.
    #[must_use]
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// Returns the sum. It saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self::from_nanos(self.0.saturating_add(other.0))
    }

    /// Returns the difference, which is negative if `other` is larger. It saturates.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self::from_nanos(self.0.saturating_sub(other.0))
    }

    /// Returns the smallest whole number of units that is not less.
    #[must_use]
    pub const fn rounded_up(self) -> Self {
        let over = self.0.rem_euclid(NANOS_PER_UNIT);
        if over == 0 { self } else { self.plus(Self(NANOS_PER_UNIT.saturating_sub(over))) }
    }

    /// Returns `count` times the amount. It saturates.
    #[must_use]
    pub const fn times(self, count: u32) -> Self {
        Self::from_nanos(self.0.saturating_mul(count as i128))
    }

    /// Returns whether the amount is exactly 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the amount is below 0.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Returns whether the amount is above 0.
    #[must_use]
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
}

/// Writes the canonical decimal text (`1500m`, `2`, `3k`). For bytes see [`quantity::format`].
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&quantity::format(*self, Style::Decimal))
    }
}

/// Writes the same text as [`Display`](fmt::Display), because people read failed assertions.
impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sums_at_the_ends_saturate_and_never_wrap() {
        let table = [
            (Amount::MAX.plus(Amount::from_nanos(1)), Amount::MAX),
            (Amount::MIN.minus(Amount::from_nanos(1)), Amount::MIN),
            (Amount::MAX.times(2), Amount::MAX),
            (Amount::MIN.times(2), Amount::MIN),
            (Amount::from_nanos(i128::MIN), Amount::MIN),
            (Amount::ZERO.minus(Amount::MIN), Amount::MAX),
        ];
        for (got, want) in table {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_part_of_a_unit_is_rounded_up() {
        for (nanos, units) in [(0, 0), (1, 1), (1_000_000_000, 1), (1_000_000_001, 2), (-1, 0), (-1_000_000_000, -1)] {
            assert_eq!(Amount::from_nanos(nanos).rounded_up(), Amount::from_units(units), "{nanos}");
        }
    }

    #[test]
    fn the_largest_quantity_times_the_largest_count_is_still_exact() {
        let largest = Amount::from_units(i64::MAX);
        assert_eq!(largest.times(u32::MAX).nanos(), i128::from(i64::MAX) * NANOS_PER_UNIT * i128::from(u32::MAX));
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn adding_and_subtracting_the_same_amount_changes_nothing(a in any::<i64>(), b in any::<i64>()) {
            let (a, b) = (Amount::from_units(a), Amount::from_nanos(i128::from(b)));
            prop_assert_eq!(a.plus(b).minus(b), a);
            prop_assert_eq!(a.minus(b).plus(b), a);
        }
    }
}
