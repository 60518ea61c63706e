//! Which statuses, conditions and Events are written, when, and how often?
//!
//! Reading order: `writer` (the content of each write, and when it is due), `pod_writes` (the same for waiting pods), `write_queue` and
//! `due_by_lane` (the rate of the writes to each object), `write_throttle` (the rate of all writes together), `written` (what was written
//! last).
//!
//! The front door is [`StatusWriter`]. It returns commands; `dispatch` sends them.

mod due_by_lane;
#[cfg(test)]
mod lanes_tests;
mod pod_writes;
#[cfg(test)]
mod queue_status_tests;
mod write_queue;
mod write_throttle;
mod writer;
#[cfg(test)]
mod writes_tests;
mod written;

pub use writer::StatusWriter;
