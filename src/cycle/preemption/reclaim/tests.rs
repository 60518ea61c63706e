//! Scenarios of preemption that the reference model does not have (taints, labels, anti-affinity, tasks, budgets)
//! or that need more objects than its random clusters have.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::*;
use crate::accounting::Placement;
use crate::api::node::Taint;
use crate::api::{GroupFacts, NodeFacts, QueueFacts};
use crate::cycle::plan::{EvictionCause, Plan};
use crate::cycle::run;
use crate::cycle::testing::steps::{empty_state, gang};
use crate::cycle::testing::{PEACEFUL, amounts, group, keeps_away, limits, node, pod, queue, running};

/// Two queues that deserve so much cpu.
fn two_queues(deserved: [i64; 2]) -> SchedulingState {
    let mut state = empty_state();
    for (name, cpu) in ["a", "b"].into_iter().zip(deserved) {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", cpu), ("pods", 500)]), ..queue(name, None, &[]) });
    }
    state
}

fn cycle(state: &mut SchedulingState) -> Plan {
    run(state, &PEACEFUL, std::time::Duration::ZERO)
}

/// A pod of `a` that runs; the later, the younger.
fn borrower(state: &mut SchedulingState, number: i64, node: &str, change: impl FnOnce(&mut PodFacts)) {
    let mut facts = running(pod("ns", &format!("p{number}"), "none", &[("cpu", 1)]), node);
    facts.created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(number);
    facts.charged_queue = Some("a".into());
    change(&mut facts);
    state.apply_pod(facts);
}

fn taken_with(state: &mut SchedulingState, name: &str, budgets: Budgets<'_>) -> Result<(Vec<String>, Vec<String>), String> {
    let key = GroupKey::new("ns", name);
    let group = &state.cache().groups()[&key];
    let facts = Arc::clone(group.facts.as_ref().unwrap());
    let members: Vec<Uid> = group.waiting.iter().cloned().collect();
    let before = state.cache().accounting().clone();
    let priority = state.cache().priority(&state.cache().groups()[&key]);
    let preemptor = Preemptor {
        group: &key,
        queue: &facts.queue,
        members: &members,
        beyond: &Resources::new(),
        priority,
        preemptable: facts.preemptable,
    };
    let preemption = find(state, Policy::Spread, &preemptor, budgets);
    assert!(*state.cache().accounting() == before && state.cache().accounting().audit().is_clean(), "nothing stays of it");
    let preemption = preemption.map_err(|why| why.to_string())?;
    let names = |uid: &Uid| uid.as_str().trim_start_matches("ns/").to_owned();
    Ok((preemption.victims.iter().map(names).collect(), preemption.places.iter().map(|(_, node)| node.to_string()).collect()))
}

fn taken(state: &mut SchedulingState, name: &str) -> Result<(Vec<String>, Vec<String>), String> {
    taken_with(state, name, Budgets { left: &[], of: &|_| Vec::new() })
}

fn victims(state: &mut SchedulingState, name: &str) -> Vec<String> {
    taken(state, name).unwrap().0
}

#[test]
fn q6_borrowing_pods_are_victims_the_youngest_first_and_the_search_leaves_no_trace() {
    let mut state = two_queues([5, 5]);
    state.apply_node(node("n", &[("cpu", 10)]));
    (0..10).for_each(|number| borrower(&mut state, number, "n", |_| {}));
    gang(&mut state, "asks", 2, "b", 2, &[("cpu", 1)]);
    assert!(cycle(&mut state).binds.is_empty());
    assert_eq!(taken(&mut state, "asks"), Ok((vec!["p9".into(), "p8".into()], vec!["n".into(), "n".into()])));
    state.apply_group(group("ns", "other", 0, "b"));
    state.apply_pod(pod("ns", "other-0", "other", &[("cpu", 1)]));
    assert!(cycle(&mut state).binds.is_empty(), "the node table does not see room that is not there");
    gang(&mut state, "more", 6, "b", 6, &[("cpu", 1)]);
    assert_eq!(
        taken(&mut state, "more"),
        Err("no pod can be preempted: queue \"b\" would exceed its share (cpu requested 6, used 0, share 5)".into())
    );
}

