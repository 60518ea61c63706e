//! Which rules are in force?
//!
//! All of them. A test may leave one out to see that it is missed (`duel`); outside of tests the answer is a constant, and what asks for it
//! costs nothing.

crate::left_out::can_be_left_out! {
    /// A rule of docs/accounting.md, or a part of one, that can be left out by itself.
    pub(super) enum Rule {
        /// What the group itself has reserved is left out.
        A4,
        /// What is terminating counts as gone.
        Gone,
        /// Nobody takes what would bring its queue above its share.
        R1,
        /// Nor one above it.
        R1Above,
        /// Only who borrows is taken from.
        R2,
        /// And all above it.
        R2Above,
        /// In what is lacking.
        R2Lacking,
        /// With those before it gone.
        R2Before,
        /// Whose queue is reclaimable.
        R2Reclaimable,
        R3,
        /// Nobody goes unless the whole gang is placed then.
        R4,
        /// A ceiling is not moved by what goes elsewhere.
        R5,
        /// No member goes alone that its gang needs.
        R6,
        /// But with its gang it may.
        R6Whole,
        /// Who is not needed is spared.
        R7,
        /// The cheapest come first.
        R7Order,
        /// Not who is not preemptable.
        R8Stays,
        /// Not who has a higher priority.
        R8Higher,
        /// Of those that a budget guards no more go than it lets.
        R9,
        /// Together.
        R9Together,
        /// Within a queue only lower priority.
        R11,
        /// Where the first in order do not do, others may.
        Others,
    }
}
