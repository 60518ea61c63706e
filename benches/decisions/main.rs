//! How many placements does the scheduler decide in a second, and what does an event cost? In process, every node looked at; the same work for each size,
//! so that growth is visible. Numbers are compared within one run only. `make bench` runs it all in about five minutes; `make bench ONLY=gangs` a part.
//!
//! In reading order: `cluster` (what is decided on), `cycles` (how fast is a cycle that places pods, along each axis by itself), `events` (what does it cost
//! when little or nothing happens).

#![allow(clippy::panic, reason = "a benchmark whose own input is wrong has nothing to measure")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures, and its clock decides nothing")]

mod cluster;
mod cycles;
mod events;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// Few samples: a cycle of 10,000 pods is an average by itself, and the whole run is to end while one waits for it.
fn few() -> Criterion {
    Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = few();
    targets = cycles::nodes, cycles::pods, cycles::gangs, cycles::running, cycles::queues, cycles::own_classes, events::nothing, events::full, events::life
}
criterion_main!(benches);
