//! Which numbers does the scheduler show? The registry puts `podgroup_` before every name.

use std::time::Duration;

use super::event::Taken;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The numbers of the scheduler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    cycles: Histogram,
    binds: IntCounterVec,
    bind_seconds: Histogram,
    evictions: IntCounterVec,
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
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let histogram = |name: &str, help: &str, buckets: Vec<f64>| {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let binds = IntCounterVec::new(
            Opts::new("scheduler_binds_total", "Pods that were to be bound, by outcome: bound, or the kind of the refusal."),
            &["outcome"],
        )?;
        registry.register(Box::new(binds.clone()))?;
        let evictions = IntCounterVec::new(
            Opts::new(
                "scheduler_evictions_total",
                "Pods that were to go for others, by outcome: evicted, gone, or the kind of the refusal.",
            ),
            &["outcome"],
        )?;
        registry.register(Box::new(evictions.clone()))?;
        let unreadable = IntCounter::new(
            "scheduler_unreadable_objects_total",
            "Times that an object could not be read, so that what was known of it stayed.",
        )?;
        registry.register(Box::new(unreadable.clone()))?;
        Ok(Self {
            cycles: histogram(
                "scheduler_cycle_seconds",
                "How long one scheduling cycle took, without the batching before it and the writes after it.",
                vec![0.000_05, 0.000_2, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0],
            )?,
            bind_seconds: histogram(
                "scheduler_bind_seconds",
                "From the decision to the API server's answer to the binding, for pods that were bound.",
                vec![0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0],
            )?,
            binds,
            evictions,
            pending_pods: gauge("scheduler_pending_pods", "Pods of our schedulers that could be placed and have no place.")?,
            pending_groups: gauge("scheduler_pending_podgroups", "PodGroups that wait for admission or for places.")?,
            overcommitted_nodes: gauge("scheduler_overcommitted_nodes", "Nodes on which the pods ask for more than there is.")?,
            audit_differences: gauge("scheduler_audit_differences", "Sums in the books that a recount does not agree with; always 0.")?,
            unreadable,
        })
    }

    /// A cycle ended.
    pub fn cycle(&self, took: Duration) {
        self.cycles.observe(took.as_secs_f64());
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
