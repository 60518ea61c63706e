//! A world in which the real decision and the real memory are driven, one thing at a time: an API server in memory ([`server`]), controllers
//! with caches that lag ([`player`]), and requests between them that are slow, lost, or applied long after anybody waits ([`run`]).
//!
//! Whoever chooses what happens next (a seed, a shrinker, a model checker) gives numbers; the same numbers are the same history.

pub(super) mod player;
pub(super) mod run;
pub(crate) mod server;
