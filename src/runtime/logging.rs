//! Where do log lines go, and in which form?
//!
//! To stderr, as text or JSON. What is logged follows `$RUST_LOG`, else `info`. Lines of the Kubernetes client library
//! are left out unless asked for: every error that it logs comes back to the caller too, who logs it once and with the
//! object's name, and the library would write the text of a whole list when one answer cannot be read.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use super::flags::LogFormat;

const DEFAULT_FILTER: &str = "info,kube_client=off,kube_runtime=off,hyper=warn,tower=warn";

/// Sends log lines of the whole process to stderr. A second call changes nothing. A `$RUST_LOG` that cannot be read is
/// named in a warning and replaced by the default.
pub fn init(format: LogFormat) {
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let (filter, fault) = filter(&asked);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let set = match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    if let (Ok(()), Some(fault)) = (set, fault) {
        tracing::warn!(RUST_LOG = asked, fault, "RUST_LOG is not readable, the default is used");
    }
}

/// The filter that `asked` means, and what is wrong with it.
fn filter(asked: &str) -> (EnvFilter, Option<String>) {
    let default = || EnvFilter::new(DEFAULT_FILTER);
    if asked.is_empty() {
        return (default(), None);
    }
    match EnvFilter::try_new(asked) {
        Ok(filter) => (filter, None),
        Err(fault) => (default(), Some(fault.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_the_default_and_is_named() {
        let (used, fault) = filter("pod=group=loud");
        assert_eq!(used.to_string(), EnvFilter::new(DEFAULT_FILTER).to_string());
        assert!(fault.is_some());
        assert!(filter("").1.is_none());
        let (used, fault) = filter("podgroup=debug");
        assert_eq!((used.to_string().as_str(), fault), ("podgroup=debug", None));
    }
}
