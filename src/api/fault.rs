//! What was wrong in an object, as a value: bad input becomes a fact at the border, and the one who looks at that object is told.

use std::fmt;

/// The most of a bad value that is repeated to people; what a tenant types is shown, but not at any length.
const SHOWN: usize = 80;

/// A field or annotation whose value could not be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// Where it stands, as a path or the key of an annotation.
    pub place: String,
    /// The value that was met, cut at 80 characters.
    pub value: String,
    /// Why it could not be used, and what is done instead.
    pub why: String,
}

impl Fault {
    /// A fault at `place`.
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

/// The text, cut at 80 characters.
#[must_use]
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
