//! Searches the worlds and mutants, prints the results as tables, and returns what is wrong.

use std::collections::HashSet;
use std::fmt::Write as _;

use stateright::{Checker, Model};

use crate::mutant::Mutant;
use crate::search::{Found, search, visit};
use crate::world::{Action, World};
use crate::worlds::{BIG, JOINT, SINGLE, SMALL};

/// The number of states after which a search stops. The table then says `NOT exhausted`.
const MOST: usize = 4_000_000;

/// The same limit for one mutant in one world. The shortest trace is found long before.
const ENOUGH: usize = 60_000;

/// Searches worlds in which every promise must hold. Prints a line for each, and returns what is wrong.
fn worlds(worlds: &[World], checked_twice: bool) -> Vec<String> {
    println!("| world | states | steps | depth | s | |");
    println!("|---|---:|---:|---:|---:|---|");
    let mut wrong = Vec::new();
    for world in worlds {
        let found = search(world, MOST);
        let mut verdict = verdict(&found);
        if checked_twice && found.broken.is_none() {
            let checker = world.checker().spawn_bfs().join();
            checker.assert_properties();
            if checker.unique_state_count() == found.states {
                verdict.push_str(", stateright the same");
            } else {
                wrong.push(format!("{}: stateright has {} states", world.name, checker.unique_state_count()));
            }
        }
        println!("| {} | {} | {} | {} | {:.1} | {verdict} |", world.name, found.states, found.steps, found.depth, found.time.as_secs_f32());
        if let Some((promise, way)) = &found.broken {
            wrong.push(format!("{}: {promise} after {}:\n{}", world.name, way.len(), trace(way)));
        }
        // A big world may end as `NOT exhausted`.
        if !found.exhausted && checked_twice {
            wrong.push(format!("{} was not exhausted", world.name));
        }
    }
    wrong
}

fn verdict(found: &Found) -> String {
    match (&found.broken, found.exhausted) {
        (Some((promise, way)), _) => format!("{promise} broken after {} steps", way.len()),
        (None, true) => "exhausted, all hold".to_owned(),
        (None, false) => "NOT exhausted: S1, S2, S3, L1 hold in what was seen, L2 was not asked".to_owned(),
    }
}

fn trace(way: &[Action]) -> String {
    way.iter().fold(String::new(), |mut trace, action| {
        let _ = writeln!(trace, "  {action:?}");
        trace
    })
}

/// Searches each mutant in the worlds, smallest first, until it breaks its promise. With `print_traces`, prints the traces.
fn mutants(print_traces: bool) -> Vec<String> {
    println!("| mutant | breaks | steps | in the world | states until then |");
    println!("|---|---|---:|---|---:|");
    let (mut wrong, mut traces) = (Vec::new(), String::new());
    for (mutant, promise) in Mutant::ALL.into_iter().filter_map(|mutant| Some((mutant, mutant.breaks()?))) {
        let mut states = 0;
        let first = SMALL.iter().find_map(|world| {
            let found = visit(&World { mutant, ..*world }, ENOUGH, Some(promise), |_| {});
            states += found.states;
            found.broken.map(|(_, way)| (way, world.name))
        });
        if let Some((way, name)) = first {
            println!("| {mutant:?} | {promise} | {} | {name} | {states} |", way.len());
            let _ = writeln!(traces, "{mutant:?} breaks {promise} in the world \"{name}\":\n{}", trace(&way));
        } else {
            wrong.push(format!("{mutant:?} does not break {promise}"));
        }
    }
    if print_traces {
        println!("\n{traces}");
    }
    wrong
}

/// Checks the mutants that must break no promise in any small world.
fn unneeded() -> Vec<String> {
    println!("| left out | breaks | states |");
    println!("|---|---|---:|");
    let mut wrong = Vec::new();
    for mutant in Mutant::ALL.into_iter().filter(|mutant| mutant.breaks().is_none()) {
        let (mut states, mut exhausted) = (0, true);
        for world in SMALL {
            let found = search(&World { mutant, ..*world }, MOST);
            states += found.states;
            exhausted &= found.exhausted;
            wrong.extend(found.broken.map(|(promise, way)| format!("{mutant:?} breaks {promise} in {}:\n{}", world.name, trace(&way))));
        }
        println!("| {mutant:?} | {} | {states} |", if exhausted { "nothing, exhausted" } else { "nothing, NOT exhausted" });
    }
    wrong
}

/// Checks that two owners do not interfere: the states of each of them are the states of an owner alone.
fn interference(crashes: u8) -> Vec<String> {
    let (single, joint) = (World { crashes, ..SINGLE }, World { crashes, ..JOINT });
    let mut alone = HashSet::new();
    let alone_found = visit(&single, MOST, None, |state| {
        alone.insert(state.clone());
    });
    let mut seen = [HashSet::new(), HashSet::new()];
    let joint_found = visit(&joint, MOST, None, |state| {
        for (slot, seen) in seen.iter_mut().enumerate() {
            seen.insert(crate::apart::alone(state, slot, &single));
        }
    });
    let [first, second] = &seen;
    println!();
    println!(
        "{} states of two owners side by side are {} and {} of one, and alone it has {}",
        joint_found.states,
        first.len(),
        second.len(),
        alone.len()
    );
    let right = alone_found.exhausted && joint_found.exhausted && *first == alone && *second == alone;
    if right { Vec::new() } else { vec!["owners interfere".to_owned()] }
}

/// Searches the small worlds and the mutants, for `cargo test`. Returns what is wrong.
#[must_use]
pub fn small() -> Vec<String> {
    let mut wrong = worlds(SMALL, true);
    wrong.extend(mutants(false));
    wrong
}

/// Searches everything, for `make model`. Returns what is wrong.
#[must_use]
pub fn all() -> Vec<String> {
    let mut wrong = worlds(SMALL, true);
    wrong.extend(interference(1));
    wrong.extend(worlds(BIG, false));
    wrong.extend(mutants(true));
    wrong.extend(unneeded());
    wrong
}

/// Searches the worlds with `words` in their name. Returns what is wrong.
#[must_use]
pub fn some(words: &str) -> Vec<String> {
    let some: Vec<World> = SMALL.iter().chain(BIG).filter(|world| world.name.contains(words)).copied().collect();
    worlds(&some, false)
}

/// Searches only the mutants. Returns what is wrong.
#[must_use]
pub fn only_mutants() -> Vec<String> {
    let mut wrong = mutants(true);
    wrong.extend(unneeded());
    wrong
}

/// Searches two owners side by side, for `cargo test`. Returns what is wrong.
#[must_use]
pub fn apart() -> Vec<String> {
    interference(0)
}
