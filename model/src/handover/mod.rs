//! An exhaustive model of the handover between schedulers. The real code decides. See `docs/design/model.md`.

mod action;
mod canon;
mod enabled;
mod happen;
mod learn;
mod mutant;
mod real;
mod requests;
mod server;
mod values;
mod world;
mod worlds;

pub(crate) use worlds::{BIG, SMALL};
