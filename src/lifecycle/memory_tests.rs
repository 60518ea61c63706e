//! The later of a cache and an answer counts; what is gone stays gone; a look holds for one version.

use super::*;
use crate::lifecycle::existing::Ours;

fn version(uid: &str, at: &str) -> Version {
    Version { uid: Uid::from(uid), resource_version: at.to_owned() }
}

fn group(uid: &str, at: &str) -> Existing {
    Existing::Ours(Ours { version: version(uid, at), retiring: false, ending: false, owner: None, applied: None })
}

fn learned(answers: &[(Option<Version>, Answer)]) -> Memory {
    let mut memory = Memory::default();
    for (known, answer) in answers {
        memory.learn(known.as_ref(), answer);
    }
    memory
}

#[test]
fn the_later_of_cache_and_answer_counts_also_after_time_travel() {
    let memory = learned(&[(None, Answer::Is(group("a", "10")))]);
    let table = [
        ("the cache has not seen it yet", None, "10"),
        ("the cache is behind, or went back", Some("9"), "10"),
        ("the cache has it", Some("10"), "10"),
        ("the cache is ahead, in digits too", Some("100"), "100"),
        ("the cache cannot be compared", Some("w-7"), "w-7"),
    ];
    for (case, cached, freshest) in table {
        let cached = cached.map(|at| group("a", at));
        assert_eq!(memory.freshest(cached.as_ref()).map(|known| known.version().resource_version.as_str()), Some(freshest), "{case}");
    }
    let later = group("b", "11");
    assert_eq!(memory.freshest(Some(&later)), Some(&later), "another object, later");
}

#[test]
fn an_object_that_is_gone_is_never_believed_again() {
    let (old, new) = (group("a", "10"), group("b", "12"));
    let gone = [
        ("deleted", learned(&[(Some(version("a", "10")), Answer::Gone(Uid::from("a")))])),
        ("read and not there", learned(&[(Some(version("a", "10")), Answer::Absent)])),
        ("not there twice", learned(&[(Some(version("a", "10")), Answer::Absent), (None, Answer::Old), (None, Answer::Absent)])),
        ("seen deleted", {
            let mut memory = learned(&[(None, Answer::Is(old.clone()))]);
            memory.saw(Sight::Deleted(&Uid::from("a")));
            memory
        }),
    ];
    for (case, memory) in gone {
        assert_eq!(memory.freshest(Some(&old)), None, "{case}: the cache lags");
        assert_eq!(memory.freshest(None), None, "{case}");
        assert_eq!(memory.freshest(Some(&new)), Some(&new), "{case}: another one came");
        assert!(!memory.is_stale(), "{case}");
    }
}

#[test]
fn the_deletion_of_another_object_says_nothing_of_the_one_that_answered() {
    let mut memory = learned(&[(None, Answer::Is(group("b", "12")))]);
    memory.saw(Sight::Deleted(&Uid::from("a")));
    assert_eq!(memory.freshest(None), Some(&group("b", "12")));
}

#[test]
fn an_outcome_that_is_not_known_makes_everything_old_until_a_read() {
    for answer in [Answer::Old, Answer::Unknown] {
        let at = version("a", "10");
        let mut memory = learned(&[(None, Answer::Is(group("a", "10"))), (None, Answer::Looked { at: at.clone(), members: false })]);
        memory.learn(Some(&at), &answer);
        assert!(memory.is_stale() && memory.look().is_none(), "{answer:?}");
        memory.learn(Some(&at), &Answer::Is(group("a", "11")));
        assert!(!memory.is_stale(), "{answer:?}");
    }
    assert_eq!(learned(&[(None, Answer::Refused("no".into()))]), Memory::default());
}

#[test]
fn a_list_without_the_group_is_doubted_where_an_answer_had_shown_it() {
    let mut memory = learned(&[(None, Answer::Is(group("a", "10")))]);
    memory.saw(Sight::Listed { there: false });
    assert!(memory.is_stale() && memory.freshest(None).is_none());
    let mut memory = learned(&[(None, Answer::Gone(Uid::from("a")))]);
    memory.saw(Sight::Listed { there: false });
    assert!(!memory.is_stale(), "a list without what is gone is no news");
    assert_eq!(memory.freshest(Some(&group("a", "10"))), None);
}

#[test]
fn a_look_holds_for_the_version_that_it_began_on() {
    let at = version("a", "10");
    let looked = Answer::Looked { at: at.clone(), members: false };
    let mut memory = learned(&[(None, looked.clone())]);
    memory.learn(None, &Answer::Is(group("a", "10")));
    assert_eq!(memory.look(), Some(&Look { at: at.clone(), members: false }), "the same version");
    memory.learn(None, &Answer::Is(group("a", "11")));
    assert_eq!(memory.look(), None, "a later version");
    for (what, forget) in [("gone", Answer::Gone(Uid::from("a"))), ("absent", Answer::Absent)] {
        assert_eq!(learned(&[(None, looked.clone()), (Some(at.clone()), forget)]).look(), None, "{what}");
    }
}

#[test]
fn a_member_that_only_a_look_saw_is_waited_for_until_the_cache_moves() {
    let mut memory = learned(&[(None, Answer::Looked { at: version("a", "10"), members: true })]);
    assert!(memory.waits_for_pods());
    memory.saw(Sight::Member);
    assert!(!memory.waits_for_pods());
}

#[test]
fn an_answer_that_the_watch_has_outrun_is_not_believed() {
    let mut memory = Memory::default();
    memory.saw(Sight::Deleted(&Uid::from("a")));
    memory.saw(Sight::Deleted(&Uid::from("b")));
    memory.learn(None, &Answer::Is(group("a", "10")));
    assert!(memory.freshest(None).is_none() && !memory.is_stale(), "it was created, shown, and deleted");
    memory.learn(None, &Answer::Is(group("c", "12")));
    assert_eq!(memory.freshest(None), Some(&group("c", "12")));

    let mut memory = Memory::default();
    memory.saw(Sight::Listed { there: false });
    memory.learn(None, &Answer::Is(group("a", "10")));
    assert!(memory.is_stale(), "the list may be older than the answer, or younger");
}
