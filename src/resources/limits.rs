//! Up to where, for each resource?
//!
//! A sparse vector of ceilings. An absent name is *unset*: no ceiling. 0 is a ceiling of 0. So this type has no sums:
//! what the sum of an unset ceiling and another is depends on the question.

use super::{Amount, ResourceName};

/// Ceilings or shares by resource name, in the order of the names; an absent name is unset, 0 is 0.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Limits(Vec<(ResourceName, Amount)>);

impl Limits {
    /// No limit on anything.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The limit of one resource; `None` if it is unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Amount> {
        self.place(name).ok().and_then(|at| self.0.get(at)).map(|(_, amount)| *amount)
    }

    /// Sets the limit of one resource, 0 included.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: Amount) {
        let name = name.into();
        match self.place(&name) {
            Ok(at) => {
                if let Some((_, old)) = self.0.get_mut(at) {
                    *old = amount;
                }
            }
            Err(at) => self.0.insert(at, (name, amount)),
        }
    }

    /// The same with one limit set.
    #[must_use]
    pub fn with(mut self, name: impl Into<ResourceName>, amount: Amount) -> Self {
        self.set(name, amount);
        self
    }

    /// The limits that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, Amount)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// How many limits are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(name))
    }
}

/// Of several entries of one name the last counts.
impl FromIterator<(ResourceName, Amount)> for Limits {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Amount)>>(entries: I) -> Self {
        let mut limits = Self::new();
        for (name, amount) in entries {
            limits.set(name, amount);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_is_not_zero() {
        let limits = Limits::new().with("cpu", Amount::ZERO);
        assert_eq!(limits.get("cpu"), Some(Amount::ZERO));
        assert_eq!(limits.get("memory"), None);
        assert_ne!(limits, Limits::new());
    }

    #[test]
    fn limits_are_ordered_by_name_and_the_last_of_one_name_counts() {
        let one = Amount::from_units(1);
        let limits: Limits = [("memory", Amount::ZERO), ("cpu", Amount::ZERO), ("memory", one)]
            .into_iter()
            .map(|(name, amount)| (ResourceName::from(name), amount))
            .collect();
        let listed: Vec<_> = limits.iter().map(|(name, amount)| (name.as_str(), amount)).collect();
        assert_eq!(listed, [("cpu", Amount::ZERO), ("memory", one)]);
    }
}
