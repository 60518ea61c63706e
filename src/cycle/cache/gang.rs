//! The number of members of a PodGroup that must be placed together now.
//!
//! A gang counts the members with a node (bound, being bound, not terminating) and those that succeeded: both have had what the gang is
//! for. Failed members do not count. With a minMember of 0 each pod is placed by itself. Once the minimum is there, further members are
//! placed one by one.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{GroupFacts, PodFacts, Uid};

use crate::cycle::explain::Refusal;

use super::{Cache, Group, Member, State};

/// The members that a PodGroup still needs to be a satisfied gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// The number of further members that must be placed together; 0 when it is satisfied.
    pub needed: u32,
    /// The number of them that must be of each task.
    pub tasks: BTreeMap<String, u32>,
}

/// Resolves what a PodGroup needs.
///
/// # Errors
///
/// There are too few members, or a needed one requests something that is not supported.
pub fn resolve(cache: &Cache, group: &Group, facts: &GroupFacts) -> Result<Gang, Refusal> {
    resolve_without(cache, group, facts, &BTreeSet::new())
}

/// Does the same as if these pods were gone, which are being preempted. A gang that loses its minimum gets no further member.
///
/// # Errors
///
/// The same.
pub fn resolve_without(cache: &Cache, group: &Group, facts: &GroupFacts, victims: &BTreeSet<Uid>) -> Result<Gang, Refusal> {
    let counts = group.counts;
    let placed = |member: &&Member| member.state() == State::Placed;
    let going: Vec<&Member> = victims.iter().filter_map(|uid| cache.pods().get(uid)).filter(placed).collect();
    let lost = u32::try_from(going.len()).unwrap_or(u32::MAX);
    let has = counts.placed.saturating_sub(lost).saturating_add(counts.succeeded);
    let needed = facts.min_member.saturating_sub(has);
    let of_task = |task: &str| {
        let lost = going.iter().filter(|member| member.facts.task() == task).count();
        group.tasks.get(task).copied().unwrap_or(0).saturating_sub(u32::try_from(lost).unwrap_or(u32::MAX))
    };
    let tasks = missing_of_tasks(facts, of_task);
    if needed == 0 && tasks.is_empty() {
        return Ok(Gang::default());
    }
    let waiting = u32::try_from(group.waiting.len()).unwrap_or(u32::MAX);
    let blocked = || group.blocked.iter().find_map(|uid| cache.pods().get(uid)?.blocked());
    if waiting < needed {
        let there = has.saturating_add(waiting);
        return Err(blocked().unwrap_or(Refusal::NotEnoughTasks { wanted: facts.min_member, there, gated: counts.gated }));
    }
    for (task, missing) in &tasks {
        let is_of_it = |uid: &&Uid| cache.pods().get(*uid).is_some_and(|member| member.facts.task() == *task);
        let waiting = u32::try_from(group.waiting.iter().filter(is_of_it).count()).unwrap_or(u32::MAX);
        if waiting < *missing {
            let there = of_task(task).saturating_add(waiting);
            let wanted = facts.min_task_member.get(task).copied().unwrap_or(0);
            let gated = gated(cache, group, is_of_it);
            return Err(blocked().unwrap_or(Refusal::NotEnoughPodsOfTask { task: task.clone(), wanted, there, gated }));
        }
    }
    Ok(Gang { needed: needed.max(sum(&tasks)), tasks })
}

/// Returns the number of these members that have scheduling gates.
fn gated(cache: &Cache, group: &Group, of_task: impl Fn(&&Uid) -> bool) -> u32 {
    if group.counts.gated == 0 {
        return 0;
    }
    let is_gated = |uid: &&Uid| cache.pods().get(*uid).is_some_and(|member| member.state() == State::Gated);
    u32::try_from(group.members.iter().filter(of_task).filter(is_gated).count()).unwrap_or(u32::MAX)
}

/// Whether its minimum is met by members that have a node or have succeeded.
#[must_use]
pub fn is_satisfied(group: &Group, facts: &GroupFacts) -> bool {
    group.counts.placed.saturating_add(group.counts.succeeded) >= facts.min_member && missing_tasks(group, facts).is_empty()
}

/// Whether the PodGroup has all its nodes, and needs nothing while none of its members waits.
#[must_use]
pub fn has_its_places(group: &Group, facts: &GroupFacts) -> bool {
    facts.is_over() || (group.counts.placed > 0 || group.counts.succeeded > 0) && is_satisfied(group, facts)
}

/// Whether there are as many members, and as many of each task, as its minimum needs, with a node or without.
#[must_use]
pub fn is_whole(cache: &Cache, group: &Group, facts: &GroupFacts) -> bool {
    resolve(cache, group, facts).is_ok()
}

/// Returns how many members its minimum lacks, that of each task included.
pub(in crate::cycle) fn missing(group: &Group, facts: &GroupFacts) -> u32 {
    let has = group.counts.placed.saturating_add(group.counts.succeeded);
    facts.min_member.saturating_sub(has).max(sum(&missing_tasks(group, facts)))
}

fn sum(of_tasks: &BTreeMap<String, u32>) -> u32 {
    of_tasks.values().fold(0, |sum, missing| sum.saturating_add(*missing))
}

/// Returns the number of members of each task that still need a node; tasks that have enough are left out.
///
/// Where minMember is below the sum of minTaskMember, Volcano ignores the tasks, and jobs rely on that.
pub(in crate::cycle) fn missing_tasks(group: &Group, facts: &GroupFacts) -> BTreeMap<String, u32> {
    missing_of_tasks(facts, |task| group.tasks.get(task).copied().unwrap_or(0))
}

fn missing_of_tasks(facts: &GroupFacts, has: impl Fn(&str) -> u32) -> BTreeMap<String, u32> {
    let sum = facts.min_task_member.values().fold(0_u32, |sum, minimum| sum.saturating_add(*minimum));
    if facts.min_member < sum {
        return BTreeMap::new();
    }
    let missing = |(task, minimum): (&String, &u32)| {
        let missing = minimum.saturating_sub(has(task));
        (missing > 0).then(|| (task.clone(), missing))
    };
    facts.min_task_member.iter().filter_map(missing).collect()
}

/// Returns the waiting members in the order in which they are placed: priority, age, name; members that a task needs come before the
/// others.
#[must_use]
pub fn in_order(cache: &Cache, group: &Group, gang: &Gang) -> Vec<Uid> {
    let mut members: Vec<_> = group.waiting.iter().filter_map(|uid| cache.pods().get(uid)).map(|member| &member.facts).collect();
    members.sort_by(|a, b| {
        b.priority.cmp(&a.priority).then(a.created.cmp(&b.created)).then_with(|| a.name.cmp(&b.name)).then_with(|| a.uid.cmp(&b.uid))
    });
    let mut missing = gang.tasks.clone();
    let (first, then): (Vec<_>, Vec<_>) = members.into_iter().partition(|facts| counts_for_task(&mut missing, facts));
    first.into_iter().chain(then).map(|facts| facts.uid.clone()).collect()
}

/// Whether one more member of the task of this pod is missing; then one fewer is.
pub(in crate::cycle) fn counts_for_task(missing: &mut BTreeMap<String, u32>, facts: &PodFacts) -> bool {
    missing.get_mut(facts.task()).is_some_and(|left| {
        let some = *left > 0;
        *left = left.saturating_sub(1);
        some
    })
}
