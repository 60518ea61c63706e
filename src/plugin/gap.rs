//! What an answer lacks, and why.

use serde_json::{Value, json};

use super::page::{Line, Page, Tone};

/// Something that an answer lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// What is not known.
    pub what: String,
    /// Why, and what to do about it.
    pub why: String,
}

impl Gap {
    /// Makes a gap.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// Returns the gaps as the field `unknown` of every answer.
#[must_use]
pub fn json(gaps: &[Gap]) -> Value {
    gaps.iter().map(|gap| json!({ "what": gap.what, "why": gap.why })).collect()
}

/// Writes the gaps at the end of a page.
pub fn show(page: &mut Page, gaps: &[Gap]) {
    if gaps.is_empty() {
        return;
    }
    page.heading("Not known");
    for gap in gaps {
        page.line(Line::new("  ").and(Tone::Warn, &gap.what).and(Tone::Plain, ": ").and(Tone::Plain, &gap.why));
    }
}
