//! What the tests of the owner of the state begin with: the time, complete lists, the lease.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::event::{Change, Event};
use super::state::{Now, State};
use crate::api::{GroupFacts, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::testing::queue;

/// So long after the start.
pub(super) fn at(millis: u64) -> Now {
    Now { wall: Timestamp::UNIX_EPOCH, since_start: Duration::from_millis(millis) }
}

/// A list of all that there is.
pub(super) fn reset<T, K>(all: Vec<T>) -> Change<T, K> {
    Change::Reset { all, unreadable: Vec::new() }
}

/// It leads, with complete lists; these queues are beside `root` and `default`.
pub(super) fn leading(
    mut state: State,
    nodes: Vec<NodeFacts>,
    pods: Vec<PodFacts>,
    groups: Vec<GroupFacts>,
    queues: Vec<QueueFacts>,
) -> State {
    let usual = [queue("root", None, &[]), queue("default", Some("root"), &[])];
    state.apply(Event::Nodes(reset(nodes)), at(0));
    state.apply(Event::Pods(reset(pods)), at(0));
    state.apply(Event::Groups(reset(groups)), at(0));
    state.apply(Event::Queues(reset(usual.into_iter().chain(queues).collect())), at(0));
    state.apply(Event::PriorityClasses(reset(Vec::new())), at(0));
    state.apply(Event::Budgets(reset(Vec::new())), at(0));
    state.lead(at(0));
    state
}
