//! Decides which gangs are partially bound (check 6), also after their first success.
//!
//! A gang is *satisfied* when `minMember` of its members are bound. It must be satisfied anew, as a whole, after each of these:
//!
//! * No member stays: the gang was preempted, released, restarted or scaled to 0.
//! * The scheduler binds a member, and the gang is below `minMember` with it: the minimum was raised, or several members were lost.
//! * The scheduler evicts a member, and the gang is below `minMember` without it: a part of a gang is never evicted.
//!
//! A satisfied gang that loses members to other clients stays satisfied. From then on members of the time before do not count for it.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Key;
use super::state::{ClusterState, Track};

/// What is remembered of the gangs.
#[derive(Debug, Default)]
pub struct Gangs {
    satisfied: BTreeSet<Key>,
    /// The UIDs of members that left before a gang had to be satisfied anew, and still exist.
    former: BTreeMap<Key, BTreeSet<String>>,
}

impl Gangs {
    /// Records that the scheduler bound a member. Changes by other clients since `from` (milliseconds) are forgiven: a member that another
    /// client deleted still counts, and the least `minMember` is taken.
    pub fn bound(&mut self, state: &ClusterState, key: &Key, from: i64) {
        let minima = state.groups.get(key).into_iter().flat_map(|track| track.since(from)).flatten();
        let Some(wanted) = minima.map(|group| group.min_member).min() else { return };
        let lost = state.departures.iter().filter(|departure| departure.group == *key && departure.at > from).count();
        let counted = standing(state, key).saturating_add(i64::try_from(lost).unwrap_or(i64::MAX));
        if counted < wanted {
            self.begin_anew(state, key);
        }
    }

    /// Records that the scheduler evicted this member.
    pub fn evicted(&mut self, state: &ClusterState, key: &Key, uid: &str) {
        let Some(wanted) = state.group(key).map(|group| group.min_member) else { return };
        if standing(state, key) < wanted {
            self.begin_anew(state, key);
            self.former.entry(key.clone()).or_default().insert(uid.to_owned());
        }
    }

    /// Returns whether the gang was satisfied and is so still.
    pub fn is_satisfied(&self, key: &Key) -> bool {
        self.satisfied.contains(key)
    }

    /// Describes why the gang is partially bound.
    pub fn check(&mut self, state: &ClusterState, key: &Key) -> Option<String> {
        let (staying, there) = (staying(state, key), has_members(state, key));
        if standing(state, key) == 0 {
            self.begin_anew(state, key);
            self.former.entry(key.clone()).or_default().extend(bound_members(state, key));
        }
        if !there {
            self.former.remove(key);
        }
        let wanted = state.groups.get(key).and_then(Track::now)?.min_member;
        let counted = self.counted(state, key);
        if counted > 0 && counted >= wanted {
            self.satisfied.insert(key.clone());
        }
        let partly = staying > 0 && !self.is_satisfied(key);
        partly.then(|| {
            format!("partially bound: {staying} of minMember {wanted} are bound, and the PodGroup was not satisfied since it had to be")
        })
    }

    /// Requires the gang to be satisfied anew. While it is not satisfied, members that terminate meanwhile count: they were bound for it.
    fn begin_anew(&mut self, state: &ClusterState, key: &Key) {
        if self.satisfied.remove(key) {
            let leaving = bound_members(state, key).filter(|uid| state.pod(uid).is_some_and(|pod| pod.terminating));
            self.former.insert(key.clone(), leaving.collect());
        }
    }

    /// Returns how many members count for being satisfied.
    fn counted(&self, state: &ClusterState, key: &Key) -> i64 {
        let former = self.former.get(key);
        count(bound_members(state, key).filter(|uid| !former.is_some_and(|former| former.contains(uid))))
    }
}

/// Returns the members that have or had a node and did not fail.
fn bound_members<'a>(state: &'a ClusterState, key: &Key) -> impl Iterator<Item = String> + use<'a> {
    state.bound_members.get(key).into_iter().flatten().cloned()
}

fn has_members(state: &ClusterState, key: &Key) -> bool {
    bound_members(state, key).next().is_some()
}

/// Returns how many members have a node, use resources and stay.
fn staying(state: &ClusterState, key: &Key) -> i64 {
    count(bound_members(state, key).filter(|uid| state.pod(uid).is_some_and(|pod| pod.stays() && !pod.evicted)))
}

/// Returns how many members count for the scheduler: those that stay, and those that succeeded.
fn standing(state: &ClusterState, key: &Key) -> i64 {
    count(bound_members(state, key).filter(|uid| state.pod(uid).is_some_and(|pod| pod.ended || pod.stays() && !pod.evicted)))
}

fn count(members: impl Iterator<Item = String>) -> i64 {
    i64::try_from(members.count()).unwrap_or(i64::MAX)
}
