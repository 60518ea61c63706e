//! The stages of a charge, and that refused and dropped placements leave nothing behind.

use super::*;
use crate::accounting::{Bound, Ceiling, Placement, QueueFault, Shortage, Why};
use crate::resources::Amount;

fn cpus(count: i64) -> Resources {
    Resources::new().with("cpu", Amount::from_units(count))
}

fn queue(accounting: &mut Accounting, name: &str, parent: &str, capability: i64) {
    let shape = QueueShape { name: name.into(), parent: Some(parent.into()) };
    let capability = [("cpu".into(), Amount::from_units(capability))].into_iter().collect();
    accounting.queue_upsert(&shape, QueueLimits { capability, ..QueueLimits::default() });
}

/// Two nodes of 4 CPUs, and root → org (6) → team (5).
fn accounting() -> Accounting {
    let mut accounting = Accounting::new();
    accounting.node_upsert("a", cpus(4));
    accounting.node_upsert("b", cpus(4));
    queue(&mut accounting, "org", "root", 6);
    queue(&mut accounting, "team", "org", 5);
    accounting
}

fn pod(number: usize) -> Uid {
    format!("pod-{number}").as_str().into()
}

fn team_uses(accounting: &Accounting) -> Resources {
    accounting.quota().queue("team").used.clone()
}

#[test]
fn b3_a_refusal_at_any_level_leaves_nothing_behind() {
    let mut accounting = accounting();
    accounting.charge_observed(&pod(0), Some("a"), Some("team"), &cpus(2));
    let before = accounting.clone();
    let node = |short: Option<(i64, i64)>| {
        Refusal::Node(short.map_or(NodeRefusal::UnknownNode, |(asked, idle)| {
            let (asked, idle) = (Amount::from_units(asked), Amount::from_units(idle));
            NodeRefusal::Short(Shortage { name: "cpu".into(), asked, idle })
        }))
    };
    let fault = |queue: &str, why| Refusal::Queue(QueueRefusal::Fault(QueueFault { queue: queue.into(), why }));
    let ceiling = |asked, used, limit| {
        let ([asked, used, limit], bound) = ([asked, used, limit].map(Amount::from_units), Bound::Capability);
        let (queue, dimension) = ("team".into(), "cpu".into());
        Refusal::Queue(QueueRefusal::Ceiling(Ceiling {
            queue,
            dimension,
            asked,
            used,
            reserved: Amount::ZERO,
            unused_guarantee: Amount::ZERO,
            limit,
            bound,
        }))
    };
    let table = [
        (0, "b", "team", 1, Refusal::AlreadyCharged),
        (1, "a", "team", 3, node(Some((3, 2)))),
        (1, "gone", "team", 1, node(None)),
        (1, "b", "org", 1, fault("org", Why::NotLeaf)),
        (1, "b", "missing", 1, fault("missing", Why::NotFound)),
        (1, "b", "team", 4, ceiling(4, 2, 5)),
    ];
    for (number, on, into, asked, refusal) in table {
        assert_eq!(accounting.assume(&pod(number), on, into, &cpus(asked)), Err(refusal));
        assert_eq!(accounting, before);
    }
}

#[test]
fn a_trial_counts_what_it_placed_and_keeps_all_or_nothing() {
    let mut accounting = accounting();
    let before = accounting.clone();
    let mut trial = accounting.trial();
    assert_eq!((trial.len(), trial.is_empty()), (0, true));
    assert_eq!(trial.place(&pod(0), "a", "team", &cpus(3)), Ok(()));
    assert!(trial.place(&pod(1), "a", "team", &cpus(2)).is_err(), "the node has 1 left");
    let halfway = trial.savepoint();
    assert_eq!(trial.place(&pod(1), "b", "team", &cpus(2)), Ok(()));
    assert!(trial.place(&pod(2), "b", "team", &cpus(1)).is_err(), "the queue has nothing left");
    trial.rollback_to(halfway);
    assert_eq!((trial.len(), trial.is_empty()), (1, false));
    assert_eq!(trial.place(&pod(2), "b", "team", &cpus(1)), Ok(()));
    drop(trial);
    assert_eq!(accounting, before);

    let mut trial = accounting.trial();
    assert_eq!(trial.place(&pod(2), "b", "team", &cpus(1)), Ok(()));
    assert_eq!(trial.place(&pod(1), "a", "team", &cpus(2)), Ok(()));
    let placed =
        |number, node: &str, count| Placement { uid: pod(number), node: node.into(), queue: "team".into(), resources: cpus(count) };
    assert_eq!(trial.commit(), [placed(2, "b", 1), placed(1, "a", 2)]);
    assert_eq!(accounting.pod(&pod(2)).unwrap().stage, Stage::Assumed);
    assert_eq!(team_uses(&accounting), cpus(3));
    assert!(accounting.audit().is_clean());
}

