//! Tests that the search for victims evicts only pods that the rules allow, and finds victims whenever the rules allow any.
//!
//! ```text
//!  a small cluster ──▶ SchedulingState ─▶ find ──▶ victims: the slow reference must allow them
//!        ╰─────────▶ text ─▶ the reference, which tries every choice ──▶ no victims: the reference must find none either
//! ```
//!
//! The reference has no disruption budgets (R6). This test checks them itself. When the choice of the reference violates a budget, this
//! test tries every other choice.
//!
//! Half of the clusters spread pods over their nodes, the other half pack them.
//!
//! A cluster with a difference is shrunk and printed as the lines of a scenario.
//! `PODGROUP_DIFFERENTIAL_RECLAIMS` sets the number of clusters, `PODGROUP_TEST_SEED` repeats an earlier run.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::strategy::Strategy;

use super::{Budgets, NotPreempted, Preemption, Preemptor, find};
use crate::accounting::reference::{reclaim, some_reclaim};
use crate::api::GroupKey;
use crate::cycle::state::SchedulingState;
use crate::differential::{DifferentialTest, Settings};
use facts::Facts;

mod facts;

/// The number of clusters by default.
const CLUSTERS: u32 = 2_000;

/// The interval of the clusters for which the reference tries every choice, even when eviction cannot help.
const THOROUGHLY: u32 = 20;

/// The outcome of a search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Fits,
    Waits,
    Evicts(usize),
    NoVictims,
}

fn search(facts: &Facts, state: &mut SchedulingState) -> Result<Preemption, NotPreempted> {
    let (key, members): (GroupKey, _) = (Facts::key(), facts.members());
    let beyond = facts.beyond();
    let preemptor = Preemptor {
        group: &key,
        queue: facts.queue(),
        members: &members,
        beyond: &beyond,
        priority: facts.preemptor.priority,
        preemptable: facts.preemptor.preemptable,
    };
    find(state, facts.strategy, &preemptor, Budgets { left: &facts.budgets, of: &|pod| facts.budgets_of(&pod.uid) })
}

/// Compares the search with the reference for one cluster. The error is the first difference.
fn compare(facts: &Facts, thoroughly: bool) -> Result<Outcome, String> {
    let mut state = facts.state();
    let before = state.cache().accounting().clone();
    let answer = search(facts, &mut state);
    if *state.cache().accounting() != before || !state.cache().accounting().audit().is_clean() {
        return Err("the search changed the accounting".to_owned());
    }
    let text = facts.text();
    let preemption = match answer {
        Ok(preemption) => preemption,
        Err(why) => {
            let right = some_reclaim(&text, "asking", thoroughly);
            return match right.and_then(|right| if facts.budgets_allow(&right) { Some(right) } else { other_victims(facts, &text) }) {
                Some(victims) => Err(format!("no pods are evicted ({why}), but the rules allow {victims:?}")),
                None => Ok(Outcome::NoVictims),
            };
        }
    };
    let victims: Vec<String> = preemption.victims.iter().map(ToString::to_string).collect();
    reclaim(&text, "asking", &victims).map_err(|rule| format!("{victims:?} are evicted: {rule}"))?;
    if !facts.budgets_allow(&victims) {
        return Err(format!("{victims:?} are evicted: R6"));
    }
    let mut on = BTreeMap::<Arc<str>, i64>::new();
    preemption.places.iter().for_each(|(_, node)| *on.entry(Arc::clone(node)).or_default() += 1);
    let room = |(node, count): (&Arc<str>, &i64)| {
        facts.left_on(node, &victims).iter().zip(facts.preemptor.asks).all(|(left, asks)| asks == 0 || asks * count <= *left)
    };
    if preemption.places.len() != facts.preemptor.members || !on.iter().all(room) {
        return Err(format!("{:?} has no room for each member", preemption.places));
    }
    Ok(match victims.len() {
        0 if facts.pods.iter().any(|pod| pod.terminating) => Outcome::Waits,
        0 => Outcome::Fits,
        count => {
            cheapest(facts, &text, &victims)?;
            Outcome::Evicts(count)
        }
    })
}

/// Returns victims that the rules and the budgets allow; `None` when there are none. (No part of them violates a budget either, so R5 is
/// the same with budgets and without.)
fn other_victims(facts: &Facts, text: &str) -> Option<Vec<String>> {
    let choice = |chosen: u32| (0..facts.pods.len()).filter(|at| chosen >> at & 1 == 1).map(|at| format!("p{at}")).collect::<Vec<_>>();
    (1..1_u32 << facts.pods.len()).map(choice).find(|victims| facts.budgets_allow(victims) && reclaim(text, "asking", victims).is_ok())
}

/// R5: when the first pod in order that may be evicted is enough, no other pod is evicted. This does not check the later pods: by R2, R2b or
/// R4 a pod that is not enough can prevent the eviction of the next, and a gang is evicted as a whole.
fn cheapest(facts: &Facts, text: &str, victims: &[String]) -> Result<(), String> {
    let mut order: Vec<usize> = (0..facts.pods.len()).collect();
    order.sort_by_key(|at| (facts.pods[*at].priority, std::cmp::Reverse(facts.pods[*at].created), format!("p{at}")));
    for name in order.into_iter().map(|at| format!("p{at}")) {
        match reclaim(text, "asking", std::slice::from_ref(&name)) {
            Ok(()) if *victims == [name.clone()] => return Ok(()),
            Ok(()) => return Err(format!("{victims:?} are evicted, but {name} is enough")),
            Err("R3" | "R3b" | "R4") => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn differential_test() -> DifferentialTest<impl Strategy<Value = Facts>> {
    DifferentialTest { cases: facts::facts, describe: |facts| format!("{:?}\n{}", facts.strategy, facts.text()), shrinks: 5_000 }
}

#[test]
fn the_search_finds_allowed_victims_whenever_there_are_any() {
    let settings = Settings::from_env("PODGROUP_DIFFERENTIAL_RECLAIMS", CLUSTERS, 1);
    let one = |begun: u32, facts: &Facts, seen: &mut BTreeMap<Outcome, u32>| {
        *seen.entry(compare(facts, begun.is_multiple_of(THOROUGHLY))?).or_default() += 1;
        Ok(())
    };
    let seen = differential_test().run(&settings, one, |seen| format!("{} clusters: {seen:?}", settings.cases));
    let evicted: u32 = seen.iter().flatten().filter(|(outcome, _)| matches!(outcome, Outcome::Evicts(_))).map(|(_, count)| count).sum();
    assert!(evicted * 50 >= settings.cases, "enough of the clusters need evictions");
}
