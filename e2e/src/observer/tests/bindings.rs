//! Tests of checks 3 and 4: correct and wrong bindings.

use super::*;

#[test]
fn a_node_may_be_filled_and_not_overfilled() {
    let mut trace = Trace::begin();
    trace.queue("q", "root", "").bind("p1", "cpu=3").bind("p2", "cpu=1");
    assert!(trace.found().is_empty());
    trace.bind("p3", "cpu=1m");
    assert_eq!(trace.found(), [3]);
    trace.bind("p4", "memory=1");
    assert_eq!(trace.found(), [3, 3], "a dimension that the node does not have counts as 0");
}

#[test]
fn a_pod_without_a_request_in_the_dimension_may_be_bound_to_an_overfull_node() {
    let mut trace = Trace::begin();
    trace.queue("q", "root", "").bind("p1", "cpu=4").node("a", "cpu=1 pods=2").wait(60).bind("p2", "pods=1 cpu=0");
    assert!(trace.found().is_empty());
    trace.bind("p3", "pods=2");
    assert_eq!(trace.found(), [3], "the number of pods is a dimension like any other");
}

#[test]
fn a_node_that_shrank_recently_is_forgiven_and_later_is_not() {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=1").wait(1).bind("p1", "cpu=2");
    assert!(trace.found().is_empty());
    trace.delete("p1").wait(3).bind("p2", "cpu=2");
    assert_eq!(trace.found(), [3]);
}

#[test]
fn a_foreign_pod_is_forgiven_for_a_moment_and_counts_then() {
    let foreign = PodFact { served: None, ..pod("x", "cpu=3", Some("a")) };
    let mut trace = Trace::begin();
    trace.put(foreign.clone()).wait(1).bind("p1", "cpu=2");
    assert!(trace.found().is_empty());
    trace.wait(3).bind("p2", "cpu=1m");
    assert_eq!(trace.found(), [3]);
}

#[test]
fn a_terminating_pod_counts_until_it_is_gone() {
    let mut trace = Trace::begin();
    trace.bind("p1", "cpu=4").put(PodFact { terminating: true, ..pod("p1", "cpu=4", Some("a")) }).wait(60).delete("p1").bind("p2", "cpu=4");
    assert!(trace.found().is_empty());
    trace.put(PodFact { terminating: true, ..pod("p2", "cpu=4", Some("a")) }).bind("p3", "cpu=1");
    assert_eq!(trace.found(), [3, 4]);
}

#[test]
fn changes_are_ordered_by_resource_version_and_not_by_arrival() {
    let mut trace = Trace::begin();
    let version = trace.version;
    let put = |trace: &mut Trace, step: u64, now: Option<PodFact>, uid: &str| {
        let change = Change::Pod { uid: uid.to_owned(), now: now.map(Box::new), exact: true };
        trace.history.add(version + step, trace.at, change);
    };
    put(&mut trace, 1, Some(pod("p1", "cpu=4", None)), "p1");
    put(&mut trace, 2, Some(pod("p1", "cpu=4", Some("a"))), "p1");
    put(&mut trace, 3, Some(pod("p2", "cpu=4", None)), "p2");
    put(&mut trace, 5, Some(pod("p2", "cpu=4", Some("a"))), "p2");
    assert_eq!(trace.found(), [3, 4], "before the late change is known");
    // The late change: the first pod was deleted before the second one was bound.
    put(&mut trace, 4, None, "p1");
    assert!(trace.found().is_empty());
}

#[test]
fn a_queue_and_its_ancestors_may_not_be_exceeded() {
    let mut trace = Trace::begin();
    trace
        .node("a", "cpu=100")
        .queue("top", "root", "cpu=5")
        .queue("q", "top", "cpu=4")
        .queue("r", "top", "")
        .put_group("g2", Some(group("r", 1)));
    trace.wait(60).bind("p1", "cpu=4");
    let second = |node| PodFact { group: key("g2"), ..pod("p2", "cpu=2", node) };
    trace.put(second(None)).put(second(Some("a")));
    assert_eq!(trace.found(), [4]);
    assert!(
        trace.history.findings()[0]
            .detail
            .contains("queue top exceeds its capability with this binding (charged to queue r): cpu used 6, capability 5"),
        "{:?}",
        trace.history.findings()
    );
}