#[test]
fn a_pod_that_is_set_aside_is_charged_again_however_the_trial_ends() {
    let mut accounting = accounting();
    for number in 0..2 {
        accounting.assume(&pod(number), "a", "team", &cpus(2)).unwrap();
    }
    accounting.confirm(&pod(0));
    accounting.charge_observed(&pod(3), Some("b"), None, &cpus(1));
    let before = accounting.clone();
    for commits in [false, true] {
        let mut trial = accounting.trial();
        assert!(trial.place(&pod(2), "a", "team", &cpus(1)).is_err(), "the node is full");
        assert!(!trial.set_aside(&pod(2)) && !trial.put_back(&pod(0)), "one is not charged, the other is not set aside");
        assert!(trial.set_aside(&pod(0)) && !trial.set_aside(&pod(0)) && trial.set_aside(&pod(3)));
        assert!(trial.place(&pod(0), "b", "team", &cpus(1)).is_err(), "it is set aside and not gone");
        assert_eq!(trial.place(&pod(2), "a", "team", &cpus(1)), Ok(()));
        assert!(!trial.set_aside(&pod(2)), "it is placed in this trial");
        assert!(trial.set_aside(&pod(1)) && trial.put_back(&pod(1)));
        assert_eq!(team_uses(trial.accounting()), cpus(3));
        if !commits {
            drop(trial);
            assert_eq!(accounting, before);
            continue;
        }
        assert_eq!(trial.commit().len(), 1);
        assert_eq!(accounting.ledger().node("a").unwrap().overcommitted(), cpus(1), "until the pod that was set aside is gone");
        assert_eq!(accounting.pod(&pod(0)).unwrap().stage, Stage::Observed);
        assert!(accounting.forget(&pod(2)) && accounting == before && accounting.audit().is_clean());
    }
}

#[test]
fn r7_a_pod_is_placed_in_place_of_what_is_nominated_for_it_and_its_nomination_comes_back_with_the_end_of_the_trial() {
    let mut accounting = accounting();
    for number in 0..2 {
        assert!(accounting.nominate(&pod(number), "a", "team", &cpus(2)));
    }
    let before = accounting.clone();
    for commits in [false, true] {
        let mut trial = accounting.trial();
        assert!(trial.place(&pod(0), "b", "team", &cpus(2)).is_err(), "it is charged");
        assert!(trial.set_aside(&pod(0)) && trial.set_aside(&pod(1)));
        let start = trial.savepoint();
        assert_eq!(trial.place(&pod(0), "b", "team", &cpus(2)), Ok(()));
        assert!(!trial.put_back(&pod(0)));
        trial.rollback_to(start);
        assert_eq!(trial.place(&pod(0), "b", "team", &cpus(2)), Ok(()));
        assert_eq!(team_uses(trial.accounting()), cpus(2));
        if !commits {
            drop(trial);
            assert_eq!(accounting, before);
            continue;
        }
        assert_eq!(trial.commit().len(), 1);
        let charged = |number| accounting.pod(&pod(number)).map(|pod| (pod.node, pod.stage));
        assert_eq!((charged(0), charged(1)), (Some((Some("b"), Stage::Assumed)), Some((Some("a"), Stage::Nominated))));
        assert!(accounting.audit().is_clean());
    }
}

