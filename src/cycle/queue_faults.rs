//! What is wrong with a queue, and what would mend it? Its Event, its status and `/debug/queues` say the same.

use std::sync::Arc;

use crate::accounting::{QueueFault, ROOT_QUEUE, Why};
use crate::api::{Fault, QueueFacts};
use crate::nearest::nearest;
use crate::resources::{Resources, quantity};

use super::cache::Cache;
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
    let without_groups = node_groups_above(cache, &facts.name);
    let slips = unoffered(facts, offered);
    let children = with_pods_and_children(cache, &facts.name);
    without_groups.into_iter().chain(children).chain(values).chain(above_those_above(cache, facts)).chain(slips).collect()
}

/// A queue above requires groups of nodes, so nothing is placed in this one either.
fn node_groups_above(cache: &Cache, name: &str) -> Option<String> {
    let (queue, field) = cache.node_groups(name).filter(|(queue, _)| **queue != *name)?;
    Some(Refusal::NodeGroups { queue, field }.message())
}

/// A guarantee above what a queue above may use (F2): no pod could use the rest. One above the own capability is a fault of the object itself.
fn above_those_above<'a>(cache: &'a Cache, facts: &'a QueueFacts) -> impl Iterator<Item = String> + 'a {
    let above: Vec<Arc<str>> =
        cache.accounting().quota().tree().way(&facts.name).into_iter().filter(|queue| **queue != *facts.name).collect();
    facts.guarantee.iter().filter_map(move |(name, amount)| {
        let most_of = |queue: &Arc<str>| Some((cache.queues().get(queue)?.capability.get(name)?, Arc::clone(queue)));
        let (most, queue) = above.iter().filter_map(most_of).min()?;
        let own = facts.capability.get(name).map_or(amount, |own| own.min(amount));
        let [amount, shown] = [amount, most].map(|amount| quantity::format(amount, name.style()));
        let why = format!("above the capability of the queue above, \"{queue}\", {shown}; it counts as {shown}");
        (own > most).then(|| Fault::new(format!("spec.guarantee.resource.{name}"), &amount, why).to_string())
    })
}

/// Pods stay in a queue that gets a queue below it, and no more are placed there (T1). A PodGroup that waits in such a queue says so itself.
fn with_pods_and_children(cache: &Cache, name: &str) -> Option<String> {
    let quota = cache.accounting().quota();
    let has_children = quota.tree().children(name).next().is_some() && name != ROOT_QUEUE;
    if !has_children || quota.pods_in(name).next().is_none() {
        return None;
    }
    let refusal = Refusal::Queue(QueueFault { queue: name.into(), why: Why::NotLeaf }).message();
    let takes_pods = |queue: &Arc<str>| quota.path(queue).is_ok() && quota.closed_by(queue).is_none();
    let instead = quota.tree().subtree(name).into_iter().find(takes_pods).map(|queue| format!(", as {queue}")).unwrap_or_default();
    Some(format!("{refusal}; its pods stay, and what is new must name another queue{instead}"))
}

/// Resources that no node offers, where one with nearly this name is offered. A resource that none offers at all may come with the next node,
/// and so may one that differs in numbers alone, as the size of a page or of a part of a device.
fn unoffered<'a>(facts: &'a QueueFacts, offered: &'a Resources) -> impl Iterator<Item = String> + 'a {
    facts.stated().into_iter().flat_map(move |(place, limits)| {
        let absent = limits.iter().filter(|(name, amount)| !amount.is_zero() && offered.iter().all(|(of_node, _)| of_node != *name));
        absent.filter_map(move |(name, amount)| {
            let names = || offered.iter().map(|(of_node, _)| of_node.as_str());
            let in_other_case = names().find(|of_node| of_node.eq_ignore_ascii_case(name.as_str()));
            let is_near = || nearest(name.as_str(), names().filter(|of_node| without_sizes(of_node) != without_sizes(name)));
            let meant = in_other_case.or_else(|| (name.len() >= LETTERS).then(is_near).flatten())?;
            let shown = quantity::format(amount, name.style());
            Some(Fault::new(format!("{place}.{name}"), &shown, format!("no node offers this resource; meant may be {meant}")).to_string())
        })
    })
}

/// A shorter name is near to too many: gpu to cpu.
const LETTERS: usize = 4;

/// Returns the name without its sizes.
fn without_sizes(name: &str) -> String {
    const PAGES: &str = "hugepages-";
    if name.starts_with(PAGES) { PAGES.to_owned() } else { name.chars().filter(|letter| !letter.is_ascii_digit()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::testing::{amounts, limits, queue};

    #[test]
    fn a_resource_that_no_node_offers_is_told_where_a_node_offers_nearly_the_same() {
        let mut facts = queue("q", None, &[("cpu", 4), ("CPU", 4), ("nvidia.com/gpus", 8), ("amd.com/gpu", 1)]);
        facts.guarantee = limits(&[("memry", 1 << 30)]);
        let said: Vec<String> = unoffered(&facts, &amounts(&[("cpu", 8), ("memory", 1 << 40), ("nvidia.com/gpu", 8)])).collect();
        let why = "no node offers this resource; meant may be";
        let want = [
            format!("spec.capability.CPU \"4\": {why} cpu"),
            format!("spec.capability.nvidia.com/gpus \"8\": {why} nvidia.com/gpu"),
            format!("spec.guarantee.resource.memry \"1073741824\": {why} memory"),
        ];
        assert_eq!(said, want);
        assert_eq!(unoffered(&facts, &Resources::new()).count(), 0, "no node yet");
        let right = queue("q", None, &[("gpu", 4), ("hugepages-2Mi", 1), ("nvidia.com/mig-1g.5gb", 2), ("nvidia.com/gpus", 0)]);
        let offered = amounts(&[("cpu", 8), ("hugepages-1Gi", 1), ("nvidia.com/mig-2g.10gb", 1), ("nvidia.com/gpu", 1)]);
        assert_eq!(unoffered(&right, &offered).collect::<Vec<_>>(), Vec::<String>::new());
    }
}
