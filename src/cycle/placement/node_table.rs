//! What do all nodes say to one pod?
//!
//! Every node is looked at and nothing is remembered, so that must be cheap: what is left on the nodes stands here as one column of numbers for
//! each resource, in the order of the nodes' names, and is kept up to date from the log of changed nodes. Neither a name is compared nor
//! anything divided for a node, and the answers are those of [`score`](super::score), to the last digit:
//!
//! ```text
//! ⌊(used + asked) · WHOLE / offered⌋  =  ⌊used · WHOLE / offered⌋  +  ⌊asked · WHOLE / offered⌋  +  1 if the two remainders reach offered
//!                                        kept for each node            once for each different amount that nodes offer
//! ```
//!
//! The last term is looked at only where a node could be better than the best so far. Predicates are asked only where they concern both the node
//! and the pod, which they say themselves ([`Concerns`]).

use std::collections::{BTreeMap, BTreeSet};
use std::iter::zip;
use std::sync::Arc;

use crate::accounting::NodeView;
use crate::cycle::placement::Strategy;
use crate::resources::{Amount, ResourceName, Resources};

use super::filter::{Concerns, Query, refusal};
use super::nodes::NodeId;
use super::score::{Score, WHOLE};
use super::snapshot::Snapshot;
use crate::cycle::explain::{Count, Reason, Tally};

/// So many resources at most have a column; when there would be more, those that are asked for now begin anew.
const MOST_COLUMNS: usize = 8;

/// Up to here products with [`WHOLE`] are exact; a hundred times what one object can ask for. Beyond, the table does not answer.
const LARGEST: i128 = 1_000_000_000_000_000_000_000_000_000_000;

/// What is left on every node.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    /// Where the log of the nodes stood; none before the first look.
    mark: Option<u64>,
    /// By place, which is the order of the names: the node there.
    nodes: Vec<Entry>,
    /// By node number: its place.
    places: BTreeMap<NodeId, usize>,
    columns: Vec<Column>,
    /// The places with amounts beyond [`LARGEST`].
    beyond: BTreeSet<usize>,
    /// By place: the least cost that it can have for what is asked at this moment.
    least: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: NodeId,
    /// The predicates for which it could refuse a pod.
    concerns: Concerns,
    /// How many kinds of devices it offers.
    devices: u32,
}

/// One resource on every node, by place.
#[derive(Debug)]
struct Column {
    name: ResourceName,
    idle: Vec<Amount>,
    /// How full it is, rounded down, and the remainder of that division.
    full: Vec<u32>,
    rest: Vec<i128>,
    /// The number of what it offers among `offers`.
    offer: Vec<usize>,
    offers: Vec<i128>,
    numbers: BTreeMap<i128, usize>,
}

/// What is asked of one resource.
struct Wanted<'a> {
    column: &'a Column,
    asked: Amount,
    /// By offer: how much fuller the pod makes it, rounded down, and the remainder.
    steps: Vec<(u32, i128)>,
}

