//! Closed and broken queues refuse, and the guarantee of one queue stays free from all other queues.

use super::*;
use crate::accounting::{Excess, QueueFault, QueueLimits, QueueShape, Why};
use crate::resources::Limits;

fn cpus(count: i64) -> Resources {
    Resources::new().with("cpu", Amount::from_units(count))
}

fn limit(cpu: i64) -> Limits {
    Limits::new().with("cpu", Amount::from_units(cpu))
}

fn guaranteed(cpu: i64) -> QueueLimits {
    QueueLimits { guarantee: limit(cpu), ..QueueLimits::default() }
}

fn capable(cpu: i64) -> QueueLimits {
    QueueLimits { capability: limit(cpu), ..QueueLimits::default() }
}

fn closed() -> QueueLimits {
    QueueLimits { closed_by_hand: true, ..QueueLimits::default() }
}

fn quota(total: i64, queues: &[(&str, &str, QueueLimits)]) -> Quota {
    let mut quota = Quota::new();
    quota.set_total(&cpus(total));
    for (name, parent, limits) in queues {
        put(&mut quota, name, parent, limits);
    }
    quota
}

fn put(quota: &mut Quota, name: &str, parent: &str, limits: &QueueLimits) {
    quota.queue_upsert(&QueueShape { name: (*name).into(), parent: Some(parent.into()) }, limits.clone());
}

/// Returns how many pods of one CPU a queue takes, one after the other, and the refusal of the next. They stay charged.
fn fill(quota: &mut Quota, queue: &str) -> (i64, QueueRefusal) {
    for count in 0..100 {
        match quota.fits(queue, &cpus(1)) {
            Ok(()) => quota.charge(&format!("{queue}-{count}").as_str().into(), queue, cpus(1)),
            Err(refusal) => return (count, refusal),
        }
        assert!(quota.audit(&quota.total).is_empty(), "the unused guarantees are right after every charge");
    }
    panic!("nothing stops {queue}");
}

fn ceiling(queue: &str, [asked, used, unused_guarantee, limit]: [i64; 4], bound: Bound) -> QueueRefusal {
    let reserved = Amount::ZERO;
    let [asked, used, unused_guarantee, limit] = [asked, used, unused_guarantee, limit].map(Amount::from_units);
    QueueRefusal::Ceiling(Ceiling { queue: queue.into(), dimension: "cpu".into(), asked, used, reserved, unused_guarantee, limit, bound })
}

fn floor(quota: &Quota, queue: &str) -> Resources {
    quota.queue(queue).floor.clone()
}

#[test]
fn q7_the_guarantee_of_an_idle_queue_stays_free_for_it_alone() {
    let mut quota = quota(10, &[("g1", "root", guaranteed(6)), ("g2", "root", QueueLimits::default())]);
    assert_eq!(fill(&mut quota, "g2"), (4, ceiling("root", [1, 4, 6, 10], Bound::Cluster)));
    for pod in 0..6 {
        assert_eq!(quota.fits("g1", &cpus(1)), Ok(()), "the {pod}th of its own six");
        quota.charge(&format!("own-{pod}").as_str().into(), "g1", cpus(1));
    }
    assert_eq!(quota.fits("g1", &cpus(1)), Ok(()), "no guarantee is unused any more, so the nodes are the limit");
    assert!(quota.queue("root").unused_guarantee.is_zero());
    quota.release(&"own-0".into());
    assert_eq!(quota.queue("root").unused_guarantee, &cpus(1));
    assert_eq!(quota.fits("g2", &cpus(1)), Err(ceiling("root", [1, 9, 1, 10], Bound::Cluster)));
    assert_eq!(quota.fits("g2", &Resources::new().with("memory", Amount::from_units(1))), Ok(()), "each dimension by itself");
}

