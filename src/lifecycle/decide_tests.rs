//! Tests of every branch of the decision. The model (`model/`) has every order of events.

use super::*;
use crate::api::workload::ObjectRef;
use crate::api::{GroupKey, Uid};
use crate::lifecycle::existing::NotOurs;
use crate::lifecycle::memory::Answer;

const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";

fn version(at: &str) -> Version {
    Version { uid: Uid::from("group"), resource_version: at.to_owned() }
}

fn desired(wants_pods: bool) -> DesiredGroup {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: "ns".into(),
        name: "rs".into(),
        uid: Uid::from(OWNER),
    };
    let fields = Applied { min_member: 2, queue: "q".into(), ..Applied::default() };
    let intent = Intent { group: GroupKey::generated("ns", OWNER), owner: owner.clone(), fields };
    DesiredGroup { intent, wants_pods, event_target: owner, part_of: None, faults: Vec::new() }
}

/// Returns a PodGroup in version 5 that needs no change.
fn right() -> Ours {
    Ours {
        version: version("5"),
        retiring: false,
        terminating: false,
        owner: Some(Uid::from(OWNER)),
        applied: Some(desired(true).intent.fields),
    }
}

fn step(owner: Owner<'_>, members: Members, cached: Option<Ours>, answers: &[Answer]) -> Step {
    let mut memory = Memory::default();
    for answer in answers {
        memory.learn(Some(&version("5")), answer);
    }
    let cached = cached.map(Existing::Ours);
    decide(&Situation { owner, members, cached: cached.as_ref(), pods_elsewhere: false, memory: &memory })
}

fn listed(at: &str, members: bool) -> Answer {
    Answer::MembersListed { at: version(at), members }
}

#[test]
fn a_podgroup_is_created_only_for_an_owner_that_wants_pods_or_has_an_active_one() {
    let (wants, wants_none) = (desired(true), desired(false));
    let create = Step::Create(wants.intent.clone());
    assert_eq!(step(Owner::Served(&wants), Members::None, None, &[]), create);
    assert_eq!(step(Owner::Served(&wants_none), Members::Active, None, &[]), create, "a pod is active");
    assert_eq!(step(Owner::Served(&wants_none), Members::Terminating, None, &[]), Step::Wait, "a terminating pod needs none");
    for members in [Members::None, Members::Terminating, Members::Active] {
        assert_eq!(step(Owner::Gone, members, None, &[]), Step::Wait, "{members:?}: the garbage collector would delete it");
        assert_eq!(step(Owner::Unserved, members, None, &[]), Step::Wait, "{members:?}");
    }
    let gone = Answer::Gone(Uid::from("group"));
    assert_eq!(step(Owner::Served(&wants), Members::None, Some(right()), &[gone]), create, "S3: it is deleted, whatever the cache shows");
}

#[test]
fn a_stale_podgroup_is_read_first() {
    let desired = desired(true);
    for answer in [Answer::Stale, Answer::Unknown] {
        assert_eq!(step(Owner::Served(&desired), Members::None, None, std::slice::from_ref(&answer)), Step::Read);
        assert_eq!(step(Owner::Gone, Members::None, Some(right()), &[answer]), Step::Read);
    }
}

#[test]
fn a_foreign_podgroup_is_not_changed() {
    let (wants, wants_none) = (desired(true), desired(false));
    let foreign = Existing::Foreign(version("5"), NotOurs::Unlabelled);
    for owner in [Owner::Served(&wants), Owner::Served(&wants_none), Owner::Gone, Owner::Unserved] {
        for members in [Members::None, Members::Active] {
            let situation = Situation { owner, members, cached: Some(&foreign), pods_elsewhere: false, memory: &Memory::default() };
            assert_eq!(decide(&situation), Step::Wait, "{owner:?} {members:?}");
        }
    }
}

#[test]
fn a_terminating_podgroup_must_be_gone_before_the_next_step() {
    let desired = desired(true);
    for retiring in [false, true] {
        let terminating = Ours { terminating: true, retiring, applied: None, ..right() };
        assert_eq!(step(Owner::Served(&desired), Members::Active, Some(terminating.clone()), &[]), Step::Wait);
        assert_eq!(step(Owner::Gone, Members::None, Some(terminating), &[listed("5", false)]), Step::Wait);
    }
}

