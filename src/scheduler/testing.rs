//! What the tests of the owner of the state begin with (the time, complete lists, the lease), and what they look for in its commands.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::command::Command;
use super::event::{Change, Event, Told};
use super::metrics::Metrics;
use super::state::{Now, State};
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::testing::{POLICY, queue};

/// So long after the start.
pub(super) fn at(millis: u64) -> Now {
    Now { wall: Timestamp::UNIX_EPOCH, since_start: Duration::from_millis(millis) }
}

/// It knows nothing yet.
pub(super) fn state() -> State {
    State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, Metrics::new(&prometheus::Registry::new()).unwrap())
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

/// Complete lists with `root` and `default` in them, and the lease.
pub(super) fn ready(nodes: Vec<NodeFacts>, pods: Vec<PodFacts>, groups: Vec<GroupFacts>) -> State {
    leading(state(), nodes, pods, groups, Vec::new())
}

/// How many pods are bound.
pub(super) fn binds(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Bind(_))).count()
}

/// The first status of a group.
pub(super) fn group_status(commands: &[Command]) -> Option<&PodGroupStatus> {
    commands.iter().find_map(|command| if let Command::Group { status, .. } = command { Some(status) } else { None })
}

/// The end of a write that stands in this version.
pub(super) fn stands(version: &str) -> Told {
    Told::Stands { resource_version: version.into() }
}
