//! Produces the page `/metrics`, and refreshes the metrics that only the owner of the state can compute.
//!
//! Most metrics are counted as things happen. Some only the owner of the state can compute (the usage of the queues, the waiting PodGroups).
//! The owner is asked for these when the page is read ([`Refresh`]), so they cost nothing otherwise. It is asked at most once a second, however many
//! clients read. An owner that does not answer in time hides nothing else: the page is shown without its metrics.
//! The page ends with the metrics of the process (`process_*`), whose names have no prefix because dashboards expect them so.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::runtime::clock;
use crate::runtime::metrics;

/// How long the owner of the state may take; less than every scraper's own limit.
const ANSWER: Duration = Duration::from_secs(2);

/// How long an answer of the owner is used again.
const FRESH: Duration = Duration::from_secs(1);

type Ask = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;
type Missed = dyn Fn() + Send + Sync;

/// Refreshes metrics before they are read.
#[derive(Clone)]
pub struct Refresh {
    ask: Arc<Ask>,
    missed: Arc<Missed>,
}

impl Refresh {
    /// Makes a refresh: `ask` refreshes the metrics; `missed` is called when that took too long, and removes the old values.
    pub fn new(ask: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static, missed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), missed: Arc::new(missed) }
    }

    /// Makes a refresh that does nothing, for a program that counts all its metrics as things happen.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(|| Box::pin(async {}), || {})
    }
}

/// The metrics of one program. Cheap to clone.
#[derive(Clone)]
pub struct Exposition {
    registry: Registry,
    process: Registry,
    refresh: Refresh,
    /// When the owner was asked last. A reader that comes while the owner is being asked waits for that answer.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl Exposition {
    /// Makes the page of everything in the registry and of the process. `refresh` runs before it is read.
    #[must_use]
    pub fn new(registry: Registry, refresh: Refresh) -> Self {
        Self { registry, process: metrics::process(), refresh, asked: Arc::default() }
    }

    /// Returns the page in the text format of Prometheus.
    ///
    /// # Errors
    /// See [`metrics::text`].
    pub async fn text(&self) -> Result<String, prometheus::Error> {
        let mut asked = self.asked.lock().await;
        if asked.is_none_or(|at| clock::monotonic().saturating_duration_since(at) >= FRESH) {
            if tokio::time::timeout(ANSWER, (self.refresh.ask)()).await.is_err() {
                (self.refresh.missed)();
            }
            *asked = Some(clock::monotonic());
        }
        drop(asked);
        Ok(metrics::text(&self.registry)? + &metrics::text(&self.process)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::IntGauge;

    fn gauge(registry: &Registry) -> IntGauge {
        let gauge = IntGauge::new("fresh", "Whether the owner answered.").unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        gauge
    }

    #[tokio::test]
    async fn the_owners_answer_is_on_the_page_that_asked_for_it() {
        let registry = Registry::new();
        let number = gauge(&registry);
        let ask = move || -> BoxFuture<'static, ()> {
            let number = number.clone();
            Box::pin(async move { number.set(7) })
        };
        let text = Exposition::new(registry, Refresh::new(ask, || {})).text().await.unwrap();
        assert!(text.contains("\nfresh 7\n"), "{text}");
    }

    #[tokio::test]
    async fn the_page_ends_with_the_metrics_of_the_process() {
        let text = Exposition::new(metrics::registry().unwrap(), Refresh::nothing()).text().await.unwrap();
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
        for name in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"] {
            assert!(value(name).is_some_and(|value| value > 0.0), "{name} in {text}");
        }
        assert!(value("process_cpu_seconds_total").is_some() && text.contains("podgroup_build_info"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_owner_is_asked_once_a_second_however_many_read() {
        let registry = Registry::new();
        let number = gauge(&registry);
        let ask = move || -> BoxFuture<'static, ()> {
            let number = number.clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                number.inc();
            })
        };
        let page = Exposition::new(registry, Refresh::new(ask, || {}));
        let all = futures::future::join_all((0..64).map(|_| page.text())).await;
        assert!(all.iter().all(|text| text.as_ref().unwrap().contains("\nfresh 1\n")));
        tokio::time::sleep(FRESH).await;
        assert!(page.text().await.unwrap().contains("\nfresh 2\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_that_does_not_answer_removes_its_old_values_and_nothing_else() {
        let registry = Registry::new();
        let number = gauge(&registry);
        number.set(7);
        let missed = move || number.set(0);
        let text = Exposition::new(registry, Refresh::new(|| Box::pin(std::future::pending()), missed)).text().await.unwrap();
        assert!(text.contains("\nfresh 0\n"), "{text}");
    }
}
