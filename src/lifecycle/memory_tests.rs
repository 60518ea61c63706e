//! Tests of the memory: the later of cache and answer counts, a deleted UID stays deleted, and a list of members is valid for one version.

use super::*;
use crate::lifecycle::existing::Ours;

fn version(uid: &str, at: &str) -> Version {
    Version { uid: Uid::from(uid), resource_version: at.to_owned() }
}

fn group(uid: &str, at: &str) -> Existing {
    Existing::Ours(Ours { version: version(uid, at), retiring: false, terminating: false, owner: None, applied: None })
}

fn learned(answers: &[(Option<Version>, Answer)]) -> Memory {
    let mut memory = Memory::default();
    for (known, answer) in answers {
        memory.learn(known.as_ref(), answer);
    }
    memory
}

#[test]
fn the_later_of_cache_and_answer_counts_even_when_the_cache_goes_back() {
    let memory = learned(&[(None, Answer::Exists(group("a", "10")))]);
    let table = [
        ("the cache does not have it yet", None, "10"),
        ("the cache is behind, or went back", Some("9"), "10"),
        ("the cache has the same version", Some("10"), "10"),
        ("the cache is ahead, with more digits", Some("100"), "100"),
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
fn a_deleted_object_never_comes_back() {
    let (old, new) = (group("a", "10"), group("b", "12"));
    let gone = [
        ("deleted", learned(&[(Some(version("a", "10")), Answer::Gone(Uid::from("a")))])),
        ("read and not there", learned(&[(Some(version("a", "10")), Answer::Absent)])),
        ("not there twice", learned(&[(Some(version("a", "10")), Answer::Absent), (None, Answer::Stale), (None, Answer::Absent)])),
        ("the watch shows the deletion", {
            let mut memory = learned(&[(None, Answer::Exists(old.clone()))]);
            memory.observe(CacheChange::Deleted(&Uid::from("a")));
            memory
        }),
    ];
    for (case, memory) in gone {
        assert_eq!(memory.freshest(Some(&old)), None, "{case}: the cache lags");
        assert_eq!(memory.freshest(None), None, "{case}");
        assert_eq!(memory.freshest(Some(&new)), Some(&new), "{case}: a new object exists");
        assert!(!memory.is_stale(), "{case}");
    }
}

#[test]
fn the_deletion_of_another_object_does_not_affect_the_object_of_the_answer() {
    let mut memory = learned(&[(None, Answer::Exists(group("b", "12")))]);
    memory.observe(CacheChange::Deleted(&Uid::from("a")));
    assert_eq!(memory.freshest(None), Some(&group("b", "12")));
}

#[test]
fn an_unknown_result_makes_the_memory_stale_until_a_read() {
    for answer in [Answer::Stale, Answer::Unknown] {
        let at = version("a", "10");
        let mut memory =
            learned(&[(None, Answer::Exists(group("a", "10"))), (None, Answer::MembersListed { at: at.clone(), members: false })]);
        memory.learn(Some(&at), &answer);
        assert!(memory.is_stale() && memory.listing().is_none(), "{answer:?}");
        memory.learn(Some(&at), &Answer::Exists(group("a", "11")));
        assert!(!memory.is_stale(), "{answer:?}");
    }
    assert_eq!(learned(&[(None, Answer::Refused("no".into()))]), Memory::default());
}

#[test]
fn a_list_without_a_podgroup_that_an_answer_has_shown_causes_a_read() {
    let mut memory = learned(&[(None, Answer::Exists(group("a", "10")))]);
    memory.observe(CacheChange::Relisted { present: false });
    assert!(memory.is_stale() && memory.freshest(None).is_none());
    let mut memory = learned(&[(None, Answer::Gone(Uid::from("a")))]);
    memory.observe(CacheChange::Relisted { present: false });
    assert!(!memory.is_stale(), "a list without a deleted PodGroup shows nothing new");
    assert_eq!(memory.freshest(Some(&group("a", "10"))), None);
}

#[test]
fn a_list_of_members_is_valid_for_the_version_that_it_began_on() {
    let at = version("a", "10");
    let listed = Answer::MembersListed { at: at.clone(), members: false };
    let mut memory = learned(&[(None, listed.clone())]);
    memory.learn(None, &Answer::Exists(group("a", "10")));
    assert_eq!(memory.listing(), Some(&MemberListing { at: at.clone(), members: false }), "the same version");
    memory.learn(None, &Answer::Exists(group("a", "11")));
    assert_eq!(memory.listing(), None, "a later version");
    for (what, forget) in [("gone", Answer::Gone(Uid::from("a"))), ("absent", Answer::Absent)] {
        assert_eq!(learned(&[(None, listed.clone()), (Some(at.clone()), forget)]).listing(), None, "{what}");
    }
}

#[test]
fn the_controller_waits_for_a_listed_member_until_the_cache_shows_a_change() {
    let mut memory = learned(&[(None, Answer::MembersListed { at: version("a", "10"), members: true })]);
    assert!(memory.waits_for_cache());
    memory.observe(CacheChange::Member);
    assert!(!memory.waits_for_cache());
}

#[test]
fn an_answer_is_ignored_when_the_watch_has_already_shown_the_deletion() {
    let mut memory = Memory::default();
    memory.observe(CacheChange::Deleted(&Uid::from("a")));
    memory.observe(CacheChange::Deleted(&Uid::from("b")));
    memory.learn(None, &Answer::Exists(group("a", "10")));
    assert!(memory.freshest(None).is_none() && !memory.is_stale(), "it was created and deleted, and the watch has shown both");
    memory.learn(None, &Answer::Exists(group("c", "12")));
    assert_eq!(memory.freshest(None), Some(&group("c", "12")));

    let mut memory = Memory::default();
    memory.observe(CacheChange::Relisted { present: false });
    memory.learn(None, &Answer::Exists(group("a", "10")));
    assert!(memory.is_stale(), "the list may be older or newer than the answer");
}

#[test]
fn after_the_cluster_went_back_only_a_read_or_the_cache_says_what_exists() {
    let restored = group("a", "5");
    for answer in [Answer::Exists(group("a", "1400")), Answer::Gone(restored.version().uid.clone())] {
        let mut memory = Memory::default();
        memory.learn(None, &answer);
        memory.observe(CacheChange::WentBack);
        assert_eq!(memory.freshest(Some(&restored)), Some(&restored), "{answer:?}");
        assert!(memory.is_stale(), "{answer:?}");
        // The answer of a step that was under way meanwhile.
        memory.learn(None, &Answer::Exists(group("a", "1401")));
        assert!(memory.is_stale(), "{answer:?}");
        memory.learn(None, &Answer::Exists(group("a", "6")));
        assert!(!memory.is_stale(), "{answer:?}");
    }
    let mut memory = Memory::default();
    memory.observe(CacheChange::WentBack);
    assert!(!memory.is_stale(), "a PodGroup of which answers said nothing costs no read");
}
