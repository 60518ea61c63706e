//! The limits of one queue, from its object.

use crate::resources::Limits;

/// What one queue may use, and what it is entitled to, as its object says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// The ceiling of the queue with all below it; an unset dimension is unlimited (F1).
    pub capability: Limits,
    /// The fair share; an unset dimension follows the demand (S2).
    pub deserved: Limits,
    /// The floor; an unset dimension is the sum of the children's (F2).
    pub guarantee: Limits,
    /// The weight among its siblings; 0 counts as 1 (S2).
    pub weight: u32,
    /// The order among siblings: the higher comes first (F2, S2, P1).
    pub priority: i32,
    /// Whether other queues may reclaim what it uses beyond its share (R2).
    pub reclaimable: bool,
    /// Whether a user closed this very queue (O1).
    pub closed_by_hand: bool,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            capability: Limits::new(),
            deserved: Limits::new(),
            guarantee: Limits::new(),
            weight: 1,
            priority: 0,
            reclaimable: true,
            closed_by_hand: false,
        }
    }
}
