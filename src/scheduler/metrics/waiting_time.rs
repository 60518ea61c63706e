//! How long do pods wait in each queue until they are bound? A histogram for each queue, with a bounded number of queues.
//!
//! The oldest waiting pod (`queues`) says how long the present wait is. This histogram says what a queue usually waits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, Registry};

use crate::runtime::metrics::registered;

use super::queue_snapshot::{OTHERS, QUEUES, UNKNOWN};

/// From the second in which a pod that fits is bound to a day. A creation time has whole seconds, so shorter waits cannot be told apart.
const SECONDS: [f64; 10] = [1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

/// The times from the creation of a pod to its binding, by queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WaitingTimes {
    seconds: HistogramVec,
    /// The queues with a label value of their own, at most [`QUEUES`].
    labelled: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

impl WaitingTimes {
    /// Creates and registers the metric.
    ///
    /// # Errors
    ///
    /// The name is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "From the creation of a pod to its binding, by queue; time under scheduling gates counts.";
        let options = HistogramOpts::new("scheduler_pod_waiting_seconds", help).buckets(SECONDS.to_vec());
        Ok(Self { seconds: registered(registry, HistogramVec::new(options, &["queue"])?)?, labelled: Arc::default() })
    }

    /// Makes the series of a queue, so that a rate sees the first pod. It has one from then on, as long as there are some left.
    pub fn queue_known(&self, queue: &Arc<str>) {
        if self.has_label(queue) {
            self.seconds.with_label_values(&[&**queue]);
        }
    }

    /// Records that a pod was bound after this time. `queue` is none where the queue of the pod is deleted.
    pub fn bound(&self, queue: Option<&Arc<str>>, waited: Duration) {
        let label = queue.map_or(UNKNOWN, |queue| if self.has_label(queue) { queue } else { OTHERS });
        self.seconds.with_label_values(&[label]).observe(waited.as_secs_f64());
    }

    /// Removes the series of a deleted queue.
    pub fn queue_deleted(&self, queue: &str) {
        if self.labelled.lock().unwrap_or_else(PoisonError::into_inner).remove(queue) {
            // There is a series of each labelled queue.
            let _removed = self.seconds.remove_label_values(&[queue]);
        }
    }

    /// Returns whether the queue has a label value of its own. It gets one now if there are some left.
    fn has_label(&self, queue: &Arc<str>) -> bool {
        let mut labelled = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        labelled.contains(queue) || labelled.len() < QUEUES && labelled.insert(Arc::clone(queue))
    }

    /// Returns the number of pods and the sum of their times under this label.
    #[cfg(test)]
    pub(in crate::scheduler) fn recorded(&self, label: &str) -> (u64, f64) {
        let histogram = self.seconds.with_label_values(&[label]);
        (histogram.get_sample_count(), histogram.get_sample_sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::core::Collector;

    fn series(times: &WaitingTimes) -> usize {
        times.seconds.collect().iter().map(|family| family.get_metric().len()).sum()
    }

    #[test]
    fn a_queue_has_a_series_until_it_is_deleted() {
        let times = WaitingTimes::new(&Registry::new()).unwrap();
        assert_eq!(series(&times), 0);
        times.queue_known(&Arc::from("a"));
        assert_eq!(series(&times), 1);
        times.bound(Some(&Arc::from("a")), Duration::from_secs(3));
        times.bound(Some(&Arc::from("a")), Duration::from_secs(4));
        assert_eq!((series(&times), times.recorded("a")), (1, (2, 7.0)));
        times.queue_deleted("b");
        times.queue_deleted("a");
        assert_eq!(series(&times), 0);
    }

    #[test]
    fn the_number_of_series_is_bounded_and_a_deleted_queue_leaves_room_for_another() {
        let times = WaitingTimes::new(&Registry::new()).unwrap();
        let name = |number: usize| -> Arc<str> { Arc::from(format!("q{number}")) };
        (0..QUEUES + 10).for_each(|number| times.bound(Some(&name(number)), Duration::ZERO));
        times.bound(None, Duration::ZERO);
        assert_eq!((series(&times), times.recorded(OTHERS).0, times.recorded(UNKNOWN).0), (QUEUES + 2, 10, 1));
        times.queue_deleted(&name(0));
        times.bound(Some(&name(QUEUES)), Duration::ZERO);
        assert_eq!((series(&times), times.recorded(&name(QUEUES)).0), (QUEUES + 2, 1));
    }
}
