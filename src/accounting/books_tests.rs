//! Does a pod's life in the books go as it is drawn, and does what is refused or dropped leave nothing behind?

use super::*;
use crate::accounting::{Bound, Ceiling, Placement, QueueFault, Shortage, Why};
use crate::resources::Amount;

fn cpus(count: i64) -> Resources {
    Resources::new().with("cpu", Amount::from_units(count))
}

fn queue(books: &mut Books, name: &str, parent: &str, capability: i64) {
    let shape = QueueShape { name: name.into(), parent: Some(parent.into()) };
    let capability = [("cpu".into(), Amount::from_units(capability))].into_iter().collect();
    books.queue_upsert(&shape, QueueLimits { capability, ..QueueLimits::default() });
}

/// Two nodes of 4, and root → org (6) → team (5).
fn books() -> Books {
    let mut books = Books::new();
    books.node_upsert("a", cpus(4));
    books.node_upsert("b", cpus(4));
    queue(&mut books, "org", "root", 6);
    queue(&mut books, "team", "org", 5);
    books
}

fn pod(number: usize) -> Uid {
    format!("pod-{number}").as_str().into()
}

fn team_uses(books: &Books) -> Resources {
    books.quota().queue("team").used.clone()
}

#[test]
fn b3_a_refusal_at_any_level_leaves_nothing_behind() {
    let mut books = books();
    books.charge_observed(&pod(0), Some("a"), Some("team"), &cpus(2));
    let before = books.clone();
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
        Refusal::Queue(QueueRefusal::Ceiling(Ceiling { queue, dimension, asked, used, kept: Amount::ZERO, limit, bound }))
    };
    let table = [
        (0, "b", "team", 1, Refusal::AlreadyCharged),
        (1, "a", "team", 3, node(Some((3, 2)))),
        (1, "gone", "team", 1, node(None)),
        (1, "b", "org", 1, fault("org", Why::NotLeaf)),
        (1, "b", "nobody", 1, fault("nobody", Why::NotFound)),
        (1, "b", "team", 4, ceiling(4, 2, 5)),
    ];
    for (number, on, into, asked, refusal) in table {
        assert_eq!(books.assume(&pod(number), on, into, &cpus(asked)), Err(refusal));
        assert_eq!(books, before);
    }
}

#[test]
fn a_trial_sees_what_it_placed_and_keeps_all_or_nothing() {
    let mut books = books();
    let before = books.clone();
    let mut trial = books.trial();
    assert_eq!(trial.place(&pod(0), "a", "team", &cpus(3)), Ok(()));
    assert!(trial.place(&pod(1), "a", "team", &cpus(2)).is_err(), "the node has 1 left");
    let halfway = trial.savepoint();
    assert_eq!(trial.place(&pod(1), "b", "team", &cpus(2)), Ok(()));
    assert!(trial.place(&pod(2), "b", "team", &cpus(1)).is_err(), "the queue has nothing left");
    trial.rollback_to(halfway);
    assert_eq!((trial.len(), trial.is_empty()), (1, false));
    assert_eq!(trial.place(&pod(2), "b", "team", &cpus(1)), Ok(()));
    drop(trial);
    assert_eq!(books, before);

    let mut trial = books.trial();
    assert_eq!(trial.place(&pod(2), "b", "team", &cpus(1)), Ok(()));
    assert_eq!(trial.place(&pod(1), "a", "team", &cpus(2)), Ok(()));
    let placed =
        |number, node: &str, count| Placement { uid: pod(number), node: node.into(), queue: "team".into(), resources: cpus(count) };
    assert_eq!(trial.commit(), [placed(2, "b", 1), placed(1, "a", 2)]);
    assert_eq!(books.pod(&pod(2)).unwrap().stage, Stage::Assumed);
    assert_eq!(team_uses(&books), cpus(3));
    assert!(books.audit().is_clean());
}

#[test]
fn who_is_set_aside_in_a_trial_is_back_however_it_ends() {
    let mut books = books();
    for number in 0..2 {
        books.assume(&pod(number), "a", "team", &cpus(2)).unwrap();
    }
    books.confirm(&pod(0));
    books.charge_observed(&pod(3), Some("b"), None, &cpus(1));
    let before = books.clone();
    for commits in [false, true] {
        let mut trial = books.trial();
        assert!(trial.place(&pod(2), "a", "team", &cpus(1)).is_err(), "the node is full");
        assert!(!trial.set_aside(&pod(2)) && !trial.put_back(&pod(0)), "one is not there, the other is");
        assert!(trial.set_aside(&pod(0)) && !trial.set_aside(&pod(0)) && trial.set_aside(&pod(3)));
        assert!(trial.place(&pod(0), "b", "team", &cpus(1)).is_err(), "it is aside and not gone");
        assert_eq!(trial.place(&pod(2), "a", "team", &cpus(1)), Ok(()));
        assert!(!trial.set_aside(&pod(2)), "it is placed in this trial");
        assert!(trial.set_aside(&pod(1)) && trial.put_back(&pod(1)));
        assert_eq!(team_uses(trial.books()), cpus(3));
        if !commits {
            drop(trial);
            assert_eq!(books, before);
            continue;
        }
        assert_eq!(trial.commit().len(), 1);
        assert_eq!(books.ledger().node("a").unwrap().overcommitted(), cpus(1), "until who was aside is gone");
        assert_eq!(books.pod(&pod(0)).unwrap().stage, Stage::Observed);
        assert!(books.forget(&pod(2)) && books == before && books.audit().is_clean());
    }
}

