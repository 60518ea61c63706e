//! The UID of an API object.
//!
//! A name can be used again after a deletion; a UID cannot. Therefore the caches and the accounting use UIDs as keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// `metadata.uid` of an object: cheap to clone, ordered as text.
#[derive(Clone)]
pub struct Uid {
    /// The first eight bytes of the text as a big-endian number, which has the same order. UIDs are random, so nearly every comparison ends here and
    /// does not read the texts.
    head: u64,
    text: Arc<str>,
}

impl Uid {
    /// Returns the UID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn new(text: Arc<str>) -> Self {
        let mut head = [0; 8];
        // A shorter text is filled with 0, which is the smallest byte.
        for (to, from) in head.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self { head: u64::from_be_bytes(head), text }
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self::new(Arc::from(uid))
    }
}

impl From<String> for Uid {
    fn from(uid: String) -> Self {
        Self::new(Arc::from(uid))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Uid {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head && self.text == other.text
    }
}

impl Eq for Uid {}

impl Hash for Uid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

// Hash and Ord are those of the text, so a &str can look up an entry in a map with UIDs as keys.
impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Deref for Uid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn uids_have_the_order_of_their_texts(a in "[ab\u{0}é]{0,10}", b in "[ab\u{0}é]{0,10}") {
            prop_assert_eq!(Uid::from(a.as_str()).cmp(&Uid::from(b.as_str())), a.cmp(&b));
            prop_assert_eq!(Uid::from(a.as_str()) == Uid::from(b.as_str()), a == b);
        }
    }
}
