//! Reads Kubernetes quantities and does arithmetic with sparse vectors of amounts. The unit is the nano-unit, and every result is exact.
//!
//! The observer does not use the arithmetic of the programs on purpose: an error in their arithmetic must not hide itself here.

use std::collections::BTreeMap;

use serde_json::Value;

/// One unit in nano-units, the finest step that Kubernetes keeps.
const NANOS: i128 = 1_000_000_000;

/// Amounts by dimension ("cpu", "memory", "pods"), in nano-units. A missing dimension is 0 in a sum and unlimited in a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, i128>);

impl Amounts {
    /// Reads a JSON object of quantities. A value may be a string or a number (`cpu: 2` is legal in a queue). Values that are not
    /// quantities are skipped.
    pub fn read(value: Option<&Value>) -> Self {
        let entries = value.and_then(Value::as_object).into_iter().flatten();
        Self(entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect())
    }

    /// Returns the amount of a dimension, 0 when the dimension is missing.
    pub fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the limit of a dimension. `None` means unlimited; 0 means that nothing is allowed.
    pub fn limit(&self, name: &str) -> Option<i128> {
        self.0.get(name).copied()
    }

    /// Sets one dimension.
    pub fn set(&mut self, name: &str, amount: i128) {
        self.0.insert(name.to_owned(), amount);
    }

    /// Iterates over all dimensions that are present, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds another vector. The result saturates at the limits of 128 bits, which no cluster reaches.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.get(name).saturating_add(*amount);
            self.set(name, sum);
        }
    }

    /// Subtracts another vector. A dimension that becomes 0 is removed.
    pub fn sub(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.get(name).saturating_sub(*amount);
            self.set(name, rest);
        }
        self.0.retain(|_, amount| *amount != 0);
    }

    /// Raises every dimension to the larger of the two values.
    pub fn max_each(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let larger = self.get(name).max(*amount);
            self.set(name, larger);
        }
    }
}

/// Formats nano-units as a decimal number of units, for people.
pub fn show(nanos: i128) -> String {
    let (sign, size) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (whole, part) = (size / NANOS.unsigned_abs(), size % NANOS.unsigned_abs());
    if part == 0 {
        return format!("{sign}{whole}");
    }
    let digits = format!("{part:09}");
    format!("{sign}{whole}.{}", digits.trim_end_matches('0'))
}

/// Reads a quantity from a JSON string or number.
fn quantity(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Parses a quantity exactly and rounds up to nano-units, as the API does. Returns `None` for text that is not a quantity or does not fit
/// in 128 bits.
pub fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.contains('.') {
        return None;
    }
    let mantissa = format!("{whole}{part}").parse::<i128>().ok()?;
    let (twos, tens) = scale(suffix)?;
    let scaled = mantissa.checked_mul(1_i128.checked_shl(twos)?)?;
    let exponent = tens.checked_add(9)?.checked_sub(i32::try_from(part.len()).ok()?)?;
    let size = if mantissa == 0 {
        0
    } else if exponent >= 0 {
        scaled.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)?
    } else {
        match 10_i128.checked_pow(exponent.unsigned_abs()) {
            Some(divisor) => scaled.checked_add(divisor.checked_sub(1)?)?.checked_div(divisor)?,
            None => 1,
        }
    };
    Some(if negative { size.checked_neg()? } else { size })
}

/// Returns the power of 2 and the power of 10 of a suffix.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly_and_rounded_up_to_nanos() {
        for (text, nanos) in [
            ("2", 2_000_000_000),
            ("100m", 100_000_000),
            ("1.5", 1_500_000_000),
            ("1.5Ki", 1_536_000_000_000),
            ("0.1n", 1),
            ("1e-40", 1),
            ("1e3", 1_000_000_000_000),
            ("-1", -1_000_000_000),
            ("0", 0),
            ("100P", 100_000_000_000_000_000_000_000_000),
            (".5", 500_000_000),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
        for text in ["", "x", "1x", "--1", "1.2.3", "Ki", "1e999999999", "."] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_in_json_count_like_strings() {
        let read = Amounts::read(Some(&serde_json::json!({"cpu": 2, "memory": "1Gi", "bad": {}})));
        assert_eq!(read.limit("cpu"), Some(2_000_000_000));
        assert_eq!(read.limit("bad"), None);
    }
}
