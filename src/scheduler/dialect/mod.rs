//! The status of a PodGroup and of a Queue, in the words of Volcano's API.
//!
//! A *dialect* is one API in which a PodGroup can be written. This folder is the only place in the scheduler that knows the statuses of
//! Volcano's objects. Another API would be a second folder like this one.

mod group;
pub mod queue;

pub use group::{UNSCHEDULABLE, is_no_news, phase_name, reason, says_the_same, seconds, status};
