//! Draws small histories.

use std::fmt;

use proptest::prelude::*;

use super::steps::{Step, step};

/// An amount of each dimension, in whole units.
pub(super) type Triple = [i64; 3];
pub(super) type Bounds = [Option<i64>; 3];

pub(super) const DIMENSIONS: [&str; 3] = ["cpu", "memory", "pods"];
/// The keys that a minResources may have.
pub(super) const KEYS: [&str; 8] =
    ["cpu", "requests.cpu", "limits.cpu", "requests.memory", "memory", "pods", "count/pods", "limits.memory"];
/// The number of a parent that does not exist.
const MISSING: usize = 99;
/// The most queues on a way up, `root` included.
const LEVELS: usize = 4;

/// The fields of a queue's object.
#[derive(Clone, Debug)]
pub(super) struct QueueFields {
    /// The parent: the number of an earlier queue from 1, or 0 for `root`.
    pub(super) parent: usize,
    pub(super) capability: Bounds,
    pub(super) deserved: Triple,
    pub(super) guarantee: Bounds,
    pub(super) priority: i32,
    pub(super) fifo: bool,
    pub(super) reclaimable: bool,
    /// The annotation that closes the queue, as written.
    pub(super) desired: Option<&'static str>,
}

/// The fields of a PodGroup's object, and the request of each of its members.
#[derive(Clone, Debug)]
pub(super) struct GroupFields {
    pub(super) queue: usize,
    pub(super) min_member: u32,
    /// The minResources: the number of each key, and its amount.
    pub(super) min_resources: Option<Vec<(usize, i64)>>,
    pub(super) class: Option<i32>,
    pub(super) created: u8,
    /// Whether podgroup-controller made it.
    pub(super) managed: bool,
    /// How many members are to succeed in all.
    pub(super) completions: Option<u32>,
    pub(super) asks: Triple,
}

/// A cluster and its history.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) nodes: Vec<Triple>,
    pub(super) queues: Vec<QueueFields>,
    pub(super) groups: Vec<GroupFields>,
    /// The steps, each with whether cycles run before the next step.
    pub(super) steps: Vec<(Step, bool)>,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().enumerate().try_for_each(|(at, offers)| writeln!(f, "n{at}: {offers:?}"))?;
        self.queues.iter().enumerate().try_for_each(|(at, fields)| writeln!(f, "q{}: {fields:?}", at + 1))?;
        self.groups.iter().enumerate().try_for_each(|(at, fields)| writeln!(f, "g{at}: {fields:?}"))?;
        self.steps.iter().enumerate().try_for_each(|(at, step)| writeln!(f, "{at}: {step:?}"))
    }
}

pub(super) fn offers() -> impl Strategy<Value = Triple> {
    [1..8_i64, 0..6_i64, 1..7_i64]
}

fn bounds(most: Triple, set: f64) -> impl Strategy<Value = Bounds> {
    most.map(|most| prop::option::weighted(set, 0..=most))
}

pub(super) fn queue() -> impl Strategy<Value = QueueFields> {
    let amounts = (bounds([9, 8, 9], 0.2), [0..7_i64, 0..7_i64, 0..7_i64], prop_oneof![3 => Just([None; 3]), 1 => bounds([3, 2, 2], 0.5)]);
    let parent = prop_oneof![30 => 0..6_usize, 1 => Just(MISSING)];
    let desired =
        prop_oneof![12 => Just(None::<&'static str>), 1 => Just(Some("Open")), 1 => Just(Some("Closed")), 1 => Just(Some("closed"))];
    (parent, amounts, 0..2_i32, prop::bool::weighted(0.4), prop::bool::weighted(0.9), desired).prop_map(
        |(parent, (capability, deserved, guarantee), priority, fifo, reclaimable, desired)| QueueFields {
            parent,
            capability,
            deserved,
            guarantee,
            priority,
            fifo,
            reclaimable,
            desired,
        },
    )
}

pub(super) fn min_resources() -> impl Strategy<Value = Option<Vec<(usize, i64)>>> {
    prop::option::weighted(0.5, prop::collection::vec((0..KEYS.len(), 0..7_i64), 1..4))
}

/// When an object was created, in seconds: at nearly the same time, or much later.
pub(super) fn created() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0..3_u8, 1 => 32..34_u8, 1 => 64..66_u8]
}

