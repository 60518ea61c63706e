//! The steps of a takeover, in any order in which they can come.

use super::*;

fn uid(name: &str) -> Uid {
    Uid::from(name)
}

/// Returns a takeover that has the first lists, and has won the lease after request 1.
fn won(handover: Handover) -> Takeover {
    let mut takeover = Takeover::standby();
    Kind::all().for_each(|kind| takeover.listed(kind, 0));
    assert_eq!(takeover.stage(), Stage::Standby);
    takeover.won(handover, 1);
    takeover
}

fn list_again(takeover: &mut Takeover, generation: u64) {
    Kind::all().for_each(|kind| takeover.listed(kind, generation));
}

#[test]
fn a_clean_handover_is_complete_with_the_last_list_that_began_after_the_lease_was_won() {
    for last in Kind::all() {
        let mut takeover = won(Handover::Clean);
        list_again(&mut takeover, 0);
        Kind::all().filter(|kind| *kind != last).for_each(|kind| takeover.listed(kind, 1));
        assert_eq!(takeover.stage(), Stage::Listing, "{last:?}");
        assert_eq!(takeover.fence([uid("p")]), [], "it is not the time");
        takeover.listed(last, 2);
        assert!(takeover.is_complete(), "{last:?}");
        takeover.listed(last, 0);
        assert!(takeover.is_complete(), "a list that was on its way takes nothing back");
        assert_eq!(takeover.fence([uid("p")]), [], "nothing is fenced");
    }
}

#[test]
fn an_unclean_handover_is_complete_when_each_fence_is_answered_and_each_bound_pod_is_shown() {
    let mut takeover = won(Handover::Unclean);
    list_again(&mut takeover, 1);
    assert_eq!(takeover.stage(), Stage::Fence);
    let names = ["fenced", "gone", "landed", "late", "let be"];
    assert_eq!(takeover.fence(names.map(uid)), names.map(uid));
    assert_eq!(takeover.fence(["other"].map(uid)), [], "they are fenced once");
    takeover.answered(&uid("fenced"), FenceAnswer::Fenced);
    takeover.answered(&uid("gone"), FenceAnswer::Gone);
    takeover.answered(&uid("let be"), FenceAnswer::GivenUp);
    takeover.answered(&uid("landed"), FenceAnswer::Landed);
    takeover.shown(&uid("landed"));
    assert_eq!((takeover.stage(), takeover.open()), (Stage::Fencing, (1, 0)));
    takeover.shown(&uid("late"));
    takeover.answered(&uid("late"), FenceAnswer::Landed);
    assert_eq!((takeover.stage(), takeover.open()), (Stage::Fencing, (0, 1)), "the watch shows it after the answer, too");
    takeover.answered(&uid("late"), FenceAnswer::Landed);
    takeover.shown(&uid("late"));
    assert_eq!((takeover.stage(), takeover.open()), (Stage::Complete, (0, 0)));
    takeover.answered(&uid("late"), FenceAnswer::Landed);
    assert!(takeover.is_complete(), "an answer that comes twice");
}

#[test]
fn an_unclean_handover_without_a_waiting_pod_is_complete_with_its_lists() {
    let mut takeover = won(Handover::Unclean);
    list_again(&mut takeover, 1);
    assert_eq!(takeover.fence([]), []);
    assert!(takeover.is_complete());
}

#[test]
fn the_way_in_which_the_lease_came_first_counts() {
    let mut takeover = won(Handover::Unclean);
    takeover.won(Handover::Clean, 0);
    assert_eq!(takeover.stage(), Stage::Listing);
    list_again(&mut takeover, 1);
    assert_eq!(takeover.stage(), Stage::Fence);
}

#[test]
fn the_lease_is_given_up_only_when_nothing_is_under_way_and_marked_only_when_the_own_takeover_is_complete() {
    assert_eq!((may_release(true, 0), may_release(false, 0)), (Release::Drained, Release::Unmarked));
    for (complete, unknown) in [(true, 1), (false, 2)] {
        assert_eq!(may_release(complete, unknown), Release::Keep, "{complete} {unknown}");
    }
}
