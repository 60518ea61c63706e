//! The tree of queues: which queue is below which.
//!
//! Only the shape; the amounts are in `quota`. Queues come and go in any order, are written by people, and can be wrong in
//! every way. So the tree stores what the objects say, and reports for each queue what is wrong on its way up:
//!
//! ```text
//! root ◀── a ◀── b        path(b) = b, a, root
//!          ╳ gone ◀── c   path(c) = MissingParent   but c's pods still count: walk(c) = c, gone, root
//!     a ◀┄ ╳ old          path(old) = NotFound      deleted below a, and in use: walk(old) = old, a, root
//!          d ◀─▶ e        path(d) = Cycle           walk(d) = d, e, root
//! ```
//!
//! `root` and `default` always exist. Whatever is broken in between, everything counts at `root`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::places::{PlaceSource, Places};
use super::unused_guarantees::Excess;

/// The queue above all others; it always exists, and its own parent is ignored.
pub const ROOT_QUEUE: &str = "root";
/// The queue of pods that name none; it always exists, below `root` unless it names another parent.
pub const DEFAULT_QUEUE: &str = "default";
/// The limit of queues on the way up, without `root`. Trees that people design have three to five levels; the
/// limit keeps every decision fast when a script makes a longer chain.
pub const MAX_DEPTH: usize = 64;

/// The position of one queue in the tree, as its object says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueShape {
    /// The name.
    pub name: Arc<str>,
    /// `spec.parent`; `None` or empty means `root`.
    pub parent: Option<Arc<str>>,
}

/// The queues from one that can take pods up to `root`, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path(Vec<Arc<str>>);

impl Path {
    /// Returns the queues, from the leaf to `root`.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }
}

/// Why a queue takes no pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueFault {
    /// The queue with the fault: the requested one, or one above it.
    pub queue: Arc<str>,
    /// The fault.
    pub why: Why,
}

/// The fault of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The queue does not exist.
    NotFound,
    /// The parent does not exist.
    MissingParent {
        /// The parent that the queue names.
        parent: Arc<str>,
    },
    /// The queue is below itself.
    Cycle,
    /// There are more than [`MAX_DEPTH`] queues on its way up.
    TooDeep,
    /// The guarantees of the children exceed the queue's own.
    Guarantees(Excess),
    /// The queue has children (or is `root`), and pods go to leaves only.
    NotLeaf,
}

/// The shape of all queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueTree {
    root: Arc<str>,
    /// The parent that each existing queue names, without `root`.
    parents: BTreeMap<Arc<str>, Arc<str>>,
    /// The inverse of `parents`; also below names that do not exist. No value is empty (B4).
    children: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Where queues that do not exist were; none that exists is in it.
    places: Places,
}

impl Default for QueueTree {
    fn default() -> Self {
        let mut tree = Self { root: Arc::from(ROOT_QUEUE), parents: BTreeMap::new(), children: BTreeMap::new(), places: Places::default() };
        tree.link(Arc::from(DEFAULT_QUEUE), Arc::from(ROOT_QUEUE));
        tree
    }
}

impl QueueTree {
    /// Makes a tree with only `root` and `default`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue, or changes its parent.
    pub fn upsert(&mut self, shape: &QueueShape) {
        if *shape.name == *self.root {
            return;
        }
        self.unlink(&shape.name);
        self.places.remove(&shape.name);
        let parent = Arc::clone(self.parent_named(shape));
        self.link(Arc::clone(&shape.name), parent);
    }

    /// Removes a queue. `root` cannot be removed, and `default` returns to its default parent. `in_use` says that something is charged in the
    /// queue or below it: then it keeps its place.
    pub fn remove(&mut self, name: &str, in_use: bool) {
        let parent = self.unlink(name);
        if name == DEFAULT_QUEUE {
            self.link(Arc::from(DEFAULT_QUEUE), Arc::clone(&self.root));
        } else if let Some(parent) = parent.filter(|_| in_use) {
            self.places.put(Arc::from(name), parent, PlaceSource::Seen);
        }
    }

    /// Whether what this source says of a queue's place is believed: the queue does not exist, and nothing better is known.
    pub(super) fn believes(&self, name: &str, source: &PlaceSource) -> bool {
        !self.contains(name) && self.places.believes(name, source)
    }

    /// Remembers where a queue that does not exist was.
    pub(super) fn remember_place(&mut self, name: &Arc<str>, parent: &Arc<str>, source: &PlaceSource) {
        self.places.put(Arc::clone(name), Arc::clone(parent), source.clone());
    }

    /// Forgets where a queue was. Nothing may be charged in it or below it.
    pub(super) fn forget_place(&mut self, name: &str) {
        self.places.remove(name);
    }

    /// Whether the place of any deleted queue is remembered.
    pub(super) fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Whether the queue is a deleted one that keeps its place, or below one. Allocates nothing.
    pub(super) fn counts_by_place(&self, name: &str) -> bool {
        let mut at = name;
        let most = if self.has_places() { MAX_DEPTH } else { 0 };
        for _ in 0..most {
            if self.places.parent(at).is_some() {
                return true;
            }
            let Some(parent) = self.parents.get(at) else { return false };
            at = parent;
        }
        false
    }

