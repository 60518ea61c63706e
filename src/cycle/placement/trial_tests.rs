//! A trial changes several kinds of state and leaves none of them behind.

use super::*;
use crate::accounting::{QueueLimits, QueueShape};
use crate::cycle::placement::topology::class_terms::ClassTerms;
use crate::cycle::placement::topology::domains::Domains;
use crate::cycle::placement::topology::verdict::{Facts, Verdict};
use crate::cycle::testing;
use crate::cycle::testing::{amounts, node, pod, running};

/// Two nodes of 4 cpus in two zones, a queue, and a pod on `n0` that keeps pods with the label `app: db` out of its zone.
struct Cluster {
    accounting: Accounting,
    nodes: Nodes,
    on_nodes: PlacedPods,
    placed: PodFacts,
}

fn db(name: &str, keeps_away: bool) -> PodFacts {
    let mut facts = pod("ns", name, "g", &[("cpu", 1)]);
    facts.labels.insert("app".to_owned(), "db".to_owned());
    if keeps_away {
        facts.terms = testing::keeps_away("ns", ("app", "db"), "zone");
    }
    facts
}

fn cluster() -> Cluster {
    let (mut accounting, mut nodes, mut on_nodes) = (Accounting::new(), Nodes::default(), PlacedPods::default());
    for (name, zone) in [("n0", "a"), ("n1", "b")] {
        let mut facts = node(name, &[("cpu", 4)]);
        facts.labels.insert("zone".into(), zone.into());
        accounting.node_upsert(name, facts.allocatable.clone());
        nodes.upsert(facts);
        on_nodes.set_node(&Arc::from(name), nodes.id(name));
    }
    accounting.queue_upsert(&QueueShape { name: "q".into(), parent: None }, QueueLimits { weight: 1, ..QueueLimits::default() });
    let placed = running(db("placed", true), "n0");
    accounting.charge_observed(&placed.uid, Some("n0"), Some("q"), &placed.request);
    [db("asks", false), db("first", true), db("big", true)].iter().for_each(|pod| _ = on_nodes.learn(pod));
    on_nodes.learn(&placed);
    on_nodes.put(&placed.uid, Place::on("n0"));
    Cluster { accounting, nodes, on_nodes, placed }
}

/// The zones that a pod with the label must not go to.
fn forbidden(trial: &mut Trial<'_>) -> Vec<String> {
    let set = trial.placed().set_of(&db("asks", false).uid).unwrap();
    let terms = ClassTerms { kept_away_by: trial.placed().terms_against(set).collect(), ..ClassTerms::default() };
    let (none, mut domains) = (BTreeSet::new(), Domains::default());
    let snapshot = trial.snapshot(Strategy::Spread, &none);
    let verdict = Verdict::of(&terms, &Vec::new(), Facts { nodes: snapshot.nodes, placed: snapshot.placed, domains: &mut domains });
    let refusing = snapshot.nodes.ids().filter(|id| verdict.refuses(*id)).filter_map(|id| snapshot.nodes.get(id));
    refusing.map(|facts| facts.labels["zone"].clone()).collect()
}

#[test]
fn a_later_member_sees_that_an_earlier_one_keeps_it_away_and_a_rollback_undoes_that() {
    let Cluster { mut accounting, mut nodes, mut on_nodes, .. } = cluster();
    let before = accounting.clone();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut on_nodes);
    let n1 = trial.nodes().id("n1").unwrap();
    assert_eq!(forbidden(&mut trial), ["a"]);
    let (start, mark) = (trial.savepoint(), trial.nodes().head());
    trial.place(&db("first", true), n1, "q").unwrap();
    assert_eq!(forbidden(&mut trial), ["a", "b"]);
    trial.rollback_to(start);
    assert_eq!(forbidden(&mut trial), ["a"]);
    assert_eq!(trial.nodes().since(mark), Some(&[n1, n1][..]), "the node changed, and changed back");
    trial.place(&db("first", true), n1, "q").unwrap();
    drop(trial);
    assert!(accounting == before && accounting.audit().is_clean());
    assert!(on_nodes.place_of(&db("first", true).uid).is_none());
}

#[test]
fn what_is_set_aside_outlives_a_rollback_and_is_back_at_the_end() {
    let Cluster { mut accounting, mut nodes, mut on_nodes, placed } = cluster();
    let before = accounting.clone();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut on_nodes);
    let n0 = trial.nodes().id("n0").unwrap();
    let (start, mark) = (trial.savepoint(), trial.nodes().head());
    trial.set_aside(&placed.uid);
    assert!(trial.keeps_others_away(&placed.uid) && trial.accounting().pod(&placed.uid).is_none());
    assert_eq!((forbidden(&mut trial), trial.nodes().since(mark)), (Vec::new(), Some(&[n0][..])));
    trial.place(&db("asks", false), n0, "q").unwrap();
    trial.rollback_to(start);
    assert!(forbidden(&mut trial).is_empty(), "it is aside still");
    trial.put_back(&placed.uid);
    assert_eq!(forbidden(&mut trial), ["a"]);
    trial.set_aside(&placed.uid);
    drop(trial);
    assert!(accounting == before && on_nodes.place_of(&placed.uid).is_some());
}

#[test]
fn a_commit_keeps_what_was_placed_and_returns_what_was_set_aside() {
    let Cluster { mut accounting, mut nodes, mut on_nodes, placed } = cluster();
    let mut trial = Trial::new(&mut accounting, &mut nodes, &mut on_nodes);
    let n0 = trial.nodes().id("n0").unwrap();
    trial.set_aside(&placed.uid);
    let big = PodFacts { request: amounts(&[("cpu", 4)]), ..db("big", true) };
    trial.place(&big, n0, "q").unwrap();
    let kept: Vec<_> = trial.commit().into_iter().map(|placement| (placement.uid, placement.node)).collect();
    assert_eq!(kept, [(big.uid.clone(), Arc::from("n0"))]);
    assert!(on_nodes.place_of(&big.uid).is_some() && on_nodes.place_of(&placed.uid).is_some());
    assert_eq!(accounting.ledger().node("n0").unwrap().used.get("cpu"), crate::resources::Amount::from_units(5));
    assert!(accounting.audit().is_clean());
}
