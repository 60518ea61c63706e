//! Which rules of preemption are in force?
//!
//! All of them. A test may disable one, to see that the test notices it (`duel`). Outside of tests the result is a constant, and a check
//! costs nothing.

crate::left_out::can_be_left_out! {
    /// A rule of docs/accounting.md, or a part of one, that a test can disable by itself.
    pub(super) enum Rule {
        /// The reservation of the PodGroup itself is ignored.
        A4,
        /// Terminating pods count as gone.
        Gone,
        /// A preemption never brings the queue of its PodGroup above its share.
        R1,
        /// Nor a queue above it.
        R1Above,
        /// Only queues over their shares lose pods.
        R2,
        /// With all queues above them.
        R2Above,
        /// In a resource that is lacking.
        R2Lacking,
        /// Without the victims before.
        R2Before,
        /// Only reclaimable queues lose pods.
        R2Reclaimable,
        R3,
        /// No pod is evicted unless the whole gang is placed then.
        R4,
        /// Evictions elsewhere do not change a ceiling.
        R5,
        /// A member that its gang needs is not evicted alone.
        R6,
        /// It may be evicted with its whole gang.
        R6Whole,
        /// Victims that are not needed are spared.
        R7,
        /// The cheapest come first.
        R7Order,
        /// Pods that are not preemptable are never victims.
        R8Stays,
        /// Pods of a higher priority are never victims.
        R8Higher,
        /// No more pods are evicted than a budget allows.
        R9,
        /// The victims of one call count together.
        R9Together,
        /// Within a queue only lower priority.
        R11,
        /// Other sets are tried where the first in order are not enough.
        Others,
    }
}
