//! Where can a pod go, and which node is the best?
//!
//! This room knows the nodes and what is used on them. It does not know groups, turns or preemption.
//!
//! Reading order: [`nodes`], [`class`], [`filter`], [`score`], [`view`] (and `board`).

mod board;
pub mod class;
pub mod filter;
pub mod nodes;
pub mod score;
pub mod view;
