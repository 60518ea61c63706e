//! Tests the parser with the shared test vectors, and that the order of texts is the order of their values.
//!
//! Each line is a text with its expected value in nano-units. Where the parser of Kubernetes caps the value, returns 0 or a negative
//! number, or hangs, the expected result is `TooLarge`.

use super::QuantityError::{self, Empty, Malformed, TooLarge, TooLong};
use super::parse;
use proptest::prelude::*;

/// The number of nano-units in a unit.
const U: i128 = 1_000_000_000;

#[rustfmt::skip]
const VECTORS: &[(&str, Result<i128, QuantityError>)] = &[
    ("1", Ok(U)),
    ("1.5Gi", Ok(1_610_612_736 * U)),
    ("-1", Ok(-U)),
    ("+5", Ok(5 * U)),
    (".5", Ok(U / 2)),
    ("5.", Ok(5 * U)),
    ("0.1n", Ok(1)),
    ("0.0000000001", Ok(1)),
    ("1e3", Ok(1_000 * U)),
    ("1E3", Ok(1_000 * U)),
    ("1e-10", Ok(1)),
    ("1e999999999", Err(TooLarge)),
    ("1e2147483648", Err(TooLarge)),
    ("1e4294967296", Err(TooLarge)),
    ("1e4294967297", Err(TooLarge)),
    ("1e99999999999999999999", Err(TooLarge)),
    ("9223372036854775807", Ok(9_223_372_036_854_775_807 * U)),
    ("9223372036854775808", Err(TooLarge)),
    ("9223372036854775807k", Err(TooLarge)),
    ("100E", Err(TooLarge)),
    ("1000E", Err(TooLarge)),
    ("10E", Err(TooLarge)),
    ("8Ei", Err(TooLarge)),
    ("9Ei", Err(TooLarge)),
    ("16Ei", Err(TooLarge)),
    ("999999999999999999999999", Err(TooLarge)),
    ("1e100", Err(TooLarge)),
    ("1e18", Ok(1_000_000_000_000_000_000 * U)),
    ("1e19", Err(TooLarge)),
    ("1e30", Err(TooLarge)),
    ("1000000000000000000m", Ok(1_000_000_000_000_000 * U)),
    ("9223372036854775808m", Ok(9_223_372_036_854_775_808 * U / 1_000)),
    ("12e", Err(Malformed)),
    ("12E", Err(TooLarge)),
    ("1e1.5", Err(Malformed)),
    ("inf", Err(Malformed)),
    ("NaN", Err(Malformed)),
    ("", Err(Empty)),
    (" 1", Err(Malformed)),
    ("1 ", Err(Malformed)),
    ("1Kib", Err(Malformed)),
    ("--5", Err(Malformed)),
    ("+-5", Err(Malformed)),
    ("00000000000000000000000000001", Ok(U)),
    ("1.00000000000000000001Gi", Ok(1_073_741_824 * U + 1)),
    ("1Ki1", Err(Malformed)),
];

/// Edge cases that the shared vectors do not have.
#[rustfmt::skip]
const MORE: &[(&str, Result<i128, QuantityError>)] = &[
    ("0", Ok(0)),
    ("-0", Ok(0)),
    ("0E", Ok(0)),
    ("0e30", Ok(0)),
    ("0e31", Err(TooLarge)),
    ("1e-30", Ok(1)),
    ("1e-31", Err(TooLarge)),
    ("-0.1n", Ok(-1)),
    ("1n", Ok(1)),
    ("1.000000001u", Ok(1_001)),
    ("100m", Ok(U / 10)),
    ("100P", Ok(100_000_000_000_000_000 * U)),
    ("-9223372036854775807", Ok(-9_223_372_036_854_775_807 * U)),
    ("-9223372036854775808", Err(TooLarge)),
    ("9223372036854775807.0000000001", Err(TooLarge)),
    ("7.9Ei", Ok(9_108_079_886_394_091_110_400_000_000)),
    ("0.000000000000000000000000000000000000000000000000000000000001Ei", Ok(1)),
    ("9999999999999999999999999999999999999999999999999999999999999999", Err(TooLarge)),
    ("99999999999999999999999999999999999999999999999999999999999999Ei", Err(TooLarge)),
    ("00000000000000000000000000000000000000000000000000000000000000001", Err(TooLong)),
    ("1K", Err(Malformed)),
    ("1ki", Err(Malformed)),
    ("1e+3", Ok(1_000 * U)),
    ("1e+-3", Err(Malformed)),
    ("1e-", Err(Malformed)),
    ("1Ee3", Err(Malformed)),
    ("1..5", Err(Malformed)),
    ("1_000", Err(Malformed)),
    ("0x10", Err(Malformed)),
    ("１", Err(Malformed)),
    // Texts without a digit: 0 or an error, as in Kubernetes.
    ("k", Ok(0)),
    ("+", Ok(0)),
    (".", Ok(0)),
    ("Ti", Ok(0)),
    ("Pi", Err(Malformed)),
    ("e3", Ok(0)),
    ("e-9", Ok(0)),
    ("e-10", Err(Malformed)),
];