fn group() -> impl Strategy<Value = GroupFields> {
    let asks = (1..4_i64, prop_oneof![2 => Just(0_i64), 1 => 0..3_i64], 0..2_i64).prop_map(|(cpu, memory, pods)| [cpu, memory, pods]);
    let of_controller = (prop::bool::weighted(0.3), prop::option::weighted(0.3, 0..8_u32));
    (0..40_usize, 0..4_u32, min_resources(), prop::option::weighted(0.4, 0..3_i32), created(), of_controller, asks).prop_map(
        |(queue, min_member, min_resources, class, created, (managed, completions), asks)| GroupFields {
            queue,
            min_member,
            min_resources,
            class,
            created,
            managed,
            completions,
            asks,
        },
    )
}

/// Draws a history. Some begin with a queue whose share others borrow.
pub(super) fn scene() -> impl Strategy<Value = Scene> {
    prop_oneof![3 => any_scene(), 1 => (any_scene(), 3..6_i64).prop_map(|(scene, owed)| borrowed(scene, owed))]
}

/// Begins the history with a queue of 6 cpus that `q2` fills. `q3` is owed some of them, and its PodGroup `g1` asks for so much and has no members.
fn borrowed(scene: Scene, owed: i64) -> Scene {
    let inner = |parent, cpus, deserved| QueueFields {
        parent,
        capability: [cpus, None, None],
        deserved: [deserved, 0, 0],
        guarantee: [None; 3],
        priority: 0,
        fifo: false,
        reclaimable: true,
        desired: None,
    };
    let group = |queue, min_member| GroupFields {
        queue,
        min_member,
        min_resources: None,
        class: None,
        created: 0,
        managed: false,
        completions: None,
        asks: [1, 0, 0],
    };
    let fills = (0..2).map(|_| (Step::Pods { group: 0, count: 3, gated: false, created: 0, priority: 0 }, true));
    let asks = Step::Group(1, 3, Some(vec![(0, owed)]));
    Scene {
        nodes: [[8, 0, 9]].into_iter().chain(scene.nodes).collect(),
        queues: [inner(0, Some(6), 6), inner(1, None, 6 - owed), inner(1, None, owed)]
            .into_iter()
            .chain(scene.queues.into_iter().take(1))
            .collect(),
        groups: [group(0, 1), group(1, 3)].into_iter().chain(scene.groups).collect(),
        steps: fills.chain([(Step::AllSeen, true), (asks, true)]).chain(scene.steps).collect(),
    }
}

/// Draws a history; in a few histories only time passes.
fn any_scene() -> impl Strategy<Value = Scene> {
    let steps = prop::collection::vec((step(), prop::bool::weighted(0.8)), 4..14);
    let waits = prop::collection::vec((Just(Step::Later(1_000)), Just(true)), 14..16);
    let steps = prop_oneof![24 => steps, 1 => waits];
    let facts = (prop::collection::vec(offers(), 1..4), prop::collection::vec(queue(), 2..8), prop::collection::vec(group(), 2..6));
    (facts, prop::collection::vec((0..6_usize, 1..4_usize), 2..6), steps).prop_map(|((nodes, queues, groups), pods, steps)| {
        let come = |(group, count)| (Step::Pods { group, count, gated: false, created: 1, priority: 0 }, false);
        let first = pods.into_iter().map(come);
        Scene { nodes, queues, groups, steps: first.chain(steps).collect() }
    })
}

/// Returns the name of the queue's parent; `None` for `root`.
pub(super) fn parent(queues: &[QueueFields], at: usize) -> Option<String> {
    let parent = queues[at].parent;
    if parent == MISSING {
        return Some("missing".to_owned());
    }
    let parent = parent % (at + 1);
    (parent > 0 && depth(queues, parent - 1) + 2 < LEVELS).then(|| name(parent - 1))
}

/// Counts the queues above this one, without `root`.
fn depth(queues: &[QueueFields], at: usize) -> usize {
    let above = (0..at).find(|above| parent(queues, at).is_some_and(|parent| parent == name(*above)));
    above.map_or(0, |above| depth(queues, above) + 1)
}

pub(super) fn name(at: usize) -> String {
    format!("q{}", at + 1)
}

/// Returns the queue that a PodGroup names by this number: mostly a leaf.
pub(super) fn queue_of(queues: &[QueueFields], number: usize) -> String {
    let all: Vec<String> = (0..queues.len()).map(name).collect();
    let is_leaf = |queue: &&String| (0..queues.len()).all(|at| parent(queues, at).as_ref() != Some(*queue));
    let leaves: Vec<String> = all.iter().filter(is_leaf).cloned().collect();
    match number {
        38 => "nowhere".to_owned(),
        39 => all[0].clone(),
        _ => leaves[number % leaves.len()].clone(),
    }
}
