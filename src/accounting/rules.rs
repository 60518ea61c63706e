//! Which rules are in force?
//!
//! All of them. A test may leave one out to see that it is missed (`duel`); outside of tests the answer is a constant, and what asks for
//! it costs nothing.

crate::left_out::can_be_left_out! {
    /// A rule of docs/accounting.md, or a part of one, that can be left out by itself.
    pub(super) enum Rule {
        /// A pod counts once: what it was charged before is taken back.
        N1Once,
        /// Whoever bound it.
        N1Anybody,
        /// On a node that is not known, too.
        N1Unknown,
        /// And on one that was deleted.
        N1Deleted,
        /// What was seen counts until it is gone, whatever became of its bind.
        N1Seen,
        /// It does not lose its node.
        N1Node,
        /// A node takes no more than it has left.
        N3,
        /// Pods go to leaves only.
        T1Leaf,
        /// What does not exist, or names a parent that does not, is broken.
        T2Missing,
        /// What is below itself is broken.
        T2Circle,
        /// So is what promises its children more than it has.
        T2Guarantees,
        /// But `root`, whose guarantee is not read.
        T2Root,
        /// A charge counts in a parent that does not exist.
        T3Missing,
        /// And in `root`, wherever the way up ends.
        T3Root,
        /// What is used moves with its queue.
        T3Moves,
        /// What is reserved is taken.
        T4,
        /// What is closed takes nothing.
        O2,
        /// And nothing below it.
        O2Above,
        /// It is closing while something is charged in it.
        O3,
        F1,
        /// What is not stated is the sum of the children's.
        F2,
        /// Floors are cut to what is left.
        F3Left,
        /// The higher priority comes first, here and in S2.
        F3Priority,
        /// The floor of `root` ends at its capability.
        F3Root,
        /// What is taken is not kept as well.
        F4Taken,
        /// What is kept for children is kept for their parent.
        F4Below,
        /// What is kept follows every charge.
        F4Charges,
        F5,
        /// Only where `held` grows.
        F5Grows,
        /// At `root` up to what all nodes offer.
        F5Cluster,
        /// Where something is kept for others.
        F5Others,
        /// What is reserved fills no floor.
        F5Filled,
        /// What is broken before what is no leaf.
        F6Broken,
        /// What is closed before any amount.
        F6Closed,
        /// The ceiling before what is kept.
        F6Ceiling,
        /// What is taken is demand.
        S1Taken,
        /// What is reserved, too.
        S1Reserved,
        /// A demand is cut at the capability.
        S1Capability,
        /// The share of `root` is its floor.
        S2Root,
        /// Each gets its floor.
        S2Floor,
        /// What is deserved counts instead of the demand.
        S2Deserved,
        /// Up to the capability.
        S2Capability,
        /// Before those who only ask.
        S2First,
        S2Weight,
        /// A weight below 1 is 1.
        S2NoWeight,
        /// What one does not take is divided again.
        S2Again,
        /// What rounding leaves goes to the first.
        S2Rounding,
        /// A right is what is got if everybody asks for everything.
        S3Unlimited,
        /// It follows what inner queues have themselves.
        S3Charges,
        /// On the whole way up.
        S3Above,
        /// Over is more than the share.
        S4,
        /// Who is owed something stays within its share.
        A3Share,
        /// Only what may be taken back is owed.
        A3Reclaimable,
        /// A trial that is dropped leaves nothing behind.
        B3,
    }
}
