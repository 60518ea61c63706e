//! What is wrong with a queue, and what would mend it? Its Event, its status and `/debug/queues` say the same.

use crate::accounting::{QueueFault, ROOT_QUEUE, Why};
use crate::api::{Fault, QueueFacts};
use crate::nearest::nearest;
use crate::resources::{Resources, quantity};

use super::cache::{Cache, Phase};
use super::explain::Refusal;

/// Returns what is wrong with a queue that exists, with what matters most first: why nothing is placed in it, then which values are not
/// used, then what is most likely a slip. Empty where nothing is wrong.
#[must_use]
pub fn faults(cache: &Cache, facts: &QueueFacts) -> Vec<String> {
    let misplaced = cache.accounting().quota().fault(&facts.name).map(|fault| Refusal::Queue(fault).message());
    misplaced.into_iter().chain(further_faults(cache, facts)).collect()
}

/// Returns the same without a fault of the queue's place in the tree.
#[must_use]
pub fn further_faults(cache: &Cache, facts: &QueueFacts) -> Vec<String> {
    let offered = cache.accounting().ledger().total();
    let values = facts.faults.iter().map(ToString::to_string);
    with_pods_and_children(cache, &facts.name).into_iter().chain(values).chain(unoffered(facts, offered)).collect()
}

/// Pods stay in a queue that gets a queue below it, and no more are placed there (T1).
fn with_pods_and_children(cache: &Cache, name: &str) -> Option<String> {
    let quota = cache.accounting().quota();
    let child = quota.tree().children(name).next().filter(|_| name != ROOT_QUEUE)?;
    let has_pods = quota.pods_in(name).next().is_some();
    let waits = [Phase::Pending, Phase::Inqueue].into_iter().any(|phase| cache.in_phase(name, phase) > 0);
    let refusal = Refusal::Queue(QueueFault { queue: name.into(), why: Why::NotLeaf }).message();
    (has_pods || waits).then(|| format!("{refusal}; its pods stay, and what is new must name another queue, as {child}"))
}

/// Resources that no node offers, where one with nearly this name is offered. A resource that none offers at all may come with the next node.
fn unoffered<'a>(facts: &'a QueueFacts, offered: &'a Resources) -> impl Iterator<Item = String> + 'a {
    facts.stated().into_iter().flat_map(move |(place, limits)| {
        let absent = limits.iter().filter(|(name, _)| offered.iter().all(|(of_node, _)| of_node != *name));
        absent.filter_map(move |(name, amount)| {
            let meant = nearest(name.as_str(), offered.iter().map(|(name, _)| name.as_str()))?;
            let shown = quantity::format(amount, name.style());
            Some(Fault::new(format!("{place}.{name}"), &shown, format!("no node offers this resource; meant may be {meant}")).to_string())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{amounts, limits, queue};

    #[test]
    fn a_resource_that_no_node_offers_is_told_where_a_node_offers_nearly_the_same() {
        let mut facts = queue("q", None, &[("cpu", 4), ("nvidia.com/gpus", 8), ("amd.com/gpu", 1)]);
        facts.guarantee = limits(&[("memry", 1 << 30)]);
        let said: Vec<String> = unoffered(&facts, &amounts(&[("cpu", 8), ("memory", 1 << 40), ("nvidia.com/gpu", 8)])).collect();
        let why = "no node offers this resource; meant may be";
        let want = [
            format!("spec.capability.nvidia.com/gpus \"8\": {why} nvidia.com/gpu"),
            format!("spec.guarantee.resource.memry \"1073741824\": {why} memory"),
        ];
        assert_eq!(said, want);
        assert_eq!(unoffered(&facts, &Resources::new()).count(), 0, "no node yet");
    }
}
