//! What is there to say of a Queue?

use std::collections::BTreeMap;

use crate::accounting::QueueState;
use crate::resources::{Limits, ResourceName, Resources, quantity};

use super::cache::Phase;
use super::queue_faults;
use super::state::SchedulingState;

/// What there is to say of a queue, in the words of no API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReport {
    /// What the bound pods in it and below it use.
    pub allocated: Resources,
    /// How many PodGroups are in each phase; phases without any are left out.
    pub phases: BTreeMap<Phase, i32>,
    /// Whether it admits new PodGroups.
    pub state: QueueState,
    /// What is used of what may be used, for people: `cpu 12/16, memory 40Gi`; none where there is neither.
    pub usage: Option<String>,
    /// What is wrong with it; none where nothing is.
    pub message: Option<String>,
}

/// Returns what there is to say of the queue.
#[must_use]
pub fn report(state: &SchedulingState, queue: &str) -> QueueReport {
    let phases = [Phase::Pending, Phase::Inqueue, Phase::Running, Phase::Unknown, Phase::Completed];
    let quota = state.cache.accounting().quota();
    // Nominated resources are not used yet.
    let mut allocated = quota.used(queue).clone();
    allocated.sub(&state.nominated_in(queue).0);
    // Nor are those of pods that wait for volumes: they are not bound.
    allocated.sub(&state.held_in(queue).0);
    QueueReport {
        phases: phases.into_iter().map(|phase| (phase, state.cache.in_phase(queue, phase))).filter(|(_, count)| *count > 0).collect(),
        state: quota.state(queue),
        usage: usage(&allocated, quota.queue(queue).limits.map(|limits| &limits.capability)),
        message: state.cache.queues().get(queue).and_then(|facts| queue_faults::faults(&state.cache, facts).into_iter().next()),
        allocated,
    }
}

/// The most resources in [`QueueReport::usage`].
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
