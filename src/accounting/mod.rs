//! Accounts for the use of nodes and queues, and decides whether more fits.
//!
//! ```text
//!  nodes, pods ──▶ Ledger  used per node   ─┐
//!                                           ├─ Accounting ── Trial: place many pods, keep all or none
//!  queues, pods ─▶ Quota   used per queue  ─┘    └────────── audit: recount everything
//!                    ├── QueueTree: the shape, no amounts
//!                    └── UnusedGuarantees: what stays reserved for guarantees beyond what is used
//! ```
//!
//! Front door: [`Accounting`]. All sums are updated with every event and can be recounted from the pods at any time; the two must
//! agree ([`Accounting::audit`]). No clock, no API, no logging, no arithmetic that can wrap, and nothing here decides what to
//! schedule.
//!
//! The rules of the queues (T1 and on) are in `docs/design/accounting.md`. Invariants, cited by the tests and the audit:
//!
//! * **B1** a node's `used` is the sum over the pods charged to it, each pod (by UID) once;
//! * **B2** a queue's usage is the sum over the pods charged to it and to every queue below it, whether or not the pod's
//!   PodGroup, queue or node still exists; `root` counts everything;
//! * **B3** a refused charge and a dropped trial leave nothing behind;
//! * **B4** equal facts give equal accounting, in whatever order and however often they came;
//! * **B5** a broken queue refuses new pods for itself and its subtree, and for no other queue; every walk is bounded.

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

mod asked_of_nodes;
mod audit;
mod can_reclaim;
mod charges;
mod closed;
mod derived;
#[cfg(test)]
mod differential;
mod fits;
mod ledger;
mod limits;
mod node;
mod places;
mod quota;
mod ranked;
#[cfg(test)]
pub(crate) mod reference;
mod refusal;
mod reserved_minimums;
mod shares;
mod subtree_sums;
mod tree;
mod trial;
mod unused_guarantees;
mod water_filling;

pub use asked_of_nodes::AskedOfNodes;
pub use audit::{AuditReport, Difference, Place};
pub use charges::{Accounting, PodView, Refusal, Stage};
pub use closed::QueueState;
pub use ledger::Ledger;
pub use limits::QueueLimits;
pub use node::{NodeRefusal, NodeView, Shortage};
pub use places::PlaceSource;
pub use quota::{QueueView, Quota};
pub use refusal::{Bound, Ceiling, QueueRefusal};
pub use reserved_minimums::ReservedMinimums;
pub use shares::{Shares, Waiting};
pub use tree::{DEFAULT_QUEUE, MAX_DEPTH, Path, QueueFault, QueueShape, QueueTree, ROOT_QUEUE, Why};
pub use trial::{Placement, Savepoint, Trial};
pub use unused_guarantees::Excess;
