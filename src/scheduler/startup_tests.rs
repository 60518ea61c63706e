//! The start of decisions once all lists are complete and this replica has the lease, in any order.

use super::command::Command;
use super::event::{Change, Event};
use super::kinds::{Groups, Nodes, Pods, PriorityClasses, Queues};
use super::metrics::Metrics;
use super::state::State;
use super::takeover::Handover;
use super::testing::{at, leading, nothing_else, reset, state};
use crate::api::QueueFacts;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::cycle::testing::{POLICY, queue};

/// The lists (the last two together, or the orders would be too many), and the lease.
const PARTS: usize = 7;

/// Delivers the part with this number; the list of queues is `queues`.
fn deliver(state: &mut State, part: usize, queues: &[QueueFacts], millis: u64) {
    let now = at(millis);
    match part {
        0 => state.apply(Event::of::<Nodes>(reset(Vec::new())), now),
        1 => state.apply(Event::of::<Pods>(reset(Vec::new())), now),
        2 => state.apply(Event::of::<Groups>(reset(Vec::new())), now),
        3 => state.apply(Event::of::<Queues>(reset(queues.to_vec())), now),
        4 => state.apply(Event::of::<PriorityClasses>(reset(Vec::new())), now),
        5 => nothing_else(0).skip(1).for_each(|event| state.apply(event, now)),
        _ => state.lead(Handover::Clean, 0, now),
    }
}

/// Returns all orders of the parts.
fn orders() -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..PARTS {
        orders = orders
            .iter()
            .flat_map(|order| (0..PARTS).filter(|part| !order.contains(part)).map(|part| [order.as_slice(), &[part]].concat()))
            .collect();
    }
    orders
}

/// Returns the queues that the commands create, by name.
fn made(commands: &[Command]) -> Vec<&str> {
    let mut made: Vec<&str> =
        commands.iter().filter_map(|command| if let Command::MakeQueue { name } = command { Some(&**name) } else { None }).collect();
    made.sort_unstable();
    made
}

#[test]
fn root_and_default_are_created_once_in_any_order_of_the_lists_and_the_lease() {
    let orders = orders();
    assert_eq!(orders.len(), 5040);
    let (root, default) = (queue("root", None, &[]), queue("default", Some("root"), &[]));
    let cases: [(&[QueueFacts], &[&str]); 3] =
        [(&[], &["default", "root"]), (std::slice::from_ref(&root), &["default"]), (&[root.clone(), default], &[])];
    // Created once, because it is the slow part of a state.
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    for order in &orders {
        for (queues, wanted) in cases {
            let mut state = State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, metrics.clone());
            for (number, part) in order.iter().enumerate() {
                assert_eq!(state.tick(at(0)), [], "{order:?}: written before part {number}");
                deliver(&mut state, *part, queues, 0);
            }
            assert_eq!(made(&state.tick(at(1000))), wanted, "{order:?} with {} queues", queues.len());
            assert_eq!(made(&state.tick(at(5000))), [""; 0], "{order:?}: once");
        }
    }
}

#[test]
fn a_standby_replica_creates_no_queue() {
    let mut state = state();
    (0..PARTS - 1).for_each(|part| deliver(&mut state, part, &[], 0));
    state.apply(Event::of::<Queues>(Change::Delete("default".into())), at(0));
    assert_eq!(state.tick(at(100_000)), []);
}

#[test]
fn a_deleted_default_queue_is_created_again() {
    for change in [Change::Delete("default".into()), reset(vec![queue("root", None, &[])])] {
        let mut state = leading(state(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        assert_eq!(made(&state.tick(at(1000))), [""; 0]);
        state.apply(Event::of::<Queues>(change), at(2000));
        assert_eq!(made(&state.tick(at(4000))), ["default"]);
    }
}
