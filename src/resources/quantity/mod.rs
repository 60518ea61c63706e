//! Reads the text of a quantity into an amount, and writes an amount as text.
//!
//! Every text that Kubernetes accepts is accepted, with the same exact value. Only a fraction below a nano-unit is rounded, away from zero.
//! For a text on which the parser of Kubernetes caps, wraps or hangs, the result is [`QuantityError::TooLarge`], never another number.

mod read;
#[cfg(test)]
mod vectors;
mod write;

pub use read::{MAX_EXPONENT, MAX_LENGTH, QuantityError, parse};
pub use write::{Style, format, shown};
