//! Text scenarios: what an operator would type and see, as files of a few lines, in [`play`]ed clusters in memory.
//!
//! Both programs run whole ([`programs`]): watches, decisions, requests, leases. What is not real is the API server ([`server`]), the other
//! programs of the cluster ([`cluster`]) and the clock, which is paused. `scenarios/README.md` has the verbs.
//!
//! Reading order: [`text`] (a line and its words), [`objects`] (what a line creates), [`play`], [`server`], [`cluster`], [`observer`] (what
//! must never be).

pub mod cluster;
pub mod objects;
pub mod observer;
pub mod play;
pub mod programs;
pub mod server;
pub mod text;
