//! Which subgroup of its PodGroup is each member in, and how many members with a node does each subgroup have?
//!
//! A subgroup that has its size is *whole*. One that is not lacks the rest of its size: so many members are placed together, or none of them.
//! What it has beyond its size goes one by one. A success counts for its subgroup as it does for the gang.

use std::collections::BTreeMap;

use crate::api::{GroupFacts, PodFacts, SubGroup, SubGroupPolicyFacts, Uid};
use crate::by_key::ByKey;

use super::{Group, Member, State};

/// The subgroups of a PodGroup; empty where it has no policy of subgroups.
#[derive(Debug, Default)]
pub struct Subgroups {
    /// The subgroup of each member that is in one.
    of: BTreeMap<Uid, SubGroup>,
    /// The members of each subgroup that have a node or succeeded, and have a pod; and those that succeeded.
    have: BTreeMap<SubGroup, Have>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Have {
    all: u32,
    succeeded: u32,
}

impl Subgroups {
    /// Returns the subgroup of the member; none where it is in none.
    #[must_use]
    pub fn of(&self, uid: &Uid) -> Option<&SubGroup> {
        self.of.get(uid)
    }

    pub(super) fn count(&mut self, policies: &[SubGroupPolicyFacts], member: &Member) {
        let Some(subgroup) = SubGroup::of(policies, &member.facts.labels) else { return };
        if has_place(member) {
            let have = self.have.entry(subgroup.clone()).or_default();
            have.all = have.all.saturating_add(1);
            have.succeeded = have.succeeded.saturating_add(u32::from(member.state() == State::Succeeded));
        }
        self.of.insert(member.facts.uid.clone(), subgroup);
    }

    pub(super) fn forget(&mut self, member: &Member) {
        let Some(subgroup) = self.of.remove(&member.facts.uid).filter(|_| has_place(member)) else { return };
        if let Some(have) = self.have.get_mut(&subgroup) {
            have.all = have.all.saturating_sub(1);
            have.succeeded = have.succeeded.saturating_sub(u32::from(member.state() == State::Succeeded));
            if have.all == 0 {
                self.have.remove(&subgroup);
            }
        }
    }
}

fn has_place(member: &Member) -> bool {
    matches!(member.state(), State::Placed | State::Succeeded)
}

impl Group {
    /// The policies of the PodGroup changed: each member is counted anew. What succeeded and has no pod is in no subgroup that is known.
    pub(super) fn recount_subgroups(&mut self, pods: &ByKey<Uid, Member>) {
        self.subgroups = Subgroups::default();
        self.successes.forget_subgroups();
        let Some(facts) = self.facts.as_ref().filter(|facts| !facts.sub_groups.is_empty()) else { return };
        let members = self.members.iter().filter_map(|uid| pods.get(uid));
        members.for_each(|member| self.subgroups.count(&facts.sub_groups, member));
    }

    /// Returns how many members of the subgroup succeeded.
    pub(in crate::cycle) fn succeeded_in(&self, subgroup: &SubGroup) -> u32 {
        let there = self.subgroups.have.get(subgroup).map_or(0, |have| have.succeeded);
        there.saturating_add(self.successes.of_subgroup(subgroup))
    }

    /// Returns how many members the subgroup lacks of its size; 0 where it is whole.
    pub(super) fn lacks(&self, facts: &GroupFacts, subgroup: &SubGroup) -> u32 {
        let there = self.subgroups.have.get(subgroup).map_or(0, |have| have.all);
        let size = facts.sub_groups.get(subgroup.policy).map_or(1, |policy| policy.size);
        size.saturating_sub(there.saturating_add(self.successes.of_subgroup(subgroup)))
    }

    /// Returns the subgroup in which this pod counts; none where it is in none.
    pub(super) fn subgroup_of(&self, pod: &PodFacts) -> Option<SubGroup> {
        self.facts.as_ref().and_then(|facts| SubGroup::of(&facts.sub_groups, &pod.labels))
    }
}

/// What the subgroups of a PodGroup have and lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cycle) struct SubgroupNeeds {
    /// The subgroups that are not whole, with how many members each lacks.
    pub(in crate::cycle) lack: BTreeMap<SubGroup, u32>,
    /// By policy: how many of its subgroups must still become whole; those that have enough are left out.
    pub(in crate::cycle) missing: BTreeMap<usize, u32>,
}

impl SubgroupNeeds {
    /// Judges all subgroups that have a member or had one, as if these members with nodes were gone.
    pub(in crate::cycle) fn of<'m>(group: &Group, facts: &GroupFacts, gone: impl Iterator<Item = &'m Uid>) -> Self {
        if facts.sub_groups.is_empty() {
            return Self::default();
        }
        let mut have: BTreeMap<&SubGroup, u32> = group.subgroups.of.values().map(|subgroup| (subgroup, 0)).collect();
        let there = group.subgroups.have.iter().map(|(subgroup, have)| (subgroup, have.all));
        for (subgroup, number) in there.chain(group.successes.of_subgroups().map(|(subgroup, number)| (subgroup, *number))) {
            let have = have.entry(subgroup).or_default();
            *have = have.saturating_add(number);
        }
        for subgroup in gone.filter_map(|uid| group.subgroups.of(uid)) {
            have.entry(subgroup).and_modify(|have| *have = have.saturating_sub(1));
        }
        let policies = facts.sub_groups.iter().enumerate();
        let mut missing: BTreeMap<usize, u32> = policies.map(|(at, policy)| (at, policy.needed)).collect();
        let mut lack = BTreeMap::new();
        for (subgroup, have) in have {
            let size = facts.sub_groups.get(subgroup.policy).map_or(1, |policy| policy.size);
            if have < size {
                lack.insert(subgroup.clone(), size.saturating_sub(have));
            } else {
                missing.entry(subgroup.policy).and_modify(|missing| *missing = missing.saturating_sub(1));
            }
        }
        missing.retain(|_, missing| *missing > 0);
        Self { lack, missing }
    }

    /// Returns how many members so many subgroups of the policy lack at least, until they are whole.
    pub(in crate::cycle) fn least_of(&self, policy: usize, number: u32) -> u32 {
        let mut lack: Vec<u32> = self.lack.iter().filter(|(subgroup, _)| subgroup.policy == policy).map(|(_, lacks)| *lacks).collect();
        lack.sort_unstable();
        // Those that have no member yet lack one at least.
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let of_others = u32::try_from(number.saturating_sub(lack.len())).unwrap_or(u32::MAX);
        lack.iter().take(number).fold(of_others, |sum, lacks| sum.saturating_add(*lacks))
    }
}
