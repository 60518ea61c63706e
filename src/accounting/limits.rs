//! What does a queue's object say that it may use, and to what is it entitled?

use crate::resources::Limits;

/// What one queue is allowed, and what it is to have beside its siblings, as its object says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// The ceiling of the queue with all below it; unset is unlimited (F1).
    pub capability: Limits,
    /// The fair share; what is unset follows the demand (S2).
    pub deserved: Limits,
    /// The floor; what is unset is the sum of the children's (F2).
    pub guarantee: Limits,
    /// Its part beside its siblings; 0 counts as 1 (S2).
    pub weight: u32,
    /// Which of two siblings comes first: the higher (F3, S2, P1).
    pub priority: i32,
    /// Whether others may take back what it uses beyond its share (R2).
    pub reclaimable: bool,
    /// Whether somebody closed this very queue (O1).
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
