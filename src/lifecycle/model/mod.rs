//! An exhaustive model of the life of a PodGroup, in which the real code decides. See `docs/model.md`.

pub(in crate::lifecycle) mod real;
pub(in crate::lifecycle) mod values;

mod canon;
mod mutant;
mod promises;
mod search;
mod server;
mod world;
mod worlds;

mod tests;
