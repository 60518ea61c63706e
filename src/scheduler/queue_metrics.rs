//! How does the picture of one moment become metrics? Made anew at each look, so a queue that is gone takes its series with it.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};
use tokio::sync::watch;

use crate::resources::Amount;

use super::frozen::{Frozen, Of};

const NANOS: i128 = 1_000_000_000;

/// A family of amounts by queue and resource.
const AMOUNTS: [(Of, &str, &str); 9] = [
    (Of::Allocated, "scheduler_queue_allocated", "What the pods of the queue and of all below it use."),
    (Of::AllocatedItself, "scheduler_queue_allocated_itself", "What the pods of the queue use, without those of queues below it."),
    (Of::Reserved, "scheduler_queue_reserved", "What groups in the queue and below it are admitted for and have no pods for yet."),
    (Of::Capability, "scheduler_queue_capability", "The queue's ceiling as it states it; absent where it states none."),
    (Of::Deserved, "scheduler_queue_deserved", "What the queue deserves as it states it; absent where it states nothing."),
    (Of::Guarantee, "scheduler_queue_guarantee", "What the queue is guaranteed as it states it; absent where it states nothing."),
    (Of::Floor, "scheduler_queue_floor", "What of the guarantee is in force."),
    (Of::Kept, "scheduler_queue_kept", "What is kept for guarantees in the queue and below it beyond what is used and reserved."),
    (Of::Share, "scheduler_queue_share", "What the queue has a share in as groups ask now; what it uses beyond that is borrowed."),
];

const STATE: (&str, &str, &[&str]) = ("scheduler_queue_state", "Queues by state: open, closing, closed, or broken.", &["queue", "state"]);

const WAITING: (&str, &str, &[&str]) = (
    "scheduler_queue_waiting_podgroups",
    "PodGroups that wait in the queue and in all below it, by why: the reason, the queue that refuses (at) and the resource that is lacking.",
    &["queue", "reason", "at", "resource"],
);

const OLDEST: (&str, &str, &[&str]) = (
    "scheduler_queue_oldest_waiting_timestamp_seconds",
    "When the oldest pod was created that waits in the queue or below it; absent where none waits.",
    &["queue"],
);

/// Shows the last picture that was taken. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    frozen: Arc<watch::Sender<Arc<Frozen>>>,
    descriptions: Arc<Vec<Desc>>,
}

impl QueueMetrics {
    /// Shows nothing yet.
    ///
    /// # Errors
    /// None in practice: the names are constants and differ.
    pub fn new() -> Result<Self, prometheus::Error> {
        let mut descriptions = Vec::new();
        for (_, name, help) in AMOUNTS {
            descriptions.extend(amounts(name, help)?.desc().into_iter().cloned());
        }
        for family in [STATE, WAITING, OLDEST] {
            descriptions.extend(counts(family)?.desc().into_iter().cloned());
        }
        Ok(Self { frozen: Arc::new(watch::Sender::new(Arc::default())), descriptions: Arc::new(descriptions) })
    }

    /// This is how it is now.
    pub fn show(&self, frozen: Frozen) {
        self.frozen.send_replace(Arc::new(frozen));
    }
}

impl Collector for QueueMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let frozen = Arc::clone(&self.frozen.borrow());
        let mut families = Vec::new();
        for (of, name, help) in AMOUNTS {
            let Ok(gauges) = amounts(name, help) else { continue };
            for ((_, queue, resource), amount) in frozen.amounts.iter().filter(|((which, ..), _)| *which == of) {
                gauges.with_label_values(&[queue, resource]).set(units(*amount));
            }
            families.extend(gauges.collect());
        }
        if let Ok(states) = counts(STATE) {
            for ((queue, state), count) in &frozen.states {
                states.with_label_values(&[queue.as_str(), state]).set(whole(*count));
            }
            families.extend(states.collect());
        }
        if let Ok(waiting) = counts(WAITING) {
            for ((queue, reason, at, resource), count) in &frozen.waiting {
                waiting.with_label_values(&[queue.as_str(), reason, at, resource]).set(whole(*count));
            }
            families.extend(waiting.collect());
        }
        if let Ok(oldest) = counts(OLDEST) {
            for (queue, created) in &frozen.oldest {
                oldest.with_label_values(&[queue]).set(*created);
            }
            families.extend(oldest.collect());
        }
        families
    }
}

fn amounts(name: &str, help: &str) -> Result<GaugeVec, prometheus::Error> {
    GaugeVec::new(Opts::new(name, format!("{help} In cores, bytes or pieces.")), &["queue", "resource"])
}

fn counts((name, help, labels): (&str, &str, &[&str])) -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(name, help), labels)
}

/// Cores, bytes or pieces; exact wherever a float can be: whole units are not made by a division.
fn units(amount: Amount) -> f64 {
    let (whole, rest) = (amount.nanos().div_euclid(NANOS), amount.nanos().rem_euclid(NANOS));
    // Prometheus knows floats only.
    let (whole, rest, nanos) = (whole as f64, rest as f64, NANOS as f64);
    whole + rest / nanos
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
