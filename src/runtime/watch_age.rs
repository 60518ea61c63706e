//! How long ago was each watch heard of? Computed when it is read.
//!
//! A watch is heard of with a complete list, an event or a bookmark: its view of the cluster is as old as that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use tokio::time::Instant;

use super::clock;

/// When each watch was heard of, by resource and by the number of the watch among those of the resource. `None` before the first list is complete.
type Heard = BTreeMap<&'static str, Vec<Option<Instant>>>;

/// The age of the view of every watch. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct WatchAges {
    heard: Arc<Mutex<Heard>>,
    seconds: GaugeVec,
}

impl WatchAges {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let help = "How long ago a watch was heard of (list, event or bookmark). Of several watches of a resource the oldest counts.";
        Ok(Self { heard: Arc::default(), seconds: GaugeVec::new(Opts::new("watch_age_seconds", help), &["resource"])? })
    }

    /// Adds a watch of this resource.
    pub(super) fn add(&self, resource: &'static str) -> WatchAge {
        let mut heard = self.heard();
        let watches = heard.entry(resource).or_default();
        watches.push(None);
        WatchAge { resource, number: watches.len().saturating_sub(1), all: self.clone() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The age of the view of one watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchAge {
    resource: &'static str,
    number: usize,
    all: WatchAges,
}

impl WatchAge {
    /// Records that the watch is heard of now.
    pub(crate) fn heard(&self) {
        let now = clock::through_suspension();
        if let Some(at) = self.all.heard().get_mut(self.resource).and_then(|watches| watches.get_mut(self.number)) {
            *at = Some(now);
        }
    }
}

impl Collector for WatchAges {
    fn desc(&self) -> Vec<&Desc> {
        self.seconds.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = clock::through_suspension();
        for (resource, watches) in &*self.heard() {
            if let Some(oldest) = watches.iter().flatten().min() {
                self.seconds.with_label_values(&[resource]).set(now.saturating_duration_since(*oldest).as_secs_f64());
            }
        }
        self.seconds.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::metrics;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_watch_of_a_resource_counts_and_one_without_a_list_is_absent() {
        let registry = metrics::registry().unwrap();
        let ages = metrics::registered(&registry, WatchAges::new().unwrap()).unwrap();
        let (pods, others, _nodes) = (ages.add("pods"), ages.add("pods"), ages.add("nodes"));
        let shown =
            || metrics::text(&registry).unwrap().lines().filter(|line| line.contains("_age_seconds{")).collect::<Vec<_>>().join(";");
        assert_eq!(shown(), "");
        pods.heard();
        tokio::time::advance(Duration::from_secs(3)).await;
        others.heard();
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(shown(), "podgroup_watch_age_seconds{resource=\"pods\"} 7");
        pods.heard();
        assert_eq!(shown(), "podgroup_watch_age_seconds{resource=\"pods\"} 4");
    }
}
