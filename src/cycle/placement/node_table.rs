//! The node table: the idle resources of all nodes in columns, to find the best nodes for a pod fast.
//!
//! A search reads every node and uses no earlier answer, so the work for one node must be small. The table has one column of numbers for
//! each resource, in the [order](super::score::order) of equal nodes. It is updated from the log of changed nodes. A search compares no
//! names. It divides only for the nodes that can still get onto the list of the best nodes: what a node must have idle for that is worked
//! out once for each different amount that nodes offer, and then it is one comparison of whole numbers ([`Limit`]). Its results are exactly
//! those of [`score`](super::score):
//!
//! ```text
//! ⌊(used + asked) · WHOLE / offered⌋  =  ⌊used · WHOLE / offered⌋  +  ⌊asked · WHOLE / offered⌋  +  1 if the two remainders reach offered
//!                                        kept for each node            once for each different amount that nodes offer
//! ```
//!
//! A predicate is evaluated only if it concerns both the node and the pod ([`Concerns`]).

use std::collections::{BTreeMap, BTreeSet};
use std::iter::zip;
use std::sync::Arc;

use crate::cycle::placement::Strategy;
use crate::resources::{Amount, ResourceName, Resources};

use super::columns::{Column, LARGEST, Wanted, parts};
use super::filter::{Concerns, No, Query, avoided, refusal};
use super::limit::Limit;
use super::nodes::NodeId;
use super::score::{Figures, Rank, Score, cost, order};
use super::snapshot::Snapshot;
use super::weigh::Candidate;
use crate::cycle::explain::{Count, Reason, Tally};

/// The most resources with a column. If there would be more, all columns are dropped, and the resources of the present request get new ones.
const MOST_COLUMNS: usize = 8;

/// Instead of the used part of a node, where it lacks a resource that the pod requests.
const TOO_FULL: u32 = u32::MAX;

/// The idle resources of every node.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    /// The position in the log of changed nodes up to which the table is current; none before the first search.
    mark: Option<u64>,
    /// The version of the wanted kinds of devices then.
    devices: u64,
    /// The nodes, of equal ones the first first. The index of a node is its place.
    nodes: Vec<Entry>,
    /// The name of each node, by place.
    names: Vec<Arc<str>>,
    /// The place of each node.
    places: BTreeMap<NodeId, usize>,
    columns: Vec<Column>,
    /// The places with amounts beyond [`LARGEST`].
    beyond: BTreeSet<usize>,
    /// How full each node would be for the last request for which all of them were asked.
    known: Option<Known>,
}

/// How full each node is with a pod that requests this.
#[derive(Debug, Default)]
struct Known {
    request: Resources,
    /// The used part of each node, [`TOO_FULL`] where it lacks a resource, by place.
    fullness: Vec<u32>,
    /// The used part of its scarce devices, by place; empty where the pod requests no device.
    of_devices: Vec<Option<u32>>,
    /// The places that changed since. With as many as there are nodes, it is worked out anew.
    changed: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: NodeId,
    /// The predicates for which the node could refuse a pod.
    concerns: Concerns,
    /// The number of wanted kinds of devices that the node offers.
    devices: u32,
    /// Whether it has a taint that keeps pods away where they have a choice.
    is_avoided: bool,
}

impl NodeTable {
    /// Updates the table, with a column for each requested resource. Returns whether it can answer for the request.
    pub(super) fn prepare(&mut self, request: &Resources, snapshot: Snapshot<'_>) -> bool {
        if request.len() > MOST_COLUMNS || request.iter().any(|(_, asked)| !asked.is_positive() || asked.nanos() > LARGEST) {
            return false;
        }
        self.refresh(snapshot);
        let missing = |table: &Self| -> Vec<ResourceName> {
            request.iter().map(|(name, _)| name).filter(|name| table.columns.iter().all(|column| column.name != **name)).cloned().collect()
        };
        if self.columns.len().saturating_add(missing(self).len()) > MOST_COLUMNS {
            self.columns.clear();
            self.beyond.clear();
        }
        for name in missing(self) {
            let mut column = Column::new(name, self.nodes.len());
            for (place, entry) in self.nodes.iter().enumerate() {
                if !column.set(place, snapshot.accounting(entry.id)) {
                    self.beyond.insert(place);
                }
            }
            self.columns.push(column);
        }
        self.beyond.is_empty()
    }

