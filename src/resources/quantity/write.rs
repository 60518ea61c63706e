//! Writes an amount as text.
//!
//! The text is canonical as in Kubernetes: it has no fraction, it is exact, and it has the largest possible suffix. `1.5` cores are
//! `1500m`, and `1.5Gi` bytes are `1536Mi`.

use crate::resources::Amount;
use crate::resources::amount::NANOS_PER_UNIT;

/// The family of suffixes to write with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Powers of 1000: `m`, none, `k`, `M` …
    Decimal,
    /// Powers of 1024 (`Ki`, `Mi` …) if that is exact and the number is not larger than the decimal one. Kubernetes remembers how a
    /// quantity was typed; an amount here does not. A typed `100P` must not be shown as `97656250000000Ki`.
    Binary,
}

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns the canonical text of an amount. `parse` reads the same amount from it, unless the amount is a sum above the limit of `parse`.
#[must_use]
pub fn format(amount: Amount, style: Style) -> String {
    let nanos = amount.nanos();
    if nanos == 0 {
        return "0".to_owned();
    }
    let mut best = largest(nanos, 1000, &DECIMAL);
    if style == Style::Binary && nanos % NANOS_PER_UNIT == 0 {
        let binary = largest(nanos / NANOS_PER_UNIT, 1024, &BINARY);
        if binary.0.unsigned_abs() <= best.0.unsigned_abs() {
            best = binary;
        }
    }
    format!("{}{}", best.0, best.1)
}

/// Returns the text of an amount for people, rounded to a thousandth, and to a byte where the unit is one: a share is exact to a nano, and
/// nobody reads `3333333334n`. What is less than that is written as it is.
#[must_use]
pub fn shown(amount: Amount, style: Style) -> String {
    let step = match style {
        Style::Decimal => NANOS_PER_UNIT / 1000,
        Style::Binary => NANOS_PER_UNIT,
    };
    let nanos = amount.nanos();
    let rounded = nanos.saturating_add(step / 2).div_euclid(step).saturating_mul(step);
    format(if nanos.abs() < step { amount } else { Amount::from_nanos(rounded) }, style)
}

/// Divides by `step` as long as there is no remainder and there is a larger suffix. Returns the quotient and its suffix.
fn largest<'a>(mut number: i128, step: i128, suffixes: &[&'a str]) -> (i128, &'a str) {
    let mut suffix = "";
    for (index, candidate) in suffixes.iter().enumerate() {
        if index > 0 {
            match (number.checked_rem(step), number.checked_div(step)) {
                (Some(0), Some(quotient)) => number = quotient,
                _ => break,
            }
        }
        suffix = candidate;
    }
    (number, suffix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::ResourceName;
    use crate::resources::quantity::parse;
    use proptest::prelude::*;

    #[test]
    fn people_read_thousandths_and_bytes() {
        let of = |nanos, style| shown(Amount::from_nanos(nanos), style);
        assert_eq!(of(3_333_333_334, Style::Decimal), "3333m");
        assert_eq!(of(3_333_666_667, Style::Decimal), "3334m");
        assert_eq!(of(-3_333_333_334, Style::Decimal), "-3333m");
        assert_eq!(of(2_000_000_000, Style::Decimal), "2");
        assert_eq!(of(5, Style::Decimal), "5n");
        assert_eq!(of(1_431_655_765_333_333_334, Style::Binary), "1431655765");
    }

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        let table = [
            ("cpu", "1.5", "1500m"),
            ("cpu", "2", "2"),
            ("cpu", "2000m", "2"),
            ("cpu", "0.1n", "1n"),
            ("cpu", "1000", "1k"),
            ("cpu", "-0.5", "-500m"),
            ("cpu", "0", "0"),
            ("memory", "0", "0"),
            ("memory", "1.5Gi", "1536Mi"),
            ("memory", "1024", "1Ki"),
            ("memory", "1023", "1023"),
            ("memory", "1G", "1G"),
            ("memory", "-1Gi", "-1Gi"),
            ("memory", "128974848", "123Mi"),
            ("memory", "1.00000000000000000001Gi", "1073741824000000001n"),
            ("ephemeral-storage", "7Ti", "7Ti"),
            ("hugepages-2Mi", "4Mi", "4Mi"),
            ("nvidia.com/gpu", "1024", "1024"),
            ("ephemeral-storage", "100P", "100P"),
        ];
        for (name, text, want) in table {
            let amount = parse(text).unwrap();
            assert_eq!(format(amount, ResourceName::from(name).style()), want, "{name} {text}");
        }
    }

    #[test]
    fn a_sum_above_the_largest_suffix_has_all_its_digits() {
        let sum = Amount::from_units(i64::MAX).times(4_000);
        assert_eq!(format(sum, Style::Decimal), "36893488147419103228k");
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn a_written_amount_is_read_back(
            units in any::<i64>().prop_filter("within the limit", |units| *units > i64::MIN + 1),
            nanos in 0_i128..NANOS_PER_UNIT,
            zeros in 0_u32..27,
            binary in any::<bool>(),
        ) {
            let style = if binary { Style::Binary } else { Style::Decimal };
            let exact = i128::from(units) * NANOS_PER_UNIT - i128::from(units.signum()) * nanos;
            let round = exact / 10_i128.pow(zeros) * 10_i128.pow(zeros);
            for nanos in [exact, round, exact >> 40 << 40] {
                let amount = Amount::from_nanos(nanos);
                prop_assert_eq!(parse(&format(amount, style)), Ok(amount));
            }
        }
    }
}
