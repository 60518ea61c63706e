//! Which kinds of objects does the scheduler watch, and what follows from each? One row of [`KINDS`] for each kind, and an entry
//! of `plain`, or a file where more follows from it.
//!
//! A new kind needs its rights in the chart, too (`charts/podgroup/templates/scheduler.yaml`), which a test compares.

mod groups;
mod key;
mod nodes;
mod plain;
mod pods;
mod queues;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::api::Fault;
use crate::cycle::state::SchedulingState;

use super::event::Change;
use super::observe::Watches;
use super::state::{Now, State};

pub use groups::Groups;
pub use key::Key;
pub use nodes::Nodes;
pub use plain::{
    Attachments, Budgets, Claims, CsiDrivers, CsiNodes, Namespaces, PriorityClasses, StorageCapacities, StorageClasses, Volumes,
};
pub use pods::Pods;
pub use queues::Queues;

/// Every kind. The scheduler decides only after the list of each is complete.
pub const KINDS: [Row; 14] = [
    Row::of::<Nodes>(),
    Row::of::<Pods>(),
    Row::of::<Groups>(),
    Row::of::<Queues>(),
    Row::of::<PriorityClasses>(),
    Row::of::<Budgets>(),
    Row::of::<Namespaces>(),
    Row::of::<Claims>(),
    Row::of::<Volumes>(),
    Row::of::<StorageClasses>(),
    Row::of::<CsiNodes>(),
    Row::of::<Attachments>(),
    Row::of::<CsiDrivers>(),
    Row::of::<StorageCapacities>(),
];

/// A kind of objects that the scheduler watches.
pub trait WatchedKind: fmt::Debug + Sized + 'static {
    /// The object as it stands on the wire.
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static;
    /// What the scheduler keeps of it.
    type Facts: fmt::Debug + Send + 'static;
    /// What tells two objects apart.
    type Key: Key;

    /// What the kind is called, and how old its view may be.
    const KIND: Kind;

    /// Returns the facts of an object.
    fn facts(object: Self::Object) -> Self::Facts;

    /// Returns the key of the object with these facts.
    fn key(facts: &Self::Facts) -> Self::Key;

    /// Returns the keys of all objects that are known.
    fn known(scheduling: &SchedulingState) -> Vec<Self::Key>;

    /// Takes in an object that is new or changed.
    fn apply(state: &mut State, facts: Self::Facts);

    /// Takes in that an object was deleted.
    fn delete(state: &mut State, key: &Self::Key);

    /// What comes before the first list since the cluster went back: `all` are its objects.
    fn went_back(_state: &mut State, _all: &[Self::Facts]) {}

    /// What comes after each change.
    fn applied(_state: &mut State, _now: Now) {}
}

/// What a kind is called, and how old its view may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    resource: &'static str,
    has_limit: bool,
}

impl Kind {
    /// Returns every kind, in the order of [`KINDS`].
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.kind)
    }

    /// A kind of this resource that others change, and from which follows whether a pod fits: a decision on an old view takes what is not
    /// there. The pods of other schedulers are known from the view of pods alone, and what a node's drivers take from those of storage.
    const fn new(resource: &'static str) -> Self {
        Self { resource, has_limit: true }
    }

    /// A kind of this resource that decisions may know from any time before: it says what pods may do together, or it is for the order and
    /// for evictions, which the API server checks.
    const fn of_any_age(resource: &'static str) -> Self {
        Self { resource, has_limit: false }
    }

    /// Returns its resource, as RBAC names it.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        self.resource
    }

    /// Returns whether decisions stop where its view is too old.
    pub(super) const fn has_limit(self) -> bool {
        self.has_limit
    }
}

