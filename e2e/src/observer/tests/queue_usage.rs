//! Tests of check 4 while the queue tree changes: what a recent change excuses, and what it does not.

use super::*;

/// Starts with a large node and `q` below `left`, with these capabilities. `g` is in `q`; `h` and `i` are in `r` and `s`, which a test creates.
fn below_left(left: &str, q: &str) -> Trace {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=100").queue("left", "root", left).queue("right", "root", "").queue("q", "left", q);
    trace.put_group("h", Some(group("r", 1))).put_group("i", Some(group("s", 1))).wait(60);
    trace
}

impl Trace {
    /// Creates a pod of another PodGroup and binds it.
    fn bind_of(&mut self, of: &str, name: &str, asks: &str) -> &mut Self {
        let pod = |node| PodFact { group: key(of), ..pod(name, asks, node) };
        self.put(pod(None)).put(pod(Some("a")))
    }

    fn delete_queue(&mut self, name: &str) -> &mut Self {
        self.add(Change::Queue { name: name.to_owned(), now: None })
    }
}

/// Seen with graces of 50 s: a queue of 40 cpu was filled with 72 at the beginning of a case, and the creation of `default` excused it.
#[test]
fn an_unrelated_queue_that_is_created_excuses_nothing() {
    let mut trace = below_left("", "cpu=4");
    trace.queue("other", "root", "cpu=1").bind("p1", "cpu=3");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.bind("p2", "cpu=3");
    assert_eq!(trace.found(), [4]);
    assert!(trace.history.findings()[0].detail.contains("queue q exceeds its capability"), "{:?}", trace.history.findings());
    trace.queue("other", "right", "cpu=2").bind("p3", "cpu=1m").delete_queue("other").bind("p4", "cpu=1m");
    assert_eq!(trace.found(), [4, 4, 4], "nor do its move and its deletion");
}

#[test]
fn a_new_queue_and_an_older_one_share_the_capability_of_their_parent() {
    let mut trace = below_left("cpu=5", "cpu=4");
    trace.queue("r", "left", "cpu=4").bind_of("h", "r1", "cpu=4").bind("p1", "cpu=1");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.bind("p2", "cpu=1");
    assert_eq!(trace.found(), [4]);
    assert!(trace.history.findings()[0].detail.contains("queue left exceeds its capability"), "{:?}", trace.history.findings());
}

#[test]
fn a_queue_may_not_be_exceeded_just_after_the_whole_tree_was_created() {
    let mut trace = Trace::begin();
    trace.node("a", "cpu=100").put_group("h", Some(group("r", 1)));
    trace
        .queue("left", "root", "cpu=5")
        .queue("default", "root", "")
        .queue("r", "left", "cpu=4")
        .queue("s", "left", "")
        .queue("root", "", "cpu=100");
    trace.bind_of("h", "r1", "cpu=3").bind_of("h", "r2", "cpu=2");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn a_capability_that_was_higher_for_a_moment_is_the_limit_of_all_pods_together() {
    let mut trace = below_left("", "cpu=4");
    trace.queue("q", "left", "cpu=9").queue("q", "left", "cpu=4");
    for name in ["p1", "p2", "p3", "p4"] {
        trace.bind(name, "cpu=2");
    }
    assert!(trace.found().is_empty(), "they were decided on with the higher capability: {:?}", trace.history.findings());
    trace.bind("p5", "cpu=2");
    assert_eq!(trace.found(), [4]);
}

#[test]
fn pods_of_a_queue_that_was_moved_here_are_forgiven_for_a_moment() {
    let mut trace = below_left("cpu=4", "");
    trace.queue("s", "right", "").bind_of("i", "s1", "cpu=3").wait(60).queue("s", "left", "").bind("p1", "cpu=2");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.wait(3).bind("p2", "cpu=1");
    assert_eq!(trace.found(), [4]);
}

/// `p1` is decided on while `s` uses the half of `left`. Then `s` is moved away, and a pod of `r` gets its room.
#[test]
fn room_that_a_moved_queue_left_may_be_given_away() {
    let mut trace = below_left("cpu=8", "cpu=2");
    trace.queue("r", "left", "").queue("s", "left", "").bind_of("i", "s1", "cpu=4").wait(60);
    trace.queue("s", "right", "").queue("q", "left", "cpu=1").bind_of("h", "r1", "cpu=4").bind("p1", "cpu=2");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
}

#[test]
fn pods_of_a_deleted_queue_that_is_created_again_are_forgiven_for_a_moment() {
    let mut trace = below_left("cpu=4", "");
    trace.queue("r", "right", "").bind_of("h", "r1", "cpu=3").delete_queue("r").wait(60).queue("r", "left", "").bind("p1", "cpu=2");
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.wait(3).bind("p2", "cpu=1");
    assert_eq!(trace.found(), [4]);
}
