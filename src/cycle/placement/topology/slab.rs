//! Where do values with small reusable numbers live?

/// Values by number. The number of a removed value is used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value. Returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.values.get_mut(number as usize) {
            *slot = Some(value);
        }
        number
    }

    /// Removes a value. Returns it.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// Returns the value with this number.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    /// Returns the value with this number, mutable.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    /// Returns all values with their numbers, in the order of these.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.values).filter_map(|(number, value)| Some((number, value.as_ref()?)))
    }

    /// Returns the number of values.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.values.len().saturating_sub(self.free.len())
    }
}