#[test]
fn f3_a_guarantee_stays_free_below_the_capability_of_the_parent_too() {
    let mut quota = quota(100, &[("org", "root", capable(10)), ("safe", "org", guaranteed(6)), ("free", "org", QueueLimits::default())]);
    assert_eq!(fill(&mut quota, "free"), (4, ceiling("org", [1, 4, 6, 10], Bound::Capability)));
    assert_eq!(quota.queue("org").unused_guarantee, &cpus(6), "the sum of its children's");
    assert_eq!(fill(&mut quota, "safe"), (6, ceiling("org", [1, 10, 0, 10], Bound::Capability)));
}

#[test]
fn f3_a_request_that_does_not_grow_what_is_held_fits_even_where_the_guarantees_exceed_the_cluster() {
    // Observed pods took the cluster and more; the queue with the guarantee may still fill its floor.
    let mut quota = quota(4, &[("safe", "root", guaranteed(3)), ("free", "root", QueueLimits::default())]);
    quota.charge(&"seen".into(), "free", cpus(9));
    assert_eq!(quota.fits("safe", &cpus(3)), Ok(()));
    assert_eq!(quota.fits("safe", &cpus(4)), Ok(()), "no guarantee would be unused after it, so only the nodes limit it");
    assert_eq!(quota.fits("free", &cpus(1)), Err(ceiling("root", [1, 9, 3, 4], Bound::Cluster)));
    put(&mut quota, "safe", "root", &QueueLimits { capability: limit(2), ..guaranteed(3) });
    assert_eq!(quota.fits("safe", &cpus(2)), Ok(()));
    assert_eq!(quota.fits("safe", &cpus(3)), Err(ceiling("safe", [3, 0, 0, 2], Bound::Capability)));
}

#[test]
fn f3_a_queue_over_its_floor_holds_what_it_takes_and_reservations_count() {
    let mut quota = quota(10, &[("g1", "root", guaranteed(3)), ("g2", "root", QueueLimits::default())]);
    quota.reserve("ns/gang", "g1", cpus(2));
    assert_eq!((quota.queue("g1").unused_guarantee, quota.queue("root").unused_guarantee), (&cpus(1), &cpus(1)));
    assert_eq!(fill(&mut quota, "g2").0, 7);
    quota.unreserve("ns/gang");
    assert_eq!(quota.queue("root").unused_guarantee, &cpus(3));
    quota.reserve("ns/gang", "g1", cpus(5));
    assert!(quota.queue("root").unused_guarantee.is_zero());
    assert!(quota.audit(&cpus(10)).is_empty());
}

/// The pods of the queue do not exist yet, so it has no nodes: without this rule a sibling could take them all.
#[test]
fn f3_a_guarantee_stays_free_until_pods_use_it_even_when_it_is_reserved() {
    let mut quota = quota(8, &[("safe", "root", guaranteed(4)), ("free", "root", QueueLimits::default())]);
    quota.reserve("g", "safe", cpus(3));
    assert_eq!((quota.queue("safe").unused_guarantee, quota.queue("safe").unfilled), (&cpus(1), &cpus(4)));
    assert_eq!(fill(&mut quota, "free"), (4, ceiling("root", [1, 4, 4, 8], Bound::Cluster)));
    quota.charge(&"g-0".into(), "safe", cpus(3));
    quota.reserve("g", "safe", Resources::new());
    assert!(quota.fits("free", &cpus(1)).is_err());
    assert_eq!(quota.fits("safe", &cpus(1)), Ok(()));
    quota.charge(&"g-1".into(), "safe", cpus(1));
    assert_eq!(quota.fits("free", &cpus(1)), Ok(()), "pods fill it, and an autoscaler may add nodes");
    assert!(quota.audit(&cpus(8)).is_empty());
}

#[test]
fn f2_guarantees_beyond_the_cluster_are_cut_by_priority_and_then_by_name() {
    let high = QueueLimits { priority: 1, ..guaranteed(4) };
    let mut quota = quota(7, &[("a", "root", guaranteed(2)), ("b", "root", guaranteed(2)), ("high", "root", high)]);
    assert_eq!(["high", "a", "b"].map(|queue| floor(&quota, queue)), [cpus(4), cpus(2), cpus(1)]);
    quota.set_total(&cpus(5));
    assert_eq!(["high", "a", "b"].map(|queue| floor(&quota, queue)), [cpus(4), cpus(1), Resources::new()]);
    assert!(quota.audit(&cpus(5)).is_empty());
}

