//! How many pods of an attempt must be placed, in all and of each part, and which pods still count?
//!
//! A part is a kind of pods that others cannot stand in for: the pods of one task, or the subgroups of one policy. Which pods of it are placed
//! does not matter; those of a subgroup are placed together. No more pods are placed than are needed, so pods do not count where their parts
//! have enough and the other parts need all that is left.

use super::placer::Pod;

/// What is needed of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many pods of the task, or subgroups of the policy.
    pub needed: u32,
    /// The least number of pods of one of its subgroups; none where it is a task.
    pub subgroup: Option<u32>,
}

/// The pods that are needed, and those that are placed.
#[derive(Clone, Debug)]
pub struct Parts {
    needed: u32,
    placed: u32,
    /// By part: what is still missing. What is placed beyond that is negative.
    missing: Vec<(Part, i64)>,
}

impl Parts {
    /// Nothing is placed yet. As many pods are needed as the parts need together, or more.
    #[must_use]
    pub fn new(needed: u32, parts: &[Part]) -> Self {
        let mut all = Self { needed, placed: 0, missing: parts.iter().map(|part| (*part, i64::from(part.needed))).collect() };
        all.needed = needed.max(u32::try_from(all.missing_of_parts()).unwrap_or(u32::MAX));
        all
    }

    /// Returns the number of placed pods.
    #[must_use]
    pub const fn placed(&self) -> u32 {
        self.placed
    }

    /// Whether nothing is missing.
    #[must_use]
    pub fn are_placed(&self) -> bool {
        self.placed >= self.needed && self.missing.iter().all(|(_, missing)| *missing <= 0)
    }

    /// Returns how many pods are missing in all.
    #[must_use]
    pub const fn missing(&self) -> u32 {
        self.needed.saturating_sub(self.placed)
    }

    /// Returns how many the part misses; 0 for pods of no part.
    #[must_use]
    pub fn missing_of(&self, part: Option<usize>) -> u32 {
        let missing = part.and_then(|at| self.missing.get(at)).map_or(0, |(_, missing)| *missing);
        u32::try_from(missing).unwrap_or(0)
    }

    /// How many pods the parts miss at least. A pod may be of a task and of a subgroup.
    fn missing_of_parts(&self) -> u64 {
        let (mut of_tasks, mut of_subgroups) = (0_u64, 0_u64);
        for (part, missing) in &self.missing {
            let missing = u64::try_from(*missing).unwrap_or(0);
            let (sum, each) = part.subgroup.map_or((&mut of_tasks, 1), |pods| (&mut of_subgroups, u64::from(pods)));
            *sum = sum.saturating_add(missing.saturating_mul(each));
        }
        of_tasks.max(of_subgroups)
    }

    /// Whether these pods count, which are placed together: one pod, or those of a subgroup.
    #[must_use]
    pub fn take(&self, pods: &[Pod<'_>]) -> bool {
        parts_of(pods).any(|part| self.missing_of(Some(part)) > 0) || u64::from(self.missing()) > self.missing_of_parts()
    }

    /// Whether what is missing can still be placed of `left` pods, and of a part of `of_part(part)`.
    pub fn are_enough(&self, left: u32, of_part: impl Fn(usize) -> u32) -> bool {
        let parts = self.missing.iter().enumerate();
        left >= self.missing() && parts.into_iter().all(|(at, (_, missing))| i64::from(of_part(at)) >= *missing)
    }

    /// Takes note that these pods were placed.
    pub fn add(&mut self, pods: &[Pod<'_>]) {
        self.placed = self.placed.saturating_add(u32::try_from(pods.len()).unwrap_or(u32::MAX));
        parts_of(pods).for_each(|part| self.shift(part, -1));
    }

    /// Takes note that they were taken back.
    pub fn remove(&mut self, pods: &[Pod<'_>]) {
        self.placed = self.placed.saturating_sub(u32::try_from(pods.len()).unwrap_or(u32::MAX));
        parts_of(pods).for_each(|part| self.shift(part, 1));
    }

    fn shift(&mut self, part: usize, by: i64) {
        if let Some((_, missing)) = self.missing.get_mut(part) {
            *missing = missing.saturating_add(by);
        }
    }
}

/// Returns the parts of these pods: the task of each, and the policy of their subgroup.
pub(super) fn parts_of<'p>(pods: &'p [Pod<'_>]) -> impl Iterator<Item = usize> + 'p {
    let policy = pods.first().and_then(|pod| pod.subgroup?.part);
    pods.iter().filter_map(|pod| pod.task).chain(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PodFacts;
    use crate::cycle::placement::placer::Subgroup;
    use crate::cycle::testing::pod;

    fn tasks(needed: &[u32]) -> Vec<Part> {
        needed.iter().map(|needed| Part { needed: *needed, subgroup: None }).collect()
    }

    fn of_task(facts: &PodFacts, task: Option<usize>) -> [Pod<'_>; 1] {
        [Pod { task, ..Pod::new(facts, None) }]
    }

    #[test]
    fn pods_count_until_the_other_parts_need_all_that_is_left() {
        let facts = pod("ns", "p", "g", &[]);
        let [first, second, none] = [Some(0), Some(1), None].map(|task| of_task(&facts, task));
        // Four of them, at least one of the first task and one of the second.
        let mut parts = Parts::new(4, &tasks(&[1, 1]));
        let take = |parts: &Parts| [&first, &second, &none].map(|pods| parts.take(pods));
        assert_eq!(take(&parts), [true, true, true]);
        parts.add(&none);
        parts.add(&first);
        assert_eq!(take(&parts), [true, true, true], "one of any kind is left");
        parts.add(&first);
        assert_eq!((take(&parts), parts.missing()), ([false, true, false], 1), "the last one is of the second task");
        parts.remove(&first);
        assert_eq!(take(&parts), [true, true, true]);
        parts.add(&none);
        parts.add(&second);
        assert!(parts.are_placed());
        assert_eq!(take(&parts), [false, false, false]);
    }

    #[test]
    fn as_many_are_needed_as_all_parts_need() {
        let parts = Parts::new(1, &tasks(&[2, 1]));
        assert_eq!((parts.missing(), parts.missing_of(Some(0)), parts.missing_of(None)), (3, 2, 0));
        assert!(parts.are_enough(3, |at| [2, 1][at]));
        assert!(!parts.are_enough(2, |at| [2, 1][at]), "too few in all");
        assert!(!parts.are_enough(3, |at| [1, 2][at]), "too few of the first task");
    }

    #[test]
    fn the_pods_of_a_subgroup_count_together() {
        let facts = pod("ns", "p", "g", &[]);
        let of = |part, task| [Pod { subgroup: Some(Subgroup { number: 0, part }), task, ..Pod::new(&facts, None) }; 2];
        // Five pods: two subgroups of two, three pods of a task.
        let needed = [Part { needed: 2, subgroup: Some(2) }, Part { needed: 3, subgroup: None }];
        let mut parts = Parts::new(5, &needed);
        let [both, task, other] = [of(Some(0), Some(1)), of(None, Some(1)), of(None, None)];
        assert!([both, task, other].iter().all(|pods| parts.take(pods)));
        parts.add(&both);
        assert!(parts.take(&other), "one of three is left");
        parts.add(&task);
        assert_eq!((parts.missing(), parts.take(&task), parts.take(&other), parts.take(&both)), (1, false, false, true));
        parts.add(&both);
        assert!(parts.are_placed() && parts.placed() == 6);
    }
}
