//! The events of a history.
//!
//! Few names, so that the events collide.

use proptest::prelude::*;

use crate::accounting::QueueLimits;
use crate::api::Uid;
use crate::resources::{Amount, Limits, Resources};

#[derive(Clone, Debug)]
pub(super) enum Event {
    Node(u8, Resources),
    NoNode(u8),
    Queue(u8, u8, QueueLimits),
    NoQueue(u8),
    Seen(u8, Option<u8>, Option<u8>, Resources),
    Gone(u8),
    Assume(u8, u8, u8, Resources),
    Confirm(u8),
    Forget(u8),
    Reserve(u8, u8, Resources),
    Unreserve(u8),
    /// Pods to place; return to the point after so many; commit the rest?
    Try(Vec<(u8, u8, u8, Resources)>, usize, bool),
}

/// Returns a queue's name; queues 0 and 1 are the two that always exist.
pub(super) fn queue_name(number: u8) -> String {
    ["root", "default", "a", "b", "c", "d"][usize::from(number)].to_owned()
}

pub(super) fn node_name(number: u8) -> String {
    format!("node-{number}")
}

pub(super) fn pod_uid(number: u8) -> Uid {
    format!("pod-{number}").as_str().into()
}

pub(super) const QUEUES: std::ops::Range<u8> = 0..6;
pub(super) const NODES: std::ops::Range<u8> = 0..3;
pub(super) const PODS: std::ops::Range<u8> = 0..6;

pub(super) fn amounts() -> impl Strategy<Value = Vec<(&'static str, Amount)>> {
    let dimension = prop::sample::select(vec!["cpu", "memory", "nvidia.com/gpu"]);
    prop::collection::vec((dimension, (0_i64..4).prop_map(Amount::from_units)), 0..4)
}

pub(super) fn resources() -> impl Strategy<Value = Resources> {
    amounts().prop_map(|amounts| amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
}

pub(super) fn limits() -> impl Strategy<Value = Limits> {
    amounts().prop_map(|amounts| amounts.into_iter().map(|(name, amount)| (name.into(), amount.times(3))).collect())
}

/// Draws limits, mostly without a guarantee and open, so that much is placed.
pub(super) fn queue_limits() -> impl Strategy<Value = QueueLimits> {
    let guarantee = prop_oneof![2 => Just(Limits::new()), 1 => limits()];
    (limits(), guarantee, 0_i32..3, prop::bool::weighted(0.1)).prop_map(|(capability, guarantee, priority, closed_by_hand)| QueueLimits {
        capability,
        guarantee,
        priority,
        closed_by_hand,
        ..QueueLimits::default()
    })
}

pub(super) fn place() -> impl Strategy<Value = (u8, u8, u8, Resources)> {
    (PODS, NODES, QUEUES, resources())
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (NODES, resources().prop_map(|amounts| amounts.times(4))).prop_map(|(node, offers)| Event::Node(node, offers)),
        NODES.prop_map(Event::NoNode),
        (QUEUES, QUEUES, queue_limits()).prop_map(|(queue, parent, limits)| Event::Queue(queue, parent, limits)),
        QUEUES.prop_map(Event::NoQueue),
        (PODS, prop::option::of(NODES), prop::option::of(QUEUES), resources())
            .prop_map(|(pod, node, queue, asked)| Event::Seen(pod, node, queue, asked)),
        PODS.prop_map(Event::Gone),
        place().prop_map(|(pod, node, queue, asked)| Event::Assume(pod, node, queue, asked)),
        PODS.prop_map(Event::Confirm),
        PODS.prop_map(Event::Forget),
        (PODS, QUEUES, resources()).prop_map(|(group, queue, asked)| Event::Reserve(group, queue, asked)),
        PODS.prop_map(Event::Unreserve),
        (prop::collection::vec(place(), 0..5), 0_usize..5, any::<bool>()).prop_map(|(places, back, keep)| Event::Try(places, back, keep)),
    ]
}

/// Returns a healthy tree in which every queue has a guarantee, and nodes for it.
pub(super) fn guaranteed() -> Vec<Event> {
    let units = |count| ["cpu", "memory", "nvidia.com/gpu"].map(|name| (name.into(), Amount::from_units(count)));
    let terms = |guarantee| QueueLimits { guarantee: units(guarantee).into_iter().collect(), ..QueueLimits::default() };
    let queues = [(2, 0, 5), (3, 2, 2), (4, 2, 1), (5, 0, 3)];
    let queues = queues.map(|(queue, parent, guarantee)| Event::Queue(queue, parent, terms(guarantee)));
    std::iter::once(Event::Node(0, units(7).into_iter().collect())).chain(queues).collect()
}

/// Draws an event that changes charges and reservations only.
pub(super) fn charge() -> impl Strategy<Value = Event> {
    event().prop_filter("the tree and the nodes stay", |event| {
        !matches!(event, Event::Node(..) | Event::NoNode(_) | Event::Queue(..) | Event::NoQueue(_))
    })
}
