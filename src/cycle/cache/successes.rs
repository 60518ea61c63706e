//! Which members of a PodGroup succeeded, and have no pod any more? A success counts once, as long as the PodGroup lives.
//!
//! This process sees pods that succeeded go. Of those that went before it started, the status of the PodGroup has the number
//! (`status.succeeded`), so the number survives a restart and a handover. Their tasks and subgroups are not in the API: they count for tasks
//! and for known subgroups that lack members, in their order.

use std::collections::BTreeMap;

use crate::api::{GroupFacts, GroupKey, SubGroup};

use super::phase::live;
use super::subgroups::SubgroupNeeds;
use super::{Cache, Change, Group};

/// The members that succeeded and whose pods are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Successes {
    /// Their number, by task.
    of_tasks: BTreeMap<String, u32>,
    /// The number of those that were in a subgroup, by subgroup.
    of_subgroups: BTreeMap<SubGroup, u32>,
    /// Whether those that went before this process started are among them.
    is_complete: bool,
}

impl Successes {
    /// Returns their number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.of_tasks.values().fold(0, |sum, number| sum.saturating_add(*number))
    }

    /// Returns the number of those of this task.
    #[must_use]
    pub fn of_task(&self, task: &str) -> u32 {
        self.of_tasks.get(task).copied().unwrap_or(0)
    }

    /// Returns the number of those of this subgroup.
    pub(super) fn of_subgroup(&self, subgroup: &SubGroup) -> u32 {
        self.of_subgroups.get(subgroup).copied().unwrap_or(0)
    }

    /// Returns the number of those of each subgroup that has any.
    pub(super) fn of_subgroups(&self) -> impl Iterator<Item = (&SubGroup, &u32)> {
        self.of_subgroups.iter()
    }

    /// The pod of a member that succeeded is gone.
    pub(super) fn add(&mut self, task: &str, subgroup: Option<SubGroup>) {
        let of_subgroup = subgroup.map(|subgroup| self.of_subgroups.entry(subgroup).or_default());
        let of_task = self.of_tasks.entry(task.to_owned()).or_default();
        for number in of_subgroup.into_iter().chain([of_task]) {
            *number = number.saturating_add(1);
        }
    }

    /// The subgroups are others now.
    pub(super) fn forget_subgroups(&mut self) {
        self.of_subgroups.clear();
    }

    /// The PodGroup begins anew: what succeeded before does not count.
    pub(super) fn forget(&mut self) {
        *self = Self { is_complete: true, ..Self::default() };
    }
}

impl Cache {
    /// Adds the successes of which only the status knows, once: when this process has seen all members. Returns whether there are any.
    pub(in crate::cycle) fn complete_successes(&mut self, key: &GroupKey) -> bool {
        let Some(group) = self.groups.get_mut(key) else { return false };
        let Some(facts) = group.facts.clone().filter(|_| !group.successes.is_complete) else { return false };
        group.successes.is_complete = true;
        let said = facts.had_succeeded();
        let known = group.counts.succeeded.saturating_add(group.successes.number());
        // Where a new member has come since it had ended, it begins anew.
        let lacks = if facts.is_over() && live(group) > 0 { 0 } else { said.saturating_sub(known).min(MOST) };
        let mut subgroups = SubgroupNeeds::of(group, &facts, std::iter::empty()).lack;
        for _ in 0..lacks {
            let task = task_that_lacks_a_member(group, &facts);
            let subgroup = subgroups.first_entry().map(|mut first| {
                *first.get_mut() = first.get().saturating_sub(1);
                let subgroup = first.key().clone();
                if *first.get() == 0 {
                    first.remove();
                }
                subgroup
            });
            group.successes.add(&task, subgroup);
        }
        if lacks > 0 {
            self.changed(Change::Group(key.clone()));
        }
        lacks > 0
    }
}

/// Returns the first task with fewer members than it needs; the default task where there is none.
fn task_that_lacks_a_member(group: &Group, facts: &GroupFacts) -> String {
    let has = |task: &String| group.tasks.get(task).copied().unwrap_or(0).saturating_add(group.successes.of_task(task));
    facts.min_task_member.iter().find(|(task, minimum)| has(task) < **minimum).map(|(task, _)| task.clone()).unwrap_or_default()
}

/// A status may say any number: more than so many successes count as so many.
const MOST: u32 = 100_000;