#[test]
fn a_borrower_that_is_not_reclaimable_is_named() {
    let mut state = two_queues([5, 5]);
    let keeps = |reclaimable| QueueFacts { deserved: limits(&[("cpu", 5), ("pods", 500)]), reclaimable, ..queue("a", None, &[]) };
    state.apply_queue(keeps(false));
    state.apply_node(node("n", &[("cpu", 10)]));
    (0..6).for_each(|number| borrower(&mut state, number, "n", |_| {}));
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 5)]);
    let says = "no pod can be preempted: queue \"a\" is over its share and not reclaimable";
    assert_eq!(taken(&mut state, "asks"), Err(says.into()));
    // Its own queue is over its share, too.
    gang(&mut state, "large", 1, "b", 1, &[("cpu", 6)]);
    let why = taken(&mut state, "large").unwrap_err();
    assert_eq!(why, "no pod can be preempted: queue \"b\" would exceed its share (cpu requested 6, used 0, share 5)");
    // Within its share it is not in the way.
    state.delete_pod(&Uid::from("ns/p5"));
    let other = PodFacts { charged_queue: Some("c".into()), preemptable: false, ..running(pod("ns", "other", "none", &[("cpu", 1)]), "n") };
    state.apply_queue(queue("c", None, &[]));
    state.apply_pod(other);
    assert_eq!(taken(&mut state, "asks"), Err("no pod can be preempted: 1 not preemptable".into()));
    state.apply_queue(keeps(true));
    borrower(&mut state, 5, "n", |_| {});
    state.delete_pod(&Uid::from("ns/other"));
    assert_eq!(victims(&mut state, "asks"), ["p5"]);
}

#[test]
fn terminating_pods_are_waited_for_whichever_scheduler_placed_them() {
    let mut state = two_queues([1, 1]);
    state.apply_node(node("n", &[("cpu", 2)]));
    // What the foreign pod uses is not shared (N2): with this node, queue b has a share of 1 all the same.
    state.apply_node(NodeFacts { unschedulable: true, ..node("cordoned", &[("cpu", 1)]) });
    borrower(&mut state, 0, "n", |_| {});
    let leaves = |pod: &mut PodFacts| pod.deleting = true;
    borrower(&mut state, 1, "n", |pod| {
        pod.scheduler = "other".into();
        leaves(pod);
    });
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 1)]);
    assert_eq!(taken(&mut state, "asks"), Ok((vec![], vec!["n".into()])));
    // A running foreign pod is no victim; a terminating pod of ours is enough.
    borrower(&mut state, 1, "n", |pod| pod.scheduler = "other".into());
    assert!(state.cache.leaving().is_empty());
    assert!(taken(&mut state, "asks").unwrap_err().starts_with("no pod can be preempted: no queue is over its share"));
    borrower(&mut state, 0, "n", leaves);
    assert_eq!((state.cache.leaving().len(), taken(&mut state, "asks")), (1, Ok((vec![], vec!["n".into()]))));
    state.delete_pod(&Uid::from("ns/p0"));
    assert!(state.cache.leaving().is_empty());
}

#[test]
fn victims_are_on_nodes_that_the_gang_fits_even_where_another_pod_comes_first() {
    // With one borrowed unit, the first candidate would exclude the other; with two, the first one is spared.
    for deserved in [1, 0] {
        let mut state = two_queues([deserved, 2 - deserved]);
        let taint = Taint { key: "team".into(), value: None, effect: "NoSchedule".into() };
        state.apply_node(NodeFacts { taints: vec![taint], ..node("tainted", &[("cpu", 1)]) });
        state.apply_node(node("plain", &[("cpu", 1)]));
        borrower(&mut state, 0, "plain", |_| {});
        borrower(&mut state, 1, "tainted", |_| {});
        gang(&mut state, "asks", 1, "b", 1, &[("cpu", 1)]);
        assert_eq!(taken(&mut state, "asks"), Ok((vec!["p0".into()], vec!["plain".into()])));
    }
}

#[test]
fn the_anti_affinity_of_a_victim_ends_with_it() {
    let mut state = two_queues([0, 2]);
    let mut facts = node("n", &[("cpu", 9)]);
    facts.labels.insert("host".into(), "n".into());
    state.apply_node(facts);
    borrower(&mut state, 0, "n", |pod| {
        pod.terms = keeps_away("ns", ("app", "db"), "host");
    });
    borrower(&mut state, 1, "n", |_| {});
    state.apply_group(group("ns", "asks", 1, "b"));
    let mut db = pod("ns", "asks-0", "asks", &[("cpu", 1)]);
    db.labels.insert("app".into(), "db".into());
    state.apply_pod(db);
    assert_eq!(taken(&mut state, "asks"), Ok((vec!["p0".into()], vec!["n".into()])));
    assert!(cycle(&mut state).binds.is_empty(), "it is there still");
}

