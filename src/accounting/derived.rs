//! A value that is computed from other fields when it is first needed.
//!
//! It is computed at the first read after a change, so a thousand changes in a row cost one computation. It takes no part in comparisons, because
//! it is the same wherever the other fields are.

use std::sync::OnceLock;

/// A value that is computed when it is needed.
#[derive(Clone, Debug)]
pub(super) struct Derived<T>(OnceLock<T>);

impl<T> Derived<T> {
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }

    /// Returns the value, if it is computed and valid.
    pub(super) fn known(&self) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, if it is computed; the caller updates it together with the other fields.
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
