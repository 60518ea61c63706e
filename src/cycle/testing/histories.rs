//! What can happen to the state of the scheduler in a random history?
//!
//! A new kind of step is added here, with how often it is drawn, and in `world`, with what it does. Numbers choose among what is there.

mod nominations;
mod objects;
mod world;

use proptest::prelude::*;

pub(in crate::cycle) use world::World;

/// What a pod is choosy about. All but the first are about the zone and pods labelled `app: x`, as it is itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::cycle) enum Choice {
    /// It goes to this zone.
    Zone(u8),
    /// It keeps such pods away.
    Apart,
    /// It keeps such pods of namespaces labelled `team: a` away.
    ApartFromTeam,
    /// It must be beside such a pod, and is one itself or not.
    Beside(bool),
    /// Such pods are spread over the zones.
    Spread,
    /// It has a host port.
    Port,
}

#[derive(Clone, Debug)]
pub(in crate::cycle) enum Step {
    Pods(u8, u8, i64, i32),
    /// A pod that not every node takes, or beside which not every pod may be.
    Choosy(u8, Choice, i64),
    Runs(u8, u8, i64),
    /// A pod of another scheduler uses so much of a node; 0 where it is gone. Some have labels, anti-affinity or a host port.
    Foreign(u8, u8, i64),
    /// A pod of another scheduler has a nominated node, for so much and with this priority; 0 where it is gone.
    NominatedByOther(u8, u8, i64, i32),
    /// The namespace of the pods has the label `team: a` or not, or is gone.
    Namespace(Option<bool>),
    Gone(u8),
    Leaves(u8),
    Ends(u8),
    /// A member of a gang is gone, or fails, and the gang lacks its minimum then.
    Lost(u8, bool),
    Group {
        at: u8,
        min: u32,
        queue: u8,
        class: u8,
        preemptable: bool,
        min_resources: Option<i64>,
    },
    GroupGone(u8),
    /// The pods of a PodGroup belong together by their label `part`: so many, of so many parts. With 0 they do not any more.
    Parted(u8, u32, u32),
    Keeps(u8, bool),
    Labelled(u8, bool),
    Moves(u8, u8),
    Resized(u8, i64),
    Ready(u8, bool),
    Queue {
        at: u8,
        capability: Option<i64>,
        deserved: Option<i64>,
        guarantee: Option<i64>,
        weight: u32,
        flags: u8,
    },
    QueueGone(u8),
    Class(u8, i32),
    Node(u8, i64, bool),
    NodeGone(u8),
    Budget(u8, u32, bool),
    Taken(u8),
    Refused(u8),
    VictimGoes(u8),
    VictimStays(u8),
    /// A pod that a nomination waits for is leaving, or has failed.
    VictimLeaves(u8),
    VictimFails(u8),
    /// The members that a PodGroup needs are nominated as by a search, on the nodes from this one on. The victims are all other pods there,
    /// and they have so many seconds.
    Nominated(u8, u8, u64),
    /// The evictions for a nomination are refused: for this one, or for the one before.
    EvictionRefused(u8, bool),
    /// Another scheduler binds a pod of ours that is nominated; with an even number, perhaps one that waits.
    Elsewhere(u8, u8),
    /// No cycle runs between these.
    AtOnce(Vec<Step>),
    Later(u64),
    /// PodGroup `g4` of `q0` fills a queue of 6 cpus. `q1` is owed so many of them; `g5` asks for these there, and has no members.
    Borrowed(u8),
    /// Another leader takes over. Some of the bindings and evictions under way have taken effect. The waiting pods name their nominated
    /// nodes, any, or none.
    Handover(u8),
}

impl Step {
    /// The steps between which no cycle runs.
    pub(in crate::cycle) const fn parts(&self) -> &[Self] {
        if let Self::AtOnce(steps) = self { steps.as_slice() } else { std::slice::from_ref(self) }
    }
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        (0..2_u8).prop_map(Choice::Zone),
        Just(Choice::Apart),
        Just(Choice::ApartFromTeam),
        any::<bool>().prop_map(Choice::Beside),
        Just(Choice::Spread),
        Just(Choice::Port),
    ]
}

pub(in crate::cycle) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![8 => one_step(), 1 => prop::collection::vec(one_step(), 2..5).prop_map(Step::AtOnce)]
}

