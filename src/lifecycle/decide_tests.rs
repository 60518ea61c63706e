//! Every arm of the decision, as a table; the histories are in `world_tests`.

use super::*;
use crate::api::workload::ObjectRef;
use crate::api::{GroupKey, Uid};
use crate::lifecycle::existing::NotOurs;
use crate::lifecycle::memory::Answer;

const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";

fn version(at: &str) -> Version {
    Version { uid: Uid::from("group"), resource_version: at.to_owned() }
}

fn wish(wants_pods: bool) -> Wish {
    let owner = ObjectRef {
        kind: "ReplicaSet".into(),
        api_version: "apps/v1".into(),
        namespace: "ns".into(),
        name: "rs".into(),
        uid: Uid::from(OWNER),
    };
    let fields = Applied { min_member: 2, queue: "q".into(), ..Applied::default() };
    let intent = Intent { group: GroupKey::generated("ns", OWNER), owner: owner.clone(), fields };
    Wish { intent, wants_pods, told: owner, faults: Vec::new() }
}

/// A group that is as it should be, in version 5.
fn right() -> Ours {
    Ours { version: version("5"), retiring: false, ending: false, owner: Some(Uid::from(OWNER)), applied: Some(wish(true).intent.fields) }
}

fn step(owner: Owner<'_>, members: Members, cached: Option<Ours>, answers: &[Answer]) -> Step {
    let mut memory = Memory::default();
    for answer in answers {
        memory.learn(Some(&version("5")), answer);
    }
    let cached = cached.map(Existing::Ours);
    decide(&Situation { owner, members, cached: cached.as_ref(), memory: &memory })
}

fn looked(at: &str, members: bool) -> Answer {
    Answer::Looked { at: version(at), members }
}

#[test]
fn a_group_is_made_for_whoever_wants_pods_or_has_one_and_for_nobody_else() {
    let (wants, wants_none) = (wish(true), wish(false));
    let create = Step::Create(wants.intent.clone());
    assert_eq!(step(Owner::Wishes(&wants), Members::None, None, &[]), create);
    assert_eq!(step(Owner::Wishes(&wants_none), Members::Living, None, &[]), create, "a pod is there to stay");
    assert_eq!(step(Owner::Wishes(&wants_none), Members::Ending, None, &[]), Step::Rest, "a pod that ends needs none");
    for members in [Members::None, Members::Ending, Members::Living] {
        assert_eq!(step(Owner::Gone, members, None, &[]), Step::Rest, "{members:?}: the garbage collector would take it");
        assert_eq!(step(Owner::Unserved, members, None, &[]), Step::Rest, "{members:?}");
    }
    let gone = Answer::Gone(Uid::from("group"));
    assert_eq!(step(Owner::Wishes(&wants), Members::None, Some(right()), &[gone]), create, "S3: it is gone, whatever the cache shows");
}

#[test]
fn what_is_old_is_read_before_anything_else() {
    let wish = wish(true);
    for answer in [Answer::Old, Answer::Unknown] {
        assert_eq!(step(Owner::Wishes(&wish), Members::None, None, std::slice::from_ref(&answer)), Step::Read);
        assert_eq!(step(Owner::Gone, Members::None, Some(right()), &[answer]), Step::Read);
    }
}

#[test]
fn somebody_elses_group_is_left_alone() {
    let (wants, wants_none) = (wish(true), wish(false));
    let foreign = Existing::Foreign(version("5"), NotOurs::Unlabelled);
    for owner in [Owner::Wishes(&wants), Owner::Wishes(&wants_none), Owner::Gone, Owner::Unserved] {
        for members in [Members::None, Members::Living] {
            let situation = Situation { owner, members, cached: Some(&foreign), memory: &Memory::default() };
            assert_eq!(decide(&situation), Step::Rest, "{owner:?} {members:?}");
        }
    }
}

#[test]
fn a_group_that_is_ending_must_be_gone_first() {
    let wish = wish(true);
    for retiring in [false, true] {
        let ending = Ours { ending: true, retiring, applied: None, ..right() };
        assert_eq!(step(Owner::Wishes(&wish), Members::Living, Some(ending.clone()), &[]), Step::Rest);
        assert_eq!(step(Owner::Gone, Members::None, Some(ending), &[looked("5", false)]), Step::Rest);
    }
}

