//! Which amount does a quantity's text mean, and how is an amount written?
//!
//! The texts that Kubernetes takes are taken, with the same value, exactly: integers all the way, and only what is
//! finer than a nano-unit is rounded, away from zero. Where Kubernetes' own parser caps, wraps or hangs, the answer here is
//! [`QuantityError::TooLarge`], never another number.

mod read;
#[cfg(test)]
mod vectors;
mod write;

pub use read::{MAX_EXPONENT, MAX_LENGTH, QuantityError, parse};
pub use write::{Style, format};
