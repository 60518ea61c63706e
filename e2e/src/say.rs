//! Prints to the terminal. Everything that a person reads there goes through this module.

/// Prints one line to standard output.
#[allow(clippy::print_stdout, reason = "the one place that prints")]
pub fn line(text: impl AsRef<str>) {
    println!("{}", text.as_ref());
}

/// Prints a headline with a rule above it, so that a long run is easy to skim.
pub fn headline(text: impl AsRef<str>) {
    line(format!("\n── {} {}", text.as_ref(), "─".repeat(76_usize.saturating_sub(text.as_ref().chars().count()))));
}

/// Prints a paragraph, indented by two.
pub fn paragraph(text: impl AsRef<str>) {
    for each in text.as_ref().lines() {
        line(format!("  {}", each.trim()));
    }
}

/// Formats an error briefly: its contexts, and only reason and message of an API server's response (the client's own text repeats them three times).
pub fn brief(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref::<kube::Error>() {
            parts.push(format!("{} {}: {}", status.code, status.reason, status.message));
            break;
        }
        let text = cause.to_string();
        if parts.iter().all(|part| !part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}
