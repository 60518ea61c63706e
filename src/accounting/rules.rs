//! The rules of accounting that a mutation test can switch off.
//!
//! All rules hold outside of tests. A test switches one off to show that the differential test detects it (`differential`). Outside of tests the answer is
//! a constant, so a check costs nothing.

crate::left_out::can_be_left_out! {
    /// A rule of docs/accounting.md, or a part of one, that can be switched off by itself.
    pub(super) enum Rule {
        /// A pod counts once: its previous charge is taken back.
        N1Once,
        /// A pod counts whatever program bound it.
        N1Anybody,
        /// It counts on an unknown node, too.
        N1Unknown,
        /// It counts on a deleted node, too.
        N1Deleted,
        /// A pod that was seen counts until it is gone, whatever the outcome of its bind.
        N1Seen,
        /// A pod does not lose its node.
        N1Node,
        /// A node takes no more than it has left.
        N3,
        /// Pods go to leaves only.
        T1Leaf,
        /// A queue that does not exist, or whose parent does not exist, is broken.
        T2Missing,
        /// A queue that is below itself is broken.
        T2Circle,
        /// A queue that guarantees its children more than it has is broken.
        T2Guarantees,
        /// `root` is never broken by that, because its guarantee is not read.
        T2Root,
        /// A charge counts in a parent that does not exist.
        T3Missing,
        /// A charge counts in `root`, wherever the way up ends.
        T3Root,
        /// What is used moves with its queue.
        T3Moves,
        /// What is reserved is taken.
        T4,
        /// A closed queue takes nothing.
        O2,
        /// The queues below a closed queue take nothing.
        O2Above,
        /// A closed queue is closing while something is charged in it.
        O3,
        F1,
        /// A guarantee that is not stated is the sum of the children's.
        F2,
        /// Floors are cut to what is left.
        F3Left,
        /// The higher priority comes first, here and in S2.
        F3Priority,
        /// The floor of `root` ends at its capability.
        F3Root,
        /// What is taken fills the floor.
        F4Taken,
        /// The unused guarantees of children count for their parent.
        F4Below,
        /// The unused guarantee follows every charge.
        F4Charges,
        F5,
        /// Only a request that makes `held` grow is refused.
        F5Grows,
        /// `root` is limited by what all nodes offer.
        F5Cluster,
        /// That limit applies where another queue has an unused guarantee.
        F5Others,
        /// What is reserved fills no floor.
        F5Filled,
        /// A broken queue is reported before one that is no leaf.
        F6Broken,
        /// A closed queue is reported before any amount.
        F6Closed,
        /// The ceiling is reported before an unused guarantee.
        F6Ceiling,
        /// What is taken is demand.
        S1Taken,
        /// What is reserved is demand, too.
        S1Reserved,
        /// A demand is cut at the capability.
        S1Capability,
        /// The share of `root` is its floor.
        S2Root,
        /// Each queue gets its floor.
        S2Floor,
        /// What is deserved counts instead of the demand.
        S2Deserved,
        /// What is deserved counts up to the capability.
        S2Capability,
        /// Queues that deserve something come before queues that only have a demand.
        S2First,
        S2Weight,
        /// A weight below 1 is 1.
        S2NoWeight,
        /// What one queue does not take is divided again.
        S2Again,
        /// The rest from rounding goes to the first queue.
        S2Rounding,
        /// The entitlement is the share when every queue has unlimited demand.
        S3Unlimited,
        /// The entitlement follows what inner queues use themselves.
        S3Charges,
        /// The entitlement limits every queue on the way up.
        S3Above,
        /// A queue is over its share when it uses more than the share.
        S4,
        /// A queue that can reclaim stays within its share.
        A3Share,
        /// Only what is reclaimable can be reclaimed.
        A3Reclaimable,
        /// A dropped trial leaves nothing behind.
        B3,
    }
}
