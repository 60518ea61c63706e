//! Bindings, right and wrong, in a history.

use super::*;

#[test]
fn a_node_may_be_filled_and_not_overfilled() {
    let mut story = Story::begin();
    story.queue("q", "root", "").bind("p1", "cpu=3").bind("p2", "cpu=1");
    assert!(story.found().is_empty());
    story.bind("p3", "cpu=1m");
    assert_eq!(story.found(), [3]);
    story.bind("p4", "memory=1");
    assert_eq!(story.found(), [3, 3], "a dimension that the node does not have is 0");
}

#[test]
fn a_pod_that_does_not_ask_for_the_dimension_may_go_to_an_overfull_node() {
    let mut story = Story::begin();
    story.queue("q", "root", "").bind("p1", "cpu=4").node("a", "cpu=1 pods=2").wait(60).bind("p2", "pods=1 cpu=0");
    assert!(story.found().is_empty());
    story.bind("p3", "pods=2");
    assert_eq!(story.found(), [3], "the number of pods is a dimension like any other");
}

#[test]
fn a_node_that_shrank_a_moment_ago_is_forgiven_and_later_is_not() {
    let mut story = Story::begin();
    story.node("a", "cpu=1").wait(1).bind("p1", "cpu=2");
    assert!(story.found().is_empty());
    story.delete("p1").wait(3).bind("p2", "cpu=2");
    assert_eq!(story.found(), [3]);
}

#[test]
fn a_foreign_pod_is_forgiven_for_a_moment_and_counts_then() {
    let foreign = PodFact { ours: false, ..pod("x", "cpu=3", Some("a")) };
    let mut story = Story::begin();
    story.put(foreign.clone()).wait(1).bind("p1", "cpu=2");
    assert!(story.found().is_empty());
    story.wait(3).bind("p2", "cpu=1m");
    assert_eq!(story.found(), [3]);
}

#[test]
fn what_terminates_counts_until_it_is_gone() {
    let mut story = Story::begin();
    story.bind("p1", "cpu=4").put(PodFact { terminating: true, ..pod("p1", "cpu=4", Some("a")) }).wait(60).delete("p1").bind("p2", "cpu=4");
    assert!(story.found().is_empty());
    story.put(PodFact { terminating: true, ..pod("p2", "cpu=4", Some("a")) }).bind("p3", "cpu=1");
    assert_eq!(story.found(), [3, 4]);
}

#[test]
fn the_order_is_that_of_the_resource_versions_whatever_arrives_first() {
    let mut story = Story::begin();
    let version = story.version;
    let put = |story: &mut Story, step: u64, now: Option<PodFact>, uid: &str| {
        let change = Change::Pod { uid: uid.to_owned(), now: now.map(Box::new), exact: true };
        story.history.add(version + step, story.at, change);
    };
    put(&mut story, 1, Some(pod("p1", "cpu=4", None)), "p1");
    put(&mut story, 2, Some(pod("p1", "cpu=4", Some("a"))), "p1");
    put(&mut story, 3, Some(pod("p2", "cpu=4", None)), "p2");
    put(&mut story, 5, Some(pod("p2", "cpu=4", Some("a"))), "p2");
    assert_eq!(story.found(), [3, 4], "as far as known");
    // The slower news: the first was gone before the second came.
    put(&mut story, 4, None, "p1");
    assert!(story.found().is_empty());
}

#[test]
fn a_queue_and_its_ancestors_may_not_be_exceeded() {
    let mut story = Story::begin();
    story
        .node("a", "cpu=100")
        .queue("top", "root", "cpu=5")
        .queue("q", "top", "cpu=4")
        .queue("r", "top", "")
        .put_group("g2", Some(group("r", 1)));
    story.wait(60).bind("p1", "cpu=4");
    let second = |node| PodFact { group: key("g2"), ..pod("p2", "cpu=2", node) };
    story.put(second(None)).put(second(Some("a")));
    assert_eq!(story.found(), [4]);
    assert!(story.history.findings()[0].detail.contains("queue top to 6 cpu of 5"), "{:?}", story.history.findings());
}

#[test]
fn a_pod_whose_group_is_gone_stays_charged() {
    let mut story = Story::begin();
    story
        .node("a", "cpu=100")
        .wait(60)
        .bind("p1", "cpu=3")
        .put_group("g", None)
        .wait(1)
        .put_group("g", Some(group("q", 1)))
        .bind("p2", "cpu=2");
    assert_eq!(story.found(), [4]);
}

#[test]
fn a_pod_stays_charged_to_the_queue_that_it_was_bound_in() {
    let mut story = Story::begin();
    story.node("a", "cpu=100").queue("r", "root", "cpu=4").wait(60).bind("p1", "cpu=4").put_group("g", Some(group("r", 1))).wait(60);
    story.put(pod("p1", "cpu=4", Some("a"))).bind("p2", "cpu=4");
    assert!(story.found().is_empty(), "{:?}", story.history.findings());
    story.put_group("g", Some(group("q", 1))).wait(60).bind("p3", "cpu=1");
    assert_eq!(story.found(), [4]);
}

