//! A simulation that drives the real decision and the real memory, one event at a time.
//!
//! * [`server`]: an API server in memory.
//! * [`controller`]: controllers with caches that lag.
//! * [`run`]: requests that are slow, lost, or applied after their sender gave up.
//!
//! A history is a list of numbers, and each number chooses the next event. The same numbers are the same history.

pub(super) mod controller;
pub(super) mod run;
pub(crate) mod server;
