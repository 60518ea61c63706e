//! PodGroups for Kubernetes: a controller that keeps them, and a scheduler that places their gangs.
//!
//! ```text
//!                    podgroup-controller                                 podgroup-scheduler
//!                    ───────────────────                                 ──────────────────
//!  Deployment ─┐                                                Node, Pod ─┐
//!  ReplicaSet ─┼▶ observe ▶ freeze ▶ decide ▶ act ─▶ PodGroup ──▶ observe ─┼▶ freeze ▶ decide ▶ act ─▶ binding, status
//!  Pod ────────┘     ▲                        │      Queue ────▶           ┘     ▲               │
//!                    └────────── learn ◀──────┘                                  └─── learn ◀────┘
//! ```
//!
//! The five verbs are the same in both programs. *Observe*: watches become facts. *Freeze*: what the decision depends on becomes a value. *Decide*:
//! a pure function says the next step. *Act*: one file carries it out and chooses nothing. *Learn*: the answer becomes a fact.
//!
//! In reading order:
//!
//! * [`api`]: what stands on the wire, and what it means.
//! * [`resources`]: exact amounts, and what a pod asks for.
//! * [`lifecycle`]: which PodGroup should exist, and the next step towards it.
//! * [`controller`]: the shell around it.
//! * [`accounting`]: what is used, on every node and in every queue.
//! * [`cycle`]: one scheduling cycle, from the state of the cluster to a plan.
//! * [`scheduler`]: the shell around it.
//! * [`plugin`]: `kubectl podgroup`, which tells people why a group waits.
//! * [`runtime`]: what every program needs to live in a cluster.
//!
//! **Architecture invariant:** `resources`, `lifecycle`, `accounting` and `cycle` do no I/O, read no clock, draw no random number and follow no map's
//! order. **Architecture invariant:** `lifecycle` knows nothing of Volcano; `runtime` knows nothing of PodGroups. **Architecture invariant:** the two
//! programs share no state but the API server, and neither needs the other to be ours.

pub mod accounting;
pub mod api;
mod by_key;
pub mod controller;
pub mod cycle;
#[cfg(test)]
mod differential;
mod left_out;
pub mod lifecycle;
#[cfg(test)]
mod metrics_page;
pub mod plugin;
pub mod resources;
mod rules;
pub mod runtime;
pub mod scheduler;

#[cfg(test)]
mod documents_tests;
