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
//! A queue without a floor has no child with one either, so nothing is kept for it and it has no entry here: who states no guarantee anywhere pays nothing.
//! Floors follow from the shape, the limits and the nodes, and are worked out anew when those change; a charge changes what is kept on its way up only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Amount, ResourceName, Resources};

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
    /// From scratch.
    pub(super) fn of(
        tree: &QueueTree,
        limits: &BTreeMap<Arc<str>, QueueLimits>,
        total: &Resources,
        taken: impl Fn(&str) -> Resources,
    ) -> Self {
        if limits.values().all(|limits| limits.guarantee.is_empty()) {
            return Self::default();
        }
        let ranked = Ranked::of(tree, |name| limits.get(name).map_or(0, |limits| limits.priority));
        let (guarantees, excesses) = guarantees(&ranked, limits);
        let floors = floors(&ranked, &guarantees, root_floor(limits, total));
        let mut kept = vec![Resources::new(); ranked.len()];
        let mut queues = BTreeMap::new();
        for (at, entry) in ranked.up() {
            let mut below = Resources::new();
            Ranked::children(entry, &kept).iter().for_each(|child| below.add(child));
            let floor = if at == 0 { NOTHING.clone() } else { floors.get(at).cloned().unwrap_or_default() };
            if floor.is_zero() && below.is_zero() && at != 0 {
                continue;
            }
            let mut queue = Entry { floor, below, kept: Resources::new() };
            queue.settle(&taken(&entry.name));
            if let Some(slot) = kept.get_mut(at) {
                *slot = queue.kept.clone();
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
        self.queues.get(queue).map_or(&NOTHING, |entry| &entry.kept)
    }

    /// The queues that have a floor, and `root`, with what is kept for them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Resources)> {
        self.queues.iter().map(|(name, entry)| (&**name, &entry.kept))
    }

    /// What would be kept for a queue once so much were taken there, and its children's part had changed so much.
    pub(super) fn change(&self, queue: &str, dimension: &str, taken: Amount, child: Option<Change>) -> Change {
        let Some(entry) = self.queues.get(queue) else {
            return Change { before: Amount::ZERO, after: Amount::ZERO };
        };
        let grown = child.map_or(Amount::ZERO, |child| child.after.minus(child.before));
        let below = entry.below.get(dimension).plus(grown);
        Change { before: entry.kept.get(dimension), after: entry.floor.get(dimension).minus(taken).max(below) }
    }

    /// What is taken in this queue, and so on the whole way up, has changed.
    pub(super) fn refresh(&mut self, queue: &str, tree: &QueueTree, taken: impl Fn(&str) -> Resources) {
        let mut at = Some(queue);
        // Charges count for MAX_DEPTH queues at most, and as many may be above those; it ends a circle, too.
        for _ in 0..=MAX_DEPTH.saturating_mul(2) {
            let Some(name) = at else { return };
            let parent = tree.parent(name).map(|parent| &**parent);
            if let Some(entry) = self.queues.get_mut(name) {
                let before = std::mem::take(&mut entry.kept);
                entry.settle(&taken(name));
                let mut grown = entry.kept.clone();
                grown.sub(&before);
                if let Some(above) = parent.filter(|_| !grown.is_zero()).and_then(|parent| self.queues.get_mut(parent)) {
                    above.below.add(&grown);
                }
            }
            at = parent.or((name != ROOT_QUEUE).then_some(ROOT_QUEUE));
        }
    }
}

impl Entry {
    fn settle(&mut self, taken: &Resources) {
        let mut kept = self.floor.clone();
        if holds(Rule::F4Taken) {
            kept.sub(taken);
        }
        kept = kept.without_negative();
        if holds(Rule::F4Below) {
            kept.max_each(&self.below);
        }
        self.kept = kept;
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