impl NodeTable {
    /// Brings the table up to date, with a column for everything that is asked for. Whether it can answer.
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
        // What nodes offered once is forgotten with the rest, so that it cannot grow for ever.
        let many = self.nodes.len().saturating_mul(2).max(64);
        let overgrown = self.columns.iter().any(|column| column.offers.len() > many);
        let changed = self.mark.filter(|_| !overgrown).and_then(|mark| snapshot.nodes.since(mark));
        let known = changed.is_some_and(|changed| changed.iter().all(|id| self.set(*id, snapshot)));
        if !known {
            self.rebuild(snapshot);
        }
        self.mark = Some(snapshot.nodes.head());
    }

    /// Whether it is there still, under the place that it has.
    fn set(&mut self, id: NodeId, snapshot: Snapshot<'_>) -> bool {
        let Some((place, fresh)) = self.places.get(&id).copied().zip(entry(id, snapshot)) else { return false };
        // The number may be another node's now.
        let ordered = |at: usize, before: bool| {
            let name = |id: NodeId| snapshot.nodes.get(id).map(|facts| &facts.name);
            let Some((other, own)) = self.nodes.get(at).and_then(|entry| name(entry.id)).zip(name(id)) else { return true };
            if before { other < own } else { own < other }
        };
        let first = place == 0 || ordered(place.saturating_sub(1), true);
        if !first || !ordered(place.saturating_add(1), false) {
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
        true
    }

    fn rebuild(&mut self, snapshot: Snapshot<'_>) {
        self.columns.clear();
        self.beyond.clear();
        let by_name = snapshot.nodes.iter().filter_map(|facts| snapshot.nodes.id(&facts.name));
        self.nodes = by_name.filter_map(|id| entry(id, snapshot)).collect();
        self.places = self.nodes.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect();
    }

    fn wanted(&self, request: &Resources) -> Vec<Wanted<'_>> {
        let wanted = |(name, asked): (&ResourceName, Amount)| {
            let column = self.columns.iter().find(|column| column.name == *name)?;
            Some(Wanted { column, asked, steps: column.offers.iter().map(|offer| parts(asked.nanos(), *offer)).collect() })
        };
        request.iter().filter_map(wanted).collect()
    }

    /// The best nodes but for those of `not`, the best first; at most so many. To be asked after [`prepare`](Self::prepare).
    pub(super) fn scan(&mut self, query: &Query<'_>, not: &BTreeSet<NodeId>, most: usize, snapshot: Snapshot<'_>) -> Vec<(Score, NodeId)> {
        let mut least = std::mem::take(&mut self.least);
        least.clear();
        least.resize(self.nodes.len(), 0);
        let wanted = self.wanted(query.request);
        for want in &wanted {
            for ((least, full), offer) in zip(zip(&mut least, &want.column.full), &want.column.offer) {
                let step = want.steps.get(*offer).map_or(0, |(step, _)| *step);
                *least = (*least).max(full.saturating_add(step));
            }
        }
        let devices = query.request.iter().filter(|(name, _)| name.contains('/')).count();
        let devices = u32::try_from(devices).unwrap_or(u32::MAX);
        let concerns = Concerns::of_pod(query);
        let mut best: Vec<((u32, u32), NodeId)> = Vec::new();
        // The last of the list once it is full: what is no better needs no further look.
        let mut worst = None;
        for (place, (entry, least)) in zip(&self.nodes, &least).enumerate() {
            // Of a node that takes the pod, all devices that it asks for are among those that the node offers.
            let wasted = entry.devices.saturating_sub(devices);
            let bound = match snapshot.strategy {
                Strategy::Spread => *least,
                Strategy::Pack => WHOLE.saturating_sub(least.saturating_add(1)),
            };
            // Of equal nodes the first by name is the best.
            if worst.is_some_and(|worst| worst <= (wasted, bound)) || wanted.iter().any(|want| want.short(place).is_some()) {
                continue;
            }
            let fullness = wanted.iter().map(|want| want.fullness(place)).max().unwrap_or(0);
            let cost = match snapshot.strategy {
                Strategy::Spread => fullness,
                Strategy::Pack => WHOLE.saturating_sub(fullness),
            };
            let better = worst.is_none_or(|worst| (wasted, cost) < worst);
            if better && !not.contains(&entry.id) && (!entry.concerns.meet(concerns) || takes(query, entry.id, snapshot)) {
                let at = best.partition_point(|(score, _)| *score <= (wasted, cost));
                best.insert(at, ((wasted, cost), entry.id));
                best.truncate(most);
                worst = best.last().filter(|_| best.len() >= most).map(|(score, _)| *score);
            }
        }
        drop(wanted);
        self.least = least;
        let named =
            |((wasted, cost), id): ((u32, u32), NodeId)| Some((Score::new(wasted, cost, Arc::clone(&snapshot.nodes.get(id)?.name)), id));
        best.into_iter().filter_map(named).collect()
    }

    /// How many nodes refuse, and why. To be asked after [`prepare`](Self::prepare).
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
            if entry.concerns.meet(concerns) {
                if let Some(no) = snapshot.node(entry.id).and_then(|node| refusal(query, &node)) {
                    count(no.reason, no.asked, no.free);
                }
                continue;
            }
            let short = zip(&wanted, &mut lacking).find_map(|(want, lacking)| Some((want.short(place)?, lacking)));
            if let Some((free, lacking)) = short {
                lacking.nodes = lacking.nodes.saturating_add(1);
                lacking.most_free = lacking.most_free.max(free);
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

impl Column {
    fn new(name: ResourceName, nodes: usize) -> Self {
        let (idle, full, rest, offer) = (vec![Amount::ZERO; nodes], vec![0; nodes], vec![0; nodes], vec![0; nodes]);
        Self { name, idle, full, rest, offer, offers: Vec::new(), numbers: BTreeMap::new() }
    }

    /// What is left on the node in this place. Whether that is exact.
    fn set(&mut self, place: usize, accounting: Option<NodeView<'_>>) -> bool {
        let amount = |of: &Resources| of.get(&self.name);
        let (offered, used) =
            accounting.map_or((Amount::ZERO, Amount::ZERO), |accounting| (amount(accounting.allocatable), amount(accounting.used)));
        let offers = offered.nanos().max(0);
        let number = *self.numbers.entry(offers).or_insert_with(|| {
            self.offers.push(offers);
            self.offers.len().saturating_sub(1)
        });
        let (full, rest) = parts(used.nanos().max(0), offers);
        fn put<T>(column: &mut [T], place: usize, value: T) {
            if let Some(slot) = column.get_mut(place) {
                *slot = value;
            }
        }
        put(&mut self.idle, place, offered.minus(used));
        put(&mut self.full, place, full);
        put(&mut self.rest, place, rest);
        put(&mut self.offer, place, number);
        offers <= LARGEST && used.nanos() <= LARGEST
    }
}

impl Wanted<'_> {
    /// What is left there, if that is less than is asked for.
    fn short(&self, place: usize) -> Option<Amount> {
        let free = self.column.idle.get(place).copied().unwrap_or_default().max(Amount::ZERO);
        (self.asked > free).then_some(free)
    }

    /// How full a node is with the pod that takes it; exact, as [`score`](super::score::score) has it.
    fn fullness(&self, place: usize) -> u32 {
        let at = self.column.offer.get(place).copied().unwrap_or_default();
        let (step, rest) = self.steps.get(at).copied().unwrap_or_default();
        let rests = self.column.rest.get(place).copied().unwrap_or_default().saturating_add(rest);
        let carried = u32::from(self.column.offers.get(at).is_some_and(|offered| rests >= *offered));
        self.column.full.get(place).copied().unwrap_or_default().saturating_add(step).saturating_add(carried).min(WHOLE)
    }
}

/// `amount` of `whole` in parts of [`WHOLE`], rounded down, and what is left; of nothing all.
fn parts(amount: i128, whole: i128) -> (u32, i128) {
    let scaled = amount.saturating_mul(i128::from(WHOLE));
    let quotient = scaled.checked_div(whole).map_or(WHOLE, |parts| u32::try_from(parts).unwrap_or(u32::MAX));
    (quotient, scaled.checked_rem(whole).unwrap_or(0))
}

fn entry(id: NodeId, snapshot: Snapshot<'_>) -> Option<Entry> {
    let node = snapshot.node(id)?;
    let devices = node.accounting.allocatable.iter().filter(|(name, _)| name.contains('/')).count();
    Some(Entry { id, concerns: Concerns::of_node(node.facts), devices: u32::try_from(devices).unwrap_or(u32::MAX) })
}

fn takes(query: &Query<'_>, id: NodeId, snapshot: Snapshot<'_>) -> bool {
    snapshot.node(id).is_some_and(|node| refusal(query, &node).is_none())
}
