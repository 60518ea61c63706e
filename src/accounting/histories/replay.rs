//! In which orders may a history with the same end be told?
//!
//! What happens to one object comes in its order: a watch that breaks begins again at an older moment or with a list, so older events come once more, and then all that came
//! after them. Between objects there is no order at all. Nor is there one between what the cluster tells and what we do ourselves, so a pod that we placed is told
//! as it is seen in the end.

use std::collections::BTreeMap;

use super::Record;
use super::event::Event;

/// Kind and number of an object.
type Object = (u8, u8);

/// So often may the events of one object begin again.
const RESTARTS: usize = 3;

/// A draw of numbers from a seed.
struct Dice(u64);

impl Dice {
    /// Below `end`.
    fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// What the event is about; none for what only we do.
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

/// The history in another order, with events of the past told again, and the same end.
pub(super) fn another_telling(events: &[Event], record: &Record, seed: u64) -> Vec<Event> {
    let mut dice = Dice(seed);
    let mut told: BTreeMap<Object, Vec<Event>> = BTreeMap::new();
    for event in events {
        object(event).into_iter().for_each(|object| told.entry(object).or_default().push(event.clone()));
    }
    let facts: BTreeMap<Object, Event> = record.facts().into_iter().filter_map(|fact| Some((object(&fact)?, fact))).collect();
    for object in facts.keys() {
        told.entry(*object).or_default();
    }
    for (object, told) in &mut told {
        told.push(facts.get(object).cloned().unwrap_or_else(|| end_of(*object)));
    }
    let mut turns: Vec<Object> = Vec::new();
    let mut orders: BTreeMap<Object, std::vec::IntoIter<Event>> = BTreeMap::new();
    for (object, told) in told {
        let order = with_restarts(&told, &mut dice);
        turns.extend(std::iter::repeat_n(object, order.len()));
        orders.insert(object, order.into_iter());
    }
    for index in (1..turns.len()).rev() {
        turns.swap(index, dice.roll(index + 1));
    }
    turns.iter().filter_map(|object| orders.get_mut(object)?.next()).collect()
}

/// The events of one object, some of them again, always on to the last.
fn with_restarts(told: &[Event], dice: &mut Dice) -> Vec<Event> {
    let (mut order, mut at, mut restarts) = (Vec::new(), 0, 0);
    while let Some(event) = told.get(at) {
        order.push(event.clone());
        at += 1;
        if restarts < RESTARTS && dice.roll(4) == 0 {
            restarts += 1;
            at = dice.roll(at + 1);
        }
    }
    order
}