fn one_step() -> impl Strategy<Value = Step> {
    let at = 0..8_u8;
    let some = || prop::option::of(0..6_i64);
    prop_oneof![
        8 => (at.clone(), 1..4_u8, 1..4_i64, 0..3_i32).prop_map(|(group, count, cpu, priority)| Step::Pods(group, count, cpu, priority)),
        4 => (at.clone(), choice(), 1..3_i64).prop_map(|(group, choice, cpu)| Step::Choosy(group, choice, cpu)),
        2 => (at.clone(), at.clone(), 0..4_i64, 0..4_i32).prop_map(|(pod, node, cpu, priority)| Step::NominatedByOther(pod, node, cpu, priority)),
        1 => prop::option::of(any::<bool>()).prop_map(Step::Namespace),
        3 => (at.clone(), at.clone(), 1..3_i64).prop_map(|(group, node, cpu)| Step::Runs(group, node, cpu)),
        3 => (at.clone(), at.clone(), 0..4_i64).prop_map(|(pod, node, cpu)| Step::Foreign(pod, node, cpu)),
        3 => at.clone().prop_map(Step::Gone),
        2 => at.clone().prop_map(Step::Leaves),
        2 => at.clone().prop_map(Step::Ends),
        6 => (at.clone(), any::<bool>()).prop_map(|(pod, fails)| Step::Lost(pod, fails)),
        6 => (at.clone(), 0..4_u32, at.clone(), 0..4_u8, prop::bool::weighted(0.8), prop::option::weighted(0.3, 0..8_i64))
            .prop_map(|(at, min, queue, class, preemptable, min_resources)| Step::Group { at, min, queue, class, preemptable, min_resources }),
        1 => at.clone().prop_map(Step::GroupGone),
        3 => (at.clone(), 0..4_u32, 0..3_u32).prop_map(|(at, size, needed)| Step::Parted(at, size, needed)),
        2 => (at.clone(), any::<bool>()).prop_map(|(pod, preemptable)| Step::Keeps(pod, preemptable)),
        2 => (at.clone(), any::<bool>()).prop_map(|(pod, guarded)| Step::Labelled(pod, guarded)),
        1 => (at.clone(), at.clone()).prop_map(|(pod, group)| Step::Moves(pod, group)),
        1 => (at.clone(), 1..4_i64).prop_map(|(pod, cpu)| Step::Resized(pod, cpu)),
        1 => (at.clone(), any::<bool>()).prop_map(|(pod, ready)| Step::Ready(pod, ready)),
        4 => (at.clone(), some(), some(), prop::option::weighted(0.2, 0..4_i64), 1..4_u32, any::<u8>()).prop_map(
            |(at, capability, deserved, guarantee, weight, flags)| Step::Queue { at, capability, deserved, guarantee, weight, flags }
        ),
        1 => at.clone().prop_map(Step::QueueGone),
        1 => (0..3_u8, 0..4_i32).prop_map(|(at, value)| Step::Class(at, value)),
        2 => (at.clone(), 0..6_i64, prop::bool::weighted(0.2)).prop_map(|(at, cpu, cordoned)| Step::Node(at, cpu, cordoned)),
        1 => at.clone().prop_map(Step::NodeGone),
        2 => (0..2_u8, 0..3_u32, any::<bool>()).prop_map(|(at, allowed, free)| Step::Budget(at, allowed, free)),
        6 => at.clone().prop_map(Step::Taken),
        2 => at.clone().prop_map(Step::Refused),
        7 => at.clone().prop_map(Step::VictimGoes),
        1 => at.clone().prop_map(Step::VictimStays),
        2 => at.clone().prop_map(Step::VictimLeaves),
        2 => at.clone().prop_map(Step::VictimFails),
        12 => (at.clone(), 0..3_u8, 1..60_u64).prop_map(|(group, node, seconds)| Step::Nominated(group, node, seconds)),
        4 => (at.clone(), any::<bool>()).prop_map(|(group, before)| Step::EvictionRefused(group, before)),
        4 => (at.clone(), at).prop_map(|(pod, node)| Step::Elsewhere(pod, node)),
        2 => any::<u8>().prop_map(Step::Handover),
        8 => prop::sample::select(&[1_u64, 5, 29, 30, 60, 700][..]).prop_map(Step::Later),
    ]
}
