//! Rows O1 to O8 and O10: pods of every usual kind of owner have the PodGroup that the table of docs/lifecycle.md promises.

pub(super) mod batch;
pub(super) mod daemons;
pub(super) mod elsewhere;
pub(super) mod jobs;
pub(super) mod others;
pub(super) mod stateful;
pub(super) mod webhook;
