//! Does bad input do what is stated, and no harm to anybody else?

pub(super) mod endings;
pub(super) mod lies;
pub(super) mod queues;
pub(super) mod sizes;
pub(super) mod strays;
pub(super) mod supplies;
