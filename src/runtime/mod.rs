//! The parts that every program needs to run in a cluster. Nothing here is about PodGroups.
//!
//! In reading order:
//! * the command line: [`flags`];
//! * what a program shows: [`logging`], [`metrics`], [`watchdog`], [`http`] (its pages, its certificate, and which client may read them);
//! * time and life: [`clock`], [`shutdown`], [`program`], [`setup`];
//! * the API server: [`client`], [`proxy`], [`call`], [`watch`] (lists, watches, and how old their view is), [`readiness`], `rbac_warnings`;
//! * two replicas and two programs: [`leader`], [`version_skew`];
//! * waiting work: [`workqueue`], [`lanes`].
//!
//! **Architecture invariant:** nothing here knows a PodGroup, a Queue or a pod, and nothing here decides what should be
//! in the cluster. **Architecture invariant:** [`clock`] is the only place that reads a clock. **Architecture
//! invariant:** no task is detached: each is in a `JoinSet` that is awaited.

pub mod call;
pub mod client;
pub mod clock;
pub mod flags;
pub mod http;
pub mod lanes;
pub mod leader;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod proxy;
mod rbac_warnings;
pub mod readiness;
pub mod setup;
pub mod shutdown;
pub mod version_skew;
pub mod watch;
pub mod watchdog;
pub mod workqueue;
