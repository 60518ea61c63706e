//! Did everything that happened keep the promises? The observer: the eight checks of every case, from the API and the audit log alone.
//!
//! It shares no code with the programs, and knows of them only the names in [`ObserverConfig`].
//!
//! ```text
//!   watches ──► facts ──► history (one order for all kinds) ──► judge ──► findings
//!   audit log ─────────────────────────────────────────────► audit ──┘
//! ```
//!
//! `watch` and `tail` are the shells, `Observer` in `observing` the front door; all the rest is pure.
//!
//! **What it cannot see.** A pod that was created, bound and deleted behind the back of a watch that had to begin anew (410); the life of owners of kinds
//! that it does not watch (they count as alive); restarts of the programs (the harness sees these).

pub mod amounts;
pub mod audit;
pub mod bindings;
mod clock;
mod core;
pub mod facts;
pub mod finding;
pub mod history;
pub mod judge;
mod observing;
pub mod request;
pub mod standing;
pub(crate) mod tail;
pub mod timers;
mod watch;
pub mod world;

#[cfg(test)]
mod tests;

pub use audit::{Call, Excused, received, superlinear};
pub use finding::Finding;
pub use judge::Graces;
pub use observing::{Absences, Observer, ObserverConfig};

/// How the objects are named that the observer asks for (and never finds), only to see how far the audit log has come.
const MARKER: &str = "observer-marker-";
