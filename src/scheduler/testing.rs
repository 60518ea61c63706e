//! Helpers for tests of the state: the time, complete lists, the lease, and searches in commands.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::command::Command;
use super::event::{Change, Event, WriteOutcome};
use super::kinds::{Groups, KINDS, Nodes, Pods, Queues, WatchedKind};
use super::metrics::Metrics;
use super::state::{Now, State};
use super::takeover::Handover;
use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::podgroup::PodGroupStatus;
use crate::api::{GroupFacts, NodeFacts, PodFacts, QueueFacts};
use crate::cycle::testing::{POLICY, queue};

/// Returns the time `millis` after the start.
pub(super) fn at(millis: u64) -> Now {
    Now { wall: Timestamp::UNIX_EPOCH, since_start: Duration::from_millis(millis) }
}

/// Returns an empty state.
pub(super) fn state() -> State {
    State::new([DEFAULT_SCHEDULER.to_owned()], POLICY, Metrics::new(&prometheus::Registry::new()).unwrap())
}

/// Returns a complete list.
pub(super) fn reset<T, K>(all: Vec<T>) -> Change<T, K> {
    listed(all, 0)
}

/// Returns a complete list of this generation.
pub(super) fn listed<T, K>(all: Vec<T>, generation: u64) -> Change<T, K> {
    Change::Reset { all, unreadable: Vec::new(), generation, back: false, as_of: Duration::ZERO }
}

/// Returns the complete lists of this generation of the kinds that a cluster may have no objects of.
pub(super) fn nothing_else(generation: u64) -> impl Iterator<Item = Event> {
    let usual = [Nodes::KIND, Pods::KIND, Groups::KIND, Queues::KIND];
    KINDS.iter().filter(move |row| !usual.contains(&row.kind)).map(move |row| (row.empty)(generation, false))
}

/// Makes the view of every kind up to date.
pub(super) fn up_to_date(state: &mut State, now: Now) {
    KINDS.iter().for_each(|row| state.apply((row.up_to_date)(now.since_start), now));
}

/// Makes the state lead with complete lists. `queues` are in addition to `root` and `default`.
pub(super) fn leading(
    mut state: State,
    nodes: Vec<NodeFacts>,
    pods: Vec<PodFacts>,
    groups: Vec<GroupFacts>,
    queues: Vec<QueueFacts>,
) -> State {
    let usual = [queue("root", None, &[]), queue("default", Some("root"), &[])];
    state.apply(Event::of::<Nodes>(reset(nodes)), at(0));
    state.apply(Event::of::<Pods>(reset(pods)), at(0));
    state.apply(Event::of::<Groups>(reset(groups)), at(0));
    state.apply(Event::of::<Queues>(reset(usual.into_iter().chain(queues).collect())), at(0));
    nothing_else(0).for_each(|event| state.apply(event, at(0)));
    state.lead(Handover::Clean, 0, at(0));
    state
}

/// Returns a leading state with complete lists, and the queues `root` and `default`.
pub(super) fn ready(nodes: Vec<NodeFacts>, pods: Vec<PodFacts>, groups: Vec<GroupFacts>) -> State {
    leading(state(), nodes, pods, groups, Vec::new())
}

/// Returns the number of binds.
pub(super) fn binds(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Bind(_))).count()
}

/// Returns the first status of a PodGroup.
pub(super) fn group_status(commands: &[Command]) -> Option<&PodGroupStatus> {
    commands.iter().find_map(|command| if let Command::Group { status, .. } = command { Some(status) } else { None })
}

/// Returns the outcome of a successful write with this resourceVersion.
pub(super) fn written(version: &str) -> WriteOutcome {
    WriteOutcome::Written { resource_version: version.into() }
}