/// A row of [`KINDS`]: the kind, and what is done for it without its types.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Starts its watch.
    pub(super) watch: fn(&mut Watches<'_>),
    /// Returns the API group of its objects, and their plural name.
    #[cfg(test)]
    pub(super) resource: fn() -> (String, String),
    /// Makes the change after which everything before this time is known.
    #[cfg(test)]
    pub(super) up_to_date: fn(Duration) -> super::event::Event,
    /// Makes the list of this generation of a cluster without an object of the kind; and whether the cluster went back before.
    #[cfg(test)]
    pub(super) empty: fn(u64, bool) -> super::event::Event,
}

impl Row {
    const fn of<W: WatchedKind>() -> Self {
        Self {
            kind: W::KIND,
            watch: |watches| watches.start::<W>(),
            #[cfg(test)]
            resource: || (W::Object::group(&()).into_owned(), W::Object::plural(&()).into_owned()),
            #[cfg(test)]
            up_to_date: |as_of| super::event::Event::of::<W>(Change::UpToDate(as_of)),
            #[cfg(test)]
            empty: |generation, back| {
                let (all, unreadable, as_of) = (Vec::new(), Vec::new(), Duration::ZERO);
                super::event::Event::of::<W>(Change::Reset { all, unreadable, generation, back, as_of })
            },
        }
    }
}

/// A change of the objects of one kind, whichever it is.
pub trait AnyChange: fmt::Debug + Send {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Returns the number of objects in it that could not be decoded.
    fn unreadable(&self) -> usize;

    /// Returns the generation of the lists that show the state since the cluster went back, if this change says that it did.
    fn went_back(&self) -> Option<u64>;

    /// Returns the time before which everything is known of the kind, if this change says one.
    fn as_of(&self) -> Option<Duration>;

    /// Applies it. After a list, objects that the list lacks are deleted first.
    fn apply(self: Box<Self>, state: &mut State, now: Now);
}

/// A change of the objects of this kind.
#[derive(Debug)]
pub(super) struct ChangeOf<W: WatchedKind>(pub(super) Change<W::Facts, W::Key>);

impl<W: WatchedKind> AnyChange for ChangeOf<W> {
    fn kind(&self) -> Kind {
        W::KIND
    }

    fn unreadable(&self) -> usize {
        match &self.0 {
            Change::Reset { unreadable, .. } => unreadable.len(),
            Change::Unreadable(_) => 1,
            Change::UpToDate(_) | Change::Apply(_) | Change::Delete(_) => 0,
        }
    }

    fn went_back(&self) -> Option<u64> {
        match &self.0 {
            Change::Reset { generation, back: true, .. } => Some(*generation),
            Change::Reset { back: false, .. } | Change::UpToDate(_) | Change::Apply(_) | Change::Delete(_) | Change::Unreadable(_) => None,
        }
    }

    fn as_of(&self) -> Option<Duration> {
        match &self.0 {
            Change::Reset { as_of, .. } | Change::UpToDate(as_of) => Some(*as_of),
            Change::Apply(_) | Change::Delete(_) | Change::Unreadable(_) => None,
        }
    }

    fn apply(self: Box<Self>, state: &mut State, now: Now) {
        match self.0 {
            Change::Reset { all, unreadable, generation, back, as_of: _ } => {
                if back {
                    W::went_back(state, &all);
                }
                let there: BTreeSet<W::Key> = all.iter().map(W::key).chain(unreadable).collect();
                W::known(&state.scheduling).iter().filter(|key| !there.contains(key)).for_each(|gone| W::delete(state, gone));
                all.into_iter().for_each(|facts| W::apply(state, facts));
                state.listed(W::KIND, generation);
            }
            Change::Apply(facts) => W::apply(state, facts),
            Change::Delete(key) => W::delete(state, &key),
            Change::UpToDate(_) | Change::Unreadable(_) => {}
        }
        W::applied(state, now);
    }
}

/// Logs each new fault of a node or queue.
fn log_faults(kind: &'static str, name: &str, known: Option<&[Fault]>, faults: &[Fault]) {
    for fault in faults.iter().filter(|fault| !known.is_some_and(|known| known.contains(fault))) {
        tracing::warn!(kind, name, %fault, "the value is invalid");
    }
}

#[cfg(test)]
mod tests;
