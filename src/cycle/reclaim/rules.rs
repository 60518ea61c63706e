//! Which rules are in force?
//!
//! All of them. A test may leave one out to see that it is missed (`duel`); outside of tests the answer is a constant, and what asks for it
//! costs nothing.

#[cfg(test)]
use std::cell::Cell;

/// A rule of docs/accounting.md, or a part of one, that can be left out by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Within a queue only lower priority.
    R11,
    /// Where the first in order do not do, others may.
    Others,
}

/// Whether a rule is in force.
#[cfg(not(test))]
#[inline]
pub(super) const fn holds(_: Rule) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Whether a rule is in force.
#[cfg(test)]
pub(super) fn holds(rule: Rule) -> bool {
    LEFT_OUT.get() != Some(rule)
}

/// Leaves a rule out, in this thread, until the value is dropped.
#[cfg(test)]
pub(super) struct Without(());

#[cfg(test)]
impl Without {
    pub(super) fn rule(rule: Rule) -> Self {
        LEFT_OUT.set(Some(rule));
        Self(())
    }
}

#[cfg(test)]
impl Drop for Without {
    fn drop(&mut self) {
        LEFT_OUT.set(None);
    }
}

/// Every rule that can be left out.
#[cfg(test)]
pub(super) const ALL: [Rule; 20] = {
    use Rule::*;
    [
        A4,
        Gone,
        R1,
        R1Above,
        R2,
        R2Above,
        R2Lacking,
        R2Before,
        R2Reclaimable,
        R3,
        R4,
        R5,
        R6,
        R6Whole,
        R7,
        R7Order,
        R8Stays,
        R8Higher,
        R11,
        Others,
    ]
};
