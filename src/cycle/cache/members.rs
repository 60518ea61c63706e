//! In which order are the waiting members of a gang placed, and which of them are placed together?
//!
//! By priority, age and name. Subgroups come before what belongs to none: those that have members and lack the fewest first, then the others in
//! their order. The first members that are enough for the gang come before the others.

use std::collections::BTreeMap;

use crate::api::{GroupFacts, PodFacts, SubGroup, Uid};
use crate::cycle::explain::Refusal;
use crate::cycle::placement::parts::{Part, Parts};
use crate::cycle::placement::placer::{Pod, Subgroup};

use super::gang::{Gang, gated};
use super::{Cache, Group};

/// Returns the waiting members in the order in which they are placed.
pub(in crate::cycle) fn in_order(cache: &Cache, group: &Group, gang: &Gang) -> Vec<Uid> {
    let (first, then) = gang.split(group, sorted(cache, group, gang), |facts| Some(*facts));
    first.into_iter().chain(then).map(|facts| facts.uid.clone()).collect()
}

fn sorted<'c>(cache: &'c Cache, group: &'c Group, gang: &Gang) -> Vec<&'c PodFacts> {
    let mut members: Vec<&PodFacts> = group.waiting.iter().filter_map(|uid| cache.pods().get(uid)).map(|member| &*member.facts).collect();
    let size = |subgroup: &SubGroup| group.facts.as_ref().and_then(|facts| facts.sub_groups.get(subgroup.policy)).map(|policy| policy.size);
    let subgroup = |facts: &PodFacts| {
        let subgroup = group.subgroups.of(&facts.uid)?;
        let lacks = *gang.subgroups.lack.get(subgroup)?;
        // One that has members comes before those that have none.
        Some((if size(subgroup) == Some(lacks) { u32::MAX } else { lacks }, subgroup))
    };
    // Those of no subgroup come last.
    let by_subgroup =
        |a: &PodFacts, b: &PodFacts| subgroup(a).is_none().cmp(&subgroup(b).is_none()).then_with(|| subgroup(a).cmp(&subgroup(b)));
    members.sort_by(|a, b| {
        b.priority
            .cmp(&a.priority)
            .then_with(|| by_subgroup(a, b))
            .then(a.created.cmp(&b.created))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.uid.cmp(&b.uid))
    });
    members
}

/// Members that are placed together, with their subgroup; one by itself has none.
type Together<'g, T> = (Option<&'g SubGroup>, Vec<T>);

impl Gang {
    /// A gang that needs so many members, whichever they are.
    pub(in crate::cycle) fn of(needed: u32) -> Self {
        Self { needed, least: needed, ..Self::default() }
    }

    /// Whether nothing is needed.
    pub(in crate::cycle) const fn is_satisfied(&self) -> bool {
        self.needed == 0
    }

    /// The parts of the gang: how many of each task are needed, and how many subgroups of each policy.
    pub(in crate::cycle) fn parts(&self) -> Vec<Part> {
        let missing = self.subgroups.missing.iter();
        let of_subgroups = missing.map(|(policy, needed)| Part { needed: *needed, subgroup: Some(self.subgroups.least_of(*policy, 1)) });
        self.tasks.values().map(|needed| Part { needed: *needed, subgroup: None }).chain(of_subgroups).collect()
    }

