//! Which numbers does the scheduler show? The registry puts `podgroup_` before every name.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::cycle::explain::Code;
use crate::runtime::metrics::registered;

use super::event::Taken;
use super::frozen::Frozen;
use super::queue_metrics::QueueMetrics;

/// The numbers of the scheduler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    cycles: Histogram,
    binds: IntCounterVec,
    bind_seconds: Histogram,
    evictions: IntCounterVec,
    refusals: IntCounterVec,
    queues: QueueMetrics,
    responsive: IntGauge,
    /// Pods of ours that wait.
    pub pending_pods: IntGauge,
    /// Groups that wait.
    pub pending_groups: IntGauge,
    /// Nodes on which more is used than there is.
    pub overcommitted_nodes: IntGauge,
    /// Sums that a recount does not agree with.
    pub audit_differences: IntGauge,
    /// Objects that could not be read.
    pub unreadable: IntCounter,
}

impl Metrics {
    /// Registers all of them.
    ///
    /// # Errors
    ///
    /// When a name is taken: make one for a program.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        let counter = |name, help, label| registered(registry, IntCounterVec::new(Opts::new(name, help), &[label])?);
        let histogram = |name, help, buckets: &[f64]| {
            registered(registry, Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
        };
        let help = "Pods that were to be bound, by outcome: bound, or the kind of the refusal.";
        let binds = counter("scheduler_binds_total", help, "outcome")?;
        let help = "Pods that were to go for others, by outcome: evicted, gone, or the kind of the refusal.";
        let evictions = counter("scheduler_evictions_total", help, "outcome")?;
        let help = "Times that a cycle looked at a PodGroup and let it wait, by the reason.";
        let refusals = counter("scheduler_refusals_total", help, "reason")?;
        // There from the start, so that a rate over them is not blind to the first.
        binds.with_label_values(&["bound"]).inc_by(0);
        for outcome in ["evicted", "gone"] {
            evictions.with_label_values(&[outcome]).inc_by(0);
        }
        for code in Code::ALL {
            refusals.with_label_values(&[code.as_str()]).inc_by(0);
        }
        let help = "Times that an object, in a list or by itself, could not be read, so that what was known of it stayed.";
        let unreadable = IntCounter::new("scheduler_unreadable_objects_total", help)?;
        Ok(Self {
            cycles: histogram(
                "scheduler_cycle_seconds",
                "How long one scheduling cycle took, without the batching before it and the writes after it.",
                &[0.000_05, 0.000_2, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0],
            )?,
            bind_seconds: histogram(
                "scheduler_bind_seconds",
                "From the decision to the API server's answer to the binding, for pods that were bound.",
                &[0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0],
            )?,
            binds,
            evictions,
            refusals,
            queues: registered(registry, QueueMetrics::new()?)?,
            responsive: gauge(
                "scheduler_responsive",
                "1 if the scheduler's loop answered this look at the metrics in time, else 0, and then nothing is said of the queues.",
            )?,
            pending_pods: gauge("scheduler_pending_pods", "Pods of our schedulers that could be placed and have no place.")?,
            pending_groups: gauge("scheduler_pending_podgroups", "PodGroups that wait for admission or for places.")?,
            overcommitted_nodes: gauge("scheduler_overcommitted_nodes", "Nodes on which the pods ask for more than there is.")?,
            audit_differences: gauge("scheduler_audit_differences", "Sums in the books that a recount does not agree with; always 0.")?,
            unreadable: registered(registry, unreadable)?,
        })
    }

    /// A cycle ended.
    pub fn cycle(&self, took: Duration) {
        self.cycles.observe(took.as_secs_f64());
    }

    /// A cycle let a group wait.
    pub fn refused(&self, code: Code) {
        self.refusals.with_label_values(&[code.as_str()]).inc();
    }

    /// The picture of now; none if the owner of the state did not answer.
    pub fn show(&self, frozen: Option<Frozen>) {
        self.responsive.set(i64::from(frozen.is_some()));
        self.queues.show(frozen.unwrap_or_default());
    }

    /// A pod was bound, this long after the decision.
    pub fn bound(&self, took: Option<Duration>) {
        self.binds.with_label_values(&["bound"]).inc();
        if let Some(took) = took {
            self.bind_seconds.observe(took.as_secs_f64());
        }
    }

    /// So far came a taking.
    pub fn evicted(&self, taken: &Taken) {
        self.evictions.with_label_values(&["evicted"]).inc_by(u64::from(taken.evicted));
        self.evictions.with_label_values(&["gone"]).inc_by(u64::from(taken.gone));
    }

    /// A pod stays that was to go.
    pub fn not_evicted(&self, why: &'static str) {
        self.evictions.with_label_values(&[why]).inc();
    }

    /// How many ended so.
    #[cfg(test)]
    pub(super) fn evictions(&self, outcome: &str) -> u64 {
        self.evictions.with_label_values(&[outcome]).get()
    }

    /// A pod was not bound.
    pub fn not_bound(&self, why: &'static str) {
        self.binds.with_label_values(&[why]).inc();
    }
}
