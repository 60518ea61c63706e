//! Ceilings bind at the right level, and usage stays right while the tree changes.

use super::*;
use crate::accounting::QueueRefusal;
use crate::resources::Amount;

fn amount(cpu: i64, pods: i64) -> Resources {
    Resources::new().with("cpu", Amount::from_units(cpu)).with("pods", Amount::from_units(pods))
}

fn upsert(quota: &mut Quota, name: &str, parent: &str, capability: &[(&str, i64)]) {
    let capability = capability.iter().map(|(name, units)| ((*name).into(), Amount::from_units(*units))).collect();
    let shape = QueueShape { name: name.into(), parent: (!parent.is_empty()).then(|| parent.into()) };
    quota.queue_upsert(&shape, QueueLimits { capability, ..QueueLimits::default() });
}

fn refused(quota: &Quota, queue: &str, asked: &Resources) -> Option<(String, String, i64, i64)> {
    let Err(QueueRefusal::Ceiling(ceiling)) = quota.fits(queue, asked) else { return None };
    let units = |amount: Amount| i64::try_from(amount.nanos() / 1_000_000_000).unwrap();
    Some((ceiling.queue.to_string(), ceiling.dimension.to_string(), units(ceiling.used), units(ceiling.limit)))
}

/// root → org → {team, other}
fn three_levels() -> Quota {
    let mut quota = Quota::new();
    upsert(&mut quota, "org", "", &[("cpu", 8)]);
    upsert(&mut quota, "team", "org", &[("cpu", 4)]);
    upsert(&mut quota, "other", "org", &[]);
    quota
}

#[test]
fn q13_the_level_and_the_dimension_that_bind_are_named() {
    for dimension in ["cpu", "memory", "nvidia.com/gpu"] {
        for level in ["team", "org", "root"] {
            let mut quota = three_levels();
            upsert(&mut quota, "org", "", &[]);
            upsert(&mut quota, "team", "org", &[]);
            let parent = if level == "team" { "org" } else { "" };
            upsert(&mut quota, level, parent, &[(dimension, 2)]);
            let two = Resources::new().with(dimension, Amount::from_units(2));
            assert_eq!(refused(&quota, "team", &two), None);
            quota.charge(&"pod".into(), "team", Resources::new().with(dimension, Amount::from_units(1)));
            assert_eq!(refused(&quota, "team", &two), Some((level.into(), dimension.into(), 1, 2)));
        }
    }
}

#[test]
fn q1_the_use_of_one_child_is_missing_for_its_sibling() {
    let mut quota = three_levels();
    quota.charge(&"pod".into(), "other", amount(6, 1));
    assert_eq!(refused(&quota, "team", &amount(3, 1)), Some(("org".into(), "cpu".into(), 6, 8)));
    assert!(quota.release(&"pod".into()));
    assert_eq!(refused(&quota, "team", &amount(3, 1)), None);
}

#[test]
fn q8_zero_is_zero_unset_is_unlimited_and_pods_are_counted() {
    let mut quota = three_levels();
    upsert(&mut quota, "team", "org", &[("nvidia.com/gpu", 0), ("pods", 2)]);
    let gpu = amount(1, 1).with("nvidia.com/gpu", Amount::from_nanos(1));
    assert_eq!(refused(&quota, "team", &gpu), Some(("team".into(), "nvidia.com/gpu".into(), 0, 0)));
    assert_eq!(refused(&quota, "team", &amount(8, 1)), None);
    for pod in ["a", "b"] {
        quota.charge(&pod.into(), "team", amount(0, 1));
    }
    assert_eq!(refused(&quota, "team", &amount(0, 1)), Some(("team".into(), "pods".into(), 2, 2)));
}

#[test]
fn a7_a_queue_over_its_ceiling_refuses_only_requests_for_that_dimension() {
    let mut quota = three_levels();
    quota.charge(&"resized".into(), "team", amount(9, 1));
    assert_eq!(refused(&quota, "team", &amount(1, 1)), Some(("team".into(), "cpu".into(), 9, 4)));
    assert_eq!(refused(&quota, "team", &amount(0, 1)), None);
    quota.charge(&"resized".into(), "team", amount(1, 1));
    assert_eq!(refused(&quota, "team", &amount(3, 1)), None);
}

#[test]
fn a_reservation_counts_like_usage_but_is_not_usage() {
    let mut quota = three_levels();
    quota.reserve("ns/gang", "team", amount(3, 3));
    quota.reserve("ns/gang", "team", amount(3, 3));
    assert_eq!(refused(&quota, "team", &amount(2, 1)), Some(("team".into(), "cpu".into(), 3, 4)));
    assert!(quota.queue("org").used.is_zero());
    assert_eq!(quota.queue("org").reserved, &amount(3, 3));
    quota.reserve("ns/gang", "team", amount(1, 1));
    assert_eq!(refused(&quota, "team", &amount(2, 1)), None);
    assert!(quota.unreserve("ns/gang") && !quota.unreserve("ns/gang"));
    assert!(quota.audit(&Resources::new()).is_empty());
}

#[test]
fn q4_the_pods_of_a_queue_without_its_parent_count_at_root_and_below_the_parent_when_it_is_back() {
    let mut quota = three_levels();
    quota.charge(&"pod".into(), "team", amount(3, 1));
    quota.queue_remove("org");
    assert!(quota.path("team").is_err() && quota.path("other").is_err());
    assert_eq!(quota.queue("root").used, &amount(3, 1));
    assert_eq!(quota.queue("org").used, &amount(3, 1), "still counted under its name");
    assert!(!quota.queue("org").exists);
    upsert(&mut quota, "company", "", &[]);
    upsert(&mut quota, "org", "company", &[("cpu", 8)]);
    for queue in ["team", "org", "company", "root"] {
        assert_eq!(quota.queue(queue).used, &amount(3, 1), "{queue}");
    }
    assert!(quota.audit(&Resources::new()).is_empty());
}

