//! Which object is it, whatever its name?
//!
//! The UID that the API server gave. Names come back; UIDs do not. So everything that is counted or kept is keyed by it.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// `metadata.uid` of an object: cheap to clone, ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The UID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self(Arc::from(uid))
    }
}

impl From<String> for Uid {
    fn from(uid: String) -> Self {
        Self(Arc::from(uid))
    }
}

// Hash and Ord are derived from the text alone, so a map keyed by UIDs can be asked with a &str.
impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.0
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
        f.pad(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
