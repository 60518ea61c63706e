//! How much is kept for the guarantees of each queue, beyond what it uses?
//!
//! F4's `held` is `taken` and what is kept on top of it, so only the latter is counted here:
//!
//! ```text
//! kept(q)    = max(floor(q) − taken(q), the sum of kept of its children)      never below 0
//! kept(root) = the sum of kept of its children
//! held(q)    = taken(q) + kept(q)
//! ```
//!
//! Beside it the same is counted with what pods use in the place of what is taken: what of the floors pods do not fill, whatever is reserved.
//!
//! A queue without a floor has no child with one either, so nothing is kept for it and it has no entry here: who states no guarantee anywhere pays nothing.
//! Floors follow from the shape, the limits and the nodes, and are worked out anew when those change; a charge changes what is kept on its way up only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::audit::{Difference, Place, compare};
use super::limits::QueueLimits;
use super::ranked::Ranked;
use super::rules::{Rule, holds};
use super::tree::{MAX_DEPTH, QueueTree, ROOT_QUEUE};

/// What is kept for whom.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    /// The queues that have a floor, and `root` if there are any.
    queues: BTreeMap<Arc<str>, Entry>,
    /// The queues whose children's guarantees come to more than their own (T2), with the first dimension.
    excesses: BTreeMap<Arc<str>, Excess>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Entry {
    /// F3; of `root`, for which nothing is kept by itself, nothing.
    floor: Resources,
    tallies: By<Tally>,
}

/// What fills floors, one thing for each: all that is taken, and pods alone.
type By<T> = [T; 2];

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Tally {
    /// The sum of what is kept for its children.
    below: Resources,
    /// What is kept for it and for all below it.
    kept: Resources,
}

/// Guarantees of children that come to more than that of their parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excess {
    /// The first dimension, by name.
    pub dimension: ResourceName,
    /// What the children are guaranteed together.
    pub children: Amount,
    /// What is guaranteed to the queue itself.
    pub guarantee: Amount,
}

/// How an amount that is charged changes what is kept, at one queue on the way up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) before: Amount,
    pub(super) after: Amount,
}

static NOTHING: Resources = Resources::new();

impl Kept {
    /// From scratch. `sums`: what is taken in a queue, and what pods use there.
    pub(super) fn of(
        tree: &QueueTree,
        limits: &BTreeMap<Arc<str>, QueueLimits>,
        total: &Resources,
        sums: impl Fn(&str) -> By<Resources>,
    ) -> Self {
        if limits.values().all(|limits| limits.guarantee.is_empty()) {
            return Self::default();
        }
        let ranked = Ranked::of(tree, |name| limits.get(name).map_or(0, |limits| limits.priority));
        let (guarantees, excesses) = guarantees(&ranked, limits);
        let floors = floors(&ranked, &guarantees, root_floor(limits, total));
        let mut kept = vec![By::<Resources>::default(); ranked.len()];
        let mut queues = BTreeMap::new();
        for (at, entry) in ranked.up() {
            let mut below = By::<Resources>::default();
            for child in Ranked::children(entry, &kept) {
                below.iter_mut().zip(child).for_each(|(sum, child)| sum.add(child));
            }
            let floor = if at == 0 { NOTHING.clone() } else { floors.get(at).cloned().unwrap_or_default() };
            if floor.is_zero() && below.iter().all(Resources::is_zero) && at != 0 {
                continue;
            }
            let mut queue = Entry { floor, tallies: below.map(|below| Tally { below, kept: Resources::new() }) };
            let settled = queue.settle(&sums(&entry.name));
            if let Some(slot) = kept.get_mut(at) {
                *slot = settled;
            }
            queues.insert(Arc::clone(&entry.name), queue);
        }
        if queues.len() == 1 {
            queues.clear();
        }
        Self { queues, excesses }
    }

    /// Whether nothing can be kept for anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// What the queue's children are promised too much (T2).
    pub(super) fn excess(&self, queue: &str) -> Option<&Excess> {
        self.excesses.get(queue)
    }

    /// The queues that have an excess, by name.
    pub(super) fn excessive(&self) -> impl Iterator<Item = &Arc<str>> {
        self.excesses.keys()
    }

