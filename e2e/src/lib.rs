//! The test cases on a real control plane, and the harness that runs them.
//!
//! Nothing here depends on the crate `podgroup`: a case sees what any user of the cluster sees.
//! In reading order:
//!
//! * `scratch` (the processes and files of a run, and their cleanup), `cluster` (a control plane in three seconds);
//! * `chart` and `programs` (what is tested; `rendered`: started from the chart's Deployment), `proxy` and `faults` (faults between them);
//! * `unrest` (replicas are stopped, killed and frozen), `wait` (deadlines, and what moves them), `disk` (the room for clusters);
//! * `prometheus` and `dashboards` (the use of their metrics), `objects` and `workloads` (what users create; `stage`: created again where
//!   the simulator is late);
//! * `world` (all of it together), `case` (runs and judges one case; `order`: the longest first), `cases` (the table of all cases);
//! * `demo` (a guided tour), `load` (measurements).
//!
//! `observer` watches every case. Of the others it uses `audit_log` alone.

pub mod artifacts;
pub mod audit_log;
#[cfg(test)]
mod builds_tests;
pub mod called;
pub mod case;
pub mod cases;
pub mod chart;
pub mod cluster;
pub mod dashboards;
pub mod demo;
pub mod disk;
pub mod fakeclock;
pub mod faults;
pub mod flood;
pub mod http;
pub mod https;
pub mod kit;
pub mod kubeconfig;
pub mod kwok_stages;
pub mod leaders;
pub mod lease;
pub mod load;
pub mod objects;
pub mod observer;
pub mod operator;
pub mod order;
pub mod programs;
pub mod prometheus;
pub mod proxy;
pub mod recorded;
pub mod rendered;
pub mod replica;
pub mod report;
pub mod requests;
pub mod rights;
pub mod say;
pub mod scratch;
pub mod setup;
pub mod soak;
pub mod stage;
pub mod takeover;
pub mod unrest;
pub mod wait;
pub mod watched;
pub mod workloads;
pub mod world;
