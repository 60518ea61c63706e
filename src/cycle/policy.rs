//! By which settings does a cycle decide?

use std::time::Duration;

use crate::cycle::placement::Strategy;

/// What an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which of the nodes that fit is taken.
    pub placement: Strategy,
    /// Whether pods may be evicted (R).
    pub evictions: bool,
    /// Whether a PodGroup is admitted only if its request also fits in what the nodes offer, beside what is used and reserved (A2).
    pub admit_within_nodes: bool,
    /// How long a PodGroup that finds no nodes keeps its reservation (A5); 0 is for ever.
    pub admission_timeout: Duration,
    /// How long a partially bound gang waits for nodes for the rest before it is evicted; 0 is for ever.
    pub release: Duration,
    /// How long placed pods wait for the volumes of their claims before they give their nodes back.
    pub volume_timeout: Duration,
}

/// The time of an admission where it has no end: for the first back-off after a preemption in vain, for the time in which further members of
/// others leave room (A7), and for what a PodGroup states beyond its minimum (A4).
pub(super) const WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);

impl Policy {
    /// For how long what a PodGroup states beyond its minimum stays reserved: for the time of an admission.
    #[must_use]
    pub const fn rest_time(&self) -> Duration {
        if self.admission_timeout.is_zero() { WITHOUT_TIMEOUT } else { self.admission_timeout }
    }
}
