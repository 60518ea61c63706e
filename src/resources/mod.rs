//! Exact amounts of named resources, and the effective request of a pod.
//!
//! This folder has no floats, no rounding except in the parser, no arithmetic that can panic or wrap (F5), and no knowledge of pods or
//! queues that use the resources. That is in `accounting`.
//!
//! * [`Resources`]: amounts by name; an absent name is 0.
//! * [`Limits`]: limits by name; an absent name is *unset*. It is another type than [`Resources`], so the two cannot be confused.
//! * [`quantity`]: the only translation from a text to an [`Amount`].
//! * [`request::effective`]: the only translation from a pod to its [`Resources`].

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

mod amount;
mod limits;
mod name;
pub mod quantity;
pub mod request;
mod serial;
mod vector;

pub use amount::Amount;
pub use limits::Limits;
pub use name::{ResourceName, Unit};
pub use vector::Resources;
