//! Searches the worlds and mutants, prints the results as tables, and returns what is wrong.

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::hash::Hash;

use stateright::Checker;

use crate::handover;
use crate::search::{Found, Space, search, visit};
use crate::world::World;
use crate::worlds::{BIG, JOINT, SINGLE, SMALL};

/// A world with its mutants.
pub(crate) trait Checked:
    Space<State: Debug + Hash + PartialEq + Send + Sync, Action: Debug + PartialEq + Send + Sync> + Copy + Send + Sync + 'static
{
    /// A broken rule.
    type Mutant: Copy + Debug + 'static;

    /// Every mutant.
    const MUTANTS: &'static [Self::Mutant];

    fn name(&self) -> &'static str;

    /// Returns the world with a mutant.
    fn with(self, mutant: Self::Mutant) -> Self;

    /// Returns the promise that the mutant breaks.
    fn breaks(mutant: Self::Mutant) -> Option<&'static str>;
}

/// The number of states after which a search stops. The table then says `NOT exhausted`.
const MOST: usize = 4_000_000;

/// The worlds that are too large: they may end as `NOT exhausted`.
const TOO_LARGE: [&str; 1] = ["two controllers, scaled twice, late"];

/// The same limit for one mutant in one world. The shortest trace is found long before.
const ENOUGH: usize = 60_000;

/// Searches worlds in which every promise must hold. Prints a line for each, and returns what is wrong.
fn worlds<W: Checked>(worlds: &[W], checked_twice: bool) -> Vec<String> {
    println!("| world | states | steps | depth | s | |");
    println!("|---|---:|---:|---:|---:|---|");
    let mut wrong = Vec::new();
    for world in worlds {
        let found = search(world, MOST);
        let mut verdict = verdict(world, &found);
        if checked_twice && found.broken.is_none() {
            let checker = (*world).checker().spawn_bfs().join();
            checker.assert_properties();
            if checker.unique_state_count() == found.states {
                verdict.push_str(", stateright the same");
            } else {
                wrong.push(format!("{}: stateright has {} states", world.name(), checker.unique_state_count()));
            }
        }
        println!(
            "| {} | {} | {} | {} | {:.1} | {verdict} |",
            world.name(),
            found.states,
            found.steps,
            found.depth,
            found.time.as_secs_f32()
        );
        if let Some((promise, way)) = &found.broken {
            wrong.push(format!("{}: {promise} after {}:\n{}", world.name(), way.len(), trace(way)));
        }
        if found.broken.is_none() && !found.exhausted && !TOO_LARGE.contains(&world.name()) {
            wrong.push(format!("{} was not exhausted", world.name()));
        }
    }
    wrong
}

/// Checks that the worlds so far have reached every outcome of the decision about a PodGroup.
fn unreached() -> Vec<String> {
    let reached = crate::real::outcomes();
    let named =
        reached.iter().filter(|outcome| !crate::outcomes::ALL.contains(outcome)).map(|outcome| format!("not in the list: {outcome}"));
    let missing =
        crate::outcomes::ALL.iter().filter(|outcome| !reached.contains(*outcome)).map(|outcome| format!("no world reaches: {outcome}"));
    named.chain(missing).collect()
}

fn verdict<W: Checked>(world: &W, found: &Found<W::Action>) -> String {
    match (&found.broken, found.exhausted) {
        (Some((promise, way)), _) => format!("{promise} broken after {} steps", way.len()),
        (None, true) => "exhausted, all hold".to_owned(),
        (None, false) => {
            let asked: Vec<&str> = world.properties().iter().map(|property| property.name).collect();
            format!("NOT exhausted: {} hold in what was seen, {} was not asked", asked.join(", "), W::LIVENESS)
        }
    }
}

fn trace<A: Debug>(way: &[A]) -> String {
    way.iter().fold(String::new(), |mut trace, action| {
        let _ = writeln!(trace, "  {action:?}");
        trace
    })
}

