//! Computes the unused guarantee of each queue: what of its floor must stay free for it, beyond what it uses.
//!
//! F3 defines `held` as `taken` plus the unused guarantee, so only the latter is computed here:
//!
//! ```text
//! unused(q)    = max(floor(q) − taken(q), the sum of unused of its children)      never below 0
//! unused(root) = the sum of unused of its children
//! held(q)      = taken(q) + unused(q)
//! ```
//!
//! The same sums are also computed without reservations, with what pods use in the place of `taken`: the *unfilled* part of the floors.
//!
//! A queue without a floor has no child with a floor, so its unused guarantee is zero and it has no entry here. A cluster without
//! guarantees has no cost. Floors follow from the tree, the limits and the nodes, and are computed again when those change. A charge
//! changes only the sums on its way up.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

use super::audit::{Difference, Place, compare};
use super::limits::QueueLimits;
use super::ranked::Ranked;
use super::tree::{MAX_DEPTH, QueueTree, ROOT_QUEUE};

/// The floors, the unused guarantees, and the queues that guarantee too much.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct UnusedGuarantees {
    /// The queues that have a floor, and `root` if there are any.
    queues: BTreeMap<Arc<str>, Entry>,
    /// The queues that guarantee their children more than they have themselves (T1b), with the first dimension.
    excesses: BTreeMap<Arc<str>, Excess>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Entry {
    /// The floor (F2); zero for `root`, which has no unused guarantee of its own.
    floor: Resources,
    tallies: By<Tally>,
}

/// One value for each way to fill a floor: with everything taken, and with pods alone.
type By<T> = [T; 2];

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Tally {
    /// The sum of the unused guarantees of the children.
    below: Resources,
    /// The unused guarantee of the queue with all below it.
    unused: Resources,
}

/// How much more a queue guarantees its children than it has itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excess {
    /// The first dimension, by name.
    pub dimension: ResourceName,
    /// The sum of the guarantees of the children.
    pub children: Amount,
    /// The guarantee of the queue itself.
    pub guarantee: Amount,
}

/// How a charge changes the unused guarantee of one queue on its way up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct UnusedChange {
    pub(super) before: Amount,
    pub(super) after: Amount,
}

static NOTHING: Resources = Resources::new();

impl UnusedGuarantees {
    /// Computes everything from scratch. `sums` returns what is taken in a queue, and what pods use in it.
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
        let mut unused = vec![By::<Resources>::default(); ranked.len()];
        let mut queues = BTreeMap::new();
        for (at, entry) in ranked.up() {
            let mut below = By::<Resources>::default();
            for child in Ranked::children(entry, &unused) {
                below.iter_mut().zip(child).for_each(|(sum, child)| sum.add(child));
            }
            let floor = if at == 0 { NOTHING.clone() } else { floors.get(at).cloned().unwrap_or_default() };
            if floor.is_zero() && below.iter().all(Resources::is_zero) && at != 0 {
                continue;
            }
            let mut queue = Entry { floor, tallies: below.map(|below| Tally { below, unused: Resources::new() }) };
            let settled = queue.settle(&sums(&entry.name));
            if let Some(slot) = unused.get_mut(at) {
                *slot = settled;
            }
            queues.insert(Arc::clone(&entry.name), queue);
        }
        if queues.len() == 1 {
            queues.clear();
        }
        Self { queues, excesses }
    }

    /// Whether no queue has a guarantee.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns by how much the guarantees of a queue's children exceed its own (T1b); `None` if they do not.
    pub(super) fn excess(&self, queue: &str) -> Option<&Excess> {
        self.excesses.get(queue)
    }

    /// Returns the queues that have an excess, by name.
    pub(super) fn excessive(&self) -> impl Iterator<Item = &Arc<str>> {
        self.excesses.keys()
    }

    pub(super) fn floor(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, |entry| &entry.floor)
    }

    pub(super) fn unused(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, Entry::unused)
    }

    /// Returns the part of the floors in the queue and below it that pods do not fill.
    pub(super) fn unfilled(&self, queue: &str) -> &Resources {
        self.queues.get(queue).map_or(&NOTHING, Entry::unfilled)
    }

    /// Returns the differences from a recount.
    pub(super) fn audit(&self, recounted: &Self) -> Vec<Difference> {
        let differences = |place, of: fn(&Entry) -> &Resources| {
            let recounted = recounted.queues.iter().map(|(name, entry)| (name.to_string(), of(entry).clone())).collect();
            compare(place, self.queues.iter().map(|(name, entry)| (&**name, of(entry))), recounted)
        };
        [differences(Place::UnusedGuarantee, Entry::unused), differences(Place::Unfilled, Entry::unfilled)].concat()
    }

    /// Returns the change of a queue's unused guarantee for new sums of what is taken and used, when those of its children change by `children`.
    pub(super) fn change(&self, queue: &str, dimension: &str, sums: By<Amount>, children: Option<By<UnusedChange>>) -> By<UnusedChange> {
        let Some(Entry { floor, tallies: [by_taken, by_pods] }) = self.queues.get(queue) else { return By::default() };
        let floor = floor.get(dimension);
        let ([taken, used], [of_taken, of_pods]) = (sums, children.unwrap_or_default());
        [by_taken.change(dimension, floor.minus(taken), of_taken), by_pods.change(dimension, floor.minus(used), of_pods)]
    }

    /// Updates the queue and its whole way up after a change of what is taken or used in it.
    pub(super) fn refresh(&mut self, queue: &str, tree: &QueueTree, sums: impl Fn(&str) -> By<Resources>) {
        let mut at = Some(queue);
        // Charges count for MAX_DEPTH queues at most, and as many may be above those. The limit also ends a cycle.
        for _ in 0..=MAX_DEPTH.saturating_mul(2) {
            let Some(name) = at else { return };
            let parent = tree.above(name).map(|parent| &**parent);
            if let Some(entry) = self.queues.get_mut(name) {
                let before = entry.tallies.each_mut().map(|tally| std::mem::take(&mut tally.unused));
                let mut grown = entry.settle(&sums(name));
                grown.iter_mut().zip(&before).for_each(|(grown, before)| grown.sub(before));
                if let Some(above) =
                    parent.filter(|_| grown.iter().any(|grown| !grown.is_zero())).and_then(|parent| self.queues.get_mut(parent))
                {
                    above.tallies.iter_mut().zip(&grown).for_each(|(tally, grown)| tally.below.add(grown));
                }
            }
            at = parent;
        }
    }
}