    /// Returns these members as pods of an attempt, each with its parts. Those that cannot be placed with the gang are left out: those of a
    /// subgroup of which too few are there, and what a subgroup has beyond its size.
    pub(in crate::cycle) fn prepare<'f>(&self, group: &Group, pods: Vec<Pod<'f>>) -> Vec<Pod<'f>> {
        if self.tasks.is_empty() && self.subgroups.lack.is_empty() {
            return pods;
        }
        let (together, _left) = self.together(group, pods, |pod| Some(pod.facts));
        together.into_iter().enumerate().flat_map(|(number, some)| self.marked(number, some)).collect()
    }

    /// Returns those of these members that can be placed: each by itself, or with the others of its subgroup.
    pub(in crate::cycle) fn that_can_be_placed<'f, T>(
        &self,
        group: &Group,
        members: Vec<T>,
        facts: impl Fn(&T) -> Option<&'f PodFacts>,
    ) -> Vec<T> {
        let (together, _left) = self.together(group, members, facts);
        together.into_iter().flat_map(|(_, some)| some).collect()
    }

    /// Parts these members, in their order, into the first ones that are enough for the gang, and the others. The members of a subgroup that is
    /// not whole stand together. What cannot be placed yet comes last.
    pub(in crate::cycle) fn split<'f, T>(
        &self,
        group: &Group,
        members: Vec<T>,
        facts: impl Fn(&T) -> Option<&'f PodFacts>,
    ) -> (Vec<T>, Vec<T>) {
        let (first, others, _) = self.choose(group, members, facts);
        (first, others)
    }

    /// Does the same, and says whether the first ones are enough.
    pub(in crate::cycle) fn choose<'f, T>(
        &self,
        group: &Group,
        members: Vec<T>,
        facts: impl Fn(&T) -> Option<&'f PodFacts>,
    ) -> (Vec<T>, Vec<T>, bool) {
        if self.tasks.is_empty() && self.subgroups.lack.is_empty() {
            let (mut first, least) = (members, usize::try_from(self.least).unwrap_or(usize::MAX));
            let others = first.split_off(least.min(first.len()));
            let are_enough = first.len() >= least && self.subgroups.missing.is_empty();
            return (first, others, are_enough);
        }
        let mut parts = Parts::new(self.least, &self.parts());
        let (together, left) = self.together(group, members, &facts);
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (number, (subgroup, some)) in together.into_iter().enumerate() {
            let pods = some.iter().filter_map(&facts).map(|facts| Pod::new(facts, None)).collect();
            let pods = self.marked(number, (subgroup, pods));
            if !parts.are_placed() && parts.take(&pods) {
                parts.add(&pods);
                first.extend(some);
            } else {
                others.extend(some);
            }
        }
        others.extend(left);
        (first, others, parts.are_placed())
    }

    /// Says of each of these pods, which are placed together, what its parts are.
    fn marked<'f>(&self, number: usize, (subgroup, mut pods): Together<'_, Pod<'f>>) -> Vec<Pod<'f>> {
        let of_policy = |subgroup: &SubGroup| self.subgroups.missing.keys().position(|policy| *policy == subgroup.policy);
        let part = |subgroup| of_policy(subgroup).map(|at| at.saturating_add(self.tasks.len()));
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let subgroup = subgroup.map(|subgroup| Subgroup { number, part: part(subgroup) });
        for pod in &mut pods {
            (pod.task, pod.subgroup) = (self.tasks.keys().position(|task| task == pod.facts.task()), subgroup);
        }
        pods
    }

    /// Puts together what is placed together. The others are those of a subgroup that lacks more, and what one has beyond its size.
    fn together<'g, 'f, T>(
        &'g self,
        group: &'g Group,
        members: Vec<T>,
        facts: impl Fn(&T) -> Option<&'f PodFacts>,
    ) -> (Vec<Together<'g, T>>, Vec<T>) {
        let (mut all, mut left): (Vec<Together<'g, T>>, Vec<T>) = (Vec::new(), Vec::new());
        let mut known: BTreeMap<&SubGroup, usize> = BTreeMap::new();
        let lacks = |subgroup: &SubGroup| self.subgroups.lack.get(subgroup).and_then(|lacks| usize::try_from(*lacks).ok());
        for member in members {
            let Some(facts) = facts(&member) else {
                left.push(member);
                continue;
            };
            let lack = group.subgroups.of(&facts.uid).and_then(|subgroup| Some((subgroup, lacks(subgroup)?)));
            let Some((subgroup, lacks)) = lack else {
                all.push((None, vec![member]));
                continue;
            };
            let at = *known.entry(subgroup).or_insert_with(|| {
                all.push((Some(subgroup), Vec::new()));
                all.len().saturating_sub(1)
            });
            match all.get_mut(at).filter(|(_, members)| members.len() < lacks) {
                Some((_, members)) => members.push(member),
                None => left.push(member),
            }
        }
        let is_enough = |(subgroup, members): &Together<'g, T>| subgroup.is_none_or(|of| lacks(of) == Some(members.len()));
        let (together, too_few): (Vec<_>, Vec<_>) = all.into_iter().partition(is_enough);
        left.extend(too_few.into_iter().flat_map(|(_, members)| members));
        (together, left)
    }
}