#[test]
fn a_gang_keeps_its_minimum_and_that_of_each_task_or_is_evicted_whole() {
    let mut state = two_queues([0, 9]);
    state.apply_node(node("n", &[("cpu", 4)]));
    let minimum = |state: &mut SchedulingState, min, tasks: &[(&str, u32)]| {
        let min_task_member = tasks.iter().map(|(task, min)| ((*task).to_owned(), *min)).collect();
        state.apply_group(GroupFacts { min_task_member, ..group("ns", "lends", min, "a") });
    };
    for number in 0..4 {
        borrower(&mut state, number, "n", |pod| {
            pod.group = GroupKey::new("ns", "lends");
            pod.task = Some(if number < 2 { "head" } else { "worker" }.into());
        });
    }
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 1)]);
    minimum(&mut state, 3, &[]);
    assert_eq!(victims(&mut state, "asks"), ["p3"]);
    minimum(&mut state, 3, &[("worker", 2), ("head", 1)]);
    assert_eq!(victims(&mut state, "asks"), ["p1"], "the workers are needed");
    minimum(&mut state, 4, &[]);
    assert_eq!(victims(&mut state, "asks").len(), 4);
    borrower(&mut state, 2, "n", |pod| {
        pod.group = GroupKey::new("ns", "lends");
        pod.preemptable = false;
    });
    let why = taken(&mut state, "asks").unwrap_err();
    assert!(why.starts_with("preemption would not help"), "{why}");
}

#[test]
fn no_pod_is_a_victim_that_is_being_bound_or_protected_or_of_the_podgroup_itself() {
    let mut state = two_queues([0, 2]);
    state.apply_node(node("n", &[("cpu", 2)]));
    gang(&mut state, "new", 1, "a", 1, &[("cpu", 1)]);
    assert_eq!(cycle(&mut state).binds.len(), 1);
    borrower(&mut state, 1, "n", |pod| {
        pod.group = GroupKey::new("ns", "asks");
        pod.priority = -1;
    });
    state.apply_group(group("ns", "asks", 2, "b"));
    state.apply_pod(pod("ns", "asks-0", "asks", &[("cpu", 1)]));
    assert!(taken(&mut state, "asks").unwrap_err().starts_with("no pod can be preempted: 1 being bound"));
    state.confirm(&Uid::from("ns/new-0"));
    assert_eq!(victims(&mut state, "asks"), ["new-0"]);
    state.apply_group(GroupFacts { preemptable: false, ..group("ns", "new", 1, "a") });
    assert!(taken(&mut state, "asks").is_err(), "its group says that it stays");
}

#[test]
fn r6_a_budget_allows_so_many_evictions_and_other_pods_are_chosen_instead() {
    let mut state = two_queues([0, 9]);
    state.apply_node(node("n", &[("cpu", 4)]));
    (0..4).for_each(|number| borrower(&mut state, number, "n", |_| {}));
    gang(&mut state, "asks", 2, "b", 2, &[("cpu", 1)]);
    let of = |pod: &PodFacts| if ["p1", "p2", "p3"].contains(&&*pod.name) { vec![0] } else { Vec::new() };
    let gone =
        |state: &mut SchedulingState, left: u32| taken_with(state, "asks", Budgets { left: &[left], of: &of }).map(|(victims, _)| victims);
    assert_eq!(gone(&mut state, 2), Ok(vec!["p3".into(), "p2".into()]));
    assert_eq!(gone(&mut state, 1), Ok(vec!["p3".into(), "p0".into()]));
    assert!(gone(&mut state, 0).unwrap_err().starts_with("preemption would not help"));
}

#[test]
fn whole_nodes_are_freed_where_the_youngest_pods_are_spread_over_all_of_them() {
    let mut state = two_queues([100, 60]);
    for number in 0..160 {
        let name = format!("n{:02}", number % 40);
        state.apply_node(node(&name, &[("cpu", 4)]));
        borrower(&mut state, number, &name, |_| {});
    }
    gang(&mut state, "asks", 2, "b", 2, &[("cpu", 4)]);
    let (victims, places) = taken(&mut state, "asks").unwrap();
    // The most expensive victim is the youngest pod there is.
    assert_eq!((victims.len(), places), (8, vec!["n38".to_owned(), "n39".to_owned()]));
    let of = |node: i64| (0..4).map(move |at| format!("p{}", node + at * 40));
    assert_eq!(victims.into_iter().collect::<BTreeSet<_>>(), of(38).chain(of(39)).collect());
}

