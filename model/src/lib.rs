//! An exhaustive model of the life of a PodGroup. The real code decides. See `docs/model.md`.

mod apart;
mod canon;
mod enabled;
mod happen;
mod mutant;
mod packed;
mod promises;
mod protocol;
mod real;
mod report;
mod search;
mod server;
mod values;
mod world;
mod worlds;

pub use report::{all, apart, only_mutants, small, some};
