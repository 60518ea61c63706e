//! Draws small clusters; `forms` writes them for the scheduler and for the reference.

use std::collections::BTreeSet;
use std::fmt::Write;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};
use crate::resources::Resources;

mod forms;

/// An amount of cpu and memory, in whole units.
pub(super) type Pair = [i64; 2];
type Bounds = [Option<i64>; 2];

const DIMENSIONS: [&str; 2] = ["cpu", "memory"];
/// The queues with their parents. Pods are in leaves only.
const SHAPE: [(&str, Option<&str>); 6] = [("a", None), ("b", None), ("p", None), ("pa", Some("p")), ("pb", Some("p")), ("pc", Some("p"))];
const LEAVES: [&str; 5] = ["a", "b", "pa", "pb", "pc"];

/// The fields of a queue's object.
#[derive(Clone, Debug)]
pub(super) struct QueueFields {
    pub(super) capability: Bounds,
    pub(super) deserved: Bounds,
    pub(super) guarantee: Bounds,
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) reclaimable: bool,
    pub(super) closed: bool,
}

/// A running pod.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) node: usize,
    /// One of two PodGroups of its queue; `None` for a pod without a PodGroup.
    pub(super) gang: Option<usize>,
    pub(super) priority: i32,
    pub(super) created: u8,
    pub(super) not_preemptable: bool,
    pub(super) terminating: bool,
    /// Its disruption budgets (R6).
    pub(super) guards: Guards,
}

/// The disruption budgets of a pod: none, one of two, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guards {
    None,
    One(usize),
    Both,
}

/// The preempting PodGroup. All its members are alike.
#[derive(Clone, Debug)]
pub(super) struct PreemptingGroup {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) members: usize,
    pub(super) priority: i32,
    pub(super) preemptable: bool,
    /// Whether its first waiting member is not preemptable.
    pub(super) member_keeps: bool,
    pub(super) reserved: bool,
    /// Its minResources, beyond what its members request, by so much.
    pub(super) states: Option<Pair>,
    /// Whether one member runs already. Its priority is 0.
    pub(super) runs: bool,
}

/// The facts of a small cluster.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) queues: Vec<QueueFields>,
    pub(super) pods: Vec<Running>,
    /// The amount that each node has beyond the use of its pods.
    pub(super) slack: Vec<Pair>,
    pub(super) mins: [u32; 2],
    /// The number of evictions that each budget allows.
    pub(super) budgets: [u32; 2],
    pub(super) preemptor: PreemptingGroup,
    /// The queue and the request of another waiting PodGroup.
    pub(super) waits: Option<(usize, Pair)>,
    /// Which of the nodes with room a pod gets.
    pub(super) strategy: NodeStrategy,
}

fn queue_fields() -> impl Strategy<Value = QueueFields> {
    let bound = |most: i64, set: f64| prop::option::weighted(set, 0..=most);
    let bounds = move |most: Pair, set: f64| most.map(|most| bound(most, set));
    let amounts = (bounds([12, 6], 0.08), bounds([7, 2], 0.6), bounds([3, 1], 0.2));
    (amounts, 0..3_u32, 0..2_i32, prop::bool::weighted(0.9), prop::bool::weighted(0.03)).prop_map(
        |((capability, deserved, guarantee), weight, priority, reclaimable, closed)| QueueFields {
            capability,
            deserved,
            guarantee,
            weight,
            priority,
            reclaimable,
            closed,
        },
    )
}

fn one() -> impl Strategy<Value = Running> {
    let guards = prop_oneof![14 => Just(Guards::None), 5 => (0..2_usize).prop_map(Guards::One), 1 => Just(Guards::Both)];
    let flags = (prop::bool::weighted(0.08), prop::bool::weighted(0.08), guards);
    let memory = prop_oneof![1 => Just(0_i64), 1 => 0..3_i64];
    let asks = (1..5_i64, memory).prop_map(|(cpu, memory)| [cpu, memory]);
    (0..LEAVES.len(), asks, 0..3_usize, prop::option::weighted(0.5, 0..2_usize), 0..3_i32, any::<u8>(), flags).prop_map(
        |(queue, asks, node, gang, priority, created, (not_preemptable, terminating, guards))| Running {
            queue,
            asks,
            node,
            gang,
            priority,
            created,
            not_preemptable,
            terminating,
            guards,
        },
    )
}