#[test]
fn r3b_a_ceiling_is_named_and_no_pod_elsewhere_is_preempted() {
    let mut state = two_queues([0, 9]);
    state.apply_node(node("n", &[("cpu", 4)]));
    (0..4).for_each(|number| borrower(&mut state, number, "n", |_| {}));
    state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 9), ("pods", 500)]), ..queue("b", None, &[("cpu", 1)]) });
    gang(&mut state, "asks", 2, "b", 2, &[("cpu", 1)]);
    let why = taken(&mut state, "asks").unwrap_err();
    assert!(why.ends_with("queue \"b\" is over its quota: cpu requested 1, used 1, capability 1") || why.starts_with("no pod"), "{why}");
}

#[test]
fn r2_no_pod_is_a_victim_for_a_resource_of_which_enough_is_idle() {
    let mut state = empty_state();
    state.apply_node(node("n", &[("cpu", 4), ("memory", 4)]));
    for (name, cpu, memory) in [("a", 2, 1), ("b", 1, 2), ("c", 1, 1)] {
        let deserved = limits(&[("cpu", cpu), ("memory", memory), ("pods", 500)]);
        state.apply_queue(QueueFacts { deserved, ..queue(name, None, &[]) });
    }
    let asks = amounts(&[("cpu", 1), ("memory", 1)]);
    (0..2).for_each(|number| borrower(&mut state, number, "n", |pod| pod.request = asks.clone()));
    for number in 2..4 {
        borrower(&mut state, number, "n", |pod| {
            (pod.charged_queue, pod.preemptable) = (Some("c".into()), false);
            if number == 2 {
                pod.request = asks.clone();
            }
        });
    }
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 1), ("memory", 1)]);
    // Queue a is over its share of memory only, and as much memory is idle as is requested.
    let why = taken(&mut state, "asks").unwrap_err();
    assert!(why.starts_with("no pod can be preempted: 2 not preemptable"), "{why}");
}

#[test]
fn r2b_a_queue_keeps_what_is_guaranteed_to_it() {
    let mut state = two_queues([2, 2]);
    let deserved = limits(&[("cpu", 2), ("pods", 500)]);
    state.apply_queue(QueueFacts { guarantee: limits(&[("cpu", 2)]), deserved, ..queue("a", None, &[]) });
    state.apply_node(node("n", &[("cpu", 4)]));
    borrower(&mut state, 0, "n", |_| {});
    borrower(&mut state, 1, "n", |pod| pod.request = amounts(&[("cpu", 2)]));
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 2)]);
    assert_eq!(victims(&mut state, "asks"), ["p0"], "without the younger pod, its queue would have less than its guarantee");
}

#[test]
fn r4_a_victim_of_another_podgroup_is_no_longer_one_of_its_task() {
    let mut state = two_queues([0, 9]);
    state.apply_node(node("n", &[("cpu", 4)]));
    let min_task_member = [("head".to_owned(), 1), ("worker".to_owned(), 1)].into();
    state.apply_group(GroupFacts { min_task_member, ..group("ns", "lends", 2, "a") });
    for number in 0..4 {
        borrower(&mut state, number, "n", |pod| {
            pod.group = GroupKey::new("ns", "lends");
            pod.task = Some(if number < 2 { "head" } else { "worker" }.into());
        });
    }
    gang(&mut state, "first", 1, "b", 1, &[("cpu", 1)]);
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 1)]);
    let resources = amounts(&[("cpu", 1), ("pods", 1)]);
    let place = Placement { uid: "ns/first-0".into(), node: "n".into(), queue: "b".into(), resources };
    let until = std::time::Duration::from_secs(90);
    assert!(state.nominate(&GroupKey::new("ns", "first"), &[place], &["ns/p3".into()], EvictionCause::Reclaim, until).is_some());
    assert_eq!(victims(&mut state, "asks"), ["p1"], "the last worker is needed");
}

#[test]
fn r2_an_older_and_smaller_pod_may_go_first_so_that_a_larger_one_is_still_over_the_share() {
    let mut state = two_queues([1, 3]);
    state.apply_node(node("n", &[("cpu", 3)]));
    state.apply_node(NodeFacts { unschedulable: true, ..node("cordoned", &[("cpu", 1)]) });
    borrower(&mut state, 0, "n", |_| {});
    borrower(&mut state, 1, "n", |pod| pod.request = amounts(&[("cpu", 2)]));
    gang(&mut state, "asks", 1, "b", 1, &[("cpu", 3)]);
    // After the larger one their queue would be within its share of 1; after the smaller one it is over it by 1.
    assert_eq!(victims(&mut state, "asks"), ["p1", "p0"]);
}
