//! What every program needs to live in a cluster, and nothing about PodGroups.
//!
//! In reading order: what was asked for ([`flags`]), how it speaks ([`logging`], [`metrics`], [`standing`], [`exposition`], [`pulse`], [`http`], to whom: [`tls`], [`access`]), what it lives
//! in ([`clock`], [`backoff`], [`shutdown`], [`program`]), how it talks to the API server ([`client`], [`call`],
//! [`watch`], [`readiness`], `rights`, [`leader`], [`beside`]), and where waiting work stands ([`workqueue`]).
//!
//! **Architecture invariant:** nothing here knows a PodGroup, a Queue or a pod, and nothing here decides what should be
//! in the cluster. **Architecture invariant:** [`clock`] is the only place that reads a clock. **Architecture
//! invariant:** no task is detached: each is in a `JoinSet` that somebody awaits.

pub mod access;
mod access_cache;
pub mod backoff;
pub mod beside;
pub mod call;
pub mod client;
pub mod clock;
pub mod exposition;
pub mod flags;
pub mod http;
mod http_listener;
pub mod leader;
mod leader_decide;
mod leader_elector;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod pulse;
pub mod readiness;
mod rights;
pub mod setup;
pub mod shutdown;
pub mod standing;
pub mod tls;
pub mod watch;
mod watch_decode;
mod watch_loop;
mod watch_newest;
pub mod workqueue;
