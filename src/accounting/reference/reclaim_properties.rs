//! Properties of an allowed reclaim: it keeps the floors and shares, and no other reclaim undoes it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::cluster::{Amounts, Bounds, Cluster, Group, Pod, Queue};
use super::limits::floor;
use super::reclaim::check_reclaim;
use super::shares::share;
use super::tree::{common_ancestor, up_to_below, used};

fn cpu(nanos: i128) -> Amounts {
    Amounts::from([("cpu".to_owned(), nanos)])
}

/// Draws queues on two levels, mostly with deserved amounts, so that there are borrowers on each level.
fn queues() -> impl Strategy<Value = BTreeMap<String, Queue>> {
    let bounds = |most: i128, of_ten: f64| prop::option::weighted(of_ten, 0..=most).prop_map(|nanos| nanos.map_or_else(Bounds::new, cpu));
    let one = (bounds(12, 0.1), bounds(6, 0.7), bounds(2, 0.3), 0..3_i128, prop::bool::weighted(0.9));
    prop::collection::vec(one, 5).prop_map(|all| {
        let shape = [("a", None), ("b", None), ("p", None), ("pa", Some("p")), ("pb", Some("p"))];
        let queue = |((name, parent), (capability, deserved, guarantee, weight, reclaimable)): ((&str, Option<&str>), _)| {
            let parent = parent.map(str::to_owned);
            (name.to_owned(), Queue { parent, capability, deserved, guarantee, weight, reclaimable, ..Queue::default() })
        };
        shape.into_iter().zip(all).map(queue).collect()
    })
}

fn leaf() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "pa", "pb"][..]).prop_map(str::to_owned)
}

/// Draws a full cluster of single pods, some of them in gangs, with a waiting PodGroup `asking`.
fn full_cluster() -> impl Strategy<Value = Cluster> {
    let pods = prop::collection::vec((leaf(), 1..5_i128, prop::option::of(0..2_usize), 0..2_i64), 1..6);
    let preemptor = (leaf(), 1..5_i128, 1..3_usize);
    (queues(), pods, preemptor, 0..3_i128, 1..3_usize).prop_map(|(queues, pods, (queue, each, count), idle, min_member)| {
        let group = |queue: &str, min_member, asks| Group {
            queue: queue.to_owned(),
            min_member,
            asks,
            min_resources: None,
            priority: 1,
            preemptable: true,
            member_keeps: false,
        };
        let mut cluster = Cluster { queues, ..Cluster::default() };
        cluster.total = cpu(pods.iter().map(|(_, nanos, _, _)| nanos).sum::<i128>() + idle);
        for (at, (queue, nanos, gang, priority)) in pods.into_iter().enumerate() {
            let name = gang.map(|gang| format!("gang-{gang}-{queue}"));
            if let Some(name) = &name {
                cluster.groups.insert(name.clone(), group(&queue, min_member, Vec::new()));
            }
            cluster.pods.insert(format!("p{at}"), Pod { queue, amounts: cpu(nanos), group: name, priority, ..Pod::default() });
        }
        cluster.groups.insert("asking".to_owned(), group(&queue, count, vec![cpu(each); count]));
        cluster
    })
}

/// Returns every set of pods that may be evicted.
fn allowed_victims(cluster: &Cluster) -> Vec<BTreeSet<String>> {
    let uids: Vec<&String> = cluster.pods.keys().collect();
    let chosen = |set: usize| uids.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1).map(|(_, uid)| (*uid).clone()).collect();
    (1..1_usize << uids.len()).map(chosen).filter(|victims| check_reclaim(cluster, "asking", victims).is_ok()).collect()
}

/// Returns the cluster after a reclaim: the victims wait again, as one PodGroup for each queue, and the preempting PodGroup is placed.
fn after(cluster: &Cluster, victims: &BTreeSet<String>) -> Cluster {
    let mut after = cluster.without_pods(victims);
    let preemptor = after.groups["asking"].clone();
    for (at, asks) in preemptor.asks.iter().enumerate() {
        let group = Some("asking".to_owned());
        let pod = Pod { queue: preemptor.queue.clone(), amounts: asks.clone(), group, priority: 1, ..Pod::default() };
        after.pods.insert(format!("placed-{at}"), pod);
    }
    after.groups.insert("asking".to_owned(), Group { asks: Vec::new(), ..preemptor });
    for uid in victims {
        let gone = &cluster.pods[uid];
        let back = after.groups.entry(format!("back-{}", gone.queue)).or_insert_with(|| Group {
            queue: gone.queue.clone(),
            min_member: 0,
            asks: Vec::new(),
            min_resources: None,
            priority: gone.priority,
            preemptable: true,
            member_keeps: false,
        });
        back.asks.push(gone.amounts.clone());
        back.min_member += 1;
        back.priority = back.priority.min(gone.priority);
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(64) })]

    /// R1, R2b.
    #[test]
    fn an_allowed_reclaim_brings_no_queue_below_its_floor_or_above_its_share(cluster in full_cluster()) {
        for victims in allowed_victims(&cluster) {
            let after = after(&cluster, &victims);
            for victim in victims.iter().map(|uid| &cluster.pods[uid]) {
                let preemptor = &cluster.groups["asking"].queue;
                let ancestor = common_ancestor(&cluster, preemptor, &victim.queue);
                for queue in up_to_below(&cluster, &victim.queue, ancestor) {
                    prop_assert!(used(&after, queue, "cpu") >= floor(&cluster, queue, "cpu"), "{queue}");
                }
                for queue in up_to_below(&cluster, preemptor, ancestor) {
                    prop_assert!(used(&after, queue, "cpu") <= share(&cluster, queue, "cpu"), "{queue}");
                }
            }
        }
    }

    /// R1 against R2: the victims cannot reclaim from the PodGroup that was placed.
    #[test]
    fn an_allowed_reclaim_is_not_undone_by_another(cluster in full_cluster()) {
        for victims in allowed_victims(&cluster) {
            let after = after(&cluster, &victims);
            let placed: BTreeSet<String> = after.pods.keys().filter(|uid| uid.starts_with("placed-")).cloned().collect();
            for group in after.groups.keys().filter(|name| name.starts_with("back-")) {
                prop_assert!(check_reclaim(&after, group, &placed).is_err(), "{group}");
            }
        }
    }
}

/// Without allowed reclaims the two tests above would test nothing. One drawn cluster in five has one; the bound is six standard deviations below it.
#[test]
fn some_of_the_tried_reclaims_are_allowed() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::new(crate::random_tests::config(1));
    let tried = (0..600).map(|_| full_cluster().new_tree(&mut runner).unwrap().current());
    let allowed = tried.filter(|cluster| !allowed_victims(cluster).is_empty()).count();
    assert!(allowed >= 60, "{allowed}");
}