    pub(super) fn floor(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, |entry| &entry.floor)
    }

    pub(super) fn kept(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, Entry::kept)
    }

    /// What of the floors in the queue and below it pods do not fill.
    pub(super) fn unfilled(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, Entry::unfilled)
    }

    /// Where it is not what a recount says.
    pub(super) fn audit(&self, recounted: &Self) -> Vec<Difference> {
        let differences = |place, of: fn(&Entry) -> &Resources| {
            let recounted = recounted.queues.iter().map(|(name, entry)| (name.to_string(), of(entry).clone())).collect();
            compare(place, self.queues.iter().map(|(name, entry)| (&**name, of(entry))), recounted)
        };
        [differences(Place::Kept, Entry::kept), differences(Place::Unfilled, Entry::unfilled)].concat()
    }

    /// What would be kept for a queue once so much were taken and used there, and its children's part had changed so much.
    pub(super) fn change(&self, queue: &str, dimension: &str, sums: By<Amount>, children: Option<By<Change>>) -> By<Change> {
        let Some(Entry { floor, tallies: [by_taken, by_pods] }) = self.queues.get(queue) else { return By::default() };
        let floor = floor.get(dimension);
        let ([taken, used], [of_taken, of_pods]) = (sums, children.unwrap_or_default());
        [by_taken.change(dimension, floor.minus(taken), of_taken), by_pods.change(dimension, floor.minus(used), of_pods)]
    }

    /// What is taken or used in this queue, and so on the whole way up, has changed.
    pub(super) fn refresh(&mut self, queue: &str, tree: &QueueTree, sums: impl Fn(&str) -> By<Resources>) {
        let mut at = Some(queue);
        // Charges count for MAX_DEPTH queues at most, and as many may be above those; it ends a circle, too.
        for _ in 0..=MAX_DEPTH.saturating_mul(2) {
            let Some(name) = at else { return };
            let parent = tree.parent(name).map(|parent| &**parent);
            if let Some(entry) = self.queues.get_mut(name) {
                let before = entry.tallies.each_mut().map(|tally| std::mem::take(&mut tally.kept));
                let mut grown = entry.settle(&sums(name));
                grown.iter_mut().zip(&before).for_each(|(grown, before)| grown.sub(before));
                if let Some(above) =
                    parent.filter(|_| grown.iter().any(|grown| !grown.is_zero())).and_then(|parent| self.queues.get_mut(parent))
                {
                    above.tallies.iter_mut().zip(&grown).for_each(|(tally, grown)| tally.below.add(grown));
                }
            }
            at = parent.or((name != ROOT_QUEUE).then_some(ROOT_QUEUE));
        }
    }
}

impl Entry {
    const fn kept(&self) -> &Resources {
        let [by_taken, _] = &self.tallies;
        &by_taken.kept
    }

    const fn unfilled(&self) -> &Resources {
        let [_, by_pods] = &self.tallies;
        &by_pods.kept
    }

    /// What is kept now.
    fn settle(&mut self, sums: &By<Resources>) -> By<Resources> {
        self.tallies.iter_mut().zip(sums).for_each(|(tally, sum)| tally.settle(&self.floor, sum));
        self.tallies.each_ref().map(|tally| tally.kept.clone())
    }
}

impl Tally {
    fn settle(&mut self, floor: &Resources, filled: &Resources) {
        let mut kept = floor.clone();
        if holds(Rule::F4Taken) {
            kept.sub(filled);
        }
        kept = kept.without_negative();
        if holds(Rule::F4Below) {
            kept.max_each(&self.below);
        }
        self.kept = kept;
    }

    fn change(&self, dimension: &str, open: Amount, children: Change) -> Change {
        let below = self.below.get(dimension).plus(children.after.minus(children.before));
        Change { before: self.kept.get(dimension), after: open.max(below) }
    }
}

/// F3: the floor of `root`, which is also its share (S2).
pub(super) fn root_floor(limits: &BTreeMap<Arc<str>, QueueLimits>, total: &Resources) -> Resources {
    let capability = limits.get(ROOT_QUEUE).map(|limits| &limits.capability).filter(|_| holds(Rule::F3Root));
    let within =
        |name: &str, offered: Amount| capability.and_then(|capability| capability.get(name)).map_or(offered, |most| most.min(offered));
    total.iter().map(|(name, offered)| (name.clone(), within(name.as_str(), offered))).collect()
}

/// F2, and where the children's come to more than is stated (T2). What `root` states is not read.
fn guarantees(ranked: &Ranked, limits: &BTreeMap<Arc<str>, QueueLimits>) -> (Vec<Resources>, BTreeMap<Arc<str>, Excess>) {
    let mut guarantees = vec![Resources::new(); ranked.len()];
    let mut excesses = BTreeMap::new();
    for (at, entry) in ranked.up() {
        let mut sum = Resources::new();
        Ranked::children(entry, &guarantees).iter().for_each(|child| sum.add(child));
        let stated = limits.get(&entry.name).map(|limits| &limits.guarantee);
        let stated = stated.filter(|_| at != 0 || !holds(Rule::T2Root));
        let mut own = if holds(Rule::F2) { sum.clone() } else { NOTHING.clone() };
        for (dimension, guarantee) in stated.into_iter().flat_map(|stated| stated.iter()) {
            let children = sum.get(dimension);
            if children > guarantee {
                let excess = || Excess { dimension: dimension.clone(), children, guarantee };
                excesses.entry(Arc::clone(&entry.name)).or_insert_with(excess);
            }
            own.set(dimension.clone(), guarantee.max(Amount::ZERO));
        }
        if let Some(slot) = guarantees.get_mut(at) {
            *slot = own;
        }
    }
    (guarantees, excesses)
}

/// F3: every queue's floor is parted among its children, the first first.
fn floors(ranked: &Ranked, guarantees: &[Resources], of_root: Resources) -> Vec<Resources> {
    let mut floors = vec![Resources::new(); ranked.len()];
    if let Some(root) = floors.first_mut() {
        *root = of_root;
    }
    for (at, entry) in ranked.down() {
        let mut left = floors.get(at).cloned().unwrap_or_default();
        for child in entry.children.clone() {
            let (Some(guarantee), Some(floor)) = (guarantees.get(child), floors.get_mut(child)) else { continue };
            *floor = guarantee.iter().map(|(name, amount)| (name.clone(), amount.min(left.get(name)))).collect();
            if holds(Rule::F3Left) {
                left.sub(floor);
            }
        }
    }
    floors
}
