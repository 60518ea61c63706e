//! Which PodGroup should exist, and what is the next step towards it?
//!
//! Pure: no I/O, no clock, no error. It never talks to anybody and never chooses by what it cannot see: the observed world and every answer of
//! the API server are arguments, the next step is the result. It knows nothing of Volcano either: `controller::dialect` turns an
//! [`Intent`] into an object and an object into an [`Existing`].
//!
//! Front door: [`intent::intend`] says what should exist, [`decide::decide`] the next step, [`memory::Memory::learn`] what an answer teaches.
//!
//! # The life of a generated PodGroup, and the protocol *retire* (design.md §3)
//!
//! ```text
//!            Create                    Mark                      Look: no member
//!  (none) ───────────▶ in use ───────────────────▶ retiring ───────────────────────▶ Delete ──▶ (none)
//!     ▲                 │  ▲  the owner wants none   │  ▲  │ 409: what I know is old       │
//!     │   anybody       │  │  and no member is seen  │  └──┴───── Read, decide again ◀─────┘
//!     └── deletes it ───┘  └───── Unmark ────────────┘
//!                           wanted again, or a member
//! ```
//!
//! # What is promised
//!
//! * **S1** No DELETE removes a PodGroup of another UID than the one decided on: every [`decide::Step`] that touches a group names a [`Version`].
//! * **S2** Only a retired PodGroup can be deleted, and only in a version that carries the mark, after a look at the members that began when the
//!   mark was already there: [`memory::Look`] keeps the version that it began on, and nothing but that version is ever deleted.
//! * **S3** A group that goes all the same is back at once: a wanted group that is not there is [`decide::Step::Create`], whatever came before.
//! * **L1** When nothing more happens the cluster is right; **L2** from every state a right one can be reached without a fault.

pub mod complaint;
pub mod decide;
pub mod existing;
pub mod intent;
pub mod memory;
pub mod reply;

pub use complaint::{Complaint, complaints};
pub use decide::{Members, Owner, Situation, Step, decide};
pub use existing::{Applied, Existing, NotOurs, Ours, Version};
pub use intent::{Intent, Wish, intend};
pub use memory::{Answer, Memory, Sight};
pub use reply::{Reply, answer};

#[cfg(test)]
pub(crate) mod world;
#[cfg(test)]
mod world_tests;