/// Searches each mutant in the worlds, smallest first, until it breaks its promise. With `print_traces`, prints the traces.
fn mutants<W: Checked>(small: &[W], print_traces: bool) -> Vec<String> {
    println!("| mutant | breaks | steps | in the world | states until then |");
    println!("|---|---|---:|---|---:|");
    let (mut wrong, mut traces) = (Vec::new(), String::new());
    for (mutant, promise) in W::MUTANTS.iter().filter_map(|mutant| Some((*mutant, W::breaks(*mutant)?))) {
        let mut states = 0;
        let first = small.iter().find_map(|world| {
            let found = visit(&world.with(mutant), ENOUGH, Some(promise), |_| {});
            states += found.states;
            found.broken.map(|(_, way)| (way, world.name()))
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
fn unneeded<W: Checked>(small: &[W]) -> Vec<String> {
    println!("| left out | breaks | states |");
    println!("|---|---|---:|");
    let mut wrong = Vec::new();
    for mutant in W::MUTANTS.iter().filter(|mutant| W::breaks(**mutant).is_none()) {
        let (mut states, mut exhausted) = (0, true);
        for world in small {
            let found = search(&world.with(*mutant), MOST);
            states += found.states;
            exhausted &= found.exhausted;
            wrong.extend(found.broken.map(|(promise, way)| format!("{mutant:?} breaks {promise} in {}:\n{}", world.name(), trace(&way))));
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
    wrong.extend(unreached());
    wrong.extend(mutants(SMALL, false));
    wrong
}

/// Searches the small worlds of the handover and its mutants, for `cargo test`. Returns what is wrong.
#[must_use]
pub fn small_handover() -> Vec<String> {
    let mut wrong = worlds(handover::SMALL, true);
    wrong.extend(mutants(handover::SMALL, false));
    wrong
}

/// Searches everything, for `make model`. Returns what is wrong.
#[must_use]
pub fn all() -> Vec<String> {
    let mut wrong = worlds(SMALL, true);
    wrong.extend(unreached());
    wrong.extend(interference(1));
    wrong.extend(worlds(BIG, false));
    wrong.extend(mutants(SMALL, true));
    wrong.extend(unneeded(SMALL));
    wrong.extend(all_handover());
    wrong
}

/// Searches all worlds of the handover and its mutants. Returns what is wrong.
#[must_use]
pub fn all_handover() -> Vec<String> {
    let mut wrong = worlds(handover::SMALL, true);
    wrong.extend(worlds(handover::BIG, false));
    wrong.extend(mutants(handover::SMALL, true));
    wrong
}

/// Searches the large worlds, for `make soak`. Returns what is wrong, and that is also a world that was not exhausted.
#[must_use]
pub fn large() -> Vec<String> {
    let mut wrong = worlds(handover::BIG, false);
    wrong.extend(worlds(BIG, false));
    wrong
}

/// Searches the worlds with `words` in their name. Returns what is wrong.
#[must_use]
pub fn some(words: &str) -> Vec<String> {
    fn named<W: Checked>(all: impl IntoIterator<Item = &'static W>, words: &str) -> Vec<W> {
        all.into_iter().filter(|world| world.name().contains(words)).copied().collect()
    }
    let mut wrong = worlds(&named(SMALL.iter().chain(BIG), words), false);
    wrong.extend(worlds(&named(handover::SMALL.iter().chain(handover::BIG), words), false));
    wrong
}

/// Searches only the mutants. Returns what is wrong.
#[must_use]
pub fn only_mutants() -> Vec<String> {
    let mut wrong = mutants(SMALL, true);
    wrong.extend(unneeded(SMALL));
    wrong.extend(mutants(handover::SMALL, true));
    wrong
}

/// Searches two owners side by side, for `cargo test`. Returns what is wrong.
#[must_use]
pub fn apart() -> Vec<String> {
    interference(0)
}