#[test]
fn f2_an_unset_guarantee_is_the_sum_of_the_children_and_zero_is_set() {
    let none = QueueLimits::default;
    let mut quota = quota(20, &[("org", "root", none()), ("a", "org", guaranteed(2)), ("b", "org", guaranteed(3))]);
    assert_eq!(["org", "a", "b"].map(|queue| floor(&quota, queue)), [cpus(5), cpus(2), cpus(3)]);
    // The queue has more than its children: the rest is for any of them.
    put(&mut quota, "org", "root", &guaranteed(9));
    put(&mut quota, "c", "org", &none());
    put(&mut quota, "out", "root", &none());
    assert_eq!(quota.queue("root").unused_guarantee, &cpus(9));
    assert_eq!(fill(&mut quota, "out").0, 11);
    quota.charge(&"in-c".into(), "c", cpus(4));
    assert_eq!((quota.queue("org").unused_guarantee, quota.queue("root").unused_guarantee), (&cpus(5), &cpus(5)));
    quota.charge(&"in-c".into(), "c", cpus(6));
    assert_eq!(quota.queue("root").unused_guarantee, &cpus(5), "the floors of the others stay");
    put(&mut quota, "org", "root", &guaranteed(0));
    assert_eq!(quota.queue("root").unused_guarantee, &Resources::new(), "their parent has none to divide");
}

#[test]
fn t1b_children_with_more_guarantees_than_their_parent_break_it_and_its_subtree_only() {
    let queues = [("org", "root", guaranteed(4)), ("a", "org", guaranteed(3)), ("b", "org", guaranteed(2)), ("c", "root", guaranteed(9))];
    let mut quota = quota(50, &queues);
    let excess = Excess { dimension: "cpu".into(), children: Amount::from_units(5), guarantee: Amount::from_units(4) };
    let fault = QueueFault { queue: "org".into(), why: Why::Guarantees(excess) };
    for queue in ["a", "b"] {
        assert_eq!(quota.fits(queue, &Resources::new()), Err(QueueRefusal::Fault(fault.clone())));
        assert_eq!(quota.fault(queue), Some(fault.clone()));
    }
    assert_eq!((quota.fits("c", &cpus(1)), quota.fault("c"), quota.fault("root")), (Ok(()), None, None));
    assert_eq!(quota.overpromising().map(ToString::to_string).collect::<Vec<_>>(), ["org"]);
    put(&mut quota, "org", "root", &guaranteed(5));
    assert_eq!((quota.fits("a", &cpus(1)), quota.fault("org")), (Ok(()), None));
    put(&mut quota, "org", "root", &QueueLimits { guarantee: Limits::new().with("memory", Amount::ZERO), ..capable(50) });
    assert_eq!(quota.fits("a", &cpus(1)), Ok(()), "in cpu its own guarantee is not stated");
}

#[test]
fn o1_a_closed_queue_refuses_even_an_empty_request_and_names_the_queue_that_was_closed() {
    let none = QueueLimits::default;
    let mut quota = quota(9, &[("org", "root", closed()), ("team", "org", none()), ("free", "root", none())]);
    for asked in [cpus(1), Resources::new()] {
        assert_eq!(quota.fits("team", &asked), Err(QueueRefusal::Closed { queue: "org".into() }));
    }
    assert_eq!((quota.fits("free", &cpus(1)), quota.closed_by("free")), (Ok(()), None));
    put(&mut quota, "team", "org", &closed());
    assert_eq!(quota.fits("team", &cpus(1)), Err(QueueRefusal::Closed { queue: "team".into() }), "the nearest");
    put(&mut quota, "org", "root", &none());
    assert_eq!(quota.closed_by("team").as_deref(), Some("team"), "O1: it stays closed when its parent opens");
    put(&mut quota, "root", "", &closed());
    assert_eq!(quota.fits("free", &cpus(1)), Err(QueueRefusal::Closed { queue: "root".into() }));
}

