//! The PodGroups.

use crate::api::{GroupFacts, GroupKey, PodGroup};
use crate::cycle::state::SchedulingState;
use crate::scheduler::state::State;

use super::{Kind, WatchedKind};

/// The PodGroups.
#[derive(Debug)]
pub enum Groups {}

impl WatchedKind for Groups {
    type Object = PodGroup;
    type Facts = GroupFacts;
    type Key = GroupKey;

    const KIND: Kind = Kind::of_any_age("podgroups");

    fn facts(object: PodGroup) -> GroupFacts {
        GroupFacts::of(&object)
    }

    fn key(facts: &GroupFacts) -> GroupKey {
        facts.key.clone()
    }

    fn known(scheduling: &SchedulingState) -> Vec<GroupKey> {
        let there = scheduling.cache().groups().iter().filter(|(_, group)| group.facts.is_some());
        there.map(|(key, _)| key.clone()).collect()
    }

    fn apply(state: &mut State, facts: GroupFacts) {
        state.status_writer.group_seen(&facts);
        state.scheduling.apply_group(facts);
    }

    fn delete(state: &mut State, key: &GroupKey) {
        state.status_writer.group_gone(key);
        state.scheduling.delete_group(key);
    }

    fn went_back(state: &mut State, _all: &[GroupFacts]) {
        state.status_writer.went_back();
    }
}