#[test]
fn the_fields_follow_while_pods_are_wanted_and_rest_when_they_are_right() {
    let (wants, wants_none) = (wish(true), wish(false));
    assert_eq!(step(Owner::Wishes(&wants), Members::None, Some(right()), &[]), Step::Rest);
    let other = Applied { min_member: 9, ..Applied::default() };
    let amend = |from: Option<Applied>, adopt| Step::Amend { on: version("5"), from, to: wants.intent.clone(), adopt };
    let differs = Ours { applied: Some(other.clone()), ..right() };
    assert_eq!(step(Owner::Wishes(&wants), Members::None, Some(differs.clone()), &[]), amend(Some(other), false));
    assert_eq!(step(Owner::Wishes(&wants), Members::None, Some(Ours { applied: None, ..right() }), &[]), amend(None, false), "unreadable");
    for owner in [None, Some(Uid::from("another"))] {
        let orphan = Ours { owner, ..right() };
        assert_eq!(step(Owner::Wishes(&wants), Members::None, Some(orphan), &[]), amend(right().applied, true));
    }
    assert_eq!(
        step(Owner::Wishes(&wants_none), Members::Living, Some(differs), &[]),
        Step::Rest,
        "a gang is not made smaller on its way to 0"
    );
}

#[test]
fn a_group_that_nobody_needs_is_marked() {
    let wish = wish(false);
    let mark = Step::Mark(version("5"));
    assert_eq!(step(Owner::Wishes(&wish), Members::None, Some(right()), &[]), mark);
    assert_eq!(step(Owner::Unserved, Members::None, Some(right()), &[]), mark);
    assert_eq!(step(Owner::Gone, Members::None, Some(Ours { owner: None, ..right() }), &[]), mark, "an orphan");
    assert_eq!(step(Owner::Gone, Members::None, Some(right()), &[]), Step::Rest, "the garbage collector takes it with its owner");
    assert_eq!(step(Owner::Unseen, Members::None, Some(right()), &[]), mark, "its owner may live for years, and want nothing");
    for members in [Members::Ending, Members::Living] {
        assert_eq!(step(Owner::Wishes(&wish), members, Some(right()), &[]), Step::Rest, "{members:?} still uses it");
        assert_eq!(step(Owner::Gone, members, Some(Ours { owner: None, ..right() }), &[]), Step::Rest, "{members:?}");
    }
    assert_eq!(step(Owner::Wishes(&wish), Members::None, Some(right()), &[looked("4", true)]), Step::Rest, "the cache is waited for");
}

#[test]
fn a_marked_version_is_deleted_only_for_its_own_look_that_found_nobody() {
    let (wants, wants_none) = (wish(true), wish(false));
    let marked = || Some(Ours { retiring: true, ..right() });
    for owner in [Owner::Wishes(&wants_none), Owner::Gone, Owner::Unseen, Owner::Unserved] {
        assert_eq!(step(owner, Members::None, marked(), &[]), Step::Look(version("5")), "{owner:?}: not looked yet");
        assert_eq!(step(owner, Members::None, marked(), &[looked("4", false)]), Step::Look(version("5")), "{owner:?}: an old look");
        assert_eq!(step(owner, Members::None, marked(), &[looked("5", true)]), Step::Unmark(version("5")), "{owner:?}: somebody is there");
        assert_eq!(step(owner, Members::None, marked(), &[looked("5", false)]), Step::Delete(version("5")), "{owner:?}");
        for members in [Members::Ending, Members::Living] {
            assert_eq!(step(owner, members, marked(), &[looked("5", false)]), Step::Unmark(version("5")), "{owner:?} {members:?}");
        }
    }
    assert_eq!(step(Owner::Wishes(&wants), Members::None, marked(), &[looked("5", false)]), Step::Unmark(version("5")), "wanted again");
    let another = Answer::Looked { at: Version { uid: Uid::from("another"), resource_version: "5".into() }, members: false };
    assert_eq!(step(Owner::Gone, Members::None, marked(), &[another]), Step::Look(version("5")), "another object's look");
}
