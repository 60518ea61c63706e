//! The registry of metrics, and the metrics that both programs have.
//!
//! There is one registry for a program. It puts the prefix `podgroup_` before every name: register
//! `api_requests_total`, read `podgroup_api_requests_total`. A label value always comes from a bounded set; it never is the name of
//! an object.

use std::time::Duration;

use super::watch::{WatchAge, WatchAges};
use prometheus::core::Collector;
use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// Makes a registry with the prefix `podgroup_`. It contains only the version of the build
/// (`podgroup_build_info{version}` = 1).
///
/// # Errors
/// None in practice: the prefix is not empty and the one name in it is new.
pub fn registry() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new_custom(Some("podgroup".to_owned()), None)?;
    let build = IntGaugeVec::new(Opts::new("build_info", "Always 1; the label says which build runs."), &["version"])?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    registry.register(Box::new(build))?;
    Ok(registry)
}

/// Makes a registry with the metrics of this process: processor time, memory, open files and the time of its start. Empty on systems other
/// than Linux.
#[must_use]
pub fn process() -> Registry {
    let registry = Registry::new();
    #[cfg(target_os = "linux")]
    if let Err(error) = registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self())) {
        tracing::warn!(%error, "no metrics of this process");
    }
    registry
}

/// Adds these metrics to the registry and returns them.
///
/// # Errors
/// When a name is already registered.
pub(crate) fn registered<C: Collector + Clone + 'static>(registry: &Registry, numbers: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(numbers.clone()))?;
    Ok(numbers)
}

/// Returns everything in the registry in the text format of Prometheus.
///
/// # Errors
/// When a collector breaks the rules of the format (the same label twice).
pub fn text(registry: &Registry) -> Result<String, prometheus::Error> {
    let mut buffer = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// The requests to the API server: their number, outcome and duration.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl RequestMetrics {
    /// Registers `podgroup_api_requests_total{verb,resource,outcome}` and
    /// `podgroup_api_request_seconds{verb,resource}`.
    ///
    /// # Errors
    /// When the names are already registered: make one for a program and clone it.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new("api_requests_total", "Requests to the API server; outcome is ok or the kind of the error."),
            &["verb", "resource", "outcome"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("api_request_seconds", "How long a request to the API server took, failed ones included.")
                .buckets(vec![0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0]),
            &["verb", "resource"],
        )?;
        Ok(Self { requests: registered(registry, requests)?, seconds: registered(registry, seconds)? })
    }

    /// Counts one request that ended. `outcome` is `ok` or [`super::call::CallError::kind`].
    pub fn count(&self, verb: &str, resource: &str, outcome: &str, took: Duration) {
        self.requests.with_label_values(&[verb, resource, outcome]).inc();
        self.seconds.with_label_values(&[verb, resource]).observe(took.as_secs_f64());
    }
}

/// The watches: lists, events, ends, objects that could not be decoded, and the age of the view.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    lists: IntCounterVec,
    events: IntCounterVec,
    ends: IntCounterVec,
    bad: IntCounterVec,
    ages: WatchAges,
}

impl WatchMetrics {
    /// Registers `podgroup_watch_lists_total{resource,outcome}`, `…_events_total{resource,type}`,
    /// `…_ends_total{resource,reason}`, `…_bad_objects_total{resource}` and `…_age_seconds{resource}`.
    ///
    /// # Errors
    /// When the names are already registered: make one for a program and clone it.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, labels: &[&str]| registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?);
        Ok(Self {
            lists: counter("watch_lists_total", "Complete lists of a resource, by how they ended.", &["resource", "outcome"])?,
            events: counter("watch_events_total", "Events that a watch delivered.", &["resource", "type"])?,
            ends: counter("watch_ends_total", "Watches that ended, by why.", &["resource", "reason"])?,
            bad: counter("watch_bad_objects_total", "Objects that could not be decoded.", &["resource"])?,
            ages: registered(registry, WatchAges::new()?)?,
        })
    }

    /// Adds a watch of this resource.
    pub(crate) fn watch(&self, resource: &'static str) -> WatchAge {
        self.ages.add(resource)
    }

    pub(crate) fn list(&self, resource: &str, outcome: &str) {
        self.lists.with_label_values(&[resource, outcome]).inc();
    }

    pub(crate) fn event(&self, resource: &str, kind: &str) {
        self.events.with_label_values(&[resource, kind]).inc();
    }

    pub(crate) fn end(&self, resource: &str, reason: &str) {
        self.ends.with_label_values(&[resource, reason]).inc();
    }

    pub(crate) fn bad(&self, resource: &str, how_many: u64) {
        self.bad.with_label_values(&[resource]).inc_by(how_many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_the_prefix_and_the_build_says_its_version() {
        let registry = registry().unwrap();
        let requests = RequestMetrics::new(&registry).unwrap();
        requests.count("get", "pods", "ok", Duration::from_millis(3));
        WatchMetrics::new(&registry).unwrap().list("pods", "ok");
        let text = text(&registry).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(text.contains(&format!("podgroup_build_info{{version=\"{version}\"}} 1")));
        assert!(text.contains("podgroup_api_requests_total{outcome=\"ok\",resource=\"pods\",verb=\"get\"} 1"));
        assert!(text.contains("podgroup_watch_lists_total{outcome=\"ok\",resource=\"pods\"} 1"));
        assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| line.starts_with("podgroup_")));
    }

    #[test]
    fn registering_a_name_twice_is_an_error_and_no_panic() {
        let registry = registry().unwrap();
        RequestMetrics::new(&registry).unwrap();
        assert!(RequestMetrics::new(&registry).is_err());
    }
}