    fn refresh(&mut self, snapshot: Snapshot<'_>) {
        // A rebuild also drops the amounts that no node offers any more, so that the list of offers is bounded.
        let many = self.nodes.len().saturating_mul(2).max(64);
        let overgrown = self.columns.iter().any(|column| column.offers.len() > many);
        let devices = snapshot.placed.devices_version();
        let changed = self.mark.filter(|_| !overgrown && self.devices == devices).and_then(|mark| snapshot.nodes.since(mark));
        let known = changed.is_some_and(|changed| changed.iter().all(|id| self.set(*id, snapshot)));
        if !known {
            self.rebuild(snapshot);
        }
        self.known = self.known.take().filter(|known| known.changed.len() < self.nodes.len());
        (self.mark, self.devices) = (Some(snapshot.nodes.head()), devices);
    }

    /// Whether it is there still, under the place that it has.
    fn set(&mut self, id: NodeId, snapshot: Snapshot<'_>) -> bool {
        let Some((place, fresh)) = self.places.get(&id).copied().zip(entry(id, snapshot)) else { return false };
        // The number may be another node's now.
        if self.names.get(place) != snapshot.nodes.get(id).map(|facts| &facts.name) {
            return false;
        }
        if let Some(entry) = self.nodes.get_mut(place) {
            *entry = fresh;
        }
        let accounting = snapshot.accounting(id);
        let mut exact = true;
        for column in &mut self.columns {
            exact &= column.set(place, accounting);
        }
        if exact {
            self.beyond.remove(&place);
        } else {
            self.beyond.insert(place);
        }
        if let Some(known) = &mut self.known {
            known.changed.push(place);
        }
        true
    }

    fn rebuild(&mut self, snapshot: Snapshot<'_>) {
        self.columns.clear();
        self.beyond.clear();
        self.known = None;
        let mut nodes: Vec<_> = snapshot.nodes.iter().map(|facts| (order(&facts.name), Arc::clone(&facts.name))).collect();
        nodes.sort_unstable();
        let entries = nodes.into_iter().filter_map(|(_, name)| Some((entry(snapshot.nodes.id(&name)?, snapshot)?, name)));
        (self.nodes, self.names) = entries.unzip();
        self.places = self.nodes.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect();
    }

