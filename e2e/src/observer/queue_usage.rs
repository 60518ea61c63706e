//! Which queue does a binding exceed, in the queue tree with which the scheduler may have decided on it?
//!
//! That tree may be older than the present one. For each queue above the pod in the older tree, two limits hold:
//!
//! 1. The pod, and all pods that were bound before the tree was replaced, fit the capability in that tree.
//! 2. The pod, and all pods that are below the queue in that tree *and in all later trees*, fit the highest capability that the queue had
//!    in these trees. The scheduler decides on one pod after another. When it decided on the last of them, it counted all of them for this
//!    queue, in one of these trees.
//!
//! A pod that the scheduler bound later is forgiven by limit 1, because the scheduler may have decided on it with a newer tree. So a queue that was
//! moved excuses the pods for which the sum differs. A change of another part of the tree excuses nothing: limit 2 then counts every pod.

use std::collections::BTreeMap;

use super::facts::Release;
use super::state::ClusterState;

/// A queue above its capability in one dimension.
#[derive(Debug)]
pub struct Excess<'a> {
    /// The queue.
    pub queue: String,
    /// The dimension.
    pub dimension: &'a str,
    /// What its pods use, in nano-units.
    pub used: i128,
    /// What they may use, in nano-units.
    pub capability: i128,
}

/// A pod of the scheduler, with the usage that the scheduler could see when it decided on the binding.
#[derive(Debug)]
struct Charge<'a> {
    uid: &'a str,
    queue: &'a str,
    /// The usage in each dimension of the binding.
    used: Vec<i128>,
}

/// The usage of queues by pods of one scheduler, as it counts for one binding.
#[derive(Debug)]
pub struct QueueUsage<'a> {
    state: &'a ClusterState,
    /// The pod that is bound.
    uid: &'a str,
    /// The dimensions that the pod requests.
    dimensions: Vec<&'a str>,
    charges: Vec<Charge<'a>>,
    /// The trees so far, the present one first. A tree is given by the last resourceVersion at which it was in force.
    trees: Vec<u64>,
    /// The path of each charged queue in the last of these trees.
    paths: BTreeMap<&'a str, Vec<String>>,
    /// For each charged queue: the queues that it was below, itself included, in all trees so far.
    lasting: BTreeMap<&'a str, Vec<String>>,
}

impl<'a> QueueUsage<'a> {
    /// Counts the pods of a scheduler, without the increases by other clients since `from` (milliseconds).
    pub fn new(state: &'a ClusterState, release: Release, uid: &'a str, dimensions: Vec<&'a str>, from: i64) -> Self {
        let ours = state.pods.iter().filter(|(_, pod)| pod.track.now().is_some_and(|now| now.served == Some(release)));
        let charges: Vec<Charge<'a>> = ours
            .filter_map(|(uid, pod)| {
                let used = dimensions.iter().map(|dimension| state.held_since(release, uid, dimension, from)).collect();
                Some(Charge { uid, queue: pod.queue.as_deref()?, used })
            })
            .collect();
        Self { state, uid, dimensions, charges, trees: Vec::new(), paths: BTreeMap::new(), lasting: BTreeMap::new() }
    }

    /// Goes back to the next older tree; the present tree comes first.
    pub fn go_back_to(&mut self, tree: u64) {
        self.trees.push(tree);
        let names = self.charges.iter().map(|charge| charge.queue);
        self.paths = names.map(|name| (name, self.state.path(name, tree))).collect();
        for (name, path) in &self.paths {
            // A queue that did not exist yet had no pods, so it has no other place in this tree.
            if self.state.queues.get(*name).is_some_and(|track| track.began_by(tree)) {
                self.lasting.entry(name).or_insert_with(|| path.clone()).retain(|above| path.contains(above));
            }
        }
    }

    /// Returns the first queue on the path of `queue` that the binding exceeds if it was decided on with this tree. `None`: the tree excuses it.
    pub fn excess(&self, queue: &str) -> Option<Excess<'a>> {
        let tree = *self.trees.last()?;
        let path = self.paths.get(queue)?;
        let in_tree = |charge: &Charge<'_>, ancestor: &String| {
            let bound = charge.uid == self.uid || !self.state.bound_by_scheduler_after(charge.uid, tree);
            bound && self.paths.get(charge.queue).is_some_and(|path| path.contains(ancestor))
        };
        let lasts = |queue: &str, ancestor: &String| self.lasting.get(queue).is_some_and(|above| above.contains(ancestor));
        for ancestor in path {
            for (place, dimension) in self.dimensions.iter().enumerate() {
                let excess = |used: i128, capability: Option<i128>| {
                    let capability = capability.filter(|capability| used > *capability)?;
                    Some(Excess { queue: ancestor.clone(), dimension, used, capability })
                };
                let over = excess(self.sum(place, |charge| in_tree(charge, ancestor)), self.capability(ancestor, dimension, tree));
                if over.is_some() {
                    return over;
                }
                if lasts(queue, ancestor) {
                    let highest = self.trees.iter().map(|tree| self.capability(ancestor, dimension, *tree).unwrap_or(i128::MAX)).max();
                    let over = excess(self.sum(place, |charge| lasts(charge.queue, ancestor)), highest);
                    if over.is_some() {
                        return over;
                    }
                }
            }
        }
        None
    }

    /// Returns the usage of the pods that count, in one dimension.
    fn sum(&self, place: usize, counts: impl Fn(&Charge<'_>) -> bool) -> i128 {
        let counted = self.charges.iter().filter(|charge| counts(charge));
        counted.filter_map(|charge| charge.used.get(place)).fold(0, |sum, used| sum.saturating_add(*used))
    }

    /// Returns the capability of a queue in a tree. `None` means unlimited, or that the queue did not exist.
    fn capability(&self, queue: &str, dimension: &str, tree: u64) -> Option<i128> {
        self.state.queues.get(queue)?.as_of(tree)?.capability.limit(dimension)
    }
}
