//! Who uses how much of what, and would more fit?
//!
//! ```text
//!  nodes, pods ──▶ Ledger  used per node   ─┐
//!                                           ├─ Books ── Trial: place many, keep all or none
//!  queues, pods ─▶ Quota   used per queue  ─┘    └───── audit: recount everything
//!                    ├── QueueTree: the shape, no amounts
//!                    └── Kept: what is kept for guarantees beyond what is used
//! ```
//!
//! Front door: [`Books`]. All sums are kept as events come and can be recounted from the pods at any time; the two must
//! agree ([`Books::audit`]). No clock, no API, no logging, no arithmetic that can wrap, and nothing here decides what to
//! schedule.
//!
//! The rules of the queues (T1 and on) stand in `docs/accounting.md`. Invariants, cited by the tests and the audit:
//!
//! * **B1** a node's `used` is the sum over the pods charged to it, each pod (by UID) once;
//! * **B2** a queue's usage is the sum over the pods charged to it and to every queue below it, whether or not the pod's
//!   PodGroup, queue or node still exists; `root` counts everything;
//! * **B3** a charge that is refused at any level, and a trial that is dropped, leaves nothing behind;
//! * **B4** equal facts give equal books, whatever the order in which they came and how often;
//! * **B5** a broken queue refuses new pods for itself and its subtree, and for nobody else; every walk is bounded.

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

mod audit;
mod books;
mod closed;
mod derived;
#[cfg(test)]
mod duel;
mod fits;
mod held;
#[cfg(test)]
mod histories;
mod kept;
mod ledger;
mod limits;
mod node;
mod owed;
mod quota;
mod ranked;
#[cfg(test)]
pub(crate) mod reference;
mod refusal;
mod rules;
mod shares;
mod tree;
mod trial;
mod water;

pub use audit::{AuditReport, Difference, Place};
pub use books::{Books, PodView, Refusal, Stage};
pub use closed::QueueState;
pub use kept::Excess;
pub use ledger::Ledger;
pub use limits::QueueLimits;
pub use node::{NodeRefusal, NodeView, Shortage};
pub use quota::{QueueView, Quota};
pub use refusal::{Bound, Ceiling, QueueRefusal};
pub use shares::{Shares, Waiting};
pub use tree::{DEFAULT_QUEUE, MAX_DEPTH, Path, QueueFault, QueueShape, QueueTree, ROOT_QUEUE, Why};
pub use trial::{Placement, Savepoint, Trial};
