//! Does the search take only whom the rules let go, and does it take somebody whenever they let it?
//!
//! ```text
//!  a small world ──▶ SchedulingState ─▶ find ──▶ victims: right, says the slow reference
//!        ╰─────────▶ text ─▶ the reference, which tries every choice ──▶ nobody: neither does it find anybody
//! ```
//!
//! Budgets (R9) the reference does not know: that they are kept is asked here, and where its choice breaks one every other choice is tried.
//!
//! A world that fails is shrunk and told as the lines of a scenario.
//! `PODGROUP_DIFFERENTIAL_RECLAIMS` asks for more or fewer worlds, `PODGROUP_DIFFERENTIAL_SEED` for those of an earlier run.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::strategy::Strategy;

use super::{Budgets, NotPreempted, Preemption, Preemptor, find};
use crate::accounting::reference::{reclaim, some_reclaim};
use crate::api::GroupKey;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::state::SchedulingState;
use crate::differential::{DifferentialTest, Settings};
use facts::Facts;

mod facts;

/// How many worlds there are if nobody says otherwise.
const WORLDS: u32 = 2_000;

/// For every so many worlds the reference tries every choice, whatever comes of it.
const THOROUGHLY: u32 = 20;

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Fits,
    Waits,
    Took(usize),
    Nobody,
}

fn ask(facts: &Facts, state: &mut SchedulingState) -> Result<Preemption, NotPreempted> {
    let (key, members, last): (GroupKey, _, _) = (Facts::key(), facts.members(), Facts::no_nodes());
    let preemptor = Preemptor {
        group: &key,
        reservation: "ns/asking",
        queue: facts.queue(),
        members: &members,
        priority: facts.asking.priority,
        preemptable: facts.asking.preemptable,
        last: &last,
    };
    find(state, NodeStrategy::Spread, &preemptor, Budgets { left: &facts.budgets, of: &|pod| facts.budgets_of(&pod.uid) })
}

/// The first thing that is wrong.
fn play(facts: &Facts, thoroughly: bool) -> Result<Outcome, String> {
    let mut state = facts.state();
    let before = state.cache().accounting().clone();
    let answer = ask(facts, &mut state);
    if *state.cache().accounting() != before || !state.cache().accounting().audit().is_clean() {
        return Err("the accounting are not as before".to_owned());
    }
    let text = facts.text();
    let preemption = match answer {
        Ok(preemption) => preemption,
        Err(why) => {
            let right = some_reclaim(&text, "asking", thoroughly);
            return match right.and_then(|right| if facts.budgets_let(&right) { Some(right) } else { another(facts, &text) }) {
                Some(victims) => Err(format!("nobody is taken ({why}), and {victims:?} would be right")),
                None => Ok(Outcome::Nobody),
            };
        }
    };
    let victims: Vec<String> = preemption.victims.iter().map(ToString::to_string).collect();
    reclaim(&text, "asking", &victims).map_err(|rule| format!("{victims:?} are taken: {rule}"))?;
    if !facts.budgets_let(&victims) {
        return Err(format!("{victims:?} are taken: R9"));
    }
    let mut on = BTreeMap::<Arc<str>, i64>::new();
    preemption.places.iter().for_each(|(_, node)| *on.entry(Arc::clone(node)).or_default() += 1);
    let room = |(node, count): (&Arc<str>, &i64)| {
        facts.left_on(node, &victims).iter().zip(facts.asking.asks).all(|(left, asks)| asks == 0 || asks * count <= *left)
    };
    if preemption.places.len() != facts.asking.members || !on.iter().all(room) {
        return Err(format!("{:?} is no place for each", preemption.places));
    }
    Ok(match victims.len() {
        0 if facts.pods.iter().any(|pod| pod.terminating) => Outcome::Waits,
        0 => Outcome::Fits,
        count => {
            cheapest(facts, &text, &victims)?;
            Outcome::Took(count)
        }
    })
}

/// Some victims whom the budgets let go together and who may rightly be taken. (No part of them breaks a budget either, so R7 says the same with budgets and without.)
fn another(facts: &Facts, text: &str) -> Option<Vec<String>> {
    let choice = |chosen: u32| (0..facts.pods.len()).filter(|at| chosen >> at & 1 == 1).map(|at| format!("p{at}")).collect::<Vec<_>>();
    (1..1_u32 << facts.pods.len()).map(choice).find(|victims| facts.budgets_let(victims) && reclaim(text, "asking", victims).is_ok())
}

/// R7: where the first in order who may go would be enough, nobody else goes. (One that is not enough may keep the next from going, by R2, R3 or R6, and a gang goes whole; so of those that
/// come after it nothing is said here.)
fn cheapest(facts: &Facts, text: &str, victims: &[String]) -> Result<(), String> {
    let mut order: Vec<usize> = (0..facts.pods.len()).collect();
    order.sort_by_key(|at| (facts.pods[*at].priority, std::cmp::Reverse(facts.pods[*at].created), format!("p{at}")));
    for name in order.into_iter().map(|at| format!("p{at}")) {
        match reclaim(text, "asking", std::slice::from_ref(&name)) {
            Ok(()) if *victims == [name.clone()] => return Ok(()),
            Ok(()) => return Err(format!("{victims:?} are taken, and {name} is enough")),
            Err("R4" | "R5" | "R6") => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn differential_test() -> DifferentialTest<impl Strategy<Value = Facts>> {
    DifferentialTest { cases: facts::facts, describe: Facts::text, shrinks: 5_000 }
}

#[test]
fn whoever_is_taken_may_go_and_nobody_is_taken_only_where_nobody_may() {
    let asked = Settings::from_env("PODGROUP_DIFFERENTIAL_RECLAIMS", WORLDS, 1, None);
    let one = |begun: u32, facts: &Facts, seen: &mut BTreeMap<Outcome, u32>| {
        *seen.entry(play(facts, begun.is_multiple_of(THOROUGHLY))?).or_default() += 1;
        Ok(())
    };
    let seen = differential_test().run(&asked, one, |seen| format!("{} worlds: {seen:?}", asked.cases));
    let took: u32 = seen.iter().flatten().filter(|(outcome, _)| matches!(outcome, Outcome::Took(_))).map(|(_, count)| count).sum();
    assert!(took * 50 >= asked.cases, "the worlds are such that somebody goes");
}
