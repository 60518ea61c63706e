//! Worlds and mutants as tables, and what in them is not as it should be.

use std::collections::HashSet;
use std::fmt::Write as _;

use stateright::{Checker, Model};

use crate::apart;
use crate::mutant::Mutant;
use crate::search::{Found, search, visit};
use crate::world::{Action, World};
use crate::worlds::{BIG, JOINT, SINGLE, SMALL};

/// States after which a search is given up, and called so: far more than any world here has.
const MOST: usize = 4_000_000;

/// The same for one mutant in one world: the shortest way is found long before.
const ENOUGH: usize = 60_000;

/// Worlds in which every promise must hold. Prints a line for each; says what is wrong.
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
            wrong.push(format!("{}: {promise} after {}:\n{}", world.name, way.len(), story(way)));
        }
        if !found.exhausted {
            wrong.push(format!("{} was not exhausted", world.name));
        }
    }
    wrong
}

fn verdict(found: &Found) -> String {
    match (&found.broken, found.exhausted) {
        (Some((promise, way)), _) => format!("{promise} broken after {} steps", way.len()),
        (None, true) => "exhausted, all hold".to_owned(),
        (None, false) => "NOT exhausted".to_owned(),
    }
}

fn story(way: &[Action]) -> String {
    way.iter().fold(String::new(), |mut story, action| {
        let _ = writeln!(story, "  {action:?}");
        story
    })
}

/// Every mutant in every small world: the shortest way to a broken promise. `tell` prints the ways.
fn mutants(worlds: &[World], tell: bool) -> Vec<String> {
    println!("| mutant | breaks | steps | in the world | broken in | states |");
    println!("|---|---|---:|---|---:|---:|");
    let mut wrong = Vec::new();
    for mutant in Mutant::ALL {
        let (mut shortest, mut broken, mut states) = (None::<(usize, &str, &str, Vec<Action>)>, 0, 0);
        for world in worlds {
            let found = search(&World { mutant, ..*world }, ENOUGH);
            states += found.states;
            if let Some((promise, way)) = found.broken {
                broken += 1;
                if shortest.as_ref().is_none_or(|(steps, ..)| way.len() < *steps) {
                    shortest = Some((way.len(), promise, world.name, way));
                }
            }
        }
        match &shortest {
            Some((steps, promise, name, way)) => {
                println!("| {mutant:?} | {promise} | {steps} | {name} | {broken} | {states} |");
                if tell {
                    println!("{}", story(way));
                }
            }
            None => println!("| {mutant:?} | nothing | | | 0 | {states} |"),
        }
        if shortest.is_some() != mutant.is_needed() {
            wrong.push(format!("{mutant:?} breaks {:?}", shortest.map(|(_, promise, ..)| promise)));
        }
    }
    wrong
}

/// Two owners side by side: what each of them and its group go through is what it goes through alone.
fn interference() -> Vec<String> {
    let mut alone = HashSet::new();
    let single = visit(&SINGLE, MOST, |state| {
        alone.insert(state.clone());
    });
    let mut seen = [HashSet::new(), HashSet::new()];
    let joint = visit(&JOINT, MOST, |state| {
        for (slot, seen) in seen.iter_mut().enumerate() {
            seen.insert(apart::alone(state, slot, &SINGLE));
        }
    });
    let [first, second] = &seen;
    println!("{} states of two owners side by side are {} and {} of one, and alone it has {}", joint.states, first.len(), second.len(), alone.len());
    let right = single.exhausted && joint.exhausted && *first == alone && *second == alone;
    if right { Vec::new() } else { vec!["owners interfere".to_owned()] }
}

/// What `cargo test` searches.
#[must_use]
pub fn small() -> Vec<String> {
    let mut wrong = worlds(SMALL, true);
    wrong.extend(mutants(SMALL, false));
    wrong
}

/// What `make model` searches.
#[must_use]
pub fn all() -> Vec<String> {
    let mut wrong = worlds(SMALL, true);
    wrong.extend(mutants(SMALL, true));
    wrong.extend(interference());
    wrong.extend(worlds(BIG, false));
    wrong
}

/// The worlds whose names contain the words, each with its sizes.
#[must_use]
pub fn some(words: &str) -> Vec<String> {
    let some: Vec<World> = SMALL.iter().chain(BIG).filter(|world| world.name.contains(words)).copied().collect();
    worlds(&some, false)
}

/// The mutants alone.
#[must_use]
pub fn only_mutants() -> Vec<String> {
    mutants(SMALL, true)
}

/// Two owners alone.
#[must_use]
pub fn only_interference() -> Vec<String> {
    interference()
}
