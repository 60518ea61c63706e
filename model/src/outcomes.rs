//! Names the outcomes of the decision, so that a test can say which of them no world reaches.

use podgroup::lifecycle::{Existing, Members, Owner, Situation, Step};

/// Every outcome that the worlds must reach.
pub(crate) const ALL: [&str; 27] = [
    READ,
    "create",
    "amend",
    "amend: the owner reference",
    "mark: the owner wants no pods",
    "mark: the pods name another PodGroup",
    "mark: the owner is unserved",
    "mark: only pods show the owner",
    "mark: the owner is gone, and the PodGroup has no reference",
    "list the members",
    "delete",
    "unmark: it is needed",
    "unmark: it has a member",
    "unmark: the list found a member",
    "wait: there is no PodGroup, and the owner wants no pods",
    "wait: there is no PodGroup, and the pods name another one",
    "wait: there is no PodGroup, and the owner is unserved",
    "wait: there is no PodGroup, and the owner is gone",
    "wait: the PodGroup is foreign, and one is needed",
    "wait: the PodGroup is foreign, and none is needed",
    "wait: the PodGroup is ending, and one is needed",
    "wait: the PodGroup is ending, and none is needed",
    "wait: the PodGroup is right",
    "wait: the last pods run",
    "wait: it has members",
    "wait: the cache does not show a listed member",
    "wait: the garbage collector deletes it",
];

const READ: &str = "read";

/// Returns the outcome of a decision.
pub(crate) fn outcome(situation: &Situation<'_>, step: &Step) -> &'static str {
    let freshest = situation.memory.freshest(situation.cached);
    let elsewhere = situation.pods_elsewhere && situation.members == Members::None;
    let wanted = match situation.owner {
        Owner::Served(_) if elsewhere => false,
        Owner::Served(desired) => desired.wants_pods || situation.members == Members::Active,
        Owner::Gone | Owner::Unknown | Owner::Unserved => false,
    };
    match step {
        Step::Read => READ,
        Step::Create(_) => "create",
        Step::Amend { adopt: true, .. } => "amend: the owner reference",
        Step::Amend { .. } => "amend",
        Step::ListMembers(_) => "list the members",
        Step::Delete(_) => "delete",
        Step::Unmark(_) if wanted => "unmark: it is needed",
        Step::Unmark(_) if situation.members != Members::None => "unmark: it has a member",
        Step::Unmark(_) => "unmark: the list found a member",
        Step::Mark(_) => match situation.owner {
            Owner::Served(_) if elsewhere => "mark: the pods name another PodGroup",
            Owner::Served(_) => "mark: the owner wants no pods",
            Owner::Unserved => "mark: the owner is unserved",
            Owner::Unknown => "mark: only pods show the owner",
            Owner::Gone => "mark: the owner is gone, and the PodGroup has no reference",
        },
        Step::Wait => match (freshest, situation.owner) {
            (None, Owner::Served(_)) if elsewhere => "wait: there is no PodGroup, and the pods name another one",
            (None, Owner::Served(_)) => "wait: there is no PodGroup, and the owner wants no pods",
            (None, Owner::Unserved) => "wait: there is no PodGroup, and the owner is unserved",
            (None, Owner::Gone | Owner::Unknown) => "wait: there is no PodGroup, and the owner is gone",
            (Some(Existing::Foreign(..)), _) if wanted => "wait: the PodGroup is foreign, and one is needed",
            (Some(Existing::Foreign(..)), _) => "wait: the PodGroup is foreign, and none is needed",
            (Some(Existing::Ours(ours)), _) if ours.terminating && wanted => "wait: the PodGroup is ending, and one is needed",
            (Some(Existing::Ours(ours)), _) if ours.terminating => "wait: the PodGroup is ending, and none is needed",
            (Some(Existing::Ours(_)), Owner::Served(desired)) if desired.wants_pods && !elsewhere => "wait: the PodGroup is right",
            (Some(Existing::Ours(_)), _) if wanted => "wait: the last pods run",
            (Some(Existing::Ours(_)), _) if situation.members != Members::None => "wait: it has members",
            (Some(Existing::Ours(_)), _) if situation.memory.waits_for_cache() => "wait: the cache does not show a listed member",
            (Some(Existing::Ours(_)), _) => "wait: the garbage collector deletes it",
        },
    }
}
