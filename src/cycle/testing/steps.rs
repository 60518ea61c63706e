//! The steps of a small scenario: an empty state, a gang, a cycle, its bindings confirmed; and what came of them.

use std::time::Duration;

use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::{GroupKey, PodFacts, QueueFacts};
use crate::cycle::cache::Phase;
use crate::cycle::plan::{Bind, Eviction, Plan};
use crate::cycle::run;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{POLICY, group, limits, node, pod, queue, running};

pub(in crate::cycle) fn empty_state() -> SchedulingState {
    SchedulingState::new([DEFAULT_SCHEDULER.to_owned()])
}

pub(in crate::cycle) fn cycle(state: &mut SchedulingState) -> Plan {
    run(state, &POLICY, Duration::ZERO)
}

pub(in crate::cycle) fn bound(plan: &Plan) -> Vec<(&str, &str)> {
    plan.binds.iter().map(|bind| (&*bind.name, &*bind.node)).collect()
}

pub(in crate::cycle) fn gang(state: &mut SchedulingState, name: &str, min: u32, queue: &str, count: u32, asks: &[(&str, i64)]) {
    state.apply_group(group("ns", name, min, queue));
    for index in 0..count {
        state.apply_pod(pod("ns", &format!("{name}-{index}"), name, asks));
    }
}

pub(in crate::cycle) fn message(state: &SchedulingState, name: &str) -> String {
    let group = &state.cache().groups()[&GroupKey::new("ns", name)];
    let Some(refusal) = &group.refusal else { return String::new() };
    let said = state.cache().group_message(group, refusal);
    said.strip_prefix(&format!("{}: ", refusal.code().as_str())).unwrap().to_owned()
}

pub(in crate::cycle) fn phase(state: &SchedulingState, name: &str) -> Phase {
    let group = &state.cache().groups()[&GroupKey::new("ns", name)];
    crate::cycle::cache::phase::phase(group, group.facts.as_ref().unwrap())
}

pub(in crate::cycle) fn at(state: &mut SchedulingState, seconds: u64) -> Plan {
    let plan = run(state, &POLICY, Duration::from_secs(seconds));
    assert!(state.cache().accounting().audit().is_clean());
    plan
}

pub(in crate::cycle) fn confirm(state: &mut SchedulingState, plan: &Plan) {
    plan.binds.iter().for_each(|bind| takes_effect(state, bind));
}

/// The binding has succeeded, and the pod is seen on its node, if it is still there.
pub(in crate::cycle) fn takes_effect(state: &mut SchedulingState, bind: &Bind) {
    state.confirm(&bind.uid);
    let waits = state.cache().pods().get(&bind.uid).filter(|member| member.assumed.is_some());
    if let Some(facts) = waits.map(|member| PodFacts::clone(&member.facts)) {
        state.apply_pod(PodFacts { charged_queue: Some(bind.queue.to_string()), ..running(facts, &bind.node) });
    }
}

pub(in crate::cycle) fn names(eviction: &Eviction) -> Vec<&str> {
    eviction.victims.iter().map(|victim| &*victim.name).collect()
}

/// `a` and `b` deserve 5 of 10 cpu each; `a` has borrowed all.
pub(in crate::cycle) fn borrowed() -> SchedulingState {
    let mut state = empty_state();
    for name in ["n1", "n2"] {
        state.apply_node(node(name, &[("cpu", 5)]));
    }
    for name in ["a", "b"] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", 5)]), ..queue(name, None, &[]) });
    }
    gang(&mut state, "borrows", 1, "a", 10, &[("cpu", 1)]);
    let plan = at(&mut state, 0);
    assert_eq!(plan.binds.len(), 10);
    confirm(&mut state, &plan);
    state
}
