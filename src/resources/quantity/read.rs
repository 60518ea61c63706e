//! Reads the text of a quantity into an amount.
//!
//! ```text
//! quantity = [sign] digits [ "." digits ] [ suffix ]        (either run of digits may be empty)
//! suffix   = n u m k M G T P E | Ki Mi Gi Ti Pi Ei | (e|E) [sign] digits
//! ```
//!
//! The value is stored as decimal digits and the position of the decimal point. A binary suffix multiplies the *digits*, so the fraction
//! stays exact. There is one rounding, at the end, and it uses every digit.

use crate::resources::Amount;
use crate::resources::amount::NANOS_PER_UNIT;

/// The longest text that is read. Every allowed amount can be written in fewer characters.
pub const MAX_LENGTH: usize = 64;

/// The largest exponent that is accepted, positive or negative. 10⁻³⁰ is far below the finest step, and 10³⁰ is far above the limit.
pub const MAX_EXPONENT: i32 = 30;

/// The largest magnitude, in nano-units: 2⁶³−1 whole units, which is also where Kubernetes' API stops being exact.
/// The shared vectors ask for "too large" above it (`9223372036854775808`, `8Ei`, `10E`).
const MAX_NANOS: i128 = (i64::MAX as i128).saturating_mul(NANOS_PER_UNIT);

/// A binary suffix multiplies by 2¹⁰ up to six times: 2⁶⁰ < 10¹⁹ adds at most 19 digits to the text's.
const MAX_DIGITS: usize = MAX_LENGTH.saturating_add(19);

/// Why a text is not a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("empty")]
    Empty,
    /// The text does not have the form of a quantity.
    #[error("not a quantity")]
    Malformed,
    /// The text is longer than [`MAX_LENGTH`] characters.
    #[error("longer than {MAX_LENGTH} characters")]
    TooLong,
    /// The magnitude is above 2⁶³−1 units, or the exponent is beyond ±[`MAX_EXPONENT`].
    #[error("too large")]
    TooLarge,
}

/// Reads the text of a quantity. A fraction below a nano-unit is rounded away from zero.
///
/// # Errors
///
/// See [`QuantityError`]. White space is not trimmed.
pub fn parse(text: &str) -> Result<Amount, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Empty);
    }
    if text.len() > MAX_LENGTH {
        return Err(QuantityError::TooLong);
    }
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        rest => (&[][..], rest),
    };
    let scale = Scale::of_suffix(suffix)?;
    if whole.is_empty() && fraction.is_empty() && !scale.tolerates_no_digits() {
        return Err(QuantityError::Malformed);
    }
    let mut digits = Digits::default();
    for digit in whole.iter().chain(fraction) {
        digits.push(digit.saturating_sub(b'0'));
    }
    for _ in 0..scale.kibis {
        digits.times_1024();
    }
    let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::TooLong)?;
    // 10⁹ nano-units are one unit: the point moves 9 to the right.
    let nanos = digits.rounded_up(scale.exponent.saturating_sub(places).saturating_add(9))?;
    if nanos > MAX_NANOS {
        return Err(QuantityError::TooLarge);
    }
    Ok(Amount::from_nanos(if negative { nanos.saturating_neg() } else { nanos }))
}

/// Splits a text into its leading decimal digits and the rest.
fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The factor of a suffix: 10^exponent × 1024^kibis.
struct Scale {
    exponent: i32,
    kibis: u32,
}

impl Scale {
    fn of_suffix(suffix: &[u8]) -> Result<Self, QuantityError> {
        let (exponent, kibis) = match suffix {
            b"n" => (-9, 0),
            b"u" => (-6, 0),
            b"m" => (-3, 0),
            b"" => (0, 0),
            b"k" => (3, 0),
            b"M" => (6, 0),
            b"G" => (9, 0),
            b"T" => (12, 0),
            b"P" => (15, 0),
            b"E" => (18, 0),
            b"Ki" => (0, 1),
            b"Mi" => (0, 2),
            b"Gi" => (0, 3),
            b"Ti" => (0, 4),
            b"Pi" => (0, 5),
            b"Ei" => (0, 6),
            [b'e' | b'E', exponent @ ..] => (read_exponent(exponent)?, 0),
            _ => return Err(QuantityError::Malformed),
        };
        Ok(Self { exponent, kibis })
    }

    /// Returns whether a text with this suffix may have no digits (`k`, `+`, `.`). Kubernetes reads such a text as 0, except with suffixes
    /// for which its fast parser is not used: below nano, and from Pi. Stored objects can contain such texts, so the rule is the same here.
    fn tolerates_no_digits(&self) -> bool {
        self.exponent >= -9 && self.kibis < 5
    }
}

/// Reads the number after `e` or `E`.
fn read_exponent(text: &[u8]) -> Result<i32, QuantityError> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(QuantityError::Malformed);
    }
    let magnitude =
        digits.iter().fold(0_i32, |value, digit| value.saturating_mul(10).saturating_add(i32::from(digit.saturating_sub(b'0'))));
    if magnitude > MAX_EXPONENT {
        return Err(QuantityError::TooLarge);
    }
    Ok(if negative { magnitude.saturating_neg() } else { magnitude })
}

/// A natural number as decimal digits, large enough for every text. The least significant digit is *first*, so a product grows at the end.
struct Digits {
    /// The digits, each below 10; the least significant one first.
    places: [u8; MAX_DIGITS],
    used: usize,
}

impl Default for Digits {
    fn default() -> Self {
        Self { places: [0; MAX_DIGITS], used: 0 }
    }
}

impl Digits {
    /// Appends one digit on the right: the number × 10 + the digit.
    fn push(&mut self, digit: u8) {
        // Leading zeros are not stored, so `used` is the true length.
        if self.used == 0 && digit == 0 {
            return;
        }
        self.places.copy_within(..self.used.min(MAX_DIGITS.saturating_sub(1)), 1);
        if let Some(first) = self.places.first_mut() {
            *first = digit;
        }
        self.used = self.used.saturating_add(1).min(MAX_DIGITS);
    }

    fn times_1024(&mut self) {
        let mut carry = 0_u32;
        let mut used = 0_usize;
        for (place, digit) in self.places.iter_mut().enumerate() {
            if place >= self.used && carry == 0 {
                break;
            }
            let product = u32::from(*digit).saturating_mul(1024).saturating_add(carry);
            *digit = u8::try_from(product % 10).unwrap_or(0);
            carry = product / 10;
            used = place.saturating_add(1);
        }
        self.used = used;
    }

    /// Returns the number × 10^`shift`, rounded up to a natural number.
    fn rounded_up(&self, shift: i32) -> Result<i128, QuantityError> {
        let dropped = usize::try_from(shift.saturating_neg()).unwrap_or(0);
        let places = self.places.get(..self.used).unwrap_or_default();
        let (below, rest) = places.split_at(dropped.min(places.len()));
        let mut value = 0_i128;
        let zeros = usize::try_from(shift).unwrap_or(0);
        // Zero stays zero. Any other number with more than 39 digits overflows in the loop.
        for digit in rest.iter().rev().copied().chain(std::iter::repeat_n(0, zeros)) {
            value = value.checked_mul(10).and_then(|tens| tens.checked_add(i128::from(digit))).ok_or(QuantityError::TooLarge)?;
        }
        if below.iter().any(|digit| *digit != 0) {
            value = value.checked_add(1).ok_or(QuantityError::TooLarge)?;
        }
        Ok(value)
    }
}
