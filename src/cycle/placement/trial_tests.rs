//! A trial changes several kinds of state and leaves none of them behind.

use super::*;
use crate::accounting::{QueueLimits, QueueShape};
use crate::api::pod::PodAffinityTerm;
use crate::api::podgroup::Selector;
use crate::cycle::testing::{amounts, node, pod, running};

/// Two nodes of 4 cpus in two zones, a queue, and a pod on `n0` that keeps pods with the label `app: db` out of its zone.
struct Cluster {
    accounting: Accounting,
    nodes: Nodes,
    anti_affinity: AntiAffinityIndex,
    placed: PodFacts,
}

fn db(name: &str, keeps_away: bool) -> PodFacts {
    let mut facts = pod("ns", name, "g", &[("cpu", 1)]);
    let labels: BTreeMap<String, String> = [("app".to_owned(), "db".to_owned())].into();
    facts.labels.clone_from(&labels);
    let term = PodAffinityTerm {
        label_selector: Some(Selector { match_labels: Some(labels), match_expressions: None }),
        topology_key: "zone".into(),
        ..PodAffinityTerm::default()
    };
    facts.anti_affinity.extend(keeps_away.then_some(term));
    facts
}

fn cluster() -> Cluster {
    let (mut accounting, mut nodes, mut anti_affinity) = (Accounting::new(), Nodes::default(), AntiAffinityIndex::default());
    for (name, zone) in [("n0", "a"), ("n1", "b")] {
        let mut facts = node(name, &[("cpu", 4)]);
        facts.labels.insert("zone".into(), zone.into());
        accounting.node_upsert(name, facts.allocatable.clone());
        nodes.upsert(facts);
    }
    accounting.queue_upsert(&QueueShape { name: "q".into(), parent: None }, QueueLimits { weight: 1, ..QueueLimits::default() });
    let placed = running(db("placed", true), "n0");
    accounting.charge_observed(&placed.uid, Some("n0"), Some("q"), &placed.request);
    anti_affinity.set(&placed, placed.node.as_ref());
    Cluster { accounting, nodes, anti_affinity, placed }
}

fn forbidden(trial: &Trial<'_>) -> Vec<String> {
    let none = BTreeSet::new();
    let snapshot = trial.snapshot(Strategy::Spread, &none);
    snapshot.anti_affinity.forbidden(&PodLabels::of(&db("asks", false)), snapshot.nodes).into_iter().map(|(_, zone)| zone).collect()
}

#[test]
fn a_later_member_sees_that_an_earlier_one_keeps_it_away_and_a_rollback_undoes_that() {
    let Cluster { mut accounting, mut nodes, mut anti_affinity, .. } = cluster();
    let before = accounting.clone();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut anti_affinity);
    let n1 = trial.nodes().id("n1").unwrap();
    assert_eq!(forbidden(&trial), ["a"]);
    let (start, mark) = (trial.savepoint(), trial.nodes().head());
    trial.place(&db("first", true), n1, "q").unwrap();
    assert_eq!(forbidden(&trial), ["a", "b"]);
    trial.rollback_to(start);
    assert_eq!(forbidden(&trial), ["a"]);
    assert_eq!(trial.nodes().since(mark), Some(&[n1, n1][..]), "the node changed, and changed back");
    trial.place(&db("first", true), n1, "q").unwrap();
    drop(trial);
    assert!(accounting == before && accounting.audit().is_clean());
    assert!(!anti_affinity.contains(&db("first", true).uid));
}

#[test]
fn what_is_set_aside_outlives_a_rollback_and_is_back_at_the_end() {
    let Cluster { mut accounting, mut nodes, mut anti_affinity, placed } = cluster();
    let before = accounting.clone();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut anti_affinity);
    let n0 = trial.nodes().id("n0").unwrap();
    let (start, mark) = (trial.savepoint(), trial.nodes().head());
    trial.set_aside(&placed.uid);
    assert!(trial.keeps_others_away(&placed.uid) && trial.accounting().pod(&placed.uid).is_none());
    assert_eq!((forbidden(&trial), trial.nodes().since(mark)), (Vec::new(), Some(&[n0][..])));
    trial.place(&db("asks", false), n0, "q").unwrap();
    trial.rollback_to(start);
    assert!(forbidden(&trial).is_empty(), "it is aside still");
    trial.put_back(&placed.uid);
    assert_eq!(forbidden(&trial), ["a"]);
    trial.set_aside(&placed.uid);
    drop(trial);
    assert!(accounting == before && anti_affinity.contains(&placed.uid));
}

#[test]
fn a_commit_keeps_what_was_placed_and_returns_what_was_set_aside() {
    let Cluster { mut accounting, mut nodes, mut anti_affinity, placed } = cluster();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut anti_affinity);
    let n0 = trial.nodes().id("n0").unwrap();
    trial.set_aside(&placed.uid);
    let big = PodFacts { request: amounts(&[("cpu", 4)]), ..db("big", true) };
    trial.place(&big, n0, "q").unwrap();
    let kept: Vec<_> = trial.commit().into_iter().map(|placement| (placement.uid, placement.node)).collect();
    assert_eq!(kept, [(big.uid.clone(), Arc::from("n0"))]);
    assert!(anti_affinity.contains(&big.uid) && anti_affinity.contains(&placed.uid));
    assert_eq!(accounting.ledger().node("n0").unwrap().used.get("cpu"), crate::resources::Amount::from_units(5));
    assert!(accounting.audit().is_clean());
}