/// Returns how many of the waiting members, in their order, are enough for the gang.
///
/// # Errors
///
/// Too few subgroups have enough members.
pub(super) fn enough(cache: &Cache, group: &Group, facts: &GroupFacts, gang: &Gang) -> Result<u32, Refusal> {
    let members = sorted(cache, group, gang);
    let (first, _others, are_enough) = gang.choose(group, members.clone(), |facts| Some(*facts));
    if are_enough {
        return Ok(count(first.len()));
    }
    let (together, left) = gang.together(group, members, |facts| Some(*facts));
    for (at, missing) in &gang.subgroups.missing {
        let Some(policy) = facts.sub_groups.get(*at) else { continue };
        let there = count(together.iter().filter(|(subgroup, _)| subgroup.is_some_and(|of| of.policy == *at)).count());
        if there < *missing {
            return Err(Refusal::NotEnoughSubGroups {
                policy: policy.shown(*at),
                size: policy.size,
                wanted: policy.needed,
                there: policy.needed.saturating_sub(*missing).saturating_add(there),
                gated: gated(cache, group, |uid| group.subgroups.of(uid).is_some_and(|of| of.policy == *at)),
            });
        }
    }
    // As many members are there as are needed, and some of them belong to subgroups that lack others.
    let of_one = left.iter().find_map(|facts| group.subgroups.of(&facts.uid));
    Err(of_one.and_then(|subgroup| incomplete(cache, group, facts, subgroup)).unwrap_or(Refusal::NotEnoughTasks {
        wanted: facts.min_member,
        there: 0,
        gated: group.counts.gated,
    }))
}

/// Returns how many of these members are placed together next: the first one, or the subgroup of the first one.
///
/// # Errors
///
/// Why the first one cannot be placed yet: its subgroup is not whole, and has too few other members.
pub(in crate::cycle) fn next_together(cache: &Cache, group: &Group, facts: &GroupFacts, members: &[Uid]) -> Result<usize, Refusal> {
    let Some(subgroup) = members.first().and_then(|uid| group.subgroups.of(uid)) else { return Ok(1) };
    let lacks = usize::try_from(group.lacks(facts, subgroup)).unwrap_or(usize::MAX);
    if lacks == 0 {
        return Ok(1);
    }
    let there = members.iter().take(lacks).take_while(|uid| group.subgroups.of(uid) == Some(subgroup)).count();
    if there >= lacks {
        return Ok(lacks);
    }
    Err(incomplete(cache, group, facts, subgroup).unwrap_or(Refusal::NotEnoughTasks { wanted: 1, there: 0, gated: 0 }))
}

/// Returns why nothing of this subgroup is placed: it has too few members.
fn incomplete(cache: &Cache, group: &Group, facts: &GroupFacts, subgroup: &SubGroup) -> Option<Refusal> {
    let policy = facts.sub_groups.get(subgroup.policy)?;
    let lacks = group.lacks(facts, subgroup);
    let waiting = group.waiting.iter().filter(|uid| group.subgroups.of(uid) == Some(subgroup)).count();
    Some(Refusal::IncompleteSubGroup {
        policy: policy.shown(subgroup.policy),
        size: policy.size,
        there: policy.size.saturating_sub(lacks).saturating_add(count(waiting)),
        gated: gated(cache, group, |uid| group.subgroups.of(uid) == Some(subgroup)),
    })
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