    fn wanted(&self, request: &Resources) -> Vec<Wanted<'_>> {
        let wanted = |(name, asked): (&ResourceName, Amount)| {
            let column = self.columns.iter().find(|column| column.name == *name)?;
            Some(Wanted {
                column,
                asked,
                is_device: name.is_device(),
                steps: column.offers.iter().map(|offer| parts(asked.nanos(), *offer)).collect(),
            })
        };
        request.iter().filter_map(wanted).collect()
    }

    /// Returns at most `most` best nodes that are not in `not`, the best first. Call [`prepare`](Self::prepare) before.
    pub(super) fn scan(&self, query: &Query<'_>, not: &BTreeSet<NodeId>, most: usize, snapshot: Snapshot<'_>) -> Vec<(Score, NodeId)> {
        let wanted = self.wanted(query.request);
        let devices = wanted_devices(query.request, snapshot);
        let may_pack = snapshot.strategy == Strategy::Auto && wanted.iter().any(|want| want.is_device);
        let concerns = Concerns::of_pod(query);
        let mut best: Vec<(Rank, NodeId)> = Vec::new();
        // The rank of the last node on the full list: a node that is no better is skipped.
        let mut worst: Option<Rank> = None;
        let mut limit: Option<Limit<'_>> = None;
        // The nodes that the limit let through since it was worked out.
        let mut passed: usize = 0;
        for (place, entry) in self.nodes.iter().enumerate() {
            // A node that takes the pod offers all devices that the pod requests.
            let mut wasted = entry.devices.saturating_sub(devices);
            if limit.as_ref().is_some_and(|limit| limit.rules_out(place, wasted)) {
                continue;
            }
            passed = passed.saturating_add(1);
            let of_devices = if may_pack { wanted.iter().filter_map(|want| want.device_fullness(place)).max() } else { None };
            let lacking = query.images.map_or(0, |images| images.lacking(entry.id));
            let rank = |wasted, fullness| Figures { wasted, cost: cost(snapshot.strategy, fullness, of_devices), lacking }.rank();
            // Of equal nodes the first one in the table is the best.
            let is_better = |rank: Rank| worst.is_none_or(|worst| rank < worst);
            if (of_devices.is_some() && !is_better(rank(wasted, 0)))
                || wanted.iter().any(|want| want.short(place).is_some())
                || query.verdict.refuses(entry.id)
            {
                continue;
            }
            if entry.is_avoided {
                wasted = wasted.saturating_add(snapshot.nodes.get(entry.id).map_or(0, |facts| avoided(query.constraints, facts)));
            }
            let rank = rank(wasted, wanted.iter().map(|want| want.fullness(place)).max().unwrap_or(0));
            if is_better(rank) && !not.contains(&entry.id) && (!entry.concerns.meet(concerns) || takes(query, entry.id, snapshot)) {
                let at = best.partition_point(|(listed, _)| *listed <= rank);
                best.insert(at, (rank, entry.id));
                best.truncate(most);
                worst = best.last().filter(|_| best.len() >= most).map(|(rank, _)| *rank);
            }
            // A new limit costs a division for each offer. So it comes after as many nodes, each of which costs as much.
            let Some(worst) = worst.filter(|_| !may_pack && !wanted.is_empty()) else { continue };
            if limit.is_none() || passed >= wanted.iter().map(|want| want.column.offers.len()).sum::<usize>() {
                limit = Some(Limit::new(&wanted, worst, snapshot.strategy, query.images.is_some(), place));
                passed = 0;
            }
        }
        let named = |(rank, id): (Rank, NodeId)| Some((Score::new(rank, Arc::clone(&snapshot.nodes.get(id)?.name)), id));
        best.into_iter().filter_map(named).collect()
    }

    /// Returns every node that takes the pod and is not in `not`, in the order of equal nodes. Call [`prepare`](Self::prepare) before.
    pub(super) fn fitting(&mut self, query: &Query<'_>, not: &BTreeSet<NodeId>, snapshot: Snapshot<'_>) -> Vec<Candidate> {
        let known = self.take_known(query.request);
        let devices = wanted_devices(query.request, snapshot);
        let concerns = Concerns::of_pod(query);
        let mut fitting = Vec::with_capacity(self.nodes.len());
        for (place, (entry, fullness)) in zip(&self.nodes, &known.fullness).enumerate() {
            if *fullness == TOO_FULL
                || query.verdict.refuses(entry.id)
                || not.contains(&entry.id)
                || (entry.concerns.meet(concerns) && !takes(query, entry.id, snapshot))
            {
                continue;
            }
            let avoided =
                if entry.is_avoided { snapshot.nodes.get(entry.id).map_or(0, |facts| avoided(query.constraints, facts)) } else { 0 };
            let of_devices = known.of_devices.get(place).copied().flatten();
            let wasted = entry.devices.saturating_sub(devices).saturating_add(avoided);
            let lacking = query.images.map_or(0, |images| images.lacking(entry.id));
            let figures = Figures { wasted, cost: cost(snapshot.strategy, *fullness, of_devices), lacking };
            fitting.push(Candidate { figures, id: entry.id });
        }
        self.known = Some(known);
        fitting
    }

    /// Returns how full each node is with the pod on it. Between two pods that request the same only a few nodes change.
    fn take_known(&mut self, request: &Resources) -> Known {
        let known = self.known.take().filter(|known| known.request == *request);
        let wanted = self.wanted(request);
        let Some(mut known) = known else { return self.fullness(request, &wanted) };
        for place in std::mem::take(&mut known.changed) {
            if let Some(fullness) = known.fullness.get_mut(place) {
                let is_short = wanted.iter().any(|want| want.short(place).is_some());
                *fullness = if is_short { TOO_FULL } else { wanted.iter().map(|want| want.fullness(place)).max().unwrap_or(0) };
            }
            if let Some(of_devices) = known.of_devices.get_mut(place) {
                *of_devices = wanted.iter().filter_map(|want| want.device_fullness(place)).max();
            }
        }
        known
    }

    /// Works out how full each node is with the pod on it. Column by column, which is several times as fast as node by node.
    fn fullness(&self, request: &Resources, wanted: &[Wanted<'_>]) -> Known {
        let mut fullness = vec![0; self.nodes.len()];
        for want in wanted {
            let Column { idle, full, rest, offer, .. } = want.column;
            for ((fullness, idle), ((full, rest), offer)) in zip(zip(&mut fullness, idle), zip(zip(full, rest), offer)) {
                let of_one = if want.asked > *idle { TOO_FULL } else { want.fullness_of(*full, *rest, *offer) };
                *fullness = (*fullness).max(of_one);
            }
        }
        let mut of_devices = Vec::new();
        for want in wanted.iter().filter(|want| want.is_device) {
            of_devices.resize(fullness.len(), None);
            for (place, of_devices) in of_devices.iter_mut().enumerate() {
                *of_devices = (*of_devices).max(want.device_fullness(place));
            }
        }
        Known { request: request.clone(), fullness, of_devices, changed: Vec::new() }
    }

    /// Returns how many nodes take the pod. Call [`prepare`](Self::prepare) before.
    pub(super) fn takers(&self, query: &Query<'_>, snapshot: Snapshot<'_>) -> usize {
        let wanted = self.wanted(query.request);
        let concerns = Concerns::of_pod(query);
        let fits = |(place, entry): &(usize, &Entry)| {
            !wanted.iter().any(|want| want.short(*place).is_some())
                && !query.verdict.refuses(entry.id)
                && (!entry.concerns.meet(concerns) || takes(query, entry.id, snapshot))
        };
        self.nodes.iter().enumerate().filter(fits).count()
    }

    /// Returns how many nodes refuse, and why: each node under the first predicate that refuses it, and under every resource that it lacks.
    /// Call [`prepare`](Self::prepare) before.
    pub(super) fn tally(&self, query: &Query<'_>, snapshot: Snapshot<'_>) -> Tally {
        let mut tally = Tally { nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX), ..Tally::default() };
        let wanted = self.wanted(query.request);
        let mut lacking = vec![Count::default(); wanted.len()];
        let concerns = Concerns::of_pod(query);
        let mut count = |reason: Reason, asked, free| {
            let count = tally.reasons.entry(reason).or_insert(Count { asked, ..Count::default() });
            count.nodes = count.nodes.saturating_add(1);
            count.most_free = count.most_free.max(free);
        };
        for (place, entry) in self.nodes.iter().enumerate() {
            if let Some(outside) = query.verdict.outside(entry.id) {
                count(outside.clone(), Amount::ZERO, Amount::ZERO);
                continue;
            }
            if entry.concerns.meet(concerns) || query.verdict.refuses_volumes(entry.id) {
                let no = snapshot.node(entry.id).and_then(|node| refusal(query, &node));
                match no {
                    // Every resource that it lacks is counted below.
                    Some(No { reason: Reason::Lacks(_), .. }) => {}
                    Some(no) => {
                        count(no.reason, no.asked, no.free);
                        continue;
                    }
                    None => continue,
                }
            } else if query.verdict.has_port_taken(entry.id) {
                count(Reason::HostPorts, Amount::ZERO, Amount::ZERO);
                continue;
            }
            let mut is_short = false;
            for (want, lacking) in zip(&wanted, &mut lacking) {
                if let Some(free) = want.short(place) {
                    lacking.nodes = lacking.nodes.saturating_add(1);
                    lacking.most_free = lacking.most_free.max(free);
                    is_short = true;
                }
            }
            if let Some(reason) = query.verdict.refusal(entry.id).filter(|_| !is_short) {
                count(reason.clone(), Amount::ZERO, Amount::ZERO);
            }
        }
        for (want, lacking) in zip(&wanted, lacking).filter(|(_, lacking)| lacking.nodes > 0) {
            let count =
                tally.reasons.entry(Reason::Lacks(want.column.name.clone())).or_insert(Count { asked: want.asked, ..Count::default() });
            count.nodes = count.nodes.saturating_add(lacking.nodes);
            count.most_free = count.most_free.max(lacking.most_free);
        }
        tally
    }
}

fn entry(id: NodeId, snapshot: Snapshot<'_>) -> Option<Entry> {
    let node = snapshot.node(id)?;
    Some(Entry {
        id,
        concerns: Concerns::of_node(node.facts),
        devices: wanted_devices(node.accounting.allocatable, snapshot),
        is_avoided: !node.facts.soft_taints.is_empty(),
    })
}

/// Returns how many of the resources are wanted kinds of devices.
fn wanted_devices(of: &Resources, snapshot: Snapshot<'_>) -> u32 {
    let devices = of.iter().filter(|(name, _)| snapshot.placed.wanted_devices().contains(*name)).count();
    u32::try_from(devices).unwrap_or(u32::MAX)
}

fn takes(query: &Query<'_>, id: NodeId, snapshot: Snapshot<'_>) -> bool {
    snapshot.node(id).is_some_and(|node| refusal(query, &node).is_none())
}
