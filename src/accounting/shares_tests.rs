//! The shares of the queues follow the rules S1 to S2.

use super::*;
use crate::accounting::QueueShape;
use crate::resources::Limits;

fn cpus(count: i64) -> Resources {
    Resources::new().with("cpu", Amount::from_units(count))
}

fn limit(cpu: i64) -> Limits {
    Limits::new().with("cpu", Amount::from_units(cpu))
}

fn plain() -> QueueLimits {
    QueueLimits::default()
}

fn weighs(weight: u32) -> QueueLimits {
    QueueLimits { weight, ..plain() }
}

fn deserves(cpu: i64) -> QueueLimits {
    QueueLimits { deserved: limit(cpu), ..plain() }
}

fn quota(total: i64, queues: &[(&str, &str, QueueLimits)]) -> Quota {
    let mut quota = Quota::new();
    quota.set_total(&cpus(total));
    for (name, parent, limits) in queues {
        quota.queue_upsert(&QueueShape { name: (*name).into(), parent: Some((*parent).into()) }, limits.clone());
    }
    quota
}

fn shares(quota: &Quota, waiting: &[(&str, i64)], of: &[&str]) -> Vec<String> {
    let waiting = waiting.iter().map(|(queue, count)| (Arc::from(*queue), cpus(*count))).collect();
    listed(&quota.shares(Waiting::Of(&waiting)), of)
}

fn entitlements(quota: &Quota, of: &[&str]) -> Vec<String> {
    listed(&quota.shares(Waiting::Unlimited), of)
}

fn listed(shares: &Shares, of: &[&str]) -> Vec<String> {
    of.iter().map(|queue| shares.of(queue).get("cpu").to_string()).collect()
}

#[test]
fn q7_the_children_of_root_share_the_cluster_by_weight_up_to_their_requests() {
    let quota = quota(12, &[("a", "root", weighs(1)), ("b", "root", weighs(2)), ("c", "root", weighs(0))]);
    assert_eq!(shares(&quota, &[("a", 99), ("b", 99), ("c", 99)], &["root", "a", "b", "c"]), ["12", "3", "6", "3"]);
    assert_eq!(shares(&quota, &[("a", 99), ("b", 99), ("c", 0)], &["a", "b", "c"]), ["4", "8", "0"]);
    assert_eq!(shares(&quota, &[("a", 1), ("b", 2)], &["a", "b"]), ["1", "2"], "no queue gets more than it requests");
    assert_eq!(entitlements(&quota, &["a", "b", "c", "default"]), ["2400m", "4800m", "2400m", "2400m"], "S3, and default is one of them");
}

#[test]
fn s1_what_is_taken_is_demand_and_a_demand_is_cut_at_every_capability() {
    let capable = |cpu| QueueLimits { capability: limit(cpu), ..plain() };
    let mut quota = quota(100, &[("org", "root", capable(10)), ("a", "org", capable(6)), ("b", "org", plain()), ("x", "root", plain())]);
    quota.charge(&"old".into(), "a", cpus(3));
    quota.reserve("ns/gang", "b", cpus(1));
    assert_eq!(shares(&quota, &[("a", 99), ("b", 1), ("x", 5)], &["org", "a", "b", "x"]), ["8", "6", "2", "5"]);
    assert_eq!(shares(&quota, &[("a", 99), ("b", 99)], &["org", "a", "b"]), ["10", "5", "5"]);
    quota.charge(&"own".into(), "org", cpus(2));
    assert_eq!(shares(&quota, &[], &["org", "a", "b"]), ["6", "3", "1"], "what an inner queue has itself is its own");
    assert_eq!(shares(&quota, &[("org", 50)], &["org"]), ["6"], "waiting pods of an inner queue do not count, because pods go to leaves");
}

#[test]
fn s2_floors_first_then_what_is_deserved_then_the_rest_by_demand() {
    let floor = QueueLimits { guarantee: limit(6), ..plain() };
    let mut queues = vec![("g", "root", floor), ("d", "root", deserves(8)), ("e", "root", deserves(4)), ("p", "root", plain())];
    let of = ["g", "d", "e", "p"];
    let all = [("g", 99), ("d", 99), ("e", 99), ("p", 99)];
    assert_eq!(shares(&quota(30, &queues), &all, &of), ["12", "8", "4", "6"], "6 to the floor, 12 deserved, 12 for two without");
    assert_eq!(shares(&quota(12, &queues), &all, &of), ["6", "3", "3", "0"]);
    assert_eq!(shares(&quota(30, &queues), &[], &of), ["6", "8", "4", "0"], "the floor and what is deserved, requested or not");
    queues[1].2.capability = limit(5);
    assert_eq!(shares(&quota(30, &queues), &[], &of)[1], "5");
    queues[2].2.guarantee = limit(9);
    assert_eq!(shares(&quota(30, &queues), &[], &of)[2], "9", "a target below the floor is the floor");
    queues[2].2 = QueueLimits { deserved: limit(0), ..plain() };
    assert_eq!(shares(&quota(30, &queues), &all, &of)[2], "0", "unset is not 0");
}

#[test]
fn s2_the_rest_from_rounding_goes_to_the_first_by_priority_and_then_by_name() {
    let first = QueueLimits { priority: 1, ..plain() };
    let mut quota = Quota::new();
    quota.set_total(&Resources::new().with("cpu", Amount::from_nanos(5)));
    for (name, limits) in [("a", plain()), ("b", plain()), ("z", first)] {
        quota.queue_upsert(&QueueShape { name: name.into(), parent: None }, limits);
    }
    let waiting = ["a", "b", "z"].map(|name| (Arc::from(name), cpus(1))).into();
    let shares = quota.shares(Waiting::Of(&waiting));
    assert_eq!(["a", "b", "z"].map(|name| shares.of(name).get("cpu").nanos()), [2, 1, 2]);
}

#[test]
fn s2_a_queue_is_over_its_share_in_each_dimension_by_itself() {
    let mut quota = quota(4, &[("a", "root", deserves(1)), ("b", "root", plain())]);
    quota.charge(&"pod".into(), "a", cpus(2).with("pods", Amount::from_units(1)));
    let shares = quota.shares(Waiting::Unlimited);
    let over = |used: &Resources| shares.over("a", used).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(over(quota.queue("a").used), ["cpu", "pods"], "there is no share of a dimension that no node has");
    assert!(over(&cpus(1)).is_empty());
    assert!(shares.of("nowhere").is_zero());
}