#[test]
fn a_pod_whose_group_is_gone_stays_charged() {
    let mut trace = Trace::begin();
    trace
        .node("a", "cpu=100")
        .wait(60)
        .bind("p1", "cpu=3")
        .put_group("g", None)
        .wait(1)
        .put_group("g", Some(group("q", 1)))
        .bind("p2", "cpu=2");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_pod_stays_charged_to_the_queue_that_it_was_bound_in() {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=100").queue("r", "root", "cpu=4").wait(60).bind("p1", "cpu=4").put_group("g", Some(group("r", 1))).wait(60);
    trace.put(pod("p1", "cpu=4", Some("a"))).bind("p2", "cpu=4");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.put_group("g", Some(group("q", 1))).wait(60).bind("p3", "cpu=1");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_new_queue_has_no_earlier_version_that_excuses_a_binding() {
    let mut trace = Trace::begin();
    trace.queue("new", "root", "cpu=1").put_group("g", Some(group("new", 1))).bind("p1", "cpu=2");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn the_time_of_a_change_is_the_first_arrival_of_it_or_of_a_later_change() {
    let mut trace = Trace::begin();
    let change = |name: &str, node| Change::Pod { uid: name.to_owned(), now: Some(Box::new(pod(name, "cpu=2", node))), exact: true };
    let version = trace.version;
    // The node shrank just before the binding, but the watch of pods is slow. A later change of another kind shows the time.
    trace.history.add(version + 1, trace.at, change("p1", None));
    trace.node("a", "cpu=1").owner(true);
    trace.history.add(version + 15, trace.at + 3000, change("p1", Some("a")));
    trace.wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
}

#[test]
fn a_recent_change_of_the_tree_is_forgiven() {
    let mut trace = Trace::begin();
    trace
        .node("a", "cpu=100")
        .bind("p1", "cpu=4")
        .wait(60)
        .queue("q", "root", "cpu=9")
        .wait(60)
        .queue("q", "root", "cpu=4")
        .wait(1)
        .bind("p2", "cpu=1");
    assert!(trace.found().is_empty());
    trace.wait(3).bind("p3", "cpu=1");
    assert_eq!(trace.found(), [4]);
}

/// Seen on a busy machine: the scheduler decided on a member of `q` below `left`, which took half a second. Then `q` was moved, and pods of
/// `r` filled `left`.
#[test]
fn a_pod_bound_after_a_change_of_the_tree_counts_in_the_new_tree_only() {
    let moved = || {
        let mut trace = Trace::begin();
        trace
            .node("a", "cpu=100")
            .queue("left", "root", "cpu=4")
            .queue("right", "root", "cpu=1")
            .queue("q", "left", "")
            .queue("r", "left", "");
        trace.put_group("h", Some(group("r", 1))).wait(60).queue("q", "right", "");
        trace
    };
    let of_r = |name: &str| PodFact { group: key("h"), ..pod(name, "cpu=4", None) };
    let mut trace = moved();
    trace.put(of_r("r1")).put(PodFact { node: Some("a".to_owned()), ..of_r("r1") }).bind("p1", "cpu=2");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    // By itself the binding is too much for the old tree, too.
    let mut trace = moved();
    trace.bind("p1", "cpu=5");
    assert_eq!(trace.found(), [4]);
    // The old tree does not count for ever.
    let mut trace = moved();
    trace.wait(3).bind("p1", "cpu=2");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_write_of_a_queues_status_is_not_a_change_of_the_tree() {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=100").queue("q", "root", "cpu=4").wait(60).bind("p1", "cpu=1").allocated("q", "cpu=1").bind("p2", "cpu=3");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.allocated("q", "cpu=4").bind("p3", "cpu=1");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_resize_by_another_client_is_forgiven_for_a_short_time_only() {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=100").wait(60).bind("p1", "cpu=3").wait(60).put(pod("p1", "cpu=8", Some("a"))).wait(1).bind("p2", "cpu=1");
    assert!(trace.found().is_empty());
    trace.wait(3).bind("p3", "cpu=1m");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_capability_of_zero_is_zero() {
    let mut trace = Trace::begin();
    trace.queue("q", "root", "cpu=0").wait(60).bind("p1", "memory=0");
    assert!(trace.found().is_empty());
    trace.bind("p2", "cpu=1m");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn the_queue_annotation_of_a_binding_must_name_the_queue_of_the_group() {
    let charged = |name, queue: &str, node| PodFact { queue: Some(queue.to_owned()), ..pod(name, "cpu=1", node) };
    let mut trace = Trace::begin();
    trace.queue("r", "root", "").put(charged("p1", "q", None)).put(charged("p1", "q", Some("a")));
    assert!(trace.found().is_empty());
    trace.put(charged("p2", "r", None)).put(charged("p2", "r", Some("a")));
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_binding_before_the_start_of_the_history_is_not_judged() {
    let mut trace = Trace::begin();
    trace.bind("p1", "cpu=9");
    trace.history.begins_after(trace.version);
    assert!(trace.found().is_empty());
    trace.bind("p2", "cpu=1");
    assert_eq!(trace.found(), [3, 4]);
}

#[test]
fn the_pods_of_a_second_scheduler_are_judged_and_are_another_clients_for_the_first() {
    let of_second = |name: &str, cpu: &str, node| PodFact { served: Some(1), ..pod(name, cpu, node) };
    let mut trace = Trace::begin();
    trace.bind("p1", "cpu=2").put(of_second("s1", "cpu=3", None)).put(of_second("s1", "cpu=3", Some("a")));
    assert!(
        trace.found().is_empty(),
        "each has not seen the other yet, and a queue counts the pods of one scheduler: {:?}",
        trace.history.findings()
    );
    trace.put(of_second("s2", "cpu=2", None)).put(of_second("s2", "cpu=2", Some("a")));
    assert_eq!(trace.found(), [3, 4], "its own pods count at once");
    trace.wait(3).bind("p2", "cpu=1");
    assert_eq!(trace.found(), [3, 4, 3], "the pods of the other count after the grace");
}
