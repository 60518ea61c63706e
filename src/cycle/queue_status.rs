//! What is the status of a Queue, and does the object have it already?
//!
//! Only our own fields are compared. Other fields (a reservation that another program wrote) are left alone.

use crate::accounting::QueueState;
use crate::api::names::{CLOSED, CLOSING, OPEN};
use crate::api::quantities::{RawQuantity, RawResources, written};
use crate::api::queue::QueueStatus;
use crate::resources::{Limits, ResourceName, Resources, quantity};

use super::cache::Phase;
use super::queue_faults;
use super::state::SchedulingState;

/// Our fields of a queue's status, as they should be. A count of 0 is not written, as Volcano has it.
#[must_use]
pub fn status(state: &SchedulingState, queue: &str) -> QueueStatus {
    let count = |phase| Some(state.cache.in_phase(queue, phase)).filter(|count| *count > 0);
    let quota = state.cache.accounting().quota();
    // Nominated resources are not used yet.
    let mut used = quota.used(queue).clone();
    used.sub(&state.nominated_in(queue).0);
    // Nor are those of pods that wait for volumes: they are not bound.
    used.sub(&state.held_in(queue).0);
    let open = match quota.state(queue) {
        QueueState::Open => OPEN,
        QueueState::Closing => CLOSING,
        QueueState::Closed => CLOSED,
    };
    QueueStatus {
        allocated: Some(written(&used).into_iter().map(|(name, text)| (name, RawQuantity::Text(text))).collect()),
        completed: count(Phase::Completed),
        inqueue: count(Phase::Inqueue),
        pending: count(Phase::Pending),
        reservation: None,
        running: count(Phase::Running),
        state: Some(open.to_owned()),
        unknown: count(Phase::Unknown),
        usage: usage(&used, quota.queue(queue).limits.map(|limits| &limits.capability)),
        message: state.cache.queues().get(queue).and_then(|facts| queue_faults::faults(&state.cache, facts).into_iter().next()),
    }
}

/// The most resources in [`QueueStatus::usage`].
const SHOWN: usize = 4;

/// Returns what is used of what may be used, as people read it: `cpu 12/16, memory 40Gi`. `None` where there is neither. The number of pods
/// is shown where it is limited.
fn usage(used: &Resources, capability: Option<&Limits>) -> Option<String> {
    let limit = |name: &ResourceName| capability.and_then(|capability| capability.get(name));
    let of_use = used.iter().filter(|(name, amount)| amount.is_positive() && ***name != *ResourceName::PODS).map(|(name, _)| name);
    let of_limits = capability.into_iter().flat_map(|capability| capability.iter()).map(|(name, _)| name);
    let mut names: Vec<&ResourceName> = of_use.chain(of_limits).collect();
    names.sort_by_key(|name| (***name != *ResourceName::CPU, ***name != *ResourceName::MEMORY, *name));
    names.dedup();
    let shown = |name: &&ResourceName| {
        let used = quantity::format(used.get(name), name.style());
        let limit = limit(name).map(|limit| format!("/{}", quantity::format(limit, name.style())));
        format!("{name} {used}{}", limit.unwrap_or_default())
    };
    let mut texts: Vec<String> = names.iter().take(SHOWN).map(shown).collect();
    texts.extend((names.len() > SHOWN).then(|| "…".to_owned()));
    (!texts.is_empty()).then(|| texts.join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{amounts, limits};

    #[test]
    fn the_usage_names_cpu_and_memory_first_and_at_most_four() {
        let used = amounts(&[("a.b/c", 1), ("cpu", 12), ("memory", 40 << 30), ("pods", 9), ("x.y/z", 0)]);
        assert_eq!(usage(&used, None).as_deref(), Some("cpu 12, memory 40Gi, a.b/c 1"));
        let capability = limits(&[("cpu", 16), ("pods", 10), ("x.y/z", 2)]);
        assert_eq!(usage(&used, Some(&capability)).as_deref(), Some("cpu 12/16, memory 40Gi, a.b/c 1, pods 9/10, …"));
        assert_eq!(usage(&Resources::new(), Some(&limits(&[("cpu", 2)]))).as_deref(), Some("cpu 0/2"));
        assert_eq!(usage(&Resources::new(), None), None);
    }
}
