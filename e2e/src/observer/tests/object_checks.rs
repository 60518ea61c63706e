//! Tests of checks 1, 2, 5 and 6: states that last too long, and states that do not.

use super::*;
use crate::observer::timers::Excuse;

#[test]
fn a_pod_without_its_group_is_found_after_five_seconds_unless_it_terminates() {
    let lost = |terminating| PodFact { group: key("lost"), terminating, ..pod("p1", "", None) };
    let mut trace = Trace::begin();
    trace.put(lost(false)).wait(4);
    assert!(trace.found().is_empty());
    trace.put(lost(true)).wait(60);
    assert!(trace.found().is_empty());
    trace.put(lost(false)).wait(5);
    assert_eq!(trace.found(), [1]);
}

#[test]
fn a_generated_group_must_be_owned_by_the_pods_controller() {
    let of = |owner: &str| PodFact { group_owner: Some(owner.to_owned()), ..pod("p1", "", None) };
    let mut trace = Trace::begin();
    trace.put(of("o")).wait(6);
    assert!(trace.found().is_empty());
    trace.put(of("other")).wait(6);
    assert_eq!(trace.found(), [1]);
}

#[test]
fn a_group_of_the_controller_is_deleted_with_its_owner_and_has_no_twin() {
    let served = || Some(GroupFact { managed: true, ..group("q", 1) });
    let mut trace = Trace::begin();
    trace.put_group("g", served()).owner(false).wait(14);
    assert!(trace.found().is_empty());
    trace.wait(1);
    assert_eq!(trace.found(), [2]);
    trace.put_group("h", served());
    assert_eq!(trace.found(), [2, 2]);
}

#[test]
fn attempts_of_one_jobset_are_no_twins() {
    let served = || Some(GroupFact { managed: true, ..group("q", 1) });
    let mut trace = Trace::begin();
    trace.put_group("g", None).put_group("jobset-train-0", served()).put_group("jobset-train-1", served());
    assert!(trace.found().is_empty());
    trace.put_group("jobset-other-1", served());
    assert!(trace.found().contains(&2), "it is no attempt of the same JobSet");
}

#[test]
fn two_groups_of_one_owner_that_the_controller_did_not_create_are_allowed() {
    let mut trace = Trace::begin();
    trace.put_group("h", Some(group("q", 1))).owner(false).wait(60);
    assert!(trace.found().is_empty());
}

#[test]
fn a_gang_may_be_partially_bound_only_for_a_short_time_before_it_is_satisfied() {
    let mut trace = Trace::begin();
    trace.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").wait(9);
    assert!(trace.found().is_empty());
    trace.wait(1);
    assert_eq!(trace.found(), [6]);
}

#[test]
fn a_satisfied_gang_may_shrink_and_its_min_member_may_be_raised() {
    let mut trace = Trace::begin();
    trace.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").bind("p2", "cpu=1").delete("p1").wait(60);
    trace.put_group("g", None).put_group("g", Some(group("q", 8))).wait(60);
    assert!(trace.found().is_empty());
    trace.delete("p2").put_group("g", None).put_group("g", Some(group("q", 2))).bind("p3", "cpu=1").wait(60);
    assert_eq!(trace.found(), [6], "another gang under the same name must be satisfied anew");
}

#[test]
fn at_rest_the_status_of_a_queue_is_its_usage_and_that_of_its_descendants() {
    let mut trace = Trace::begin();
    trace.queue("q", "root", "").bind("p1", "cpu=1");
    trace.found();
    let wrong = |trace: &Trace| {
        trace.history.at_rest(0).iter().map(|finding| format!("{}: {}", finding.object, finding.detail)).collect::<Vec<_>>()
    };
    assert_eq!(wrong(&trace).len(), 2, "the status of q and root is empty");
    for name in ["q", "root"] {
        let parent = (name == "q").then(|| "root".to_owned());
        let now =
            QueueFact { parent, capability: Amounts::default(), guarantee: Amounts::default(), allocated: amounts("cpu=1000m memory=0") };
        trace.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) });
    }
    trace.found();
    assert!(wrong(&trace).is_empty());
    trace.delete("p1").found();
    assert_eq!(
        wrong(&trace),
        ["queue q: status.allocated has cpu 1, its pods request 0", "queue root: status.allocated has cpu 1, its pods request 0"]
    );
}

#[test]
fn an_excuse_silences_only_its_check() {
    let mut trace = Trace::begin();
    trace.history.excuses.push(Excuse { check: Some(1), from: 0, to: None, at_most: None });
    trace.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").put(PodFact { group: key("lost"), ..pod("p2", "", None) }).wait(60);
    assert_eq!(trace.found(), [6]);
}