#[test]
fn the_fields_follow_their_sources_while_pods_are_wanted() {
    let (wants, wants_none) = (desired(true), desired(false));
    assert_eq!(step(Owner::Served(&wants), Members::None, Some(right()), &[]), Step::Wait);
    let other = Applied { min_member: 9, ..Applied::default() };
    let amend = |from: Option<Applied>, adopt| Step::Amend { on: version("5"), from, to: wants.intent.clone(), adopt };
    let differs = Ours { applied: Some(other.clone()), ..right() };
    assert_eq!(step(Owner::Served(&wants), Members::None, Some(differs.clone()), &[]), amend(Some(other), false));
    assert_eq!(step(Owner::Served(&wants), Members::None, Some(Ours { applied: None, ..right() }), &[]), amend(None, false), "unreadable");
    for owner in [None, Some(Uid::from("another"))] {
        let orphan = Ours { owner, ..right() };
        assert_eq!(step(Owner::Served(&wants), Members::None, Some(orphan), &[]), amend(right().applied, true));
    }
    assert_eq!(
        step(Owner::Served(&wants_none), Members::Active, Some(differs), &[]),
        Step::Wait,
        "minMember does not change while the owner is scaled to 0"
    );
}

#[test]
fn a_podgroup_that_is_not_needed_is_marked() {
    let desired = desired(false);
    let mark = Step::Mark(version("5"));
    assert_eq!(step(Owner::Served(&desired), Members::None, Some(right()), &[]), mark);
    assert_eq!(step(Owner::Unserved, Members::None, Some(right()), &[]), mark);
    assert_eq!(step(Owner::Gone, Members::None, Some(Ours { owner: None, ..right() }), &[]), mark, "an orphan");
    assert_eq!(step(Owner::Gone, Members::None, Some(right()), &[]), Step::Wait, "the garbage collector deletes it with its owner");
    assert_eq!(step(Owner::Unknown, Members::None, Some(right()), &[]), mark, "its owner may exist for years without pods");
    for members in [Members::Terminating, Members::Active] {
        assert_eq!(step(Owner::Served(&desired), members, Some(right()), &[]), Step::Wait, "{members:?} still uses it");
        assert_eq!(step(Owner::Gone, members, Some(Ours { owner: None, ..right() }), &[]), Step::Wait, "{members:?}");
    }
    assert_eq!(
        step(Owner::Served(&desired), Members::None, Some(right()), &[listed("4", true)]),
        Step::Wait,
        "the controller waits for the cache"
    );
}

#[test]
fn a_marked_version_is_deleted_only_after_its_own_list_found_no_member() {
    let (wants, wants_none) = (desired(true), desired(false));
    let marked = || Some(Ours { retiring: true, ..right() });
    for owner in [Owner::Served(&wants_none), Owner::Gone, Owner::Unknown, Owner::Unserved] {
        assert_eq!(step(owner, Members::None, marked(), &[]), Step::ListMembers(version("5")), "{owner:?}: no list yet");
        assert_eq!(
            step(owner, Members::None, marked(), &[listed("4", false)]),
            Step::ListMembers(version("5")),
            "{owner:?}: the list of an old version"
        );
        assert_eq!(step(owner, Members::None, marked(), &[listed("5", true)]), Step::Unmark(version("5")), "{owner:?}: a member exists");
        assert_eq!(step(owner, Members::None, marked(), &[listed("5", false)]), Step::Delete(version("5")), "{owner:?}");
        for members in [Members::Terminating, Members::Active] {
            assert_eq!(step(owner, members, marked(), &[listed("5", false)]), Step::Unmark(version("5")), "{owner:?} {members:?}");
        }
    }
    assert_eq!(step(Owner::Served(&wants), Members::None, marked(), &[listed("5", false)]), Step::Unmark(version("5")), "wanted again");
    let another = Answer::MembersListed { at: Version { uid: Uid::from("another"), resource_version: "5".into() }, members: false };
    assert_eq!(step(Owner::Gone, Members::None, marked(), &[another]), Step::ListMembers(version("5")), "the list of another object");
}

#[test]
fn an_owner_with_pods_that_all_name_another_podgroup_has_none_of_its_own() {
    let desired = desired(true);
    let step = |members, cached: Option<Ours>| {
        let cached = cached.map(Existing::Ours);
        let memory = Memory::default();
        decide(&Situation { owner: Owner::Served(&desired), members, cached: cached.as_ref(), pods_elsewhere: true, memory: &memory })
    };
    assert_eq!(step(Members::None, None), Step::Wait);
    assert_eq!(step(Members::None, Some(right())), Step::Mark(version("5")), "the one that was made before the pods were seen");
    assert_eq!(step(Members::Active, None), Step::Create(desired.intent.clone()), "one pod is a member");
    assert_eq!(step(Members::Active, Some(right())), Step::Wait);
}
