//! The metrics of the scheduler. The registry adds the prefix `podgroup_` to each name.
//!
//! Here is what is counted as things happen. [`queue_snapshot`] reads the queues at each scrape, and `queues` shows what it read;
//! `overcommit` has the nodes, and `waiting_time` the histogram of waits.

mod overcommit;
pub mod queue_snapshot;
mod queues;
mod waiting_time;

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::cycle::explain::Code;
use crate::runtime::metrics::registered;
use crate::scheduler::event::EvictionProgress;

use overcommit::OvercommitMetrics;
pub use queue_snapshot::QueueSnapshot;
use queues::QueueMetrics;
use waiting_time::WaitingTimes;

/// The metrics of the scheduler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    cycles: Histogram,
    binds: IntCounterVec,
    bind_seconds: Histogram,
    evictions: IntCounterVec,
    preemption_seconds: Histogram,
    refusals: IntCounterVec,
    queues: QueueMetrics,
    /// The times that pods waited until they were bound.
    pub waiting_times: WaitingTimes,
    responsive: IntGauge,
    /// The pods of our schedulers that wait.
    pub pending_pods: IntGauge,
    /// The PodGroups that wait.
    pub pending_groups: IntGauge,
    /// The overcommitted nodes.
    pub overcommitted: OvercommitMetrics,
    /// The sums that differ from a recount.
    pub audit_differences: IntGauge,
    /// The objects that could not be decoded.
    pub unreadable: IntCounter,
}

impl Metrics {
    /// Creates and registers all metrics.
    ///
    /// # Errors
    ///
    /// A name is registered already: create the metrics once for each process.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        let counter = |name, help, label| registered(registry, IntCounterVec::new(Opts::new(name, help), &[label])?);
        let histogram = |name, help, buckets: &[f64]| {
            registered(registry, Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
        };
        let help = "Bindings by outcome: bound, or the kind of the error.";
        let binds = counter("scheduler_binds_total", help, "outcome")?;
        let help = "Evictions by outcome: evicted, gone, or the kind of the error.";
        let evictions = counter("scheduler_evictions_total", help, "outcome")?;
        let help = "Times that a cycle tried a PodGroup and refused it, by the reason.";
        let refusals = counter("scheduler_refusals_total", help, "reason")?;
        // Created at the start, so that a rate sees the first increase.
        binds.with_label_values(&["bound"]).inc_by(0);
        for outcome in ["evicted", "gone"] {
            evictions.with_label_values(&[outcome]).inc_by(0);
        }
        for code in Code::ALL {
            refusals.with_label_values(&[code.as_str()]).inc_by(0);
        }
        let help = "Objects, in a list or a watch event, that could not be decoded; the scheduler keeps their known state.";
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
            preemption_seconds: histogram(
                "scheduler_preemption_seconds",
                "From the decision to evict for a PodGroup until its members have nodes; preemptions that were given up do not count.",
                &[0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0],
            )?,
            binds,
            evictions,
            refusals,
            queues: registered(registry, QueueMetrics::new()?)?,
            waiting_times: WaitingTimes::new(registry)?,
            responsive: gauge(
                "scheduler_responsive",
                "1 if the scheduler's loop answered this scrape in time; 0 if not, and then the metrics of queues are absent.",
            )?,
            pending_pods: gauge("scheduler_pending_pods", "Pods of our schedulers that are schedulable and have no node.")?,
            pending_groups: gauge("scheduler_pending_podgroups", "PodGroups that wait for admission or for nodes.")?,
            overcommitted: registered(registry, OvercommitMetrics::new()?)?,
            audit_differences: gauge("scheduler_audit_differences", "Sums in the accounting that differ from a recount; always 0.")?,
            unreadable: registered(registry, unreadable)?,
        })
    }

    /// Records a cycle.
    pub fn cycle(&self, took: Duration) {
        self.cycles.observe(took.as_secs_f64());
    }

    /// Records that a cycle refused a PodGroup.
    pub fn refused(&self, code: Code) {
        self.refusals.with_label_values(&[code.as_str()]).inc();
    }

    /// Shows a snapshot; `None` if the owner of the state did not answer.
    pub fn show(&self, snapshot: Option<QueueSnapshot>) {
        self.responsive.set(i64::from(snapshot.is_some()));
        self.queues.show(snapshot.unwrap_or_default());
    }

    /// Records a bound pod, with the time since the decision.
    pub fn bound(&self, took: Option<Duration>) {
        self.binds.with_label_values(&["bound"]).inc();
        if let Some(took) = took {
            self.bind_seconds.observe(took.as_secs_f64());
        }
    }

    /// Records the progress of an eviction.
    pub fn evicted(&self, progress: &EvictionProgress) {
        self.evictions.with_label_values(&["evicted"]).inc_by(u64::from(progress.evicted));
        self.evictions.with_label_values(&["gone"]).inc_by(u64::from(progress.gone));
    }

    /// Records a preemption after which the PodGroup has its nodes.
    pub fn preempted(&self, took: Duration) {
        self.preemption_seconds.observe(took.as_secs_f64());
    }

    /// Records a refused eviction.
    pub fn not_evicted(&self, reason: &'static str) {
        self.evictions.with_label_values(&[reason]).inc();
    }

    /// Returns the number of preemptions and the sum of their times.
    #[cfg(test)]
    pub(super) fn preemptions(&self) -> (u64, f64) {
        (self.preemption_seconds.get_sample_count(), self.preemption_seconds.get_sample_sum())
    }

    /// Returns the number of evictions with this outcome.
    #[cfg(test)]
    pub(super) fn evictions(&self, outcome: &str) -> u64 {
        self.evictions.with_label_values(&[outcome]).get()
    }

    /// Records a pod that was not bound.
    pub fn not_bound(&self, reason: &'static str) {
        self.binds.with_label_values(&[reason]).inc();
    }
}