#[test]
fn every_vector_has_its_expected_value() {
    for (text, want) in VECTORS.iter().chain(MORE) {
        assert_eq!(parse(text).map(|amount| amount.nanos()), *want, "{text:?}");
    }
}

/// Every suffix with its factor, in nano-units.
#[rustfmt::skip]
const FORMS: [(&str, i128); 23] = [
    ("n", 1), ("u", 1_000), ("m", 1_000_000), ("", U), ("k", 1_000 * U), ("M", 1_000_000 * U), ("G", U * U), ("T", 1_000 * U * U),
    ("P", 1_000_000 * U * U), ("E", U * U * U), ("Ki", U << 10), ("Mi", U << 20), ("Gi", U << 30), ("Ti", U << 40), ("Pi", U << 50), ("Ei", U << 60),
    ("e-9", 1), ("E-6", 1_000), ("e-3", 1_000_000), ("e0", U), ("E+3", 1_000 * U), ("e6", 1_000_000 * U), ("E9", U * U),
];

/// Returns the exact text of this many nano-units with this suffix. The decimal fraction ends, because only 2 and 5 divide the factors.
/// `None` if the text is longer than the parser accepts.
fn written(nanos: i128, (suffix, factor): (&str, i128)) -> Option<String> {
    let (whole, mut rest) = (nanos.abs() / factor, nanos.abs() % factor);
    let mut text = format!("{}{whole}", if nanos < 0 { "-" } else { "" });
    text.push_str(if rest == 0 { "" } else { "." });
    while rest != 0 && text.len() <= super::MAX_LENGTH {
        rest *= 10;
        text.push(char::from_digit(u32::try_from(rest / factor).unwrap(), 10).unwrap());
        rest %= factor;
    }
    text.push_str(suffix);
    (rest == 0 && text.len() <= super::MAX_LENGTH).then_some(text)
}

proptest! {
    #![proptest_config(crate::random_tests::config(256))]

    #[test]
    fn the_order_of_texts_is_the_order_of_their_values(
        nanos in prop_oneof![-(1_i128 << 80)..1 << 80, -(1_i128 << 40)..1 << 40, -9..10_i128],
        scale in 0..25_u32,
        (more, other) in (-2..3_i128, prop_oneof![-(1_i128 << 80)..1 << 80, -9..10_i128]),
        (one, two) in (prop::sample::select(FORMS.to_vec()), prop::sample::select(FORMS.to_vec())),
    ) {
        // Neighbouring values, some of them round, and arbitrary pairs.
        let round = nanos / 10_i128.pow(scale) * 10_i128.pow(scale);
        for (a, b) in [(nanos, nanos + more), (round, round + more), (round, nanos), (nanos, other)] {
            let (Some(text_a), Some(text_b)) = (written(a, one), written(b, two)) else { continue };
            let (amount_a, amount_b) = (parse(&text_a).unwrap(), parse(&text_b).unwrap());
            prop_assert_eq!(amount_a.cmp(&amount_b), a.cmp(&b), "{} and {}", text_a, text_b);
        }
    }

    #[test]
    fn a_fraction_of_a_nano_unit_is_rounded_away_from_0(nanos in 0..1_i128 << 70, below in 1..1000_i128) {
        // After the rounding two different texts may be equal, but their order is never reversed.
        for (sign, to) in [("", nanos + 1), ("-", -nanos - 1)] {
            prop_assert_eq!(parse(&format!("{sign}{nanos}.{below:03}n")).map(|amount| amount.nanos()), Ok(to));
        }
    }

    #[test]
    fn no_text_panics(text in "[-+0-9.eEinumkKMGTP]{0,70}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_suffix_means_its_factor(
        number in 0_i64..8_000_000,
        (suffix, factor) in prop::sample::select(vec![
            ("n", 1), ("u", 1_000), ("m", 1_000_000), ("", U), ("k", 1_000 * U), ("M", 1_000_000 * U),
            ("G", U * U), ("T", 1_000 * U * U), ("Ki", U << 10), ("Mi", U << 20), ("Gi", U << 30), ("Ti", U << 40),
            ("e-3", 1_000_000), ("E2", 100 * U),
        ]),
    ) {
        prop_assert_eq!(parse(&format!("{number}{suffix}")).unwrap().nanos(), i128::from(number) * factor);
        prop_assert_eq!(parse(&format!("-{number}.0{suffix}")).unwrap().nanos(), -i128::from(number) * factor);
    }
}