#[test]
fn q9_a_gang_is_placed_into_its_own_reservation_and_nothing_is_counted_twice() {
    let mut books = books();
    books.reserve("ns/gang", "team", &cpus(5));
    let before = books.clone();
    assert!(books.assume(&pod(0), "a", "team", &cpus(1)).is_err(), "others stay out");
    for keep in [false, true] {
        let mut trial = books.trial();
        trial.reserve("ns/gang", "team", &Resources::new());
        for number in 0..3 {
            assert_eq!(trial.place(&pod(number), "a", "team", &cpus(1)), Ok(()));
        }
        trial.reserve("ns/gang", "team", &cpus(2));
        assert!(trial.place(&pod(3), "b", "team", &cpus(1)).is_err(), "5 are used or reserved");
        if keep {
            assert_eq!(trial.commit().len(), 3);
        } else {
            drop(trial);
            assert_eq!(books, before);
        }
    }
    assert_eq!((team_uses(&books), books.quota().queue("root").reserved), (cpus(3), &cpus(2)));
}

#[test]
fn an_assumed_pod_is_forgotten_unless_it_was_confirmed_or_seen_since() {
    let mut books = books();
    let one = cpus(1);
    for number in 0..4 {
        assert_eq!(books.assume(&pod(number), "a", "team", &one), Ok(()));
    }
    assert!(books.confirm(&pod(1)));
    books.charge_observed(&pod(1), None, Some("team"), &one);
    assert_eq!(books.pod(&pod(1)).unwrap().node, Some("a"), "an event from before the bind came after its answer");
    books.charge_observed(&pod(2), Some("a"), Some("team"), &one);
    books.charge_observed(&pod(3), None, Some("team"), &one);
    assert_eq!(books.pod(&pod(3)).unwrap().node, Some("a"), "the watch is behind the bind");
    let forgotten: Vec<_> = (0..4).filter(|number| books.forget(&pod(*number))).collect();
    assert_eq!(forgotten, [0, 3]);
    assert_eq!(team_uses(&books), cpus(2));
    assert_eq!(books.ledger().node("a").unwrap().used, &cpus(2));
    assert!(!books.forget(&pod(9)) && !books.confirm(&pod(9)) && !books.release(&pod(9)));
    assert!(books.audit().is_clean());
}

#[test]
fn what_is_seen_is_the_truth_even_where_it_does_not_fit_or_was_assumed_elsewhere() {
    let mut books = books();
    assert_eq!(books.assume(&pod(0), "a", "team", &cpus(1)), Ok(()));
    books.charge_observed(&pod(0), Some("b"), Some("team"), &cpus(9));
    let pod_0 = books.pod(&pod(0)).unwrap();
    assert_eq!((pod_0.node, pod_0.queue, pod_0.stage), (Some("b"), Some("team"), Stage::Observed));
    assert_eq!(books.ledger().node("b").unwrap().overcommitted(), cpus(5));
    assert!(books.ledger().node("a").unwrap().used.is_zero());
    assert_eq!(team_uses(&books), cpus(9));

    books.charge_observed(&pod(0), Some("b"), None, &cpus(2));
    assert!(team_uses(&books).is_zero(), "another scheduler's pod is in no queue");
    assert_eq!(books.ledger().node("b").unwrap().used, &cpus(2));
    assert!(books.audit().is_clean());
}

#[test]
fn the_audit_sees_a_pod_that_is_in_one_book_only_and_a_trial_that_was_left_open() {
    let spoil: [fn(&mut Books); 4] = [
        |books| books.ledger.charge(&pod(0), Some("a"), cpus(2)),
        |books| assert!(books.ledger.release(&pod(0))),
        |books| assert!(books.stages.remove(&pod(0)).is_some()),
        |books| {
            let mut trial = books.trial();
            trial.place(&pod(1), "b", "team", &cpus(1)).unwrap();
            std::mem::forget(trial);
        },
    ];
    for spoil in spoil {
        let mut books = books();
        assert_eq!(books.assume(&pod(0), "a", "team", &cpus(1)), Ok(()));
        assert!(books.audit().is_clean());
        spoil(&mut books);
        let report = books.audit();
        assert!(!report.is_clean() && report.differences.iter().all(|difference| difference.place == Place::Pod));
    }
}

#[test]
fn the_report_is_json_for_the_debug_page() {
    let mut books = books();
    books.ledger.charge(&pod(0), None, cpus(2));
    assert_eq!(
        serde_json::to_string(&books.audit()).unwrap(),
        r#"{"pods":0,"nodes":2,"queues":4,"differences":[{"place":"pod","name":"pod-0","kept":{"cpu":"2"},"recounted":{"cpu":"2"}}]}"#
    );
}

#[test]
fn a_nominated_pod_is_charged_over_what_there_is_until_it_is_withdrawn() {
    let mut books = books();
    books.charge_observed(&pod(0), Some("a"), Some("team"), &cpus(4));
    let before = books.clone();
    assert!(books.nominate(&pod(1), "a", "team", &cpus(3)));
    assert!(!books.nominate(&pod(0), "b", "team", &cpus(1)), "what is charged already stays as it is");
    assert_eq!(books.ledger().node("a").unwrap().overcommitted(), cpus(3));
    assert_eq!(team_uses(&books), cpus(7));
    assert!(!books.confirm(&pod(1)) && !books.forget(&pod(1)), "nobody is binding it");
    assert!(books.audit().is_clean());
    assert!(!books.withdraw(&pod(0)) && books.withdraw(&pod(1)));
    assert_eq!(books, before);
}
