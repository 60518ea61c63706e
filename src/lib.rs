//! PodGroups for Kubernetes: a controller that creates and deletes them, and a scheduler that places their pods as gangs.
//!
//! ```text
//!                    podgroup-controller                                 podgroup-scheduler
//!                    ───────────────────                                 ──────────────────
//!  Deployment ─┐                                                Node, Pod ─┐
//!  ReplicaSet ─┼▶ observe ▶ snapshot ▶ decide ▶ act ▶ PodGroup ─▶ observe ─┼▶ snapshot ▶ decide ▶ act ─▶ binding, status
//!  Pod ────────┘     ▲                         │     Queue ───▶           ┘     ▲                │
//!                    └────────── learn ◀───────┘                                └──── learn ◀────┘
//! ```
//!
//! Both programs have the same five steps:
//!
//! 1. *Observe*: the events of the watches become facts.
//! 2. *Snapshot*: the input of the decision becomes one value.
//! 3. *Decide*: a pure function returns the next step.
//! 4. *Act*: one file carries out the step and decides nothing.
//! 5. *Learn*: the answer of the API server becomes a fact.
//!
//! The modules in reading order:
//!
//! * [`api`]: the types of the API objects, and the facts that the programs read from them.
//! * [`resources`]: exact amounts, and the effective request of a pod.
//! * [`lifecycle`]: which PodGroup should exist, and the next step towards it.
//! * [`controller`]: the I/O of `podgroup-controller`.
//! * [`accounting`]: the used resources of every node and every queue.
//! * [`cycle`]: one scheduling cycle, from the state of the cluster to a plan.
//! * [`scheduler`]: the I/O of `podgroup-scheduler`.
//! * [`plugin`]: `kubectl podgroup`, which explains why a PodGroup is not scheduled.
//! * [`runtime`]: flags, logging, watches, leader election and HTTP, for every program.
//!
//! **Architecture invariant:** `resources`, `lifecycle`, `accounting` and `cycle` do no I/O, read no clock, draw no random number and follow no map's
//! order. **Architecture invariant:** `lifecycle` does not know Volcano's API; `runtime` does not know PodGroups. **Architecture invariant:** the two
//! programs share only the API server. Each of them also works with Volcano's other program.

pub mod accounting;
pub mod api;
mod backoff;
mod by_key;
pub mod controller;
pub mod cycle;
#[cfg(test)]
mod differential;
pub mod lifecycle;
#[cfg(test)]
mod metrics_page;
mod nearest;
pub mod plugin;
#[cfg(test)]
mod random_tests;
pub mod resources;
pub mod runtime;
pub mod scheduler;

#[cfg(test)]
mod documents_tests;
#[cfg(test)]
mod layers_tests;
