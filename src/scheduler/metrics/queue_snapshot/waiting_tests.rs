//! Waiting PodGroups are counted once in each queue on the way to `root`, in a bounded number of series.

use std::collections::BTreeMap;

use prometheus::Registry;

use super::*;
use crate::api::{GroupFacts, PodFacts, QueueFacts};
use crate::cycle::testing::{group, limits, pod, queue, running};
use crate::scheduler::metrics::queue_snapshot::tests::{odd, state};
use crate::scheduler::metrics::queue_snapshot::{QUEUES, QueueSnapshot};
use crate::scheduler::testing::at;

/// A pod, and its PodGroup if that exists.
type One = (Option<GroupFacts>, PodFacts);

/// Returns a PodGroup of one pod in the queue.
fn one(name: &str, queue: &str, asks: &[(&str, i64)]) -> One {
    (Some(group("ns", name, 1, queue)), pod("ns", name, name, asks))
}

fn snapshot(queues: Vec<QueueFacts>, all: Vec<One>) -> QueueSnapshot {
    let (groups, pods): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let mut state = state(&Registry::new(), queues, groups.into_iter().flatten().collect(), pods);
    let _binds = state.tick(at(0));
    QueueSnapshot::of(&state)
}

/// Returns the number of PodGroups that wait in the queue, over all causes.
fn in_all(snapshot: &QueueSnapshot, queue: &str) -> u64 {
    snapshot.waiting.iter().filter(|((of, ..), _)| of == queue).map(|(_, count)| count).sum()
}

fn series(snapshot: &QueueSnapshot) -> BTreeMap<[&str; 4], u64> {
    snapshot.waiting.iter().map(|((queue, reason, at, resource), count)| ([queue.as_str(), *reason, at, resource], *count)).collect()
}

#[test]
fn a_waiting_podgroup_counts_in_its_queue_and_all_ancestors_with_the_queue_that_refuses() {
    let queues = vec![
        queue("org", None, &[("cpu", 20)]),
        queue("team", Some("org"), &[("memory", 0)]),
        queue("a", Some("team"), &[("cpu", 1)]),
        queue("b", Some("team"), &[]),
    ];
    let all = vec![
        one("full", "a", &[("cpu", 2)]),
        one("above", "b", &[("memory", 1)]),
        one("same", "b", &[("memory", 1)]),
        one("nodes", "b", &[("cpu", 11)]),
        one("alone", "default", &[("cpu", 11)]),
        one("lost", "nobody", &[("cpu", 1)]),
        (None, pod("ns", "groupless", "gone", &[("cpu", 1)])),
    ];
    let wanted = [
        (["a", "QueueQuotaExceeded", "a", "cpu"], 1),
        (["b", "QueueQuotaExceeded", "team", "memory"], 2),
        (["b", "InsufficientResources", "", "cpu"], 1),
        (["team", "QueueQuotaExceeded", BELOW, "cpu"], 1),
        (["team", "QueueQuotaExceeded", "team", "memory"], 2),
        (["team", "InsufficientResources", "", "cpu"], 1),
        (["org", "QueueQuotaExceeded", BELOW, "cpu"], 1),
        (["org", "QueueQuotaExceeded", BELOW, "memory"], 2),
        (["org", "InsufficientResources", "", "cpu"], 1),
        (["default", "InsufficientResources", "", "cpu"], 1),
        ([UNKNOWN, "QueueNotFound", UNKNOWN, ""], 1),
        ([UNKNOWN, "PodGroupNotFound", "", ""], 1),
        (["root", "QueueQuotaExceeded", BELOW, "cpu"], 1),
        (["root", "QueueQuotaExceeded", BELOW, "memory"], 2),
        (["root", "InsufficientResources", "", "cpu"], 2),
        (["root", "QueueNotFound", BELOW, ""], 1),
        (["root", "PodGroupNotFound", "", ""], 1),
    ];
    let snapshot = snapshot(queues, all);
    assert_eq!(series(&snapshot), wanted.into());
    assert_eq!(in_all(&snapshot, "root"), 7, "each PodGroup once");
}

#[test]
fn an_ancestor_that_refuses_is_named_at_every_queue_below_it() {
    let queues = vec![queue("org", None, &[("cpu", 1)]), queue("team", Some("org"), &[]), queue("a", Some("team"), &[])];
    let snapshot = snapshot(queues, vec![one("g", "a", &[("cpu", 2)])]);
    let wanted = [("a", "org"), ("team", "org"), ("org", "org"), ("root", BELOW)];
    assert_eq!(series(&snapshot), wanted.map(|(queue, at)| ([queue, "QueueQuotaExceeded", at, "cpu"], 1)).into());
}

