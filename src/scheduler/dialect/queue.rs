//! What is the status of a Queue, and does the object have it already?
//!
//! Only our own fields are compared. Other fields (a reservation that another program wrote) are left alone.

use crate::accounting::QueueState;
use crate::api::names::{CLOSED, CLOSING, OPEN};
use crate::api::quantities::{RawQuantity, RawResources, written};
use crate::api::queue::QueueStatus;
use crate::cycle::cache::Phase;
use crate::cycle::queue_status::QueueReport;
use crate::resources::{Resources, quantity};

/// Returns our fields of a queue's status, as they should be. A count of 0 is not written, as Volcano has it.
#[must_use]
pub fn status(report: &QueueReport) -> QueueStatus {
    let count = |phase| report.phases.get(&phase).copied();
    let state = match report.state {
        QueueState::Open => OPEN,
        QueueState::Closing => CLOSING,
        QueueState::Closed => CLOSED,
    };
    QueueStatus {
        allocated: Some(written(&report.allocated).into_iter().map(|(name, text)| (name, RawQuantity::Text(text))).collect()),
        completed: count(Phase::Completed),
        inqueue: count(Phase::Inqueue),
        pending: count(Phase::Pending),
        reservation: None,
        running: count(Phase::Running),
        state: Some(state.to_owned()),
        unknown: count(Phase::Unknown),
        usage: report.usage.clone(),
        message: report.message.clone(),
    }
}

/// Returns the status without the fields that Volcano's does not have. Its CustomResourceDefinition drops them from what is written.
#[must_use]
pub fn of_volcano(status: &QueueStatus) -> QueueStatus {
    QueueStatus { usage: None, message: None, ..status.clone() }
}

/// Whether two statuses say the same in our fields: amounts count, not how they are written, and what is 0 need not be there.
#[must_use]
pub fn same(a: &QueueStatus, b: &QueueStatus) -> bool {
    let counts = |status: &QueueStatus| {
        [status.completed, status.inqueue, status.pending, status.running, status.unknown].map(|count| count.unwrap_or(0))
    };
    a.state == b.state
        && a.usage == b.usage
        && a.message == b.message
        && counts(a) == counts(b)
        && amounts(a.allocated.as_ref()) == amounts(b.allocated.as_ref())
}

/// The amounts; none where one cannot be read, so that it is written anew.
fn amounts(raw: Option<&RawResources>) -> Option<Resources> {
    let read = |(name, raw): (&String, &RawQuantity)| {
        let amount = match raw {
            RawQuantity::Int(units) => crate::resources::Amount::from_units(*units),
            RawQuantity::Text(text) => quantity::parse(text).ok()?,
        };
        Some((name.as_str().into(), amount))
    };
    raw.into_iter().flatten().map(read).collect()
}
