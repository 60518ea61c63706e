//! Benchmarks of the scheduler's decisions: placements per second, and the cost of an event. They run in one process and check every node. The work
//! is the same for each size, so that growth is visible. Compare numbers within one run only. `make bench` runs everything in about ten minutes;
//! `make bench ONLY=gangs` runs a part.
//!
//! In reading order: `cluster` (the input), `cycles` (cycles that place pods, one dimension at a time), `events` (events that change little or
//! nothing), `refused` (gangs that find no nodes).

#![allow(clippy::panic, reason = "a benchmark whose own input is wrong has nothing to measure")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures, and its clock decides nothing")]

mod cluster;
mod cycles;
mod events;
mod refused;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// Uses few samples: a cycle of 10,000 pods is an average by itself, and the whole run must end in a few minutes.
fn few() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = few();
    targets = cycles::nodes, cycles::pods, cycles::gangs, cycles::running, cycles::queues, cycles::own_classes, cycles::requires, cycles::prefers, cycles::keepers, cycles::claims, events::nothing, events::full, events::asks, events::terms, events::life, refused::gangs
}
criterion_main!(benches);