#[test]
fn q8_a_capability_of_zero_is_zero_and_huge_requests_saturate() {
    let quota = quota(9, &[("none", "root", capable(0)), ("safe", "root", guaranteed(1)), ("free", "root", QueueLimits::default())]);
    let nano = Resources::new().with("cpu", Amount::from_nanos(1));
    assert!(matches!(quota.fits("none", &nano), Err(QueueRefusal::Ceiling(Ceiling { limit: Amount::ZERO, .. }))));
    assert_eq!(quota.fits("none", &Resources::new()), Ok(()));
    assert!(quota.fits("free", &Resources::new().with("cpu", Amount::MAX)).is_err());
}

#[test]
fn a_detached_queue_has_no_floor_and_its_charges_count_at_root() {
    let mut quota =
        quota(10, &[("lost", "gone", guaranteed(6)), ("safe", "root", guaranteed(2)), ("free", "root", QueueLimits::default())]);
    quota.charge(&"seen".into(), "lost", cpus(5));
    assert!(floor(&quota, "lost").is_zero());
    assert_eq!(fill(&mut quota, "free"), (3, ceiling("root", [1, 8, 2, 10], Bound::Cluster)));
}

#[test]
fn all_refusals_are_listed_from_the_queue_upwards_and_by_dimension() {
    let both = |cpu, pods| QueueLimits { capability: limit(cpu).with("pods", Amount::from_units(pods)), ..QueueLimits::default() };
    let quota = quota(9, &[("org", "root", both(4, 3)), ("team", "org", both(2, 3)), ("x", "gone", both(0, 0))]);
    let asked = |cpu, pods| cpus(cpu).with("pods", Amount::from_units(pods));
    let refused = |queue, asked| -> Vec<String> {
        let all = quota.refusals(queue, &asked);
        all.iter().map(|ceiling| format!("{} {} {}", ceiling.queue, ceiling.dimension, ceiling.limit)).collect()
    };
    assert_eq!(refused("team", asked(5, 4)), ["team cpu 2", "team pods 3", "org cpu 4", "org pods 3"]);
    assert_eq!(refused("team", asked(3, 3)), ["team cpu 2"]);
    assert!(refused("team", asked(2, 3)).is_empty());
    assert!(refused("x", asked(5, 4)).is_empty(), "a broken queue has another refusal");
}

#[test]
fn a6_what_exceeds_all_nodes_or_a_capability_on_the_way_up_never_fits() {
    let mut quota =
        quota(9, &[("org", "root", capable(4)), ("team", "org", QueueLimits::default()), ("free", "root", QueueLimits::default())]);
    quota.charge(&"seen".into(), "team", cpus(9));
    let ever = |queue, cpu| quota.ever_fits(queue, &cpus(cpu), &cpus(9));
    assert!(ever("team", 4) && ever("free", 9), "whatever is used now");
    assert!(!ever("team", 5) && !ever("free", 10) && !ever("org", 1) && !ever("missing", 0));
}

#[test]
fn a_guarantee_that_was_in_use_when_the_nodes_changed_stays_free_when_it_is_released() {
    let mut quota = quota(8, &[("safe", "root", guaranteed(4)), ("free", "root", QueueLimits::default())]);
    quota.charge(&"g".into(), "safe", cpus(4));
    quota.set_total(&cpus(6));
    assert_eq!(quota.queue("root").unused_guarantee, &Resources::new());
    quota.release(&"g".into());
    assert_eq!(quota.queue("root").unused_guarantee, &cpus(4));
    assert_eq!(fill(&mut quota, "free"), (2, ceiling("root", [1, 2, 4, 6], Bound::Cluster)));
}
