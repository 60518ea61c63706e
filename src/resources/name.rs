//! What is a resource called?
//!
//! A cheap-to-clone string. The name also decides how an amount of it is written, because an amount alone does not
//! know whether it is bytes.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::quantity::Style;

/// The name of a resource as Kubernetes spells it: `cpu`, `memory`, `pods`, `nvidia.com/gpu`. Ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

/// Processor time, in cores.
pub(super) const CPU: &str = "cpu";
/// Memory, in bytes.
pub(super) const MEMORY: &str = "memory";
/// The number of pods; every pod asks for exactly one.
pub(super) const PODS: &str = "pods";
/// Pages of one size, in bytes; the size follows the prefix.
pub(super) const HUGEPAGES_PREFIX: &str = "hugepages-";

impl ResourceName {
    /// Processor time, in cores.
    pub const CPU: &str = CPU;
    /// Memory, in bytes.
    pub const MEMORY: &str = MEMORY;
    /// The number of pods.
    pub const PODS: &str = PODS;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How people write amounts of it: bytes with binary suffixes, all else decimal.
    #[must_use]
    pub fn style(&self) -> Style {
        let is_bytes = matches!(&*self.0, MEMORY | "storage" | "ephemeral-storage") || self.0.starts_with(HUGEPAGES_PREFIX);
        if is_bytes { Style::Binary } else { Style::Decimal }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        Self(Arc::from(name))
    }
}

impl From<String> for ResourceName {
    fn from(name: String) -> Self {
        Self(Arc::from(name))
    }
}

// Hash and Ord are derived from the text alone, so a map keyed by names can be asked with a &str.
impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Deref for ResourceName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
