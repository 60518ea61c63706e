//! How does the harness speak? Everything that a person reads on the terminal goes through here, and nothing else prints.

/// One line to standard output.
#[allow(clippy::print_stdout, reason = "the one place that prints")]
pub fn line(text: impl AsRef<str>) {
    println!("{}", text.as_ref());
}

/// A headline with a rule above it, so that long runs can be skimmed.
pub fn headline(text: impl AsRef<str>) {
    line(format!("\n── {} {}", text.as_ref(), "─".repeat(76_usize.saturating_sub(text.as_ref().chars().count()))));
}

/// A paragraph, indented by two.
pub fn paragraph(text: impl AsRef<str>) {
    for each in text.as_ref().lines() {
        line(format!("  {}", each.trim()));
    }
}
