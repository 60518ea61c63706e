//! Does the accounting depend on the order in which the events of a history come (B4)?
//!
//! The events of one object keep their order. But a watch that breaks restarts at an older point or with a list, so older events come once
//! more, and then all later ones. Between objects there is no order at all. There is none either between the events of the cluster and our
//! own actions, so a pod that we placed comes in its final state.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::events::{Event, Place, Step, history, read};
use super::facts::{Facts, NAMES, QueueSpec, ROOT};
use super::pair::Pair;
use super::{THREADS, describe};
use crate::differential::{DifferentialTest, Settings};

/// The number of histories by default.
const HISTORIES: u32 = 300;
/// How often the events of one object may restart.
const RESTARTS: usize = 3;

/// The kind and number of an object.
type Object = (u8, usize);

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    /// Returns a number below `end`.
    fn roll(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Returns the object of an event; `None` for our own actions, and for what is no matter of the accounting.
fn object(event: &Event) -> Option<Object> {
    Some(match event {
        Event::Node(node, _) => (0, *node),
        Event::Queue(queue, _) | Event::NoQueue(queue) => (1, *queue),
        Event::Seen(Place { pod, .. }, ..) | Event::Gone(pod) => (2, *pod),
        Event::Reserve(group, ..) | Event::Unreserve(group) => (3, *group),
        Event::Nothing
        | Event::Terminating(_)
        | Event::Assume(_)
        | Event::Confirm(_)
        | Event::Forget(_)
        | Event::Waits(..)
        | Event::Try(..) => return None,
    })
}

/// Returns the event that leads to the final state of an object.
fn last((kind, number): Object, facts: &Facts) -> Event {
    match kind {
        0 => Event::Node(number, facts.nodes[number]),
        1 => facts.queues[number].map_or(Event::NoQueue(number), |spec| Event::Queue(number, spec)),
        2 => facts.pods[number].map_or(Event::Gone(number), |pod| {
            let place = Place { pod: number, node: pod.node.unwrap_or(0), queue: pod.queue.unwrap_or(0), amounts: pod.amounts };
            Event::Seen(place, pod.node.is_some(), pod.queue.is_some(), None)
        }),
        _ => facts.reserved[number].map_or(Event::Unreserve(number), |(queue, amounts)| Event::Reserve(number, queue, amounts)),
    }
}

/// Returns every object of these facts.
fn objects(facts: &Facts) -> impl Iterator<Item = Object> {
    let counts = [facts.nodes.len(), facts.queues.len(), facts.pods.len(), facts.reserved.len()];
    (0_u8..).zip(counts).flat_map(|(kind, count)| (0..count).map(move |number| (kind, number)))
}

/// Returns the events in another order, some of them repeated, with the same end.
fn reordered(events: &[Event], facts: &Facts, seed: u64) -> Vec<Event> {
    let mut dice = Dice(seed);
    let mut events_of: BTreeMap<Object, Vec<Event>> = objects(facts).map(|object| (object, Vec::new())).collect();
    for event in events {
        object(event).into_iter().for_each(|object| events_of.entry(object).or_default().push(event.clone()));
    }
    let mut turns: Vec<Object> = Vec::new();
    let mut orders: BTreeMap<Object, std::vec::IntoIter<Event>> = BTreeMap::new();
    for (object, mut own_events) in events_of {
        own_events.push(last(object, facts));
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

/// Applies events, and adds every queue that is missing at the end: only what saw a deleted queue knows where it was.
fn played(events: &[Event]) -> Result<Pair, String> {
    let mut pair = Pair::default();
    for event in events {
        pair.take(event)?;
        let report = pair.accounting.audit();
        if !report.is_clean() {
            return Err(format!("after {event:?} the audit reports {:?}", report.differences));
        }
    }
    let plain = QueueSpec {
        parent: ROOT,
        capability: [None; 3],
        deserved: [None; 3],
        guarantee: [None; 3],
        weight: 1,
        priority: 0,
        reclaimable: true,
        closed: false,
    };
    for queue in (0..NAMES.len()).filter(|queue| pair.facts.queues[*queue].is_none()).collect::<Vec<_>>() {
        pair.take(&Event::Queue(queue, plain))?;
    }
    Ok(pair)
}

fn play(history: &[Step], seed: u64) -> Result<(), String> {
    let events: Vec<Event> = history.iter().enumerate().map(|(at, step)| read(at, step).0).collect();
    let first = played(&events)?;
    let one = &first.accounting;
    // From the end alone, and from the whole history in an order in which an API server may report it.
    for (what, replayed) in [("the end", reordered(&[], &first.facts, seed)), ("the history", reordered(&events, &first.facts, seed))] {
        let again = played(&replayed)?.accounting;
        let same_views = NAMES.iter().all(|name| again.quota().queue(name) == one.quota().queue(name));
        if again.ledger() != one.ledger() || again.quota() != one.quota() || !same_views {
            return Err(format!("{what} in another order gives another accounting: {replayed:?}"));
        }
    }
    Ok(())
}

#[test]
fn b4_any_history_with_the_same_end_gives_the_same_accounting() {
    let test = DifferentialTest { cases: || (history(), any::<u64>()), describe: |(history, _)| describe(history), shrinks: 20_000 };
    let one = |_, (history, seed): &(Vec<Step>, u64), played: &mut u32| {
        *played += 1;
        play(history, *seed)
    };
    let settings = Settings::from_env("PODGROUP_DIFFERENTIAL_HISTORIES", HISTORIES, THREADS);
    test.run(&settings, one, |played| format!("{} histories", played.iter().sum::<u32>()));
}
