//! One count of a gang: what it has, what it needs, what is missing, and what is surplus.
//!
//! Admission, placing, victims, lost members, nominations, the status and reports ask here and nowhere else.
//!
//! * *placed*: members with a node: bound or being bound, not terminating.
//! * *succeeded*: members that succeeded, each once, as long as the PodGroup lives: also when the pod is gone.
//! * *needs*: how many must be placed at the same time: minMember, less what succeeded for it. A Job says how many pods are to succeed in all
//!   ([`GroupFacts::completions`]): then it needs minMember, or what is left of that number, so each wave of it is a gang. Its minMember
//!   becomes smaller with what is left, too, a moment later; as the smaller one counts, it does not matter which is seen first.
//! * *missing* and *surplus*: `needs − placed`, and `placed − needs`; none is below 0.
//!
//! Failed members do not count. With a minMember of 0 each pod is placed by itself. Once nothing is missing, further members are placed
//! one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use crate::api::{GroupFacts, GroupKey, PodFacts, Uid};
use crate::by_key::ByKey;

use crate::cycle::explain::Refusal;

use super::members::enough;
use super::phase::has_ended;
use super::subgroups::SubgroupNeeds;
use super::{Cache, Group, Member, State};

/// A gang in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The members with a node.
    pub placed: u32,
    /// The members that succeeded, also those whose pods are gone.
    pub succeeded: u32,
    /// How many must be placed at the same time now.
    pub needs: u32,
}

impl Count {
    /// Counts a PodGroup.
    #[must_use]
    pub fn of(group: &Group, facts: &GroupFacts) -> Self {
        Self::with_placed(group, facts, group.counts.placed)
    }

    pub(super) fn with_placed(group: &Group, facts: &GroupFacts, placed: u32) -> Self {
        let succeeded = group.counts.succeeded.saturating_add(group.successes.number());
        let left = facts.completions.unwrap_or(facts.min_member).saturating_sub(succeeded);
        Self { placed, succeeded, needs: facts.min_member.min(left) }
    }

    /// How many more must be placed together.
    #[must_use]
    pub const fn missing(self) -> u32 {
        self.needs.saturating_sub(self.placed)
    }

    /// Whether it has, or had, anything for its minimum: a member with a node, or a success.
    #[must_use]
    pub const fn has_any(self) -> bool {
        self.placed > 0 || self.succeeded > 0
    }
}

/// The members that a PodGroup still needs to be a satisfied gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// How many of its waiting members, in their order, are enough; 0 when it is satisfied.
    pub needed: u32,
    /// The least number of further members that must be placed together. Others than the first may be enough and fewer.
    pub least: u32,
    /// The number of them that must be of each task.
    pub tasks: BTreeMap<String, u32>,
    /// What its subgroups need.
    pub(in crate::cycle) subgroups: SubgroupNeeds,
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
    let placed = |member: &&Member| member.state() == State::Placed;
    let going: Vec<&Member> = victims.iter().filter_map(|uid| cache.pods().get(uid)).filter(placed).collect();
    let lost = u32::try_from(going.len()).unwrap_or(u32::MAX);
    let needed = Count::with_placed(group, facts, group.counts.placed.saturating_sub(lost)).missing();
    let of_task = |task: &str| {
        let lost = going.iter().filter(|member| member.facts.task() == task).count();
        has_of_task(group, task).saturating_sub(u32::try_from(lost).unwrap_or(u32::MAX))
    };
    let tasks = missing_of_tasks(facts, of_task);
    let subgroups = SubgroupNeeds::of(group, facts, going.iter().map(|member| &member.facts.uid));
    if needed == 0 && tasks.is_empty() && subgroups.missing.is_empty() {
        return Ok(Gang { subgroups, ..Gang::default() });
    }
    let waiting = u32::try_from(group.waiting.len()).unwrap_or(u32::MAX);
    let blocked = || group.blocked.iter().find_map(|uid| cache.pods().get(uid)?.blocked());
    if waiting < needed {
        let there = facts.min_member.saturating_sub(needed).saturating_add(waiting);
        return Err(blocked().unwrap_or(Refusal::NotEnoughTasks { wanted: facts.min_member, there, gated: group.counts.gated }));
    }
    if facts.awaits_owners {
        let there = facts.min_member.saturating_sub(1);
        return Err(Refusal::NotEnoughTasks { wanted: facts.min_member, there, gated: group.counts.gated });
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
    let gang = Gang { needed: 0, least: needed.max(sum(&tasks)), tasks, subgroups };
    if facts.sub_groups.is_empty() {
        return Ok(Gang { needed: gang.least, ..gang });
    }
    let needed = enough(cache, group, facts, &gang).map_err(|refusal| blocked().unwrap_or(refusal))?;
    Ok(Gang { needed, ..gang })
}

