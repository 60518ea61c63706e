//! The metrics of the controller.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};

use crate::lifecycle::{Answer, Step};
use crate::runtime::metrics::registered;

/// The upper bounds of the buckets of the creation time, in seconds. They reach from one fast round trip to an outage of the API server.
const SECONDS: [f64; 14] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// The controller's own metrics.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    steps: IntCounterVec,
    refused: IntCounterVec,
    queue: IntGauge,
    creation: Histogram,
}

impl ControllerMetrics {
    /// Registers `podgroup_controller_steps_total{step,outcome}`, `podgroup_controller_preconditions_refused_total{step}`,
    /// `podgroup_controller_queue_depth` and `podgroup_controller_creation_seconds`.
    ///
    /// # Errors
    /// Returns an error if the names are already registered. Create one value for each program and clone it.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "Steps of the controller for PodGroups, by step (create, amend, mark, look, delete, unmark, read) and outcome \
                    (is, gone, absent, looked, old, unknown, refused, later).";
        let steps = registered(registry, IntCounterVec::new(Opts::new("controller_steps_total", help), &["step", "outcome"])?)?;
        let help = "Writes (amend, mark, unmark, delete) that the API server refused because the PodGroup was no longer the object and version \
                    that they were decided on.";
        let refused = registered(registry, IntCounterVec::new(Opts::new("controller_preconditions_refused_total", help), &["step"])?)?;
        let help = "Seconds from the event that made a PodGroup necessary to the answer that it was created.";
        let creation = HistogramOpts::new("controller_creation_seconds", help).buckets(SECONDS.to_vec());
        let creation = registered(registry, Histogram::with_opts(creation)?)?;
        let queue = registered(registry, IntGauge::new("controller_queue_depth", "PodGroups in the work queue of the controller.")?)?;
        // The series exist from the start, so that a rate over them includes the first increment.
        for (step, outcome) in [("create", "is"), ("amend", "is"), ("mark", "is"), ("look", "looked"), ("unmark", "is"), ("delete", "gone")]
        {
            steps.with_label_values(&[step, outcome]).inc_by(0);
        }
        for step in ["amend", "mark", "unmark", "delete"] {
            refused.with_label_values(&[step]).inc_by(0);
            steps.with_label_values(&[step, "old"]).inc_by(0);
        }
        Ok(Self { steps, refused, queue, creation })
    }

    /// Counts one step and its answer.
    pub fn step(&self, step: &Step, answer: &Answer) {
        self.steps.with_label_values(&[step.name(), answer.name()]).inc();
        if *answer == Answer::Stale && matches!(step, Step::Amend { .. } | Step::Mark(_) | Step::Unmark(_) | Step::Delete(_)) {
            self.refused.with_label_values(&[step.name()]).inc();
        }
    }

    /// Records the time from the event that made a PodGroup necessary to its creation.
    pub fn created(&self, after: Duration) {
        self.creation.observe(after.as_secs_f64());
    }

    /// Sets the number of PodGroups in the work queue.
    pub fn queue_depth(&self, depth: usize) {
        self.queue.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}
