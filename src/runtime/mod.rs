//! The parts that every program needs to run in a cluster. Nothing here is about PodGroups.
//!
//! In reading order:
//! * the command line: [`flags`];
//! * what a program shows: [`logging`], [`metrics`], [`leader_metrics`], [`exposition`], [`watchdog`], [`http`]; access to it: [`tls`], [`access`];
//! * time and life: [`clock`], [`shutdown`], [`program`], [`setup`];
//! * the API server: [`client`], [`proxy`], [`call`], [`watch`], [`relist`], [`readiness`], `rbac_warnings`, [`leader`], [`version_skew`];
//! * waiting work: [`workqueue`].
//!
//! **Architecture invariant:** nothing here knows a PodGroup, a Queue or a pod, and nothing here decides what should be
//! in the cluster. **Architecture invariant:** [`clock`] is the only place that reads a clock. **Architecture
//! invariant:** no task is detached: each is in a `JoinSet` that is awaited.

pub mod access;
mod access_cache;
pub mod call;
pub mod client;
pub mod clock;
pub mod exposition;
pub mod flags;
pub mod http;
mod http_connections;
mod http_listener;
pub mod lanes;
pub mod leader;
pub mod leader_decide;
mod leader_elector;
pub mod leader_metrics;
mod leader_release;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod proxy;
mod rbac_warnings;
pub mod readiness;
pub mod relist;
pub mod setup;
pub mod shutdown;
mod timeline;
pub mod tls;
pub mod version_skew;
pub mod watch;
mod watch_age;
mod watch_decode;
mod watch_freshness;
mod watch_list;
mod watch_loop;
mod watch_newest;
mod watch_outage;
pub mod watchdog;
pub mod workqueue;
