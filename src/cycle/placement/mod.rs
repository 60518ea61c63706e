//! Chooses the nodes for a set of pods.
//!
//! ```text
//!  Attempt ──▶ Placer ──▶ for each pod: node table ──▶ best node ──▶ Trial ──▶ all placed: commit
//!  pods,        │          (filter, score)                            │        else: undone
//!  how many     ╰ why not: Refusal                                    ╰ accounting, changed nodes, pods on nodes: one undo log
//! ```
//!
//! One [`placer`] serves a turn, an attempt at preemption and the settling of a nomination; they differ in the values that they pass.
//!
//! Reading order: [`placer`], `search`, [`trial`], [`filter`] (one file for each predicate), [`score`], [`images`], `weigh` (preferences;
//! `preferred_nodes`), [`nodes`], [`class`], [`topology`], [`volumes`], [`nominated_by_others`], [`first_refused`] (for reports), and how
//! the best node is found fast: [`finder`], `node_table`, `limit`, `columns`.
//!
//! **Architecture invariant:** this module knows pods, nodes and queues. It knows no turns, no gangs and no preemption, and imports nothing from
//! `cycle::cache` or above.

pub mod capacity;
pub mod class;
mod columns;
pub mod filter;
pub mod finder;
pub mod first_refused;
pub mod images;
mod limit;
pub mod node_set;
mod node_table;
pub mod nodes;
pub mod nominated_by_others;
pub mod parts;
mod placed_again;
pub mod placer;
mod preferred_nodes;
pub mod score;
mod search;
pub mod snapshot;
pub mod topology;
pub mod trial;
pub mod volumes;
mod weigh;

#[cfg(test)]
mod nominated_pods_tests;
#[cfg(test)]
mod oracle_tests;

/// The strategy that chooses among the nodes that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The one with the fewest free devices for a pod that requests a device, so that whole nodes stay free for gangs; the emptiest for any
    /// other pod.
    #[default]
    Auto,
    /// The emptiest, so that a failing node takes little with it.
    Spread,
    /// The fullest, so that whole nodes stay free for large gangs.
    Pack,
}
