//! Tests of check 9: evictions for a reason and for nothing.

use super::*;

fn evicted(name: &str) -> PodFact {
    PodFact { evicted: true, ..pod(name, "cpu=2", Some("a")) }
}

fn asker(name: &str, node: Option<&str>) -> PodFact {
    PodFact { group: key("asks"), ..pod(name, "cpu=2", node) }
}

/// Queue `q` has a guarantee of `guarantee` and its PodGroup `g` two bound pods of 2 cpu; a pod of PodGroup `asks` in queue `r` waits.
fn full(guarantee: &str) -> Trace {
    let mut trace = Trace::begin();
    let now = QueueFact {
        parent: Some("root".to_owned()),
        capability: Amounts::default(),
        guarantee: amounts(guarantee),
        allocated: Amounts::default(),
    };
    trace.add(Change::Queue { name: "q".to_owned(), now: Some(Box::new(now)) }).queue("r", "root", "");
    trace.put_group("asks", Some(group("r", 1))).bind("p1", "cpu=2").bind("p2", "cpu=2").put(asker("w1", None)).wait(60);
    assert!(trace.found().is_empty());
    trace
}

#[test]
fn an_eviction_for_a_pod_that_waits_and_is_bound_then_is_right() {
    let mut trace = full("");
    trace.put(evicted("p1")).delete("p1").wait(14).put(asker("w1", Some("a"))).wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
}

#[test]
fn an_eviction_while_nothing_waits_is_found() {
    let mut trace = full("");
    trace.delete("w1").wait(60).put(evicted("p1"));
    assert_eq!(trace.found(), [9]);
    let mut trace = full("");
    trace.delete("w1").wait(1).put(evicted("p1")).delete("p1").wait(60);
    assert!(trace.found().is_empty(), "the scheduler may not have seen that the pod is gone: {:?}", trace.history.findings());
}

#[test]
fn an_eviction_after_which_nothing_is_bound_is_found_while_a_pod_waits() {
    let mut trace = full("");
    trace.put(evicted("p1")).wait(60);
    assert!(trace.found().is_empty(), "it is not gone yet");
    trace.delete("p1").wait(15);
    assert_eq!(trace.found(), [9]);
    let mut trace = full("");
    trace.put(evicted("p1")).delete("p1").wait(10).delete("w1").wait(60);
    assert!(trace.found().is_empty(), "nothing waits any more");
    let mut trace = full("");
    trace.put(evicted("p1")).delete("p1").bind("p3", "cpu=2").wait(60);
    assert_eq!(trace.found(), [9], "the place went to a pod of the same PodGroup");
}

#[test]
fn a_pod_that_is_not_preemptable_is_never_evicted() {
    let mut trace = full("");
    let protected = |name: &str, evicted| PodFact { protected: true, evicted, ..pod(name, "cpu=2", Some("a")) };
    trace.put(protected("p1", false)).wait(60).put(protected("p1", true));
    assert_eq!(trace.found(), [9]);
    let mut trace = full("");
    trace.put_group("g", Some(GroupFact { protected: true, ..group("q", 1) })).wait(60).put(evicted("p1"));
    assert_eq!(trace.found(), [9]);
    let mut trace = full("");
    trace.put_group("g", Some(GroupFact { protected: true, ..group("q", 1) })).wait(1).put(evicted("p1"));
    assert!(trace.found().is_empty(), "the scheduler may not have seen the mark");
}

#[test]
fn a_pod_that_was_never_preemptable_is_never_evicted_however_short_it_lives() {
    let mut trace = full("");
    let protected = |node, evicted| PodFact { protected: true, evicted, ..pod("p3", "", node) };
    trace.put(protected(None, false)).put(protected(Some("a"), false)).wait(1).put(protected(Some("a"), true));
    assert_eq!(trace.found(), [9], "of the pod");
    let mut trace = full("");
    let member = |node, evicted| PodFact { group: key("new"), evicted, ..pod("p3", "", node) };
    trace.put_group("new", Some(GroupFact { protected: true, ..group("q", 1) })).put(member(None, false)).put(member(Some("a"), false));
    trace.wait(1).put(member(Some("a"), true));
    assert_eq!(trace.found(), [9], "of its PodGroup");
}

#[test]
fn a_queue_stays_at_its_guarantee() {
    let mut trace = full("cpu=2");
    trace.put(evicted("p1"));
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.put(evicted("p2"));
    assert_eq!(trace.found(), [9]);
    let mut trace = full("cpu=4");
    trace.put_group("own", Some(group("q", 1))).put(PodFact { group: key("own"), ..pod("w2", "cpu=2", None) }).put(evicted("p1"));
    assert!(trace.found().is_empty(), "a PodGroup of the same queue may be the one: {:?}", trace.history.findings());
    let mut trace = full("cpu=8");
    trace.put(evicted("p1"));
    assert!(trace.found().is_empty(), "the nodes do not have what is guaranteed");
}

#[test]
fn a_part_of_a_gang_is_released() {
    let mut trace = Trace::begin();
    trace.put_group("g", Some(group("q", 2))).bind("p1", "cpu=2").wait(5).put(evicted("p1")).delete("p1").wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
}