#[test]
fn q9_a_gang_is_placed_into_its_own_reservation_and_nothing_is_counted_twice() {
    let mut accounting = accounting();
    accounting.reserve("ns/gang", "team", &cpus(5));
    let before = accounting.clone();
    assert!(accounting.assume(&pod(0), "a", "team", &cpus(1)).is_err(), "the reservation keeps other pods out");
    for keep in [false, true] {
        let mut trial = accounting.trial();
        trial.reserve("ns/gang", "team", &Resources::new());
        for number in 0..3 {
            assert_eq!(trial.place(&pod(number), "a", "team", &cpus(1)), Ok(()));
        }
        trial.reserve("ns/gang", "team", &cpus(2));
        assert!(trial.place(&pod(3), "b", "team", &cpus(1)).is_err(), "5 are used or reserved");
        if keep {
            assert_eq!(trial.commit().len(), 3);
        } else {
            trial.reserve("ns/other", "default", &cpus(1));
            drop(trial);
            assert_eq!(accounting, before);
        }
    }
    assert_eq!((team_uses(&accounting), accounting.quota().queue("root").reserved), (cpus(3), &cpus(2)));
}

#[test]
fn an_assumed_pod_is_forgotten_unless_it_was_confirmed_or_seen_since() {
    let mut accounting = accounting();
    let one = cpus(1);
    for number in 0..4 {
        assert_eq!(accounting.assume(&pod(number), "a", "team", &one), Ok(()));
    }
    assert!(accounting.confirm(&pod(1)));
    accounting.charge_observed(&pod(1), None, Some("team"), &one);
    assert_eq!(accounting.pod(&pod(1)).unwrap().node, Some("a"), "an event from before the bind came after its answer");
    accounting.charge_observed(&pod(2), Some("a"), Some("team"), &one);
    accounting.charge_observed(&pod(3), None, Some("team"), &one);
    assert_eq!(accounting.pod(&pod(3)).unwrap().node, Some("a"), "the watch is behind the bind");
    let forgotten: Vec<_> = (0..4).filter(|number| accounting.forget(&pod(*number))).collect();
    assert_eq!(forgotten, [0, 3]);
    assert_eq!(team_uses(&accounting), cpus(2));
    assert_eq!(accounting.ledger().node("a").unwrap().used, &cpus(2));
    assert!(!accounting.forget(&pod(9)) && !accounting.confirm(&pod(9)) && !accounting.release(&pod(9)));
    assert!(accounting.audit().is_clean());
}

#[test]
fn an_observed_pod_is_charged_even_where_it_does_not_fit_or_was_assumed_on_another_node() {
    let mut accounting = accounting();
    assert_eq!(accounting.assume(&pod(0), "a", "team", &cpus(1)), Ok(()));
    accounting.charge_observed(&pod(0), Some("b"), Some("team"), &cpus(9));
    let pod_0 = accounting.pod(&pod(0)).unwrap();
    assert_eq!((pod_0.node, pod_0.queue, pod_0.stage), (Some("b"), Some("team"), Stage::Observed));
    assert_eq!(accounting.ledger().node("b").unwrap().overcommitted(), cpus(5));
    assert!(accounting.ledger().node("a").unwrap().used.is_zero());
    assert_eq!(team_uses(&accounting), cpus(9));

    accounting.charge_observed(&pod(0), Some("b"), None, &cpus(2));
    assert!(team_uses(&accounting).is_zero(), "another scheduler's pod is in no queue");
    assert_eq!(accounting.ledger().node("b").unwrap().used, &cpus(2));
    assert!(accounting.audit().is_clean());
}

#[test]
fn a_deleted_node_offers_nothing_and_its_pods_still_count() {
    let mut accounting = accounting();
    accounting.assume(&pod(0), "a", "team", &cpus(1)).unwrap();
    accounting.node_delete("a");
    assert_eq!((accounting.ledger().node("a"), accounting.ledger().total(), &accounting.quota.total), (None, &cpus(4), &cpus(4)));
    assert_eq!(team_uses(&accounting), cpus(1));
    assert!(accounting.audit().is_clean());
}

