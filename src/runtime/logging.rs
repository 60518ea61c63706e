//! Sets up the log: lines on stderr, as text or JSON.
//!
//! The filter is `$RUST_LOG`, or `info` without it. Lines of the Kubernetes client library are off by default. The library returns each
//! error that it logs to the caller, which logs it once and with the object's name. And the library would log the text of a whole list when
//! one answer cannot be read.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use super::flags::LogFormat;

const DEFAULT_FILTER: &str = "info,kube_client=off,kube_runtime=off,hyper=warn,tower=warn";

/// Sends the log lines of the whole process to stderr. A second call changes nothing. An invalid `$RUST_LOG` is
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
        tracing::warn!(RUST_LOG = asked, fault, "RUST_LOG is invalid; the default is used");
    }
}

/// Returns the filter of `asked`, and what is wrong with `asked`, if anything.
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
    fn an_invalid_filter_is_named_and_replaced_by_the_default() {
        let (used, fault) = filter("pod=group=loud");
        assert_eq!(used.to_string(), EnvFilter::new(DEFAULT_FILTER).to_string());
        assert!(fault.is_some());
        assert!(filter("").1.is_none());
        let (used, fault) = filter("podgroup=debug");
        assert_eq!((used.to_string().as_str(), fault), ("podgroup=debug", None));
    }
}
