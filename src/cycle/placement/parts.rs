//! How many pods of an attempt must be placed, in all and of each part, and which pods still count?
//!
//! A part is a kind of pods that others cannot stand in for, such as the pods of one task. Which of its pods are placed does not matter. No
//! more pods are placed than are needed, so a pod does not count where its part has enough and the other parts need all that is left.

/// The pods that are needed, and those that are placed.
#[derive(Clone, Debug)]
pub struct Parts {
    needed: u32,
    placed: u32,
    parts: Vec<Part>,
}

/// The same of one part.
#[derive(Clone, Copy, Debug)]
struct Part {
    needed: u32,
    placed: u32,
}

impl Parts {
    /// Nothing is placed yet. As many pods are needed as all parts need together, or more.
    #[must_use]
    pub fn new(needed: u32, of_parts: &[u32]) -> Self {
        let parts = of_parts.iter().map(|needed| Part { needed: *needed, placed: 0 }).collect();
        let sum = of_parts.iter().fold(0_u32, |sum, needed| sum.saturating_add(*needed));
        Self { needed: needed.max(sum), placed: 0, parts }
    }

    /// Returns the number of placed pods.
    #[must_use]
    pub const fn placed(&self) -> u32 {
        self.placed
    }

    /// Whether nothing is missing.
    #[must_use]
    pub const fn are_placed(&self) -> bool {
        // Only pods that count are placed, so the parts have what they need as well.
        self.placed >= self.needed
    }

    /// Returns how many pods are missing in all.
    #[must_use]
    pub const fn missing(&self) -> u32 {
        self.needed.saturating_sub(self.placed)
    }

    /// Returns how many pods the part misses; 0 for pods of no part.
    #[must_use]
    pub fn missing_of(&self, part: Option<usize>) -> u32 {
        part.and_then(|at| self.parts.get(at)).map_or(0, Part::missing)
    }

    /// Whether one more pod of this part counts.
    #[must_use]
    pub fn take(&self, part: Option<usize>) -> bool {
        let of_parts = || self.parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.missing()));
        self.missing_of(part) > 0 || self.missing() > of_parts()
    }

    /// Whether what is missing can still be placed of `left` pods, and of a part of `of_part(part)`.
    pub fn are_enough(&self, left: u32, of_part: impl Fn(usize) -> u32) -> bool {
        left >= self.missing() && self.parts.iter().enumerate().all(|(at, part)| of_part(at) >= part.missing())
    }

    /// Takes note that a pod of the part was placed.
    pub fn add(&mut self, part: Option<usize>) {
        self.placed = self.placed.saturating_add(1);
        if let Some(part) = part.and_then(|at| self.parts.get_mut(at)) {
            part.placed = part.placed.saturating_add(1);
        }
    }

    /// Takes note that one was taken back.
    pub fn remove(&mut self, part: Option<usize>) {
        self.placed = self.placed.saturating_sub(1);
        if let Some(part) = part.and_then(|at| self.parts.get_mut(at)) {
            part.placed = part.placed.saturating_sub(1);
        }
    }
}

impl Part {
    const fn missing(&self) -> u32 {
        self.needed.saturating_sub(self.placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_count_until_the_other_parts_need_all_that_is_left() {
        // Four of them, at least one of the first part and one of the second.
        let mut parts = Parts::new(4, &[1, 1]);
        let take = |parts: &Parts| [Some(0), Some(1), None].map(|part| parts.take(part));
        assert_eq!(take(&parts), [true, true, true]);
        parts.add(None);
        parts.add(Some(0));
        assert_eq!(take(&parts), [true, true, true], "one of any kind is left");
        parts.add(Some(0));
        assert_eq!((take(&parts), parts.missing()), ([false, true, false], 1), "the last one is of the second part");
        parts.remove(Some(0));
        assert_eq!(take(&parts), [true, true, true]);
        parts.add(None);
        parts.add(Some(1));
        assert!(parts.are_placed());
        assert_eq!(take(&parts), [false, false, false]);
    }

    #[test]
    fn as_many_are_needed_as_all_parts_need() {
        let parts = Parts::new(1, &[2, 1]);
        assert_eq!((parts.missing(), parts.missing_of(Some(0)), parts.missing_of(None)), (3, 2, 0));
        assert!(parts.are_enough(3, |at| [2, 1][at]));
        assert!(!parts.are_enough(2, |at| [2, 1][at]), "too few in all");
        assert!(!parts.are_enough(3, |at| [1, 2][at]), "too few of the first part");
    }
}
