//! The observer: it applies eleven checks to every case, from the API and the audit log alone.
//!
//! It shares no code with the programs. It knows only their names, from [`ObserverConfig`].
//!
//! ```text
//!   watches ──► facts ──► history (one order for all kinds) ──► judge ──► findings
//!      ├────► constraints ──► kube-scheduler's filters ───────────────┤
//!      ├────► bound claims ───────────────────────────────────────────┤
//!   audit log ─────────────────────────────────────────────► audit ──┘
//! ```
//!
//! The modules `watch` and `constraints::oracle` do I/O, and so does `core`, which reads the audit log (`crate::audit_log`). `Observer` in
//! `observing` is the public interface. All other modules are pure.
//!
//! **What it cannot see.**
//!
//! * A pod that was created, bound and deleted while a watch had to start again after 410.
//! * The deletion of owners of kinds that it does not watch. These owners count as alive.
//! * Restarts of the programs. The harness sees them.

pub mod amounts;
pub mod audit;
pub mod bindings;
mod bound_claims;
mod clock;
mod constraints;
mod core;
pub mod evictions;
pub mod facts;
pub mod finding;
pub mod gangs;
pub mod history;
pub mod judge;
mod membership;
pub mod object_checks;
mod observing;
pub mod queue_usage;
pub mod request;
pub mod state;
pub mod timers;
mod watch;

#[cfg(test)]
mod tests;

pub use audit::{Call, Excused, superlinear};
pub use constraints::JudgedConstraints;
pub use finding::Finding;
pub use judge::Graces;
pub use observing::{Absences, Observer, ObserverConfig};

/// The prefix of the object names that the observer requests to see how far the audit log is. These objects do not exist.
const MARKER_PREFIX: &str = "observer-marker-";