/// Returns the number of these members that have scheduling gates.
pub(super) fn gated(cache: &Cache, group: &Group, which: impl Fn(&&Uid) -> bool) -> u32 {
    if group.counts.gated == 0 {
        return 0;
    }
    let is_gated = |uid: &&Uid| cache.pods().get(*uid).is_some_and(|member| member.state() == State::Gated);
    u32::try_from(group.members.iter().filter(which).filter(is_gated).count()).unwrap_or(u32::MAX)
}

/// Returns how many members the PodGroup needs in all: minMember, those of its tasks, or those of its subgroups, whichever is most.
#[must_use]
pub fn minimum(facts: &GroupFacts) -> u32 {
    let of_subgroups = facts.sub_groups.iter().fold(0_u32, |sum, policy| sum.saturating_add(policy.needed.saturating_mul(policy.size)));
    facts.min_member.max(of_subgroups)
}

/// Whether its minimum is met by members that have a node or have succeeded.
#[must_use]
pub fn is_satisfied(group: &Group, facts: &GroupFacts) -> bool {
    Count::of(group, facts).missing() == 0
        && missing_tasks(group, facts).is_empty()
        && SubgroupNeeds::of(group, facts, iter::empty()).missing.is_empty()
}

/// Whether it is satisfied, and with a minimum of 0 has a member, with a node or without.
#[must_use]
pub fn is_satisfied_with_members(group: &Group, facts: &GroupFacts) -> bool {
    is_satisfied(group, facts) && (Count::of(group, facts).has_any() || !group.waiting.is_empty())
}

/// Whether the PodGroup has all its nodes, and needs nothing while none of its members waits.
#[must_use]
pub fn has_its_places(group: &Group, facts: &GroupFacts) -> bool {
    facts.is_over() || Count::of(group, facts).has_any() && is_satisfied(group, facts)
}

/// Whether the PodGroup had all its nodes once: this process saw it, or its status says so.
#[must_use]
pub fn had_its_places(group: &Group, facts: &GroupFacts) -> bool {
    group.had_its_places || facts.was_scheduled()
}

/// Whether its creator may wait for the admission before it makes the members, so that a reservation for them is owed (A2). It is owed to a
/// beginning alone: not where podgroup-controller made the PodGroup, whose pods come by themselves, nor where it had its nodes once or is
/// over.
#[must_use]
pub fn is_owed_a_beginning(group: &Group, facts: &GroupFacts) -> bool {
    !facts.managed && !had_its_places(group, facts) && !has_ended(group, facts)
}

/// Whether nothing is to be admitted or placed: it has no member that waits, needs none, and states no resources.
#[must_use]
pub fn asks_for_nothing(group: &Group, facts: &GroupFacts) -> bool {
    group.waiting.is_empty() && is_satisfied(group, facts) && facts.min_resources.is_none()
}

/// Whether there are as many members, and as many of each task, as its minimum needs, with a node or without.
#[must_use]
pub fn is_whole(cache: &Cache, group: &Group, facts: &GroupFacts) -> bool {
    resolve(cache, group, facts).is_ok()
}

