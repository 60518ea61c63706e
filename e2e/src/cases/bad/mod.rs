//! Cases with bad input: the outcome is as documented, and no other object suffers.

pub(super) mod claims;
pub(super) mod constraints;
pub(super) mod endings;
pub(super) mod queues;
pub(super) mod sizes;
