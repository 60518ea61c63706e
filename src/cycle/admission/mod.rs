//! The admission of PodGroups, and the reservations of admitted PodGroups (A1 to A5).
//!
//! [`admit`] decides for one PodGroup. [`reservation`] updates reservations after a decision, an event or a timeout. The state of each
//! PodGroup is in the cache ([`Admission`](super::cache::Admission)); the amounts of all reservations are in the accounting.

pub mod admit;
pub(in crate::cycle) mod reservation;

#[cfg(test)]
mod gang_borrowing_tests;
#[cfg(test)]
mod tests;
