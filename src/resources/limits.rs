//! Limits by resource name.
//!
//! A sparse vector. An absent name is *unset*: the resource has no limit. 0 is a limit of 0. The type has no sums, because the sum of an
//! unset limit and another limit depends on its use.

use super::{Amount, ResourceName};

/// Limits by resource name, in the order of the names. An absent name is unset; 0 is a limit of 0.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Limits(Vec<(ResourceName, Amount)>);

impl Limits {
    /// Returns a value in which every limit is unset.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the limit of one resource; `None` if it is unset.
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

    /// Returns the value with the limit of one resource set.
    #[must_use]
    pub fn with(mut self, name: impl Into<ResourceName>, amount: Amount) -> Self {
        self.set(name, amount);
        self
    }

    /// Returns the limits that are set, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, Amount)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Returns the number of limits that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether every limit is unset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(name))
    }
}

/// Collects limits. Of several entries of one name the last counts.
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
