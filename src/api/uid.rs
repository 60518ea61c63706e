//! The identity of an object for its whole life: what `metadata.uid` says.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A `metadata.uid`. Names come again; a UID never does, so everything that is decided about an object is decided about its UID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Uid(Arc<str>);

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl Deref for Uid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
