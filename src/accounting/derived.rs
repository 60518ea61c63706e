//! What follows from the rest, once somebody asks for it?
//!
//! Worked out at the first question after something changed, so a thousand changes in a row cost one; and no part of what two books are compared by, since
//! it is the same wherever the rest is.

use std::sync::OnceLock;

/// A value that is worked out when it is needed.
#[derive(Clone, Debug)]
pub(super) struct Derived<T>(OnceLock<T>);

impl<T> Derived<T> {
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }

    /// The value, if it was worked out and holds still.
    pub(super) fn known(&self) -> Option<&T> {
        self.0.get()
    }

    /// The same, to be kept right by the one who changes the rest.
    pub(super) fn known_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    pub(super) fn forget(&mut self) {
        self.0 = OnceLock::new();
    }
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> PartialEq for Derived<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Derived<T> {}