/// A gang of two that is satisfied.
fn satisfied() -> Trace {
    let mut trace = Trace::begin();
    trace.queue("q", "root", "").put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").bind("p2", "cpu=1").wait(60);
    assert!(trace.found().is_empty());
    trace
}

fn leaving(name: &str) -> PodFact {
    PodFact { terminating: true, ..pod(name, "cpu=1", Some("a")) }
}

fn evicted(name: &str) -> PodFact {
    PodFact { evicted: true, ..pod(name, "cpu=1", Some("a")) }
}

#[test]
fn a_gang_that_was_restarted_must_be_satisfied_anew() {
    let mut trace = satisfied();
    trace.put(leaving("p1")).put(leaving("p2")).bind("p3", "cpu=1").wait(60);
    assert_eq!(trace.found(), [6], "the terminating members of the time before do not count");
    let mut trace = satisfied();
    trace.put(leaving("p1")).put(leaving("p2")).bind("p3", "cpu=1").bind("p4", "cpu=1").delete("p1").delete("p2").wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    trace.delete("p3").delete("p4").bind("p5", "cpu=1").wait(60);
    assert_eq!(trace.found(), [6], "and so a third time");
}

#[test]
fn a_gang_that_was_preempted_goes_as_a_whole_and_comes_back_as_a_whole() {
    // No pod waits here, which is a finding of check 9.
    let partly = |trace: &mut Trace| trace.found().into_iter().filter(|check| *check == 6).collect::<Vec<_>>();
    let mut trace = satisfied();
    trace.put(evicted("p1")).delete("p1").put(evicted("p2")).delete("p2").wait(60);
    assert!(partly(&mut trace).is_empty());
    trace.bind("p3", "cpu=1").wait(60);
    assert_eq!(partly(&mut trace), [6]);
    let mut trace = satisfied();
    trace.put(evicted("p1")).delete("p1").wait(60);
    assert_eq!(partly(&mut trace), [6], "half of a gang was evicted");
    let mut trace = satisfied();
    trace.bind("p3", "cpu=1").put(evicted("p1")).delete("p1").wait(60);
    assert!(partly(&mut trace).is_empty(), "a member beyond the minimum may be evicted alone");
}

#[test]
fn a_binding_after_a_raised_minimum_must_reach_it() {
    let raised = || {
        let mut trace = satisfied();
        trace.put_group("g", Some(group("q", 4)));
        trace
    };
    let mut trace = raised();
    trace.wait(60);
    assert!(trace.found().is_empty(), "no member was bound since");
    trace.bind("p3", "cpu=1").wait(9).bind("p4", "cpu=1").wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    let mut trace = raised();
    trace.wait(3).bind("p3", "cpu=1").wait(60);
    assert_eq!(trace.found(), [6]);
    let mut trace = raised();
    trace.wait(1).bind("p3", "cpu=1").wait(60);
    assert!(trace.found().is_empty(), "the scheduler may not have seen the new minimum");
}

#[test]
fn a_gang_that_lost_members_gets_them_back_together() {
    let lost = || {
        let mut trace = Trace::begin();
        trace.queue("q", "root", "").put_group("g", Some(group("q", 3)));
        trace.bind("p1", "cpu=1").bind("p2", "cpu=1").bind("p3", "cpu=1").wait(60).delete("p1").delete("p2");
        trace
    };
    let mut trace = lost();
    trace.wait(60).bind("p4", "cpu=1").bind("p5", "cpu=1").wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
    let mut trace = lost();
    trace.wait(60).bind("p4", "cpu=1").wait(60);
    assert_eq!(trace.found(), [6]);
    let mut trace = lost();
    trace.wait(1).bind("p4", "cpu=1").wait(60);
    assert!(trace.found().is_empty(), "the scheduler may not have seen that members are lost: {:?}", trace.history.findings());
}

#[test]
fn members_that_succeeded_count() {
    let mut trace = satisfied();
    trace.put(PodFact { ended: true, ..pod("p1", "cpu=1", Some("a")) }).wait(60).bind("p3", "cpu=1").wait(60);
    trace.put(PodFact { ended: true, ..pod("p2", "cpu=1", Some("a")) }).put(PodFact { ended: true, ..pod("p3", "cpu=1", Some("a")) });
    trace.wait(60).bind("p4", "cpu=1").wait(60);
    assert!(trace.found().is_empty(), "{:?}", trace.history.findings());
}
