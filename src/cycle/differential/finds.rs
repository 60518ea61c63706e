//! Histories in which the differential test showed an error of the cycle, each as a small test, by what it was about.

mod admission;
mod order;
mod reservations;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::pod_facts::PodPhase;
use crate::api::queue::DequeueStrategy;
use crate::api::{GroupFacts, GroupKey, PodFacts, QueueFacts, Uid};
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::{bound, empty_state, gang};
use crate::cycle::testing::{POLICY, amounts, class, group, limits, node, pod, queue, running};
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn reserved(state: &SchedulingState) -> Amount {
    state.cache().accounting().quota().queue("q").reserved.get("cpu")
}

fn cpus(count: i64) -> Amount {
    Amount::from_units(count)
}

/// Makes a state with the queue `q` and this number of nodes of 4 cpu.
fn small(nodes: usize, capability: i64, strategy: DequeueStrategy) -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(QueueFacts { dequeue_strategy: strategy, ..queue("q", None, &[("cpu", capability)]) });
    (0..nodes).for_each(|at| state.apply_node(node(&format!("n{at}"), &[("cpu", 4)])));
    state
}
