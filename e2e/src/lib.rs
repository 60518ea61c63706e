//! The cases of the field on the real control plane, and what is needed to run them.
//!
//! Nothing here depends on the crate `podgroup`: a case sees what any user of the cluster sees.
//! In reading order: `scratch` (what a run owns, and who removes it), `cluster` (a control plane in three seconds), `chart` and `programs` (what is tested; `rendered`: as a kubelet would start it),
//! `proxy` and `faults` (what can go wrong on the way between them), `prometheus` and `dashboards` (what is made of their metrics), `objects` and `workloads` (what users make; `stage`: set again where the simulator is late), `world` (all of it together), `case` (runs one and judges it; `order`: the longest first), `cases` (the
//! rows of the scenario table), `demo` (the same as a story), `load` and `bench` (figures). `observer` watches all the time and knows none of the others.

pub mod artifacts;
pub mod audit;
pub mod bench;
pub mod called;
pub mod case;
pub mod cases;
pub mod chart;
pub mod cluster;
pub mod dashboards;
pub mod demo;
pub mod fakeclock;
pub mod faults;
pub mod http;
pub mod https;
pub mod kit;
pub mod kubeconfig;
pub mod leaders;
pub mod lease;
pub mod load;
pub mod objects;
pub mod observer;
pub mod order;
pub mod programs;
pub mod prometheus;
pub mod proxy;
pub mod recorded;
pub mod rendered;
pub mod replica;
pub mod report;
pub mod rights;
pub mod say;
pub mod scratch;
pub mod soak;
pub mod stage;
pub mod takeover;
pub mod wait;
pub mod watched;
pub mod workloads;
pub mod world;
