//! An exhaustive model of the life of a PodGroup, in which the real code decides. See `docs/model.md`.

mod canon;
mod mutant;
mod packed;
mod promises;
mod real;
mod search;
mod server;
mod values;
mod world;
mod worlds;

/// Searches worlds and prints a line for each.
pub fn probe(only: Option<&str>) {
    for world in worlds::PROBE.iter().filter(|world| only.is_none_or(|only| world.name.contains(only))) {
        let found = search::search(world, 6_000_000);
        println!(
            "{:<20} {:>9} states {:>10} steps {:>3} deep {:>6.1} s exhausted {} {:?}",
            world.name,
            found.states,
            found.steps,
            found.depth,
            found.time.as_secs_f32(),
            found.exhausted,
            found.broken
        );
    }
}
