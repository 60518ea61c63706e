//! Reorders a history without changing its end.
//!
//! The events of one object keep their order. But a watch that breaks restarts at an older point or with a list, so older events come once
//! more, and then all later ones. Between objects there is no order at all. There is none either between the events of the cluster and our
//! own actions, so a pod that we placed comes in its final state.

use std::collections::BTreeMap;

use super::Record;
use super::event::Event;

/// The kind and number of an object.
type Object = (u8, u8);

/// How often the events of one object may restart.
const RESTARTS: usize = 3;

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    /// Returns a number below `end`.
    fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Returns the object of an event; `None` for our own actions.
fn object(event: &Event) -> Option<Object> {
    Some(match event {
        Event::Node(node, _) | Event::NoNode(node) => (0, *node),
        Event::Queue(queue, ..) | Event::NoQueue(queue) => (1, *queue),
        Event::Seen(pod, ..) | Event::Gone(pod) => (2, *pod),
        Event::Reserve(group, ..) | Event::Unreserve(group) => (3, *group),
        Event::Assume(..) | Event::Confirm(_) | Event::Forget(_) | Event::Try(..) => return None,
    })
}

fn end_of((kind, number): Object) -> Event {
    match kind {
        0 => Event::NoNode(number),
        1 => Event::NoQueue(number),
        2 => Event::Gone(number),
        _ => Event::Unreserve(number),
    }
}

/// Returns the history in another order, with some past events repeated, and the same end.
pub(super) fn reordered(events: &[Event], record: &Record, seed: u64) -> Vec<Event> {
    let mut dice = Dice(seed);
    let mut events_of: BTreeMap<Object, Vec<Event>> = BTreeMap::new();
    for event in events {
        object(event).into_iter().for_each(|object| events_of.entry(object).or_default().push(event.clone()));
    }
    let facts: BTreeMap<Object, Event> = record.facts().into_iter().filter_map(|fact| Some((object(&fact)?, fact))).collect();
    for object in facts.keys() {
        events_of.entry(*object).or_default();
    }
    for (object, own_events) in &mut events_of {
        own_events.push(facts.get(object).cloned().unwrap_or_else(|| end_of(*object)));
    }
    let mut turns: Vec<Object> = Vec::new();
    let mut orders: BTreeMap<Object, std::vec::IntoIter<Event>> = BTreeMap::new();
    for (object, own_events) in events_of {
        let order = with_restarts(&own_events, &mut dice);
        turns.extend(std::iter::repeat_n(object, order.len()));
        orders.insert(object, order.into_iter());
    }
    for index in (1..turns.len()).rev() {
        turns.swap(index, dice.roll(index + 1));
    }
    turns.iter().filter_map(|object| orders.get_mut(object)?.next()).collect()
}

/// Returns the events of one object, some of them repeated, always up to the last.
fn with_restarts(events: &[Event], dice: &mut Dice) -> Vec<Event> {
    let (mut order, mut at, mut restarts) = (Vec::new(), 0, 0);
    while let Some(event) = events.get(at) {
        order.push(event.clone());
        at += 1;
        if restarts < RESTARTS && dice.roll(4) == 0 {
            restarts += 1;
            at = dice.roll(at + 1);
        }
    }
    order
}
