//! Room that is held for members of a PodGroup before they are bound: for which one, where, why, and until when.
//!
//! | held because | begins with | charged | waits for | its time | ends as a whole, also when |
//! |---|---|---|---|---|---|
//! | [`victims`] are to end (R7) | a preemption | nodes and queue | the last of them, and that the gang fits | their grace periods | anything changes of what was decided on |
//! | a [`lost_member`] is to be replaced (A8) | its end | its node; in the queue the reservation | a member that takes the place | one admission timeout | the gang is satisfied, or nothing of it is left |
//! | [`claims`] get volumes | a placement | nodes and queue, as a binding | the last claim, and that it would be decided again | the volume timeout | a write failed, or the PodGroup, a pod, a node or a queue changed |
//!
//! All are in one [`table`](Holds) with one clock. `state` applies what follows from their ends. What a PodGroup has reserved in its queues
//! without a place is not here but in `admission`.

pub(in crate::cycle) mod claims;
mod hold;
mod lost_member;
mod table;
pub mod victims;

use std::borrow::Cow;
use std::time::Duration;

use crate::backoff::Backoff;

pub(in crate::cycle) use hold::{Because, Hold, Kind, Victims};
pub(in crate::cycle) use table::Holds;

/// The back-off of a PodGroup that has given back what was held for it.
pub(in crate::cycle) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// What has become of a hold.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cycle) enum Outlook {
    /// What it waits for has not come yet.
    Waits,
    /// Its pods can be bound, if that would be decided again.
    Ready,
    /// It cannot go on, for this reason.
    Broken(Cow<'static, str>),
}

impl Outlook {
    /// It cannot go on, for this reason of a bounded set.
    const fn broken(why: &'static str) -> Self {
        Self::Broken(Cow::Borrowed(why))
    }
}
