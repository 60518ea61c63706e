//! A fault: a value in an API object that could not be used. Faults are facts; the programs report them in Events and conditions.

use std::fmt;

/// The most characters of a bad value that a message repeats.
const SHOWN: usize = 80;

/// A field or annotation with a value that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The path of the field, or the key of the annotation.
    pub place: String,
    /// The value, cut at 80 characters.
    pub value: String,
    /// Why the value could not be used, and what is used instead.
    pub why: String,
}

impl Fault {
    /// Returns a fault of the field `place`. The value is cut at 80 characters.
    #[must_use]
    pub fn new(place: impl Into<String>, value: &str, why: impl Into<String>) -> Self {
        Self { place: place.into(), value: shorten(value), why: why.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.place, self.value, self.why)
    }
}

/// Returns the text, cut at 80 characters.
#[must_use]
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
