//! The order of bindings when some namespaces do not answer.

use std::time::Duration;

use super::*;
use crate::api::{GroupKey, Uid};
use crate::runtime::clock;
use crate::scheduler::event::Report;

/// Returns a binding of the pod.
pub(in crate::scheduler::dispatch) fn bind(namespace: &str, name: &str) -> Bind {
    Bind {
        uid: format!("{namespace}/{name}").as_str().into(),
        resource_version: 1,
        namespace: namespace.into(),
        name: name.into(),
        node: "n".into(),
        queue: "default".into(),
        path: "root/default".into(),
        group: GroupKey::new(namespace, "g"),
        minimum: None,
    }
}

/// Returns the pod and the outcome of a report about a binding.
pub(in crate::scheduler::dispatch) fn outcome(report: Report) -> (Uid, &'static str) {
    match report {
        Report::Bound(uid) => (uid, "bound"),
        Report::NotBound(uid, reason) => (uid, reason),
        Report::Unanswered(uid, _) => (uid, "unanswered"),
        report @ (Report::SendAgain(..)
        | Report::Evicted(_)
        | Report::NotEvicted(..)
        | Report::Fenced(_)
        | Report::Tied(_)
        | Report::NotTied(..)
        | Report::Written(..)) => panic!("{report:?}"),
    }
}

/// Returns the attempt after one more request without an answer.
fn again(taken: &BindAttempt) -> BindAttempt {
    BindAttempt { tries: Tries { failures: taken.tries.failures + 1, ..taken.tries }, ..taken.clone() }
}

/// Takes all bindings that can be sent now.
fn take_all(queue: &mut BindQueue, now: Instant) -> Vec<BindAttempt> {
    std::iter::from_fn(|| queue.take(now)).collect()
}

fn names(taken: &[BindAttempt]) -> Vec<&str> {
    taken.iter().map(|attempt| &*attempt.bind.uid).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_binding_in_back_off_holds_no_slot_and_is_sent_again_afterwards() {
    let (mut queue, now) = (BindQueue::new(2), clock::monotonic());
    for name in ["1", "2"] {
        queue.push(bind("blocked", name), now);
    }
    for name in ["1", "2", "3"] {
        queue.push(bind("other", name), now);
    }
    let blocked = take_all(&mut queue, now);
    assert_eq!(names(&blocked), ["blocked/1", "blocked/2"]);
    assert_eq!(queue.next(), None, "there is no slot");
    for taken in &blocked {
        queue.rests(taken, again(taken), now + SECOND);
    }
    let others = take_all(&mut queue, now);
    assert_eq!(names(&others), ["other/1", "other/2"]);
    queue.ended(&others[0]);
    queue.ended(&others[1]);
    assert_eq!(queue.next(), Some(now + SECOND));
    assert_eq!(names(&take_all(&mut queue, now)), ["other/3"]);
    assert_eq!(names(&take_all(&mut queue, now + SECOND)), ["blocked/1"]);
}

#[test]
fn lanes_have_half_of_the_slots_and_alternate_with_other_namespaces() {
    let (mut queue, now) = (BindQueue::new(16), clock::monotonic());
    let trouble = ["a", "b", "c", "d", "e"];
    for namespace in trouble {
        (0..3).for_each(|name| queue.push(bind(namespace, &name.to_string()), now));
    }
    for taken in take_all(&mut queue, now) {
        queue.rests(&taken, again(&taken), now);
    }
    // New bindings of the namespace wait in its lane, and so do its earlier decisions.
    (3..20).for_each(|name| queue.push(bind("a", &name.to_string()), now));
    assert!(queue.fresh.is_empty());
    (0..20).for_each(|name| queue.push(bind("fine", &name.to_string()), now));
    let taken = take_all(&mut queue, now);
    let of = |namespace: &str| taken.iter().filter(|attempt| &*attempt.bind.namespace == namespace).count();
    assert_eq!(trouble.map(of), [2, 2, 2, 1, 1]);
    assert_eq!((of("fine"), taken.len()), (8, 16));
    assert_eq!(names(&taken[..4]), ["a/0", "fine/0", "b/0", "fine/1"], "{:?}", names(&taken));
    assert_eq!(queue.next(), None);
}

/// A binding of another namespace finds free slots.
#[test]
fn half_of_the_slots_stay_free_of_lanes_and_one_lane_has_an_eighth() {
    for (trouble, taken) in [(1, 2), (3, 6), (5, 8)] {
        let (mut queue, now) = (BindQueue::new(16), clock::monotonic());
        for namespace in 0..trouble {
            (0..3).for_each(|name| queue.push(bind(&namespace.to_string(), &name.to_string()), now));
        }
        for taken in take_all(&mut queue, now) {
            queue.rests(&taken, again(&taken), now);
        }
        assert_eq!(take_all(&mut queue, now).len(), taken, "{trouble}");
    }
}

#[test]
fn a_lane_ends_when_its_last_unanswered_binding_is_answered() {
    let (mut queue, now) = (BindQueue::new(1), clock::monotonic());
    (0..4).for_each(|name| queue.push(bind("a", &name.to_string()), now));
    let first = queue.take(now).unwrap();
    queue.rests(&first, again(&first), now + SECOND);
    // Earlier decisions move into the lane.
    let mut take = |now, name: &str| {
        let taken = queue.take(now).unwrap();
        assert_eq!(&*taken.bind.name, name);
        queue.ended(&taken);
        (queue.lanes.get("a").map(|lane| lane.waits.len()), queue.fresh.len())
    };
    assert_eq!(take(now, "1"), (Some(3), 0));
    assert_eq!(take(now, "2"), (Some(2), 0));
    // The last binding leaves the lane before the unanswered binding does.
    assert_eq!(take(now, "3"), (Some(1), 0));
    queue.push(bind("a", "4"), now + 2 * SECOND);
    let taken = queue.take(now + SECOND).unwrap();
    assert_eq!((&*taken.bind.name, taken.tries.failures), ("0", 1));
    queue.ended(&taken);
    assert!(queue.lanes.is_empty());
    let taken = queue.take(now + SECOND).unwrap();
    assert_eq!(&*taken.bind.name, "4");
    queue.ended(&taken);
    assert_eq!((queue.sent, queue.sent_from_lanes, queue.take(now).is_none()), (0, 0, true));
}

/// A namespace whose webhook refuses every binding must not hold up the end of a leader.
#[test]
fn a_binding_that_was_refused_each_time_has_no_unknown_outcome() {
    let (mut queue, now) = (BindQueue::new(4), clock::monotonic());
    for name in ["refused", "unanswered", "sent", "unsent", "unsent too"] {
        queue.push(bind("ns", name), now);
    }
    let taken = take_all(&mut queue, now);
    let [refused, unanswered, ..] = taken.as_slice() else { panic!("{taken:?}") };
    queue.rests(refused, again(refused), now + SECOND);
    queue.rests(unanswered, BindAttempt { open: Some(now), ..again(unanswered) }, now + SECOND);
    assert_eq!(queue.unknown_outcomes(), 3, "one was not answered, two are under way");
    queue.drop_without_effect();
    assert_eq!(queue.unknown_outcomes(), 3);
    assert_eq!(names(&take_all(&mut queue, now + SECOND)), ["ns/unanswered"]);
}
