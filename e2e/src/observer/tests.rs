//! Histories as text of calls, and what must be found in them. `at` is in seconds; resourceVersions are given where the order matters.

use super::amounts::{Amounts, parse};
use super::facts::{Change, GroupFact, Key, PodFact, QueueFact};
use super::history::History;
use super::judge::Graces;
use super::timers::Excuse;

struct Story {
    history: History,
    version: u64,
    at: i64,
}

fn amounts(text: &str) -> Amounts {
    let mut all = Amounts::default();
    for (name, amount) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
        all.set(name, parse(amount).unwrap());
    }
    all
}

fn key(name: &str) -> Key {
    ("n".to_owned(), name.to_owned())
}

/// A pod of S in group `g`; change what differs.
fn pod(name: &str, asks: &str, node: Option<&str>) -> PodFact {
    PodFact {
        key: key(name),
        ours: true,
        node: node.map(str::to_owned),
        ended: false,
        failed: false,
        terminating: false,
        group: key("g"),
        group_owner: None,
        queue: None,
        requests: amounts(asks),
    }
}

fn group(queue: &str, min_member: i64) -> GroupFact {
    GroupFact { managed: false, terminating: false, queue: queue.to_owned(), min_member, owners: ["o".to_owned()].into(), owner: Some(("o".to_owned(), true)) }
}

impl Story {
    /// One node of 4 cpu, a group `g` of an owner that lives, in queue `q`, which may hold 4 cpu.
    fn begin() -> Self {
        let mut story = Self { history: History::new(Graces::default()), version: 10, at: 0 };
        story.node("a", "cpu=4 pods=10").queue("q", "root", "cpu=4").queue("root", "", "").owner(true).put_group("g", Some(group("q", 1)));
        story.history.begins_after(10);
        story.wait(60);
        story
    }

    fn wait(&mut self, seconds: i64) -> &mut Self {
        self.at += seconds * 1000;
        self
    }

    fn add(&mut self, change: Change) -> &mut Self {
        self.version += 10;
        self.history.add(self.version, self.at, change);
        self
    }

    fn node(&mut self, name: &str, allocatable: &str) -> &mut Self {
        self.add(Change::Node { name: name.to_owned(), now: Some(amounts(allocatable)) })
    }

    fn queue(&mut self, name: &str, parent: &str, capability: &str) -> &mut Self {
        let now = QueueFact { parent: (!parent.is_empty()).then(|| parent.to_owned()), capability: amounts(capability), allocated: Amounts::default() };
        self.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) })
    }

    fn owner(&mut self, alive: bool) -> &mut Self {
        self.add(Change::Owner { uid: "o".to_owned(), alive })
    }

    fn put_group(&mut self, name: &str, now: Option<GroupFact>) -> &mut Self {
        self.add(Change::Group { key: key(name), now: now.map(Box::new) })
    }

    fn put(&mut self, pod: PodFact) -> &mut Self {
        self.add(Change::Pod { uid: pod.key.1.clone(), now: Some(Box::new(pod)), exact: true })
    }

    /// A pod of S is born, and bound by it.
    fn bind(&mut self, name: &str, asks: &str) -> &mut Self {
        self.put(pod(name, asks, None)).put(pod(name, asks, Some("a")))
    }

    fn delete(&mut self, name: &str) -> &mut Self {
        self.add(Change::Pod { uid: name.to_owned(), now: None, exact: true })
    }

    /// The checks of all findings, in order.
    fn found(&mut self) -> Vec<u8> {
        self.history.settle(self.at);
        self.history.findings().iter().map(|finding| finding.check).collect()
    }
}

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
    story.node("a", "cpu=100").queue("top", "root", "cpu=5").queue("q", "top", "cpu=4").queue("r", "top", "").put_group("g2", Some(group("r", 1)));
    story.wait(60).bind("p1", "cpu=4");
    let second = |node| PodFact { group: key("g2"), ..pod("p2", "cpu=2", node) };
    story.put(second(None)).put(second(Some("a")));
    assert_eq!(story.found(), [4]);
    assert!(story.history.findings()[0].detail.contains("queue top to 6 cpu of 5"), "{:?}", story.history.findings());
}

#[test]
fn a_pod_whose_group_is_gone_stays_charged() {
    let mut story = Story::begin();
    story.node("a", "cpu=100").wait(60).bind("p1", "cpu=3").put_group("g", None).wait(1).put_group("g", Some(group("q", 1))).bind("p2", "cpu=2");
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
    story.node("a", "cpu=100").bind("p1", "cpu=4").wait(60).queue("q", "root", "cpu=9").wait(60).queue("q", "root", "cpu=4").wait(1).bind("p2", "cpu=1");
    assert!(story.found().is_empty());
    story.wait(3).bind("p3", "cpu=1");
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
    let wrong = |story: &Story| story.history.at_rest(0).iter().map(|finding| format!("{}: {}", finding.object, finding.detail)).collect::<Vec<_>>();
    assert_eq!(wrong(&story).len(), 2, "q and root say nothing");
    for name in ["q", "root"] {
        let parent = (name == "q").then(|| "root".to_owned());
        let now = QueueFact { parent, capability: Amounts::default(), allocated: amounts("cpu=1000m memory=0") };
        story.add(Change::Queue { name: name.to_owned(), now: Some(Box::new(now)) });
    }
    story.found();
    assert!(wrong(&story).is_empty());
    story.delete("p1").found();
    assert_eq!(wrong(&story), ["queue q: status.allocated says 1 cpu, its pods ask for 0", "queue root: status.allocated says 1 cpu, its pods ask for 0"]);
}

#[test]
fn an_excuse_silences_only_its_check() {
    let mut story = Story::begin();
    story.history.excuses.push(Excuse { check: Some(1), from: 0, to: None });
    story.put_group("g", Some(group("q", 2))).bind("p1", "cpu=1").put(PodFact { group: key("lost"), ..pod("p2", "", None) }).wait(60);
    assert_eq!(story.found(), [6]);
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
