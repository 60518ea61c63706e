//! The name of a resource.
//!
//! It is a string that is cheap to clone. The name also decides the unit of an amount and how it is written. An amount does not know whether it is
//! bytes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::quantity::Style;

/// The name of a resource as Kubernetes spells it: `cpu`, `memory`, `pods`, `nvidia.com/gpu`. Ordered as text.
#[derive(Clone)]
pub struct ResourceName(Text);

/// The text of a name. The names that nearly every pod and node has need no allocation.
#[derive(Clone)]
enum Text {
    Known(Known),
    Other(Arc<str>),
}

/// The common names, in the order of their texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Cpu,
    EphemeralStorage,
    Memory,
    Pods,
}

impl Known {
    const ALL: [Self; 4] = [Self::Cpu, Self::EphemeralStorage, Self::Memory, Self::Pods];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => CPU,
            Self::EphemeralStorage => EPHEMERAL_STORAGE,
            Self::Memory => MEMORY,
            Self::Pods => PODS,
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

/// Processor time, in cores.
pub(super) const CPU: &str = "cpu";
/// Memory, in bytes.
pub(super) const MEMORY: &str = "memory";
/// Local disk that is deleted with the pod, in bytes.
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Disk of a volume, in bytes.
const STORAGE: &str = "storage";
/// The number of pods. Every pod requests exactly one.
pub(super) const PODS: &str = "pods";
/// The prefix of huge pages of one size, in bytes. The size follows the prefix.
pub(super) const HUGEPAGES_PREFIX: &str = "hugepages-";

impl ResourceName {
    /// Processor time, in cores.
    pub const CPU: &str = CPU;
    /// Memory, in bytes.
    pub const MEMORY: &str = MEMORY;
    /// The number of pods.
    pub const PODS: &str = PODS;

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Known(known) => known.as_str(),
            Text::Other(text) => text,
        }
    }

    /// Whether it is that of a device plugin: its name has a domain.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.as_str().contains('/')
    }

    /// Returns how amounts of this resource are written: bytes with binary suffixes, everything else with decimal suffixes.
    #[must_use]
    pub fn style(&self) -> Style {
        match Unit::of(self.as_str()) {
            Unit::Byte => Style::Binary,
            Unit::Core | Unit::Integer => Style::Decimal,
        }
    }
}

/// The unit of the amounts of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Cores.
    Core,
    /// Bytes.
    Byte,
    /// Pieces: pods, devices, and everything else that Kubernetes only counts.
    Integer,
}

impl Unit {
    /// Returns the unit of the resource with this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            CPU => Self::Core,
            MEMORY | EPHEMERAL_STORAGE | STORAGE => Self::Byte,
            _ if name.starts_with(HUGEPAGES_PREFIX) => Self::Byte,
            _ => Self::Integer,
        }
    }

    /// Returns the word of kube-state-metrics for the unit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Byte => "byte",
            Self::Integer => "integer",
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        Self(Known::of(name).map_or_else(|| Text::Other(Arc::from(name)), Text::Known))
    }
}

impl From<String> for ResourceName {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl Ord for ResourceName {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Text::Known(own), Text::Known(theirs)) => own.cmp(theirs),
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}

impl PartialOrd for ResourceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ResourceName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ResourceName {}

impl Hash for ResourceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

// Hash and Ord are those of the text, so a &str can look up an entry in a map with names as keys.
impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Deref for ResourceName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_order_of_their_texts() {
        let texts =
            ["", "cpu", "cpu-shares", "ephemeral-storage", "hugepages-2Mi", "memory", "nvidia.com/gpu", "pods", "pods.x", "storage"];
        for (at, one) in texts.iter().enumerate() {
            for (behind, other) in texts.iter().enumerate() {
                let (one, other) = (ResourceName::from(*one), ResourceName::from(*other));
                assert_eq!(one.cmp(&other), at.cmp(&behind), "{one} {other}");
                assert_eq!(one == other, at == behind, "{one} {other}");
            }
        }
        assert!(texts.iter().all(|text| ResourceName::from(*text).as_str() == *text));
    }

    #[test]
    fn units_have_the_words_of_kube_state_metrics() {
        for (name, unit) in [
            ("cpu", "core"),
            ("memory", "byte"),
            ("ephemeral-storage", "byte"),
            ("storage", "byte"),
            ("hugepages-2Mi", "byte"),
            ("pods", "integer"),
            ("nvidia.com/gpu", "integer"),
            ("example.com/memory", "integer"),
            ("", "integer"),
        ] {
            assert_eq!(Unit::of(name).as_str(), unit, "{name}");
        }
    }
}
