//! Do the pods of every owner that people use have the PodGroup that the table of docs/lifecycle.md promises?

pub(super) mod batch;
pub(super) mod daemons;
pub(super) mod jobs;
pub(super) mod others;
pub(super) mod stateful;
pub(super) mod webhook;
