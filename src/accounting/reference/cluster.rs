//! The facts as plain values: nodes, queues, pods, PodGroups and reservations.
//!
//! Amounts are nano-units. In [`Amounts`] an absent name is 0; in [`Bounds`] it is unset, which limits nothing.

use std::collections::{BTreeMap, BTreeSet};

/// An amount of each dimension; an absent one is 0.
pub(crate) type Amounts = BTreeMap<String, i128>;
/// A limit of each dimension; an absent one is unset.
pub(crate) type Bounds = BTreeMap<String, i128>;

/// Everything that the rules need.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Cluster {
    /// What the only node offers, where `nodes` is empty. Its name is `all`.
    pub(super) total: Amounts,
    /// What each node offers, by name.
    pub(super) nodes: BTreeMap<String, Amounts>,
    /// The queues that have an object; `root` and `default` exist without one.
    pub(super) queues: BTreeMap<String, Queue>,
    /// Where queues that do not exist were (T3).
    pub(super) former: BTreeMap<String, Former>,
    /// The pods, by UID.
    pub(super) pods: BTreeMap<String, Pod>,
    /// The pods outside our queues, by UID: the node and the amounts.
    pub(super) foreign: BTreeMap<String, (String, Amounts)>,
    pub(super) groups: BTreeMap<String, Group>,
    /// The reservations, by PodGroup.
    pub(super) reservations: BTreeMap<String, Reservation>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Queue {
    pub(crate) parent: Option<String>,
    pub(crate) capability: Bounds,
    pub(crate) deserved: Bounds,
    pub(crate) guarantee: Bounds,
    pub(crate) weight: i128,
    pub(crate) priority: i64,
    pub(crate) reclaimable: bool,
    pub(crate) closed_by_hand: bool,
}

/// The place of a deleted queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Former {
    pub(super) parent: String,
    /// The creation and the UID of the pod with the path that says so; `None` where the deletion was seen.
    pub(super) told_by: Option<(u64, String)>,
}

impl Default for Queue {
    fn default() -> Self {
        let unset = Bounds::new();
        Self {
            parent: None,
            capability: unset.clone(),
            deserved: unset.clone(),
            guarantee: unset,
            weight: 1,
            priority: 0,
            reclaimable: true,
            closed_by_hand: false,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pod {
    pub(super) queue: String,
    pub(super) amounts: Amounts,
    pub(super) node: Option<String>,
    pub(super) group: Option<String>,
    pub(super) priority: i64,
    /// The position in the order of creation; larger is younger.
    pub(super) created: u64,
    /// The path of queues that its binding wrote, from its queue up to `root`; empty where there is none.
    pub(super) path: Vec<String>,
    pub(super) preemptable: bool,
    pub(super) terminating: bool,
    /// Whether it is a pod of this scheduler.
    pub(super) ours: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub(super) queue: String,
    pub(super) min_member: usize,
    /// The request of each member that is not placed, in the order of placement.
    pub(super) asks: Vec<Amounts>,
    /// `spec.minResources`, with the keys as written.
    pub(super) min_resources: Option<Amounts>,
    pub(super) priority: i64,
    pub(super) preemptable: bool,
    /// Whether one of the members of its minimum is not preemptable.
    pub(super) member_keeps: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reservation {
    pub(super) queue: String,
    pub(super) amounts: Amounts,
}

impl Cluster {
    /// Returns what all nodes offer together, whatever is used of it.
    pub(super) fn offered(&self) -> Amounts {
        if self.nodes.is_empty() { self.total.clone() } else { self.nodes.values().fold(Amounts::new(), |sum, node| plus(&sum, node)) }
    }

    /// N2: returns `T`, the sum of what the nodes offer less what pods outside our queues use there, on no node below 0.
    pub(in crate::accounting::reference) fn there_for_queues(&self) -> Amounts {
        let all_nodes = if self.nodes.is_empty() { BTreeMap::from([("all".to_owned(), self.total.clone())]) } else { self.nodes.clone() };
        let of_node = |(name, offers): (&String, &Amounts)| {
            let there = self.foreign.values().filter(|(node, _)| node == name);
            less(offers, &there.fold(Amounts::new(), |sum, (_, amounts)| plus(&sum, amounts)))
        };
        all_nodes.iter().map(of_node).fold(Amounts::new(), |sum, left| plus(&sum, &left))
    }

    /// Returns every dimension that occurs anywhere.
    pub(super) fn dimensions(&self) -> BTreeSet<String> {
        let of_queues = self.queues.values().flat_map(|queue| [&queue.capability, &queue.deserved, &queue.guarantee]);
        let of_groups = self.groups.values().flat_map(|group| &group.asks);
        let held = self.pods.values().map(|pod| &pod.amounts).chain(self.reservations.values().map(|held| &held.amounts));
        let all = of_queues.chain(of_groups).chain(held).chain(self.nodes.values()).chain([&self.total]);
        all.flat_map(|amounts| amounts.keys().cloned()).collect()
    }

    /// Returns the cluster with one more pod.
    pub(super) fn with_charge(&self, queue: &str, amounts: &Amounts) -> Self {
        let mut after = self.clone();
        let uid = format!("charge-{}", after.pods.len());
        after.pods.insert(uid, Pod { queue: queue.to_owned(), amounts: amounts.clone(), ..Pod::default() });
        after
    }

    /// Returns the cluster without these pods.
    pub(super) fn without_pods(&self, gone: &BTreeSet<String>) -> Self {
        let mut after = self.clone();
        after.pods.retain(|uid, _| !gone.contains(uid));
        after
    }

    /// Returns the cluster without the reservation of this PodGroup (A4).
    pub(super) fn without_reservation(&self, group: &str) -> Self {
        let mut after = self.clone();
        after.reservations.remove(group);
        after
    }
}

impl Default for Pod {
    fn default() -> Self {
        Self {
            queue: String::new(),
            amounts: Amounts::new(),
            node: None,
            group: None,
            priority: 0,
            created: 0,
            path: Vec::new(),
            preemptable: true,
            terminating: false,
            ours: true,
        }
    }
}

/// Returns one amount; an absent one is 0.
pub(super) fn amount(amounts: &Amounts, dimension: &str) -> i128 {
    amounts.get(dimension).copied().unwrap_or(0)
}

/// Returns the sum.
pub(super) fn plus(a: &Amounts, b: &Amounts) -> Amounts {
    let mut sum = a.clone();
    for (dimension, amount) in b {
        *sum.entry(dimension.clone()).or_default() += amount;
    }
    sum
}

/// Returns the difference, nowhere below 0.
pub(super) fn less(a: &Amounts, b: &Amounts) -> Amounts {
    a.iter().map(|(dimension, own)| (dimension.clone(), (own - amount(b, dimension)).max(0))).collect()
}

/// Returns the larger amount in each dimension.
pub(super) fn larger(a: &Amounts, b: &Amounts) -> Amounts {
    let mut larger = a.clone();
    for (dimension, amount) in b {
        let own = larger.entry(dimension.clone()).or_default();
        *own = (*own).max(*amount);
    }
    larger
}

/// Returns the requested dimensions.
pub(super) fn asked_in(asked: &Amounts) -> impl Iterator<Item = (&str, i128)> {
    asked.iter().filter(|(_, amount)| **amount > 0).map(|(dimension, amount)| (dimension.as_str(), *amount))
}