#[test]
fn in_a_cycle_and_below_a_missing_parent_each_podgroup_counts_once_in_each_queue() {
    let queues = vec![queue("x", Some("y"), &[]), queue("y", Some("x"), &[]), queue("orphan", Some("nobody"), &[])];
    let snapshot = snapshot(queues, vec![one("g", "x", &[("cpu", 1)]), one("h", "orphan", &[("cpu", 1)])]);
    let counts = ["x", "y", "orphan", UNKNOWN, "root"].map(|queue| in_all(&snapshot, queue));
    assert_eq!((counts, snapshot.waiting.values().sum::<u64>()), ([1, 1, 1, 1, 2], 6), "{:?}", snapshot.waiting);
}

#[test]
fn a_podgroup_counts_once_under_a_shared_label() {
    // The last two queues, one below the other, have no label value of their own.
    let name = |number: usize| format!("q{number:04}");
    let parent = |number: usize| (number == QUEUES + 1).then(|| name(QUEUES));
    let queues = (0..QUEUES + 2).map(|number| queue(&name(number), parent(number).as_deref(), &[])).collect();
    let snapshot = snapshot(queues, vec![one("g", &name(QUEUES + 1), &[("cpu", 11)])]);
    assert_eq!(series(&snapshot), [OTHERS, "root"].map(|queue| ([queue, "InsufficientResources", "", "cpu"], 1)).into());
}

#[test]
fn a_queue_shows_the_oldest_waiting_pod_in_it_or_below() {
    let born = |facts: PodFacts, second| PodFacts { created: k8s_openapi::jiff::Timestamp::from_second(second).unwrap(), ..facts };
    let waits = |name: &str, group: &str, second| born(pod("ns", name, group, &[("cpu", 11)]), second);
    let runs = running(born(pod("ns", "r", "runs", &[("cpu", 1)]), 50), "n");
    let pods = vec![waits("a", "g", 400), waits("b", "g", 100), waits("c", "h", 300), waits("d", "i", 200), runs];
    let groups = vec![group("ns", "g", 1, "q"), group("ns", "h", 1, "p"), group("ns", "i", 1, "default"), group("ns", "runs", 1, "q")];
    let queues = vec![queue("org", None, &[]), queue("q", Some("org"), &[]), queue("p", Some("org"), &[]), queue("idle", None, &[])];
    let mut state = state(&Registry::new(), queues, groups, pods);
    let _binds = state.tick(at(0));
    let wanted = [("default", 200), ("org", 100), ("p", 300), ("q", 100), ("root", 100)];
    assert_eq!(QueueSnapshot::of(&state).oldest, wanted.map(|(queue, second)| (queue.to_owned(), second)).into());
}

#[test]
fn the_number_of_series_is_bounded_and_the_totals_of_upper_queues_stay_exact() {
    let (parents, below, resources) = (3_usize, 60_usize, 27_usize);
    let stated: Vec<String> = (0..resources).map(odd).collect();
    let capability: Vec<(&str, i64)> = stated.iter().map(|name| (name.as_str(), 1)).collect();
    let leaf = |number: usize| format!("q{number}");
    let parent = |number: usize| format!("z{}", number % parents);
    let leaves = parents * below;
    let mut all: Vec<_> = (0..leaves)
        .flat_map(|number| stated.iter().enumerate().map(move |(index, name)| (number, index, name.as_str())))
        .map(|(number, index, resource)| one(&format!("g{number}-{index}"), &leaf(number), &[(resource, 1)]))
        .collect();
    // A resource that no queue states and no node offers has no label value of its own.
    all.push(one("unicorn", "default", &[("example.com/unicorn", 1)]));
    let there = u64::try_from(all.len()).unwrap();
    let mut queues: Vec<_> = (0..leaves).map(|number| queue(&leaf(number), Some(&parent(number)), &capability)).collect();
    queues.extend((0..parents).map(|number| QueueFacts { deserved: limits(&capability), ..queue(&parent(number), None, &[]) }));
    let snapshot = snapshot(queues, all);
    // `root` has one series for each resource and one for the unicorn. `default` has the unicorn's. Each parent has one for each resource.
    // The leaves have the rest.
    let upper = 1 + resources + 1 + parents * resources;
    let beyond = leaves * resources - (WAITING - upper);
    assert_eq!(snapshot.waiting.len(), WAITING + 1, "one more, for there is one reason");
    assert_eq!(in_all(&snapshot, "root"), there);
    for number in 0..parents {
        assert_eq!(in_all(&snapshot, &parent(number)), u64::try_from(below * resources).unwrap(), "{}", parent(number));
    }
    let series = series(&snapshot);
    assert_eq!(series.get(&[OTHERS, "InsufficientResources", "", ""]).copied(), Some(u64::try_from(beyond).unwrap()), "each once");
    assert_eq!(series.get(&["z1", "InsufficientResources", "", stated[0].as_str()]).copied(), Some(u64::try_from(below).unwrap()));
    assert_eq!(series.get(&["default", "InsufficientResources", "", "other"]), Some(&1));
}