fn preempting_group() -> impl Strategy<Value = PreemptingGroup> {
    let flags = (prop::bool::weighted(0.9), prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (
        (0..LEAVES.len(), prop::option::weighted(0.2, [0..3_i64, 0..2_i64])),
        prop_oneof![3 => 1..3_i64, 1 => 3..5_i64],
        prop::bool::weighted(0.3),
        prop_oneof![3 => 1..3_usize, 1 => Just(3)],
        1..4_i32,
        flags,
    )
        .prop_map(|((queue, states), cpu, memory, members, priority, (preemptable, member_keeps, reserved, runs))| PreemptingGroup {
            queue,
            asks: [cpu, i64::from(memory)],
            members,
            priority,
            preemptable,
            member_keeps,
            reserved,
            states,
            runs,
        })
}

/// Draws any cluster, or one in which only shares decide and the preemptor has a share, or such a cluster with a budget.
pub(super) fn facts() -> impl Strategy<Value = Facts> {
    (any_facts(), prop_oneof![10 => Just(0), 7 => Just(1), 1 => Just(2)]).prop_map(|(facts, which)| match which {
        0 => facts,
        1 => lending(facts),
        _ => guarded(lending(facts)),
    })
}

/// Gives all pods the same budget, which allows one eviction.
fn guarded(mut facts: Facts) -> Facts {
    facts.pods.iter_mut().for_each(|pod| pod.guards = Guards::One(0));
    facts.budgets = [1, 1];
    facts
}

/// Makes a cluster in which all cpu is borrowed and some memory is idle. A queue that borrows only memory cannot give what is lacking, and
/// some queues borrow so little that not all of their pods can be evicted.
fn lending(mut facts: Facts) -> Facts {
    let preemptor = facts.preemptor.queue;
    for ((name, _), fields) in SHAPE.iter().zip(&mut facts.queues) {
        let own = *name == LEAVES[preemptor] || *name == "p";
        let [cpu, memory] = fields.deserved.map(|deserved| deserved.unwrap_or(1));
        let deserved = if own { [Some(6), Some(4)] } else { [Some(cpu), Some(memory)] };
        *fields = QueueFields {
            capability: [None; 2],
            guarantee: [None; 2],
            deserved,
            priority: i32::from(own),
            reclaimable: true,
            closed: false,
            ..fields.clone()
        };
    }
    for pod in &mut facts.pods {
        *pod = Running { gang: None, not_preemptable: false, terminating: false, guards: Guards::None, ..pod.clone() };
    }
    facts.slack.iter_mut().for_each(|slack| *slack = [0, 2]);
    facts.waits = None;
    let [cpu, _] = facts.preemptor.asks;
    facts.preemptor = PreemptingGroup {
        asks: [cpu, 1],
        priority: 3,
        preemptable: true,
        member_keeps: false,
        reserved: false,
        runs: false,
        ..facts.preemptor.clone()
    };
    facts
}

/// Draws a small cluster. Most have up to 7 running pods: the reference tries every choice of them, so each further pod doubles its work.
fn any_facts() -> impl Strategy<Value = Facts> {
    let slack = prop::collection::vec([-1..3_i64, -1..4_i64], 1..4);
    let queues = prop::collection::vec(queue_fields(), SHAPE.len());
    let waits = prop::option::weighted(0.2, (0..LEAVES.len(), [0..4_i64, 0..2_i64]));
    let lets = [0..3_u32, 1..3_u32];
    let strategy = prop_oneof![Just(NodeStrategy::Spread), Just(NodeStrategy::Pack)];
    let pods = prop_oneof![12 => prop::collection::vec(one(), 1..8), 1 => prop::collection::vec(one(), 8..11)];
    (queues, pods, slack, [0..4_u32, 1..3_u32], lets, preempting_group(), waits, strategy).prop_map(
        |(queues, pods, slack, mins, budgets, preemptor, waits, strategy)| Facts {
            queues,
            pods,
            slack,
            mins,
            budgets,
            preemptor,
            waits,
            strategy,
        },
    )
}