#[test]
fn t3_the_pods_of_a_queue_that_is_gone_count_where_it_was_and_where_it_is_when_it_is_back() {
    let mut quota = three_levels();
    quota.charge(&"pod".into(), "team", amount(3, 1));
    quota.queue_remove("team");
    assert_eq!(quota.queue("org").used, &amount(3, 1), "it keeps its place (T3)");
    assert_eq!(refused(&quota, "other", &amount(6, 1)), Some(("org".into(), "cpu".into(), 3, 8)));
    assert_eq!(quota.queue("root").used, &amount(3, 1));
    let listed: Vec<_> = quota.queues().map(|queue| queue.name.to_owned()).collect();
    assert_eq!(listed, ["default", "org", "other", "root", "team"]);
    upsert(&mut quota, "team", "org", &[("cpu", 4)]);
    assert_eq!(refused(&quota, "team", &amount(2, 1)), Some(("team".into(), "cpu".into(), 3, 4)));
    assert_eq!(quota.queue("org").used, &amount(3, 1));
    quota.queue_remove("team");
    upsert(&mut quota, "team", "", &[]);
    assert!(quota.queue("org").used.is_zero(), "made again elsewhere, it is a queue that was moved");
    upsert(&mut quota, "team", "org", &[]);
    quota.queue_remove("team");
    quota.release(&"pod".into());
    quota.forget_unused_places();
    quota.charge(&"late".into(), "team", amount(1, 1));
    assert!(quota.queue("org").used.is_zero(), "nothing was left of it");
}

#[test]
fn q12_usage_moves_with_a_subtree_into_a_cycle_and_out_again() {
    let mut quota = three_levels();
    quota.charge(&"pod".into(), "team", amount(3, 1));
    quota.reserve("ns/gang", "other", amount(1, 1));
    let before = quota.clone();
    upsert(&mut quota, "org", "team", &[("cpu", 8)]);
    assert!(quota.audit(&Resources::new()).is_empty());
    assert!(quota.path("other").is_err());
    assert_eq!(quota.queue("root").used, &amount(3, 1), "once, not once for each pass of the cycle");
    upsert(&mut quota, "org", "", &[("cpu", 8)]);
    assert_eq!(quota, before);
}

#[test]
fn the_audit_reports_wrong_sums_of_both_kinds() {
    let mut quota = three_levels();
    let mut wrong = three_levels();
    wrong.charge(&"pod".into(), "team", amount(3, 1));
    wrong.reserve("ns/gang", "team", amount(3, 1));
    upsert(&mut wrong, "team", "", &[]);
    // Sums that belong to another tree than the stored one.
    quota.charged = wrong.charged.clone();
    quota.reserved = wrong.reserved;
    quota.set_total(&amount(1, 0));
    let places: BTreeSet<_> = quota.audit(&Resources::new()).into_iter().map(|difference| difference.place).collect();
    assert_eq!(places.into_iter().collect::<Vec<_>>(), [Place::QueueSubtree, Place::ReservedSubtree, Place::Total]);
}

#[test]
fn pods_and_queues_in_use_are_listed_whether_the_queue_exists_or_not() {
    let mut quota = three_levels();
    for (pod, queue) in [("b", "team"), ("a", "team"), ("c", "gone")] {
        quota.charge(&pod.into(), queue, amount(1, 1));
    }
    quota.reserve("ns/gang", "other", amount(1, 1));
    let charges: Vec<_> = quota.charges().map(|(uid, queue, resources)| (uid.to_string(), queue, resources.clone())).collect();
    assert_eq!(charges, [("a", "team"), ("b", "team"), ("c", "gone")].map(|(pod, queue)| (pod.to_owned(), queue, amount(1, 1))));
    assert_eq!(quota.pods_in("team").map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(quota.pods_in("org").count(), 0, "the pods of the queue itself");
    assert_eq!(quota.queues_with_pods().map(ToString::to_string).collect::<Vec<_>>(), ["gone", "team"]);
}

#[test]
fn the_audit_reports_unused_guarantees_of_another_state() {
    let mut quota = Quota::new();
    quota.set_total(&amount(9, 9));
    let guarantee = [("cpu".into(), Amount::from_units(3))].into_iter().collect();
    let shape = QueueShape { name: "safe".into(), parent: None };
    quota.queue_upsert(&shape, QueueLimits { guarantee, ..QueueLimits::default() });
    let mut other = quota.clone();
    quota.charge(&"pod".into(), "safe", amount(1, 1));
    assert!(quota.queue("safe").floor.get("cpu").is_positive() && other.queue("safe").floor.get("cpu").is_positive(), "both are computed");
    assert!(quota.audit(&amount(9, 9)).is_empty());
    std::mem::swap(&mut quota.unused_guarantees, &mut other.unused_guarantees);
    let found: BTreeSet<_> = quota.audit(&amount(9, 9)).into_iter().map(|wrong| (wrong.name, wrong.place)).collect();
    let of = |place| ["root", "safe"].map(|name| (name.to_owned(), place));
    assert_eq!(found, [of(Place::UnusedGuarantee), of(Place::Unfilled)].concat().into_iter().collect());
}
