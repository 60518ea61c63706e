//! States that last too long, and those that do not.

use super::*;
use crate::observer::timers::Excuse;

#[test]
fn a_pod_without_its_group_is_found_after_five_seconds_unless_it_terminates() {
    let lost = |terminating| PodFact { group: key("lost"), terminating, ..pod("p1", "", None) };
    let mut story = Story::begin();
    story.put(lost(false)).wait(4);
    assert!(story.found().is_empty());
    story.put(lost(true)).wait(60);
    assert!(story.found().is_empty());
    story.put(lost(false)).wait(5);
    assert_eq!(story.found(), [1]);
}

#[test]
fn a_generated_group_must_be_owned_by_the_pods_controller() {
    let of = |owner: &str| PodFact { group_owner: Some(owner.to_owned()), ..pod("p1", "", None) };
    let mut story = Story::begin();
    story.put(of("o")).wait(6);
    assert!(story.found().is_empty());
    story.put(of("other")).wait(6);
    assert_eq!(story.found(), [1]);
}

#[test]
fn a_group_of_ours_goes_with_its_owner_and_is_alone() {
    let ours = || Some(GroupFact { managed: true, ..group("q", 1) });
    let mut story = Story::begin();
    story.put_group("g", ours()).owner(false).wait(14);
    assert!(story.found().is_empty());
    story.wait(1);
    assert_eq!(story.found(), [2]);
    story.put_group("h", ours());
    assert_eq!(story.found(), [2, 2]);
}

#[test]
fn two_groups_of_one_owner_that_are_somebody_elses_are_no_matter() {
    let mut story = Story::begin();
    story.put_group("h", Some(group("q", 1))).owner(false).wait(60);
    assert!(story.found().is_empty());
}

#[test]
fn a_gang_is_not_partly_bound_for_long_before_it_is_satisfied() {
    let mut story = Story::begin();
    story.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").wait(9);
    assert!(story.found().is_empty());
    story.wait(1);
    assert_eq!(story.found(), [6]);
}

#[test]
fn a_gang_that_was_satisfied_once_may_shrink_and_may_be_asked_for_more() {
    let mut story = Story::begin();
    story.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").bind("p2", "cpu=1").delete("p1").wait(60);
    story.put_group("g", None).put_group("g", Some(group("q", 8))).wait(60);
    assert!(story.found().is_empty());
    story.delete("p2").put_group("g", None).put_group("g", Some(group("q", 2))).bind("p3", "cpu=1").wait(60);
    assert_eq!(story.found(), [6], "another gang under the same name must be satisfied anew");
}

#[test]
fn at_rest_a_queue_says_what_it_and_its_descendants_hold() {
    let mut story = Story::begin();
    story.queue("q", "root", "").bind("p1", "cpu=1");
    story.found();
    let wrong = |story: &Story| {
        story.history.at_rest(0).iter().map(|finding| format!("{}: {}", finding.object, finding.detail)).collect::<Vec<_>>()
    };
    assert_eq!(wrong(&story).len(), 2, "q and root say nothing");
    for name in ["q", "root"] {
        let parent = (name == "q").then(|| "root".to_owned());
        let now = QueueFact { parent, capability: Amounts::default(), allocated: amounts("cpu=1000m memory=0") };
        story.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) });
    }
    story.found();
    assert!(wrong(&story).is_empty());
    story.delete("p1").found();
    assert_eq!(
        wrong(&story),
        ["queue q: status.allocated says 1 cpu, its pods ask for 0", "queue root: status.allocated says 1 cpu, its pods ask for 0"]
    );
}

#[test]
fn an_excuse_silences_only_its_check() {
    let mut story = Story::begin();
    story.history.excuses.push(Excuse { check: Some(1), from: 0, to: None, at_most: None });
    story.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").put(PodFact { group: key("lost"), ..pod("p2", "", None) }).wait(60);
    assert_eq!(story.found(), [6]);
}
