//! Amounts by resource name.
//!
//! A sparse vector that is sorted by name. An absent name is 0, and a 0 is never stored, so equal amounts are equal values. Sums merge the two sorted
//! vectors: the order never depends on hashing or history.

use std::fmt;

use super::{Amount, ResourceName};

/// Amounts by resource name, in the order of the names. An absent name is 0. An amount may be negative, as the difference of two vectors.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Resources(Vec<(ResourceName, Amount)>);

impl Resources {
    /// Returns a vector in which every amount is 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the amount of one resource; 0 if it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Amount {
        self.place(name).ok().and_then(|at| self.0.get(at)).map_or(Amount::ZERO, |(_, amount)| *amount)
    }

    /// Sets the amount of one resource. 0 removes it.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: Amount) {
        let name = name.into();
        match (self.place(&name), amount.is_zero()) {
            (Ok(at), true) => {
                self.0.remove(at);
            }
            (Ok(at), false) => {
                if let Some((_, old)) = self.0.get_mut(at) {
                    *old = amount;
                }
            }
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (name, amount)),
        }
    }

    /// Returns the vector with the amount of one resource set.
    #[must_use]
    pub fn with(mut self, name: impl Into<ResourceName>, amount: Amount) -> Self {
        self.set(name, amount);
        self
    }

    /// Returns the resources that are not 0, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, Amount)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Returns the number of resources that are not 0.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether every amount is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether every amount is 0, as [`is_empty`](Self::is_empty). [`Amount`] has a method of the same name.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, Amount::plus);
    }

    /// Subtracts every amount of `other`. An amount may become negative.
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, Amount::minus);
    }

    /// Sets each amount to the larger of itself and the amount in `other`.
    pub fn max_each(&mut self, other: &Self) {
        self.combine(other, Amount::max);
        // A name that only `self` has is compared with 0.
        if self.0.iter().any(|(_, amount)| amount.is_negative()) {
            let absent_in_other = |name: &str| other.place(name).is_err();
            self.0.retain(|(name, amount)| !(amount.is_negative() && absent_in_other(name)));
        }
    }

    /// Sets each amount to the smaller of itself and the amount in `other`. No amount may be negative.
    pub fn min_each(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount = (*amount).min(other.get(name.as_str()));
        }
        self.drop_zeros();
    }

    /// Returns whether no amount of `other` is larger than the amount here.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(name, amount)| *amount <= self.get(name.as_str()))
    }

    /// Returns the vector without the negative amounts.
    #[must_use]
    pub fn without_negative(mut self) -> Self {
        self.0.retain(|(_, amount)| amount.is_positive());
        self
    }

    /// Returns `count` times each amount.
    #[must_use]
    pub fn times(mut self, count: u32) -> Self {
        for (_, amount) in &mut self.0 {
            *amount = amount.times(count);
        }
        self.drop_zeros();
        self
    }

    /// Sets each amount with a name in `other` to `of(own, other's)`. Both vectors are sorted, so each search begins where the last one
    /// ended. Nothing is allocated if `self` has all the names.
    fn combine(&mut self, other: &Self, of: impl Fn(Amount, Amount) -> Amount) {
        let mut from = 0_usize;
        let mut zeros = false;
        for (name, theirs) in &other.0 {
            let rest = self.0.get(from..).unwrap_or_default();
            match rest.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(offset) => {
                    from = from.saturating_add(offset);
                    if let Some((_, own)) = self.0.get_mut(from) {
                        *own = of(*own, *theirs);
                        zeros |= own.is_zero();
                    }
                }
                Err(offset) => {
                    from = from.saturating_add(offset);
                    let own = of(Amount::ZERO, *theirs);
                    zeros |= own.is_zero();
                    self.0.insert(from, (name.clone(), own));
                }
            }
        }
        if zeros {
            self.drop_zeros();
        }
    }

    fn drop_zeros(&mut self) {
        self.0.retain(|(_, amount)| !amount.is_zero());
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(name))
    }
}

/// Collects amounts. Several entries of one name are added.
impl FromIterator<(ResourceName, Amount)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Amount)>>(entries: I) -> Self {
        let mut resources = Self::new();
        for (name, amount) in entries {
            let sum = resources.get(&name).plus(amount);
            resources.set(name, sum);
        }
        resources
    }
}

/// Writes `cpu 1500m, memory 2Gi`; `nothing` if every amount is 0.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (name, amount)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {}", super::quantity::format(amount, name.style()))?;
        }
        Ok(())
    }
}

/// Writes the text of [`Display`](fmt::Display) in brackets, because people read failed assertions.
impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The reference model: a map in which a missing key is 0.
    type Model = BTreeMap<String, i64>;

    fn model() -> impl Strategy<Value = Model> {
        prop::collection::btree_map("[a-e]", -3_i64..4, 0..5)
    }

    fn vector(model: &Model) -> Resources {
        model.iter().map(|(name, amount)| (name.as_str().into(), Amount::from_units(*amount))).collect()
    }

    fn combined(a: &Model, b: &Model, of: fn(i64, i64) -> i64) -> Resources {
        let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
        let of_name = |name: &String| of(*a.get(name).unwrap_or(&0), *b.get(name).unwrap_or(&0));
        vector(&names.into_iter().map(|name| (name.clone(), of_name(name))).collect())
    }

    #[test]
    fn an_absent_amount_is_0_and_0_is_not_stored() {
        let some = Resources::new().with("cpu", Amount::from_units(1)).with("memory", Amount::ZERO);
        assert_eq!(some.get("memory"), Amount::ZERO);
        assert_eq!(some.len(), 1);
        assert!(some.with("cpu", Amount::ZERO).is_zero());
    }

    #[test]
    fn resources_are_written_in_the_order_of_their_names_with_the_right_suffixes() {
        let some = Resources::new().with("memory", Amount::from_units(2 << 30)).with("cpu", Amount::from_nanos(1_500_000_000));
        assert_eq!(some.to_string(), "cpu 1500m, memory 2Gi");
        assert_eq!(Resources::new().to_string(), "nothing");
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn sums_differences_and_maxima_agree_with_the_reference_model(a in model(), b in model()) {
            let mut sum = vector(&a);
            sum.add(&vector(&b));
            prop_assert_eq!(&sum, &combined(&a, &b, |a, b| a + b));
            sum.sub(&vector(&b));
            prop_assert_eq!(&sum, &vector(&a));
            sum.sub(&vector(&b));
            prop_assert_eq!(&sum, &combined(&a, &b, |a, b| a - b));
            let mut max = vector(&a);
            max.max_each(&vector(&b));
            prop_assert_eq!(&max, &combined(&a, &b, i64::max));
            let positive = vector(&a).without_negative();
            prop_assert!(positive.iter().all(|(name, amount)| amount.is_positive() && amount == vector(&a).get(name)));
            prop_assert!(sum.iter().map(|(name, _)| name).is_sorted());
        }
    }
}
