//! What is shown at `/metrics`, and how do numbers get there that nobody keeps between two looks?
//!
//! Most numbers are counted as things happen. What can only be said by who owns the state (who uses what, who waits and why) is asked of it when somebody
//! looks ([`Refresh`]), so that it costs nothing while nobody does, and once a second at most however many look. An owner that does not answer in time hides nothing else: the page is
//! shown without it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use prometheus::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{clock, metrics};

/// How long the owner of the state may take; short of every scraper's own limit.
const ANSWER: Duration = Duration::from_secs(2);

/// What was said so short a time ago is said again.
const FRESH: Duration = Duration::from_secs(1);

type Ask = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;
type Missed = dyn Fn() + Send + Sync;

/// Brings numbers up to date before they are read.
#[derive(Clone)]
pub struct Refresh {
    ask: Arc<Ask>,
    missed: Arc<Missed>,
}

impl Refresh {
    /// `ask` brings them up to date; `missed` is called where that took too long, to take away what is old.
    pub fn new(ask: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static, missed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { ask: Arc::new(ask), missed: Arc::new(missed) }
    }

    /// For a program whose numbers are all counted as things happen.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(|| Box::pin(async {}), || {})
    }
}

/// The numbers of one program. Cheap to clone.
#[derive(Clone)]
pub struct Exposition {
    registry: Registry,
    refresh: Refresh,
    /// When the owner was asked last. Who looks while it is being asked waits for that answer.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl Exposition {
    /// Everything in the registry, after `refresh`.
    #[must_use]
    pub fn new(registry: Registry, refresh: Refresh) -> Self {
        Self { registry, refresh, asked: Arc::default() }
    }

    /// In the text format of Prometheus.
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
        metrics::text(&self.registry)
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
    async fn what_the_owner_says_is_there_in_the_same_look() {
        let registry = Registry::new();
        let number = gauge(&registry);
        let ask = move || -> BoxFuture<'static, ()> {
            let number = number.clone();
            Box::pin(async move { number.set(7) })
        };
        let text = Exposition::new(registry, Refresh::new(ask, || {})).text().await.unwrap();
        assert!(text.contains("\nfresh 7\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_look_the_owner_is_asked_once_a_second() {
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
    async fn an_owner_that_does_not_answer_takes_away_what_is_old_and_nothing_else() {
        let registry = Registry::new();
        let number = gauge(&registry);
        number.set(7);
        let missed = move || number.set(0);
        let text = Exposition::new(registry, Refresh::new(|| Box::pin(std::future::pending()), missed)).text().await.unwrap();
        assert!(text.contains("\nfresh 0\n"), "{text}");
    }
}
