//! What do the programs cost and how fast are they, measured on a real control plane? `make load` measures the controller, `make bench-e2e`
//! the scheduler.
//!
//! In reading order: the harness, which is `stage` (the cluster, and the programs on it; `stock`: kube-scheduler as one of them), `process`
//! (memory and processor time), `calls` and `counters` (two sources for the number of API requests), `look` (the end of a load) and `table`
//! (a row for each measurement). Then the measurements:
//!
//! * `controller`: `burst` with `wave` (Deployments at once, to 0, back; at rest; `check`: the final state) and `race` (creations compared
//!   with a flood);
//! * `scheduler`: `rate` (pods first, then the scheduler), `trickle` (some pods a second), `writes` (API requests for Deployments), `rest`
//!   (start, and nothing to do), with `pods`, `constraint` and `claims` (the pods, what they require, their volumes);
//!
//! Measurements take turns on one control plane, and only results of one run are compared. They are in `docs/performance.md`, which is not
//! written here.

pub mod burst;
pub mod calls;
pub mod check;
pub mod claims;
pub mod constraint;
pub mod controller;
pub mod counters;
pub mod look;
pub mod pods;
pub mod process;
pub mod race;
pub mod rate;
pub mod rest;
pub mod scheduler;
pub mod stage;
pub mod stock;
pub mod table;
pub mod trickle;
pub mod wave;
pub mod writes;
