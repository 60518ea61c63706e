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

/// An error in as few words as tell all: its contexts, and of what the API server answered only reason and message (the client's own text says them three times).
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
