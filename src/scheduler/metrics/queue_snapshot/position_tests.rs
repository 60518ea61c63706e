//! The position in its queue of the PodGroup whose pod waits longest.

use prometheus::Registry;

use super::*;
use crate::api::{GroupFacts, PodFacts};
use crate::cycle::testing::{group, pod, queue};
use crate::scheduler::metrics::queue_snapshot::QUEUES;
use crate::scheduler::metrics::queue_snapshot::tests::state;
use crate::scheduler::testing::at;

/// Returns a pod that fits on no node, with the second of its creation.
fn waits(group: &str, second: i64, priority: i32) -> PodFacts {
    let created = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
    PodFacts { created, priority, ..pod("ns", group, group, &[("cpu", 11)]) }
}

fn positions(groups: &[(&str, &str, i64, i32)], queues: Vec<crate::api::QueueFacts>) -> BTreeMap<String, i64> {
    let pods = groups.iter().map(|(name, _, second, priority)| waits(name, *second, *priority)).collect();
    let mut facts: Vec<_> = groups.iter().map(|(name, queue, ..)| group("ns", name, 1, queue)).collect();
    // It has no pods, so none of them waits longest, and it comes after those that have.
    let created = k8s_openapi::jiff::Timestamp::from_second(1).unwrap();
    facts.extend(["q", "empty"].map(|queue| GroupFacts { created, ..group("ns", &format!("a-{queue}"), 1, queue) }));
    let mut state = state(&Registry::new(), queues, facts, pods);
    let _binds = state.tick(at(0));
    QueueSnapshot::of(&state).oldest_position
}

#[test]
fn a_higher_priority_comes_before_the_oldest_pod_and_each_queue_counts_its_own() {
    let groups = [
        ("longest", "q", 100, 0),
        ("later", "q", 200, 0),
        ("high", "q", 300, 10),
        ("higher", "q", 400, 20),
        ("below", "p", 50, 0),
        ("lost", "nobody", 10, 0),
    ];
    let queues = vec![queue("q", None, &[]), queue("p", Some("q"), &[]), queue("idle", None, &[]), queue("empty", None, &[])];
    let wanted = [("p", 1), ("q", 3)];
    assert_eq!(positions(&groups, queues), wanted.map(|(queue, position)| (queue.to_owned(), position)).into());
}

#[test]
fn of_two_that_wait_equally_long_the_first_in_order_counts() {
    let groups = [("a", "q", 100, 0), ("b", "q", 100, 5), ("c", "q", 200, 5)];
    assert_eq!(positions(&groups, vec![queue("q", None, &[])]), [("q".to_owned(), 1)].into());
}

#[test]
fn queues_without_a_label_of_their_own_have_no_position() {
    let name = |number: usize| format!("q{number:04}");
    let queues = (0..=QUEUES).map(|number| queue(&name(number), None, &[])).collect();
    let (first, last) = (name(0), name(QUEUES));
    let groups = [("a", first.as_str(), 100, 0), ("b", last.as_str(), 100, 0)];
    assert_eq!(positions(&groups, queues), [(first.clone(), 1)].into());
}
