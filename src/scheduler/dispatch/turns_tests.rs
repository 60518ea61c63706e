//! Who is sent when, where some namespaces do not answer?

use std::time::Duration;

use super::*;
use crate::api::GroupKey;
use crate::runtime::clock;

/// A binding of that pod.
pub(in crate::scheduler::dispatch) fn bind(namespace: &str, name: &str) -> Bind {
    Bind {
        uid: format!("{namespace}/{name}").as_str().into(),
        namespace: namespace.into(),
        name: name.into(),
        node: "n".into(),
        queue: "default".into(),
        group: GroupKey::new(namespace, "g"),
        minimum: None,
    }
}

/// The same after one more that was not answered.
fn again(taken: &Try) -> Try {
    Try { failures: taken.failures + 1, ..taken.clone() }
}

/// Everybody who can be sent now, each as `namespace/name`.
fn take_all(turns: &mut Turns, now: Instant) -> Vec<Try> {
    std::iter::from_fn(|| turns.take(now)).collect()
}

fn names(taken: &[Try]) -> Vec<&str> {
    taken.iter().map(|tried| &*tried.bind.uid).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_rests_holds_no_slot_and_comes_again_when_its_time_is_over() {
    let (mut turns, now) = (Turns::new(2), clock::monotonic());
    for name in ["1", "2"] {
        turns.push(bind("blocked", name), now);
    }
    for name in ["1", "2", "3"] {
        turns.push(bind("other", name), now);
    }
    let blocked = take_all(&mut turns, now);
    assert_eq!(names(&blocked), ["blocked/1", "blocked/2"]);
    assert_eq!(turns.next(), None, "there is no slot");
    for taken in &blocked {
        turns.rests(taken, again(taken), now + SECOND);
    }
    let others = take_all(&mut turns, now);
    assert_eq!(names(&others), ["other/1", "other/2"]);
    turns.ended(&others[0]);
    turns.ended(&others[1]);
    assert_eq!(turns.next(), Some(now + SECOND));
    assert_eq!(names(&take_all(&mut turns, now)), ["other/3"]);
    assert_eq!(names(&take_all(&mut turns, now + SECOND)), ["blocked/1"]);
}

#[test]
fn lanes_have_half_of_the_slots_and_one_of_them_few_and_all_take_turns() {
    let (mut turns, now) = (Turns::new(16), clock::monotonic());
    let trouble = ["a", "b", "c", "d", "e"];
    for namespace in trouble {
        (0..3).for_each(|name| turns.push(bind(namespace, &name.to_string()), now));
    }
    for taken in take_all(&mut turns, now) {
        turns.rests(&taken, again(&taken), now);
    }
    // New ones where there is trouble wait in the same lane, and so does what was decided before.
    (3..20).for_each(|name| turns.push(bind("a", &name.to_string()), now));
    assert!(turns.fresh.is_empty());
    (0..20).for_each(|name| turns.push(bind("fine", &name.to_string()), now));
    let taken = take_all(&mut turns, now);
    let of = |namespace: &str| taken.iter().filter(|tried| &*tried.bind.namespace == namespace).count();
    assert_eq!(trouble.map(of), [2, 2, 2, 1, 1]);
    assert_eq!((of("fine"), taken.len()), (8, 16));
    assert_eq!(names(&taken[..4]), ["a/0", "fine/0", "b/0", "fine/1"], "{:?}", names(&taken));
    assert_eq!(turns.next(), None);
}

/// Whoever comes while nobody answers these finds slots that are free.
#[test]
fn half_of_the_slots_stay_free_of_lanes_and_one_lane_has_an_eighth() {
    for (trouble, taken) in [(1, 2), (3, 6), (5, 8)] {
        let (mut turns, now) = (Turns::new(16), clock::monotonic());
        for namespace in 0..trouble {
            (0..3).for_each(|name| turns.push(bind(&namespace.to_string(), &name.to_string()), now));
        }
        for taken in take_all(&mut turns, now) {
            turns.rests(&taken, again(&taken), now);
        }
        assert_eq!(take_all(&mut turns, now).len(), taken, "{trouble}");
    }
}

#[test]
fn a_lane_ends_with_the_last_one_that_was_not_answered() {
    let (mut turns, now) = (Turns::new(1), clock::monotonic());
    (0..4).for_each(|name| turns.push(bind("a", &name.to_string()), now));
    let first = turns.take(now).unwrap();
    turns.rests(&first, again(&first), now + SECOND);
    // Those that were decided before come into the lane.
    let mut take = |now, name: &str| {
        let taken = turns.take(now).unwrap();
        assert_eq!(&*taken.bind.name, name);
        turns.ended(&taken);
        (turns.lanes.get("a").map(|lane| lane.waits.len()), turns.fresh.len())
    };
    assert_eq!(take(now, "1"), (Some(3), 0));
    assert_eq!(take(now, "2"), (Some(2), 0));
    // Who comes last is no longer in it when the one that was not answered is.
    assert_eq!(take(now, "3"), (Some(1), 0));
    turns.push(bind("a", "4"), now + 2 * SECOND);
    let taken = turns.take(now + SECOND).unwrap();
    assert_eq!((&*taken.bind.name, taken.failures), ("0", 1));
    turns.ended(&taken);
    assert!(turns.lanes.is_empty());
    let taken = turns.take(now + SECOND).unwrap();
    assert_eq!(&*taken.bind.name, "4");
    turns.ended(&taken);
    assert_eq!((turns.sent, turns.sent_from_lanes, turns.take(now).is_none()), (0, 0, true));
}