    /// Returns the deleted queues with a place, by name.
    pub(super) fn deleted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.queues()
    }

    /// Returns the deleted queues that keep their place directly below this one, by name.
    pub(super) fn deleted_below(&self, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.places.below(name)
    }

    /// Whether the queue exists.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        *name == *self.root || self.parents.contains_key(name)
    }

    /// Returns the existing queues: `root`, then the others by name.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.root).chain(self.parents.keys())
    }

    /// Returns the parent that a queue names, existing or not; `None` for `root` and for a queue that does not exist.
    #[must_use]
    pub fn parent(&self, name: &str) -> Option<&Arc<str>> {
        self.parents.get(name)
    }

    /// Returns the queue directly above: the parent, or of a deleted queue the one below which it keeps its place.
    #[must_use]
    pub fn above(&self, name: &str) -> Option<&Arc<str>> {
        self.parents.get(name).or_else(|| self.places.parent(name))
    }

    /// Returns the queues that name this one as their parent, by name.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &Arc<str>> {
        self.children.get(name).into_iter().flatten()
    }

    /// Returns the way from a queue that can take pods up to `root`.
    ///
    /// # Errors
    ///
    /// The fault of the queue or of the first one above it (B5).
    pub fn path(&self, name: &str) -> Result<Path, QueueFault> {
        let (queues, fault) = self.walk(name);
        if let Some(fault) = fault {
            return Err(fault);
        }
        if *name == *self.root || self.children.contains_key(name) {
            return Err(QueueFault { queue: self.intern(name), why: Why::NotLeaf });
        }
        Ok(Path(queues))
    }

    /// Returns the fault on the way up from a queue; having children is no fault.
    #[must_use]
    pub fn fault(&self, name: &str) -> Option<QueueFault> {
        self.walk(name).1
    }

    /// Returns the queues in which a charge to `name` counts (T2, T3): itself, all above it whether they exist or not, and `root`.
    #[must_use]
    pub fn way(&self, name: &str) -> Vec<Arc<str>> {
        self.walk(name).0
    }

    /// Returns the queues in which a charge to `name` counts, `name` first and `root` last, each once, and the fault
    /// on the way. Names that do not exist are included, so that a charge counts again when they do.
    pub(super) fn walk(&self, name: &str) -> (Vec<Arc<str>>, Option<QueueFault>) {
        let mut queues: Vec<Arc<str>> = Vec::new();
        let mut at = self.intern(name);
        let mut fault = None;
        while at != self.root {
            // A linear search: the way is at most MAX_DEPTH long, and three long in practice.
            if queues.contains(&at) {
                fault = fault.or(Some(QueueFault { queue: at, why: Why::Cycle }));
                break;
            }
            if queues.len() >= MAX_DEPTH {
                fault = fault.or_else(|| Some(QueueFault { queue: self.intern(name), why: Why::TooDeep }));
                break;
            }
            if !self.parents.contains_key(&at) {
                fault = fault.or_else(|| {
                    Some(match queues.last() {
                        None => QueueFault { queue: Arc::clone(&at), why: Why::NotFound },
                        Some(child) => QueueFault { queue: Arc::clone(child), why: Why::MissingParent { parent: Arc::clone(&at) } },
                    })
                });
            }
            let Some(parent) = self.above(&at) else {
                queues.push(at);
                break;
            };
            queues.push(std::mem::replace(&mut at, Arc::clone(parent)));
        }
        queues.push(Arc::clone(&self.root));
        (queues, fault)
    }

    /// Returns `name` and all queues below it, deleted ones that keep their place included. The result does not depend on the parent of
    /// `name`, so it is the same before and after a change of that parent.
    #[must_use]
    pub fn subtree(&self, name: &str) -> BTreeSet<Arc<str>> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.intern(name)];
        while let Some(queue) = open.pop() {
            let below = self.children(&queue).chain(self.places.below(&queue));
            open.extend(below.filter(|child| !found.contains(*child)).cloned());
            found.insert(queue);
        }
        found
    }

    /// Returns the children whose entry does not agree with `parents`, for the audit.
    pub(super) fn misfiled(&self) -> Vec<Arc<str>> {
        let mut recounted = BTreeMap::<Arc<str>, BTreeSet<Arc<str>>>::new();
        for (child, parent) in &self.parents {
            recounted.entry(Arc::clone(parent)).or_default().insert(Arc::clone(child));
        }
        let names: BTreeSet<_> = recounted.keys().chain(self.children.keys()).collect();
        names.into_iter().filter(|name| recounted.get(*name) != self.children.get(*name)).cloned().collect()
    }

    /// Whether the queue already has this parent; always true for `root`.
    pub(super) fn agrees_with(&self, shape: &QueueShape) -> bool {
        *shape.name == *self.root || self.parents.get(&shape.name) == Some(self.parent_named(shape))
    }

    fn parent_named<'a>(&'a self, shape: &'a QueueShape) -> &'a Arc<str> {
        shape.parent.as_ref().filter(|parent| !parent.is_empty()).unwrap_or(&self.root)
    }

    fn intern(&self, name: &str) -> Arc<str> {
        if *name == *self.root {
            return Arc::clone(&self.root);
        }
        self.parents.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name))
    }

    fn link(&mut self, name: Arc<str>, parent: Arc<str>) {
        self.children.entry(Arc::clone(&parent)).or_default().insert(Arc::clone(&name));
        self.parents.insert(name, parent);
    }

    /// Returns the parent that the queue had.
    fn unlink(&mut self, name: &str) -> Option<Arc<str>> {
        let parent = self.parents.remove(name)?;
        if let Some(siblings) = self.children.get_mut(&parent) {
            siblings.remove(name);
            if siblings.is_empty() {
                self.children.remove(&parent);
            }
        }
        Some(parent)
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
