//! By which settings does a cycle decide?

use std::time::Duration;

use crate::cycle::placement::Strategy;

/// What an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which of the nodes that fit is taken.
    pub placement: Strategy,
    /// Whether pods may be evicted so that others have their places (R).
    pub evictions: bool,
    /// How long a group that finds no places keeps its reservation (A5); 0 is for ever.
    pub patience: Duration,
    /// How long a gang of which only a part could be bound waits for places for the rest before that part is let go; 0 is for ever.
    pub release: Duration,
}