impl Entry {
    const fn unused(&self) -> &Resources {
        let [by_taken, _] = &self.tallies;
        &by_taken.unused
    }

    const fn unfilled(&self) -> &Resources {
        let [_, by_pods] = &self.tallies;
        &by_pods.unused
    }

    /// Computes the unused guarantees again, and returns them.
    fn settle(&mut self, sums: &By<Resources>) -> By<Resources> {
        self.tallies.iter_mut().zip(sums).for_each(|(tally, sum)| tally.settle(&self.floor, sum));
        self.tallies.each_ref().map(|tally| tally.unused.clone())
    }
}

impl Tally {
    fn settle(&mut self, floor: &Resources, filled: &Resources) {
        let mut unused = floor.clone();
        unused.sub(filled);
        self.unused = unused.without_negative();
        self.unused.max_each(&self.below);
    }

    fn change(&self, dimension: &str, open: Amount, children: UnusedChange) -> UnusedChange {
        let below = self.below.get(dimension).plus(children.after.minus(children.before));
        UnusedChange { before: self.unused.get(dimension), after: open.max(below) }
    }
}

/// Returns the floor of `root` (F2), which is also its share (S2).
pub(super) fn root_floor(limits: &BTreeMap<Arc<str>, QueueLimits>, total: &Resources) -> Resources {
    let capability = limits.get(ROOT_QUEUE).map(|limits| &limits.capability);
    let within =
        |name: &str, offered: Amount| capability.and_then(|capability| capability.get(name)).map_or(offered, |most| most.min(offered));
    total.iter().map(|(name, offered)| (name.clone(), within(name.as_str(), offered))).collect()
}

/// Returns the guarantees (F2), none above the capability, and where those of the children exceed the stated one (T1b). The guarantee of
/// `root` is not read.
fn guarantees(ranked: &Ranked, limits: &BTreeMap<Arc<str>, QueueLimits>) -> (Vec<Resources>, BTreeMap<Arc<str>, Excess>) {
    let mut guarantees = vec![Resources::new(); ranked.len()];
    let mut excesses = BTreeMap::new();
    for (at, entry) in ranked.up() {
        let mut sum = Resources::new();
        Ranked::children(entry, &guarantees).iter().for_each(|child| sum.add(child));
        let stated = limits.get(&entry.name).map(|limits| &limits.guarantee).filter(|_| at != 0);
        let mut own = sum.clone();
        for (dimension, guarantee) in stated.into_iter().flat_map(|stated| stated.iter()) {
            let children = sum.get(dimension);
            if children > guarantee {
                let excess = || Excess { dimension: dimension.clone(), children, guarantee };
                excesses.entry(Arc::clone(&entry.name)).or_insert_with(excess);
            }
            own.set(dimension.clone(), guarantee.max(Amount::ZERO));
        }
        // The guarantee of `root` is only a sum: its floor is what there is.
        let capability = limits.get(&entry.name).map(|limits| &limits.capability).filter(|_| at != 0);
        for (dimension, most) in capability.into_iter().flat_map(|capability| capability.iter()) {
            if own.get(dimension) > most {
                own.set(dimension.clone(), most);
            }
        }
        if let Some(slot) = guarantees.get_mut(at) {
            *slot = own;
        }
    }
    (guarantees, excesses)
}

/// Returns the floors (F2): every queue's floor is divided among its children, in their order.
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
            left.sub(floor);
        }
    }
    floors
}
