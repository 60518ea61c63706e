//! Which numbers does the controller show about its own work?

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use crate::lifecycle::{Answer, Step};

/// The controller's own metrics.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    steps: IntCounterVec,
    queue: IntGauge,
}

impl ControllerMetrics {
    /// Registers `podgroup_controller_steps_total{step,outcome}` and `podgroup_controller_queue_depth`.
    ///
    /// # Errors
    /// When the names are taken: make one for a program and clone it.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "Steps of the controller about PodGroups, by what was done (create, amend, mark, look, delete, unmark, read) and how it ended; \
                    delete with the outcome old is a delete that a precondition refused.";
        let steps = IntCounterVec::new(Opts::new("controller_steps_total", help), &["step", "outcome"])?;
        let queue = IntGauge::new("controller_queue_depth", "PodGroups that wait for their turn.")?;
        registry.register(Box::new(steps.clone()))?;
        registry.register(Box::new(queue.clone()))?;
        Ok(Self { steps, queue })
    }

    /// Counts one step.
    pub fn step(&self, step: &Step, answer: &Answer) {
        self.steps.with_label_values(&[step.name(), answer.name()]).inc();
    }

    /// How many groups wait for their turn.
    pub fn queue_depth(&self, depth: usize) {
        self.queue.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}