#[test]
fn a_queue_that_is_new_has_no_kinder_past() {
    let mut story = Story::begin();
    story.queue("new", "root", "cpu=1").put_group("g", Some(group("new", 1))).bind("p1", "cpu=2");
    assert_eq!(story.found(), [4]);
}

#[test]
fn the_time_of_a_change_is_that_of_the_first_sign_that_it_had_happened() {
    let mut story = Story::begin();
    let change = |name: &str, node| Change::Pod { uid: name.to_owned(), now: Some(Box::new(pod(name, "cpu=2", node))), exact: true };
    let version = story.version;
    // The node shrank just before the binding, but the pods' watch is slow: a later change of another kind shows when it was.
    story.history.add(version + 1, story.at, change("p1", None));
    story.node("a", "cpu=1").owner(true);
    story.history.add(version + 15, story.at + 3000, change("p1", Some("a")));
    story.wait(60);
    assert!(story.found().is_empty(), "{:?}", story.history.findings());
}

#[test]
fn a_tree_that_was_changed_a_moment_ago_is_forgiven() {
    let mut story = Story::begin();
    story
        .node("a", "cpu=100")
        .bind("p1", "cpu=4")
        .wait(60)
        .queue("q", "root", "cpu=9")
        .wait(60)
        .queue("q", "root", "cpu=4")
        .wait(1)
        .bind("p2", "cpu=1");
    assert!(story.found().is_empty());
    story.wait(3).bind("p3", "cpu=1");
    assert_eq!(story.found(), [4]);
}

/// Seen: a member of `q` was decided on while `q` was below `left`, and took half a second; then `q` was moved, and `left` was filled with what is `r`'s.
#[test]
fn what_was_bound_after_the_tree_was_changed_was_decided_on_by_the_new_tree() {
    let moved = || {
        let mut story = Story::begin();
        story
            .node("a", "cpu=100")
            .queue("left", "root", "cpu=4")
            .queue("right", "root", "cpu=1")
            .queue("q", "left", "")
            .queue("r", "left", "");
        story.put_group("h", Some(group("r", 1))).wait(60).queue("q", "right", "");
        story
    };
    let of_r = |name: &str| PodFact { group: key("h"), ..pod(name, "cpu=4", None) };
    let mut story = moved();
    story.put(of_r("r1")).put(PodFact { node: Some("a".to_owned()), ..of_r("r1") }).bind("p1", "cpu=2");
    assert!(story.found().is_empty(), "{:?}", story.history.findings());
    // By itself it is too much for the old tree, too.
    let mut story = moved();
    story.bind("p1", "cpu=5");
    assert_eq!(story.found(), [4]);
    // And the old tree is not so old for ever.
    let mut story = moved();
    story.wait(3).bind("p1", "cpu=2");
    assert_eq!(story.found(), [4]);
}

#[test]
fn what_is_written_into_a_queues_status_is_no_change_of_the_tree() {
    let mut story = Story::begin();
    story.node("a", "cpu=100").queue("q", "root", "cpu=4").wait(60).bind("p1", "cpu=1").allocated("q", "cpu=1").bind("p2", "cpu=3");
    assert!(story.found().is_empty(), "{:?}", story.history.findings());
    story.allocated("q", "cpu=4").bind("p3", "cpu=1");
    assert_eq!(story.found(), [4]);
}

#[test]
fn a_resize_by_somebody_is_forgiven_for_a_moment_only() {
    let mut story = Story::begin();
    story.node("a", "cpu=100").wait(60).bind("p1", "cpu=3").wait(60).put(pod("p1", "cpu=8", Some("a"))).wait(1).bind("p2", "cpu=1");
    assert!(story.found().is_empty());
    story.wait(3).bind("p3", "cpu=1m");
    assert_eq!(story.found(), [4]);
}

#[test]
fn a_capability_of_zero_is_zero() {
    let mut story = Story::begin();
    story.queue("q", "root", "cpu=0").wait(60).bind("p1", "memory=0");
    assert!(story.found().is_empty());
    story.bind("p2", "cpu=1m");
    assert_eq!(story.found(), [4]);
}

#[test]
fn the_queue_that_a_binding_writes_down_must_be_the_groups() {
    let charged = |name, queue: &str, node| PodFact { queue: Some(queue.to_owned()), ..pod(name, "cpu=1", node) };
    let mut story = Story::begin();
    story.queue("r", "root", "").put(charged("p1", "q", None)).put(charged("p1", "q", Some("a")));
    assert!(story.found().is_empty());
    story.put(charged("p2", "r", None)).put(charged("p2", "r", Some("a")));
    assert_eq!(story.found(), [4]);
}

#[test]
fn what_was_bound_before_the_history_began_is_not_judged() {
    let mut story = Story::begin();
    story.bind("p1", "cpu=9");
    story.history.begins_after(story.version);
    assert!(story.found().is_empty());
    story.bind("p2", "cpu=1");
    assert_eq!(story.found(), [3, 4]);
}
