//! NodeTable and view must say the same, whatever happened to the nodes and whoever asks.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::accounting::Ledger;
use crate::api::node::Taint;
use crate::api::pod::Toleration;
use crate::api::{NodeFacts, PodFacts, Uid};
use crate::cycle::placement::anti_affinity::AntiAffinityIndex;
use crate::cycle::placement::class::Classes;
use crate::cycle::placement::nodes::Nodes;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::view::{Look, Views};
use crate::cycle::testing::{node, pod};
use crate::resources::{Amount, Resources};
use crate::runtime::flags::Placement;

/// What happens to a node, or who asks.
#[derive(Clone, Debug)]
enum Step {
    /// It offers so much cpu, so many devices, is of a zone, and is tainted or cordoned.
    Node(u8, i64, i64, bool, u8),
    Gone(u8),
    /// So much more is used on it.
    Charged(u8, u8, i64, i64),
    Released(u8),
    /// Cpu, devices, further resources, a zone wanted, taints borne, and a node that is tried last.
    Asks(i64, i64, u8, bool, bool, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let any_node = 0..7_u8;
    prop_oneof![
        (any_node.clone(), 0..40_i64, 0..3_i64, any::<bool>(), 0..6_u8)
            .prop_map(|(n, cpu, gpus, zone, odd)| Step::Node(n, cpu, gpus, zone, odd)),
        any_node.clone().prop_map(Step::Gone),
        (0..20_u8, any_node, 0..13_i64, 0..2_i64).prop_map(|(p, n, cpu, gpus)| Step::Charged(p, n, cpu, gpus)),
        (0..20_u8).prop_map(Step::Released),
        (0..15_i64, 0..2_i64, 0..12_u8, any::<bool>(), any::<bool>(), prop::option::of(0..7_u8))
            .prop_map(|(cpu, gpus, further, zone, bears, last)| Step::Asks(cpu, gpus, further, zone, bears, last)),
        (0..15_i64, 0..2_i64, any::<bool>()).prop_map(|(cpu, gpus, zone)| Step::Asks(cpu, gpus, 0, zone, false, None)),
    ]
}

/// Thirds of a unit, so that divisions leave remainders.
fn thirds(number: i64) -> Amount {
    Amount::from_nanos(i128::from(number) * 1_000_000_007 / 3)
}

fn facts(n: u8, cpu: i64, gpus: i64, zone: bool, odd: u8) -> NodeFacts {
    let mut facts = node(&format!("n{n}"), &[]);
    // 0 is not stored, and what is beyond all measure must be right as well.
    let cpu = if odd == 5 { Amount::MAX } else { thirds(cpu) };
    facts.allocatable = facts
        .allocatable
        .with("cpu", cpu)
        .with("x.y/gpu", Amount::from_units(gpus))
        .with("x.y/nic", Amount::from_units(i64::from(odd == 3)));
    facts.labels.insert("zone".into(), if zone { "a" } else { "b" }.into());
    facts.unschedulable = odd == 1;
    facts.taints.extend((odd == 2).then(|| Taint { key: "k".into(), value: None, effect: "NoSchedule".into() }));
    facts
}

fn asks(cpu: i64, gpus: i64, further: u8, zone: bool, bears: bool) -> PodFacts {
    let mut asks = pod("ns", "p", "g", &[]);
    asks.request = asks.request.with("cpu", thirds(cpu)).with("x.y/gpu", Amount::from_units(gpus));
    for number in 0..further {
        asks.request.set(format!("x.y/further-{number}"), Amount::from_units(1));
    }
    if zone {
        asks.constraints.node_selector.insert("zone".into(), "a".into());
    }
    if bears {
        asks.constraints.tolerations.push(Toleration { operator: Some("Exists".into()), ..Toleration::default() });
    }
    asks
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_board_says_what_a_view_says(steps in prop::collection::vec(step(), 1..80), pack in any::<bool>()) {
        let (mut nodes, mut ledger, anti_affinity, mut classes) = (Nodes::default(), Ledger::new(), AntiAffinityIndex::default(), Classes::default());
        let (mut viewing, mut looking) = (Views::default(), Views::default());
        let mut excused = false;
        let placement = if pack { Placement::Pack } else { Placement::Spread };
        for step in steps {
            match step {
                Step::Node(n, cpu, gpus, zone, odd) => {
                    let facts = facts(n, cpu, gpus, zone, odd);
                    ledger.node_upsert(&facts.name, facts.allocatable.clone());
                    nodes.upsert(facts);
                }
                Step::Gone(n) => {
                    ledger.node_delete(&format!("n{n}"));
                    nodes.remove(&format!("n{n}"));
                }
                Step::Charged(p, n, cpu, gpus) => {
                    let uid = Uid::from(p.to_string());
                    if let Some(old) = ledger.charge_of(&uid).and_then(|(node, _)| node.map(str::to_owned)) {
                        nodes.touch_name(&old);
                    }
                    let used = Resources::new().with("cpu", thirds(cpu)).with("x.y/gpu", Amount::from_units(gpus)).with("pods", Amount::from_units(1));
                    ledger.charge(&uid, Some(&format!("n{n}")), used);
                    nodes.touch_name(&format!("n{n}"));
                }
                Step::Released(p) => {
                    let uid = Uid::from(p.to_string());
                    if let Some(old) = ledger.charge_of(&uid).and_then(|(node, _)| node.map(str::to_owned)) {
                        ledger.release(&uid);
                        nodes.touch_name(&old);
                    }
                }
                Step::Asks(cpu, gpus, further, zone, bears, last) => {
                    let id = classes.join(&asks(cpu, gpus, further, zone, bears));
                    let class = classes.get(id).unwrap();
                    let none = BTreeSet::new();
                    let snapshot = Snapshot { nodes: &nodes, ledger: &ledger, anti_affinity: &anti_affinity, strategy: placement, barred: &none };
                    let last: BTreeSet<_> = last.and_then(|n| nodes.id(&format!("n{n}"))).into_iter().collect();
                    let mut view = viewing.look(id, class, usize::MAX, None, snapshot);
                    prop_assert!(matches!(view, Look::View(_)));
                    let mut look = looking.look(id, class, 1, None, snapshot);
                    // A view that was made once is asked as long as it is there.
                    excused |= further > 4 || nodes.iter().any(|node| node.allocatable.get("cpu") == Amount::MAX);
                    prop_assert!(matches!(look, Look::NodeTable(_)) || excused, "the board answers where it can");
                    prop_assert_eq!(look.best(&last), view.best(&last));
                    prop_assert_eq!(look.tally(), view.tally());
                }
            }
        }
    }
}

#[test]
fn however_many_classes_there_are_the_views_are_bounded() {
    let (mut nodes, mut ledger, anti_affinity, mut classes) =
        (Nodes::default(), Ledger::new(), AntiAffinityIndex::default(), Classes::default());
    for number in 0..20 {
        let facts = node(&format!("n{number:04}"), &[("cpu", 4)]);
        ledger.node_upsert(&facts.name, facts.allocatable.clone());
        nodes.upsert(facts);
    }
    let none = BTreeSet::new();
    let snapshot = Snapshot { nodes: &nodes, ledger: &ledger, anti_affinity: &anti_affinity, strategy: Placement::Spread, barred: &none };
    let mut views = Views::keeping(119);
    let mut made = 0;
    for cpu in 1..9 {
        let id = classes.join(&pod("ns", "p", "g", &[("cpu", cpu)]));
        made += usize::from(matches!(views.look(id, classes.get(id).unwrap(), 1_000, None, snapshot), Look::View(_)));
    }
    assert_eq!(made, 5, "of twenty verdicts each");
    // More resources than the board has columns: nobody but a view can answer, and it takes the place of another.
    let id = classes.join(&asks(1, 0, 9, false, false));
    assert!(matches!(views.look(id, classes.get(id).unwrap(), 1, None, snapshot), Look::View(_)));
    assert_eq!(views.len(), 5);
}
