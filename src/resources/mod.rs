//! How much of what: exact amounts of named resources, and what a pod effectively asks for.
//!
//! Never here: floats, rounding other than the one at the parse, arithmetic that can panic or wrap (F5), and any
//! notion of who uses the resources (that is `accounting`).
//!
//! Front door: [`Resources`] is a vector in which an absent name is 0, [`Limits`] one in which an absent name is
//! *unset*. The two are different types so that nobody can take the one for the other. [`quantity`] is the only way
//! from text to an [`Amount`], [`request::effective`] the only way from a pod to its [`Resources`].

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
pub use name::ResourceName;
pub use vector::Resources;
