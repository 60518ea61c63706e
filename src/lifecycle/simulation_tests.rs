//! Tests that the promises of the lifecycle hold in random histories.
//!
//! Compared with the exhaustive model (`model/`), the histories are longer and have more faults at once. They also have finalizers, edits
//! by people, and the real JSON of the requests, merged as the API server does.
//!
//! A history depends only on its seed. Every run has new ones, which follow the seed of the run (`random_tests`). A history that breaks a
//! promise is shortened as far as possible and printed as a trace.

use super::simulation::controller::Mutant;
use super::simulation::run::play;
use crate::random_tests;

/// Returns the numbers of one history.
fn history(seed: u64, length: usize) -> Vec<u16> {
    // The seed is mixed first: splitmix64 of the seeds 1 and 2 would give the same numbers, moved by one place.
    let mut state = mixed(seed);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        u16::try_from(mixed(state) >> 48).unwrap()
    };
    (0..length).map(|_| next()).collect()
}

/// Returns the result of the last step of splitmix64.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Removes numbers from a history as long as it still breaks a promise. Returns the shortest history that was found.
fn shortened(mut history: Vec<u16>, mutant: Mutant) -> Vec<u16> {
    let mut chunk = history.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < history.len() {
            let mut shorter = history.clone();
            shorter.drain(at..(at + chunk).min(shorter.len()));
            if play(&shorter, mutant, false).is_err() {
                history = shorter;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    history
}

/// Returns the seeds of one test.
fn seeds(first: u64, count: u32) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(move |number| first.wrapping_add(number))
}

/// Returns the first seed with a history that breaks a promise, and the trace of the shortened history.
fn first_broken(mutant: Mutant, seeds: impl Iterator<Item = u64>, length: usize) -> Option<(u64, String)> {
    { seeds }.find_map(|seed| {
        play(&history(seed, length), mutant, false).err()?;
        let short = shortened(history(seed, length), mutant);
        Some((seed, play(&short, mutant, true).err()?))
    })
}

/// Plays the same histories in every run: whether they find the mutant is not left to chance.
fn mutant_is_found(mutant: Mutant, count: u32, promise: &str) {
    let Some((seed, trace)) = first_broken(mutant, seeds(0, count), 160) else { panic!("{mutant:?} was not found in {count} seeds") };
    println!("{mutant:?} is found with seed {seed}:\n{trace}");
    assert!(trace.starts_with(promise), "{mutant:?}, seed {seed}: {trace}");
}

#[test]
fn the_promises_hold_in_every_history() {
    let mut sent = std::collections::BTreeMap::<&str, u32>::new();
    let (first, short, long) = (random_tests::seed(), random_tests::cases(700), random_tests::cases(60));
    for (all, length) in [(seeds(first, short), 200), (seeds(first.wrapping_add(u64::from(short)), long), 1000)] {
        for seed in all {
            match play(&history(seed, length), Mutant::None, false) {
                Ok(simulation) => simulation.sent.into_iter().for_each(|(step, times)| *sent.entry(step).or_default() += times),
                Err(_) => panic!("{:?}", first_broken(Mutant::None, seeds(seed, 1), length)),
            }
        }
    }
    // Histories that never send a step prove nothing about it.
    println!("{sent:?}");
    for step in ["create", "amend", "mark", "look", "unmark", "delete", "read"] {
        assert!(sent.get(step).is_some_and(|times| *times > 300), "{step}: {sent:?}");
    }
}

#[test]
fn a_delete_without_a_version_breaks_s2() {
    mutant_is_found(Mutant::DeleteAnyVersion, 2000, "S2");
}

#[test]
fn an_amendment_without_a_version_breaks_l1() {
    mutant_is_found(Mutant::AmendAnyVersion, 2000, "L1");
}

#[test]
fn an_answer_is_ignored_when_the_watch_has_already_shown_the_deletion() {
    // Found by very many histories: the object is created and deleted by a person, the watch shows both, and then the answer to the creation arrives.
    for history in [vec![23332, 42895, 14613, 31993, 9165], history(11071, 300)] {
        assert_eq!(play(&history, Mutant::None, true).err(), None);
    }
}
