//! Every world is searched to its end, and every mutant is found.

use super::search::search;
use super::worlds::PROBE;

#[test]
fn probe() {
    for world in PROBE {
        let found = search(world, 3_000_000);
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
