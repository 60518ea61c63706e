//! Records the injected faults: counts them by kind, and writes one line for each into a file beside the logs of the run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;

use super::fault::KINDS;
use super::request::ApiRequest;

/// How often each kind was injected. A missing kind was not injected.
pub type Counts = BTreeMap<&'static str, u64>;

/// The record of one proxy.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<(Counts, File)>);

impl Ledger {
    pub(super) fn new(file: &Path) -> Result<Self> {
        let opened = File::create(file).with_context(|| format!("making {}", file.display()))?;
        Ok(Self(Mutex::new((Counts::new(), opened))))
    }

    /// Records one fault at the moment when it happens. `detail` adds what kind and request do not say.
    pub(super) fn injected(&self, kind: &'static str, api_request: &ApiRequest, detail: &str) {
        self.line(kind, api_request, detail, true);
    }

    /// Records the outcome of an earlier fault.
    pub(super) fn later(&self, kind: &'static str, api_request: &ApiRequest, detail: &str) {
        self.line(kind, api_request, detail, false);
    }

    pub(super) fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    #[expect(clippy::disallowed_methods, reason = "read beside the programs' logs, so it has their wall clock; nothing is decided by it")]
    fn line(&self, kind: &'static str, api_request: &ApiRequest, detail: &str, counts: bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts {
            *inner.0.entry(kind).or_default() += 1;
        }
        // A full disk must not change the result of the case, so an error is ignored.
        let _ = writeln!(inner.1, "{:.3} {kind:<14} {api_request} {detail}", Timestamp::now());
    }
}

/// Adds counts to other counts.
pub fn add(to: &mut Counts, more: &Counts) {
    for (kind, count) in more {
        *to.entry(kind).or_default() += count;
    }
}

/// Formats counts with their sum, in the order of [`KINDS`]: `5 faults: 429 3, lost-reply 2`.
pub fn show(counts: &Counts) -> String {
    let parts: Vec<String> = KINDS.iter().filter_map(|kind| Some(format!("{kind} {}", counts.get(kind)?))).collect();
    format!("{} faults: {}", counts.values().sum::<u64>(), if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
}

/// Returns the kinds that were never injected.
pub fn never(counts: &Counts) -> Vec<&'static str> {
    KINDS.into_iter().filter(|kind| !counts.contains_key(kind)).collect()
}
