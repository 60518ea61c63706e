//! How is an object called that could not be decoded?

use std::fmt;
use std::sync::Arc;

use crate::api::volumes::{CapacityKey, ClaimKey};
use crate::api::{BudgetKey, GroupKey, Uid};
use crate::runtime::watch::BadObject;

/// What tells two objects of a kind apart.
pub trait Key: fmt::Debug + Ord + Send + 'static {
    /// Returns the key of an object that could not be decoded.
    fn of_bad(bad: BadObject) -> Self;
}

impl Key for Arc<str> {
    fn of_bad(bad: BadObject) -> Self {
        bad.name.into()
    }
}

impl Key for String {
    fn of_bad(bad: BadObject) -> Self {
        bad.name
    }
}

impl Key for Uid {
    fn of_bad(bad: BadObject) -> Self {
        bad.uid.unwrap_or_default().into()
    }
}

macro_rules! namespaced {
    ($($key:ty),*) => {
        $(impl Key for $key {
            fn of_bad(bad: BadObject) -> Self {
                Self::new(&bad.namespace.unwrap_or_default(), &bad.name)
            }
        })*
    };
}

namespaced!(GroupKey, BudgetKey, ClaimKey, CapacityKey);
