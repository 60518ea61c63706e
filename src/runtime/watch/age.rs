//! How old is the view of each watch? Computed when it is read.
//!
//! `freshness` says up to when everything is known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use tokio::time::Instant;

use crate::runtime::clock;

/// Up to when each watch knows everything, by resource and by the number of the watch among those of the resource. `None` before the first
/// list is complete.
type Known = BTreeMap<&'static str, Vec<Option<Instant>>>;

/// The age of the view of every watch. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct WatchAges {
    known: Arc<Mutex<Known>>,
    seconds: GaugeVec,
}

impl WatchAges {
    pub(in crate::runtime) fn new() -> Result<Self, prometheus::Error> {
        let help =
            "How old the view of a watch is: everything that happened before is known. Of several watches of a resource the oldest counts.";
        Ok(Self { known: Arc::default(), seconds: GaugeVec::new(Opts::new("watch_age_seconds", help), &["resource"])? })
    }

    /// Adds a watch of this resource.
    pub(in crate::runtime) fn add(&self, resource: &'static str) -> WatchAge {
        let mut known = self.known();
        let watches = known.entry(resource).or_default();
        watches.push(None);
        WatchAge { resource, number: watches.len().saturating_sub(1), all: self.clone() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Records up to when everything is known, by [`clock::through_suspension`].
    pub(crate) fn is_known_up_to(&self, as_of: Instant) {
        if let Some(at) = self.all.known().get_mut(self.resource).and_then(|watches| watches.get_mut(self.number)) {
            *at = Some(as_of);
        }
    }
}

impl Collector for WatchAges {
    fn desc(&self) -> Vec<&Desc> {
        self.seconds.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = clock::through_suspension();
        for (resource, watches) in &*self.known() {
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
        pods.is_known_up_to(clock::through_suspension());
        tokio::time::advance(Duration::from_secs(3)).await;
        others.is_known_up_to(clock::through_suspension());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(shown(), "podgroup_watch_age_seconds{resource=\"pods\"} 7");
        pods.is_known_up_to(clock::through_suspension());
        assert_eq!(shown(), "podgroup_watch_age_seconds{resource=\"pods\"} 4");
    }
}