/// Returns the member with a node on which the others depend: it goes last, and with all of them. It is the one with the label of a driver,
/// a head or a launcher, else the one with index 0, else, where a user or an operator made the PodGroup, the oldest. None where its minimum is
/// 0, or no member has a node.
pub(in crate::cycle) fn leader<'a>(pods: &'a ByKey<Uid, Member>, group: &Group, facts: &GroupFacts) -> Option<&'a Uid> {
    let oldest_first = |a: &PodFacts, b: &PodFacts| a.created.cmp(&b.created).then_with(|| a.uid.cmp(&b.uid));
    let placed = || {
        let members = group.members.iter().filter_map(|uid| pods.get(uid));
        members.filter(|member| member.state() == State::Placed).map(|member| &*member.facts)
    };
    let has = |facts: &PodFacts, labels: &[(&str, &str)]| {
        labels.iter().any(|(name, value)| facts.labels.get(*name).is_some_and(|is| is == value))
    };
    let of = |labels: &[(&str, &str)]| placed().filter(|facts| has(facts, labels)).min_by(|a, b| oldest_first(a, b));
    let oldest = || placed().filter(|_| !facts.managed).min_by(|a, b| oldest_first(a, b));
    let leader = of(LEADERS).or_else(|| of(FIRST_INDEX)).or_else(oldest);
    leader.filter(|_| facts.min_member > 0).map(|facts| &facts.uid)
}

/// The labels by which operators mark the pod on which the others depend: Spark, KubeRay, Kubeflow.
const LEADERS: &[(&str, &str)] = &[
    ("spark-role", "driver"),
    ("ray.io/node-type", "head"),
    ("training.kubeflow.org/job-role", "master"),
    ("training.kubeflow.org/job-role", "launcher"),
    ("training.kubeflow.org/replica-type", "launcher"),
];

/// The labels of the first pod of an indexed owner: Job, StatefulSet, LeaderWorkerSet.
const FIRST_INDEX: &[(&str, &str)] = &[
    ("batch.kubernetes.io/job-completion-index", "0"),
    ("apps.kubernetes.io/pod-index", "0"),
    ("leaderworkerset.sigs.k8s.io/worker-index", "0"),
];

impl Cache {
    /// Returns the [`leader`] of the PodGroup.
    pub(in crate::cycle) fn leader_of(&self, key: &GroupKey) -> Option<&Uid> {
        let group = self.groups.get(key)?;
        leader(&self.pods, group, group.facts.as_deref()?)
    }
}

/// Returns how many members its minimum lacks, that of each task included.
pub(in crate::cycle) fn missing(group: &Group, facts: &GroupFacts) -> u32 {
    let needs = SubgroupNeeds::of(group, facts, iter::empty());
    let of_subgroups = needs.missing.iter().fold(0_u32, |sum, (policy, missing)| sum.saturating_add(needs.least_of(*policy, *missing)));
    Count::of(group, facts).missing().max(sum(&missing_tasks(group, facts))).max(of_subgroups)
}

fn sum(of_tasks: &BTreeMap<String, u32>) -> u32 {
    of_tasks.values().fold(0, |sum, missing| sum.saturating_add(*missing))
}

/// Returns the number of members of each task that still need a node; tasks that have enough are left out.
///
/// Where minMember is below the sum of minTaskMember, Volcano ignores the tasks, and jobs rely on that.
pub(in crate::cycle) fn missing_tasks(group: &Group, facts: &GroupFacts) -> BTreeMap<String, u32> {
    missing_of_tasks(facts, |task| has_of_task(group, task))
}

/// Returns how many members of this task have a node or succeeded.
fn has_of_task(group: &Group, task: &str) -> u32 {
    group.tasks.get(task).copied().unwrap_or(0).saturating_add(group.successes.of_task(task))
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