#[test]
fn a_resized_pod_keeps_its_node_its_queue_and_its_stage() {
    let mut accounting = accounting();
    accounting.assume(&pod(0), "a", "team", &cpus(1)).unwrap();
    accounting.charge_observed(&pod(1), Some("b"), None, &cpus(1));
    for number in 0..3 {
        accounting.resize(&pod(number), &cpus(7));
    }
    let seven = cpus(7);
    let of = |stage, node, queue| PodView { stage, node: Some(node), queue, resources: &seven };
    let pods: Vec<_> = accounting.pods().map(|(uid, pod)| (uid.clone(), pod)).collect();
    let (ours, other) = (of(Stage::Assumed, "a", Some("team")), of(Stage::Observed, "b", None));
    assert_eq!(pods, [(pod(0), ours), (pod(1), other)], "and a pod that is not charged stays so");
    assert_eq!(team_uses(&accounting), cpus(7));
}

#[test]
fn the_audit_reports_a_pod_that_only_one_side_has_and_an_open_trial() {
    let spoil: [fn(&mut Accounting); 4] = [
        |accounting| accounting.ledger.charge(&pod(0), Some("a"), cpus(2), false),
        |accounting| assert!(accounting.ledger.release(&pod(0))),
        |accounting| assert!(accounting.stages.remove(&pod(0)).is_some()),
        |accounting| {
            let mut trial = accounting.trial();
            trial.place(&pod(1), "b", "team", &cpus(1)).unwrap();
            std::mem::forget(trial);
        },
    ];
    for spoil in spoil {
        let mut accounting = accounting();
        assert_eq!(accounting.assume(&pod(0), "a", "team", &cpus(1)), Ok(()));
        assert!(accounting.audit().is_clean());
        spoil(&mut accounting);
        let report = accounting.audit();
        assert!(!report.is_clean() && report.differences.iter().all(|difference| difference.place == Place::Pod));
    }
}

#[test]
fn the_report_is_json_for_the_debug_page() {
    let mut accounting = accounting();
    accounting.ledger.charge(&pod(0), None, cpus(2), false);
    assert_eq!(
        serde_json::to_string(&accounting.audit()).unwrap(),
        r#"{"pods":0,"nodes":2,"queues":4,"differences":[{"place":"pod","name":"pod-0","kept":{"cpu":"2"},"recounted":{"cpu":"2"}}]}"#
    );
}

#[test]
fn a_nominated_pod_is_charged_beyond_the_limits_until_it_is_withdrawn() {
    let mut accounting = accounting();
    accounting.charge_observed(&pod(0), Some("a"), Some("team"), &cpus(4));
    let before = accounting.clone();
    assert!(accounting.nominate(&pod(1), "a", "team", &cpus(3)));
    assert!(!accounting.nominate(&pod(0), "b", "team", &cpus(1)), "a pod that is charged already stays as it is");
    assert_eq!(accounting.ledger().node("a").unwrap().overcommitted(), cpus(3));
    assert_eq!(team_uses(&accounting), cpus(7));
    assert!(!accounting.confirm(&pod(1)) && !accounting.forget(&pod(1)), "it is not being bound");
    assert!(accounting.audit().is_clean());
    assert!(!accounting.withdraw(&pod(0)) && accounting.withdraw(&pod(1)));
    assert_eq!(accounting, before);
}

#[test]
fn a_kept_place_is_charged_to_its_node_and_takes_nothing_from_the_total() {
    let mut accounting = accounting();
    let total = accounting.ledger().total().clone();
    accounting.keep(&pod(0), "a", &cpus(1));
    assert_eq!((accounting.ledger().node("a").unwrap().used, accounting.ledger().total()), (&cpus(1), &total));
    assert!(accounting.audit().is_clean());
    accounting.charge_observed(&pod(1), Some("a"), None, &cpus(1));
    assert_ne!(accounting.ledger().total(), &total, "a pod of others does");
}
