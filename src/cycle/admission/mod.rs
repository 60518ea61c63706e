//! May a PodGroup come in, and what is reserved for it, since when and until when? (A1 to A5)
//!
//! [`admit`] answers for one PodGroup; [`reservation`] has what follows from the answer, from events and from time. The state of each PodGroup is in the cache
//! ([`Admission`](super::cache::Admission)); the amounts of all reservations are in the accounting.

pub mod admit;
pub(in crate::cycle) mod reservation;
