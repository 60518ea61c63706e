//! Exhaustive models of the life of a PodGroup and of the handover between schedulers. The real code decides. See `docs/design/model.md`.

mod apart;
mod canon;
mod enabled;
mod handover;
mod happen;
mod mutant;
mod outcomes;
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

pub use report::{all, all_handover, apart, large, only_mutants, small, small_handover, some};
