//! Which PodGroups are admitted, what do they reserve, and for how long, as small scenarios (A2 to A5).

mod fifo;
mod minimum_first;
mod reservations;
mod timeouts;
mod within_nodes;

use crate::api::GroupFacts;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::steps::empty_state;
use crate::cycle::testing::{POLICY, amounts, group, node, pod, queue};
use crate::cycle::*;
use crate::resources::Amount;

fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

fn reserved(state: &SchedulingState, queue: &str) -> Amount {
    state.cache().accounting().quota().queue(queue).reserved.get("cpu")
}

fn cpus(count: i64) -> Amount {
    Amount::from_units(count)
}

/// `a` and `b` below `team`, which may use 8 cpu, on nodes of 4.
fn team() -> SchedulingState {
    let mut state = empty_state();
    state.apply_queue(queue("team", None, &[("cpu", 8)]));
    state.apply_queue(queue("a", Some("team"), &[]));
    state.apply_queue(queue("b", Some("team"), &[]));
    for name in ["n1", "n2", "n3"] {
        state.apply_node(node(name, &[("cpu", 4)]));
    }
    state
}

/// An elastic PodGroup: a minimum of two, as its object says it, and so many members of 1 cpu.
fn elastic(state: &mut SchedulingState, name: &str, members: usize) {
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 2)])), ..group("ns", name, 2, "default") });
    (0..members).for_each(|index| state.apply_pod(pod("ns", &format!("{name}-{index:02}"), name, &[("cpu", 1)])));
}
