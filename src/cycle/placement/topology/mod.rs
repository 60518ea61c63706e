//! Affinity, anti-affinity and spread: what the pods on nodes mean to a pod that comes.
//!
//! ```text
//!  pods (ours, waiting or placed, and foreign) ─▶ label sets ─┐
//!                                                            ├─ which match (selection) ─▶ counts on each node (placed)
//!  terms of classes and of pods ───────────────▶ selectors ──┘                                    │
//!  nodes' labels ─▶ domains of each topology key ─────────────────────────────────────────────────┴─▶ verdict: node refuses, why
//! ```
//!
//! Reading order: [`selection`], [`placed`], [`domains`], [`class_terms`], [`counting`], [`verdict`], `spread`.

pub mod class_preferences;
pub mod class_terms;
pub mod counting;
mod devices;
pub mod domains;
pub mod on_nodes;
pub mod place;
pub mod placed;
mod ports;
pub mod selection;
mod slab;
pub(in crate::cycle::placement) mod spread;
mod terms;
pub mod verdict;

#[cfg(test)]
mod devices_tests;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod selection_tests;
