//! Says which PodGroup should exist for an owner of pods, and what the next step towards it is.
//!
//! Pure: no I/O, no clock, no errors. The observed cluster and every answer of the API server are arguments; the next step is the result. This folder
//! does not know Volcano's API: `controller::dialect` translates an [`Intent`] into an object, and an object into an [`Existing`].
//!
//! Entry points:
//!
//! * [`intent::intend`]: which PodGroup should exist for an owner. [`set_intent::intend_for_set`]: for several owners together.
//! * [`decide::decide`]: the next step.
//! * [`memory::Memory::learn`]: what the controller learns from an answer.
//!
//! # The life of a generated PodGroup, and its retirement
//!
//! ```text
//!            Create                    Mark                  ListMembers: none
//!  (none) ───────────▶ in use ───────────────────▶ retiring ───────────────────▶ Delete ──▶ (none)
//!     ▲                 │  ▲  the owner wants none   │  ▲  │ 409: out of date          │
//!     │  another client │  │  and the cache has      │  └──┴──── Read, decide again ◀──┘
//!     │  deletes it     │  │  no member              │
//!     └─────────────────┘  └──────── Unmark ─────────┘
//!                            wanted again, or a member
//! ```
//!
//! # Promises
//!
//! * **S1** A DELETE never removes a PodGroup with another UID than the one decided on. Every [`decide::Step`] that writes to an existing PodGroup
//!   contains its [`Version`].
//! * **S2** Only a retired PodGroup can be deleted: a version that has the mark, after a list of members that began when the mark was already there.
//!   [`memory::MemberListing`] stores the version that the list began on, and only that version is deleted.
//! * **S3** A needed PodGroup that is deleted by another client is created again at once: a wanted PodGroup that does not exist is
//!   [`decide::Step::Create`], whatever happened before. The reconciler delays the step where other clients delete the PodGroup again and again.
//! * **W** The PodGroup of several owners together is never satisfied by the pods of some of them, unless the others have finished or a
//!   smaller minMember is stated.
//! * **L1** When no more events happen, the cluster reaches the right state. **L2** From every state a right state can be reached without a fault.

pub mod decide;
pub mod existing;
pub mod intent;
pub mod memory;
pub mod reply;
pub mod set_intent;
mod sources;
pub mod warning;

pub use decide::{Members, Owner, Situation, Step, decide};
pub use existing::{Applied, Existing, NotOurs, Ours, Version};
pub use intent::{DesiredGroup, Intent, intend};
pub use memory::{Answer, CacheChange, Memory};
pub use reply::{Reply, answer};
pub use set_intent::intend_for_set;
pub use warning::{Warning, misnamed, warnings};
