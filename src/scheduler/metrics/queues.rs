//! The metrics of the queues, made from a queue snapshot at each scrape. The series of a deleted queue are gone with it.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};
use tokio::sync::watch;

use crate::resources::{Amount, Unit};

use super::queue_snapshot::{Of, QueueSnapshot};

const NANOS: i128 = 1_000_000_000;

/// The metrics with amounts by queue and resource. The label `unit` tells dashboards how to show an amount.
const AMOUNTS: [(Of, &str, &str); 9] = [
    (Of::Allocated, "scheduler_queue_allocated", "What the pods of the queue and of all queues below it use."),
    (Of::AllocatedItself, "scheduler_queue_allocated_itself", "What the pods of the queue use, without those of queues below it."),
    (Of::Reserved, "scheduler_queue_reserved", "What admitted PodGroups in the queue and below it have reserved and do not use yet."),
    (Of::Capability, "scheduler_queue_capability", "The queue's ceiling as it states it; absent where it states none."),
    (Of::Deserved, "scheduler_queue_deserved", "What the queue deserves as it states it; absent where it states nothing."),
    (Of::Guarantee, "scheduler_queue_guarantee", "What the queue is guaranteed as it states it; absent where it states nothing."),
    (Of::Floor, "scheduler_queue_floor", "What of the guarantee is in force."),
    (Of::Kept, "scheduler_queue_kept", "What is kept for guarantees in the queue and below it beyond what is used and reserved."),
    (Of::Share, "scheduler_queue_share", "The queue's share for the present requests; what it uses beyond that is borrowed."),
];

const STATE: (&str, &str, &[&str]) = ("scheduler_queue_state", "Queues by state: open, closing, closed, or broken.", &["queue", "state"]);

const WAITING: (&str, &str, &[&str]) = (
    "scheduler_queue_waiting_podgroups",
    "PodGroups that wait in the queue and in all queues below it, by reason, queue that refuses (at) and resource that is lacking.",
    &["queue", "reason", "at", "resource"],
);

const OLDEST: (&str, &str, &[&str]) = (
    "scheduler_queue_oldest_waiting_timestamp_seconds",
    "When the oldest pod that waits in the queue or below it was created; absent if no pod waits.",
    &["queue"],
);

const POSITION: (&str, &str, &[&str]) = (
    "scheduler_queue_oldest_waiting_position",
    "The position, from 1, of the PodGroup with the oldest waiting pod in the queue itself; absent if none waits there, and for queues without a label of their own.",
    &["queue"],
);

/// Shows the last queue snapshot. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct QueueMetrics {
    snapshot: Arc<watch::Sender<Arc<QueueSnapshot>>>,
    descriptions: Arc<Vec<Desc>>,
}

impl QueueMetrics {
    /// Creates the metrics with an empty snapshot.
    ///
    /// # Errors
    /// None in practice: the names are constants and differ.
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let mut descriptions = Vec::new();
        for (_, name, help) in AMOUNTS {
            descriptions.extend(amounts(name, help)?.desc().into_iter().cloned());
        }
        for family in [STATE, WAITING, OLDEST, POSITION] {
            descriptions.extend(counts(family)?.desc().into_iter().cloned());
        }
        Ok(Self { snapshot: Arc::new(watch::Sender::new(Arc::default())), descriptions: Arc::new(descriptions) })
    }

    /// Replaces the snapshot.
    pub(super) fn show(&self, snapshot: QueueSnapshot) {
        self.snapshot.send_replace(Arc::new(snapshot));
    }
}

impl Collector for QueueMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let mut families = Vec::new();
        for (of, name, help) in AMOUNTS {
            let Ok(gauges) = amounts(name, help) else { continue };
            for ((_, queue, resource), amount) in snapshot.amounts.iter().filter(|((which, ..), _)| *which == of) {
                gauges.with_label_values(&[queue.as_str(), resource, Unit::of(resource).as_str()]).set(units(*amount));
            }
            families.extend(gauges.collect());
        }
        if let Ok(states) = counts(STATE) {
            for ((queue, state), count) in &snapshot.states {
                states.with_label_values(&[queue.as_str(), state]).set(whole(*count));
            }
            families.extend(states.collect());
        }
        if let Ok(waiting) = counts(WAITING) {
            for ((queue, reason, at, resource), count) in &snapshot.waiting {
                waiting.with_label_values(&[queue.as_str(), reason, at, resource]).set(whole(*count));
            }
            families.extend(waiting.collect());
        }
        for (family, by_queue) in [(OLDEST, &snapshot.oldest), (POSITION, &snapshot.oldest_position)] {
            let Ok(gauges) = counts(family) else { continue };
            for (queue, value) in by_queue {
                gauges.with_label_values(&[queue]).set(*value);
            }
            families.extend(gauges.collect());
        }
        families
    }
}

fn amounts(name: &str, help: &str) -> Result<GaugeVec, prometheus::Error> {
    GaugeVec::new(Opts::new(name, format!("{help} The label unit is core, byte or integer.")), &["queue", "resource", "unit"])
}

fn counts((name, help, labels): (&str, &str, &[&str])) -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(name, help), labels)
}

/// Converts an amount to cores, bytes or pieces. Whole units are exact because they are not the result of a division.
fn units(amount: Amount) -> f64 {
    let (whole, rest) = (amount.nanos().div_euclid(NANOS), amount.nanos().rem_euclid(NANOS));
    // Prometheus has only floats.
    let (whole, rest, nanos) = (whole as f64, rest as f64, NANOS as f64);
    whole + rest / nanos
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
