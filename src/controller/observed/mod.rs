//! What have the watches shown, and what does that say about one group?
//!
//! The controller's picture of the cluster: facts by kind ([`owners`], [`pods`], [`groups`]), indexed so that everything about one group is found by
//! its key. It is changed only by `take`, which says which groups the change concerns; it never asks, never waits and never decides.

mod groups;
mod owners;
mod pods;

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::workload::{DeploymentFacts, NamespaceFacts, OwnerFacts};
use crate::api::{GroupKey, Uid};
use crate::lifecycle::{Existing, Members, Owner, Sight, Wish};
use crate::runtime::watch::{BadObject, WatchEvent};

use groups::Groups;
use owners::{Around, Owners};
use pods::Pods;

pub use groups::SeenGroup;
pub use owners::{OwnerKind, SeenOwner};
pub use pods::{PodRef, SeenPod};

/// What a watch has shown, as facts.
#[derive(Debug)]
pub enum Seen {
    /// Owners of this kind.
    Owner(OwnerKind, WatchEvent<SeenOwner>),
    /// Deployments.
    Deployment(WatchEvent<DeploymentFacts>),
    /// Pods of one of our schedulers, which is named by its place in the list of flags.
    Pod(usize, WatchEvent<SeenPod>),
    /// PodGroups.
    Group(WatchEvent<SeenGroup>),
    /// Namespaces.
    Namespace(WatchEvent<NamespaceFacts>),
}

/// A list that must have been read to its end before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Owners(OwnerKind),
    Deployments,
    Pods(usize),
    Groups,
    Namespaces,
}

/// What a change was about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// The owner of this group, or what it wishes.
    Owner(GroupKey),
    /// A member of this group.
    Member(GroupKey),
    /// The group itself; with the UID of the object that went, if one did.
    Group(GroupKey, Option<Uid>),
    /// The group was not in a list that was read again.
    MissedGroup(GroupKey),
}

impl Touched {
    /// The group that is concerned.
    #[must_use]
    pub const fn key(&self) -> &GroupKey {
        match self {
            Self::Owner(key) | Self::Member(key) | Self::Group(key, _) | Self::MissedGroup(key) => key,
        }
    }

    /// The same without the key, as the memory of that group is told.
    #[must_use]
    pub const fn sight(&self) -> Sight<'_> {
        match self {
            Self::Owner(_) => Sight::Owner,
            Self::Member(_) => Sight::Member,
            Self::Group(_, Some(uid)) => Sight::Deleted(uid),
            // What became of one that a list does not have is said once, of all that are remembered.
            Self::Group(_, None) | Self::MissedGroup(_) => Sight::Group,
        }
    }
}

/// The owner at one moment: [`Owner`], and what it wishes with it.
#[derive(Clone, Debug)]
pub enum FrozenOwner {
    /// See [`Owner::Gone`].
    Gone,
    /// See [`Owner::Unseen`].
    Unseen,
    /// See [`Owner::Unserved`].
    Unserved,
    /// See [`Owner::Wishes`].
    Wishes(Box<Wish>),
}

impl FrozenOwner {
    /// What it wishes, if it does.
    #[must_use]
    pub fn wish(&self) -> Option<&Wish> {
        if let Self::Wishes(wish) = self { Some(wish) } else { None }
    }

    /// What the decision is asked with.
    #[must_use]
    pub fn known(&self) -> Owner<'_> {
        match self {
            Self::Gone => Owner::Gone,
            Self::Unseen => Owner::Unseen,
            Self::Unserved => Owner::Unserved,
            Self::Wishes(wish) => Owner::Wishes(wish),
        }
    }
}

/// Everything about one group at one moment: what the decision is made of.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The owner, and what it wishes.
    pub owner: FrozenOwner,
    /// The members that are there.
    pub members: Members,
    /// The group that is there.
    pub cached: Option<Existing>,
    /// The selector of the owner's pods, where it is known.
    pub selector: Option<String>,
    /// Whether the owner wants pods, and only a pod could say that they are ours: the next one may come at any moment.
    pub may_be_ours: bool,
    /// Members that do not name their group, in order.
    pub unstamped: Vec<PodRef>,
}

/// The controller's picture of the cluster.
pub struct Observed {
    schedulers: Vec<String>,
    owners: Owners,
    pods: Pods,
    groups: Groups,
    /// The lists that have been read to their end at least once.
    complete: BTreeSet<List>,
}

impl Observed {
    /// Nothing yet, of the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: &[String]) -> Self {
        Self {
            schedulers: schedulers.to_vec(),
            owners: Owners::default(),
            pods: Pods::default(),
            groups: Groups::default(),
            complete: BTreeSet::new(),
        }
    }

    /// Whether every list has been read to its end: before that nothing may be decided.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let owners = OwnerKind::ALL.into_iter().map(List::Owners);
        let pods = (0..self.schedulers.len()).map(List::Pods);
        owners.chain(pods).chain([List::Deployments, List::Groups, List::Namespaces]).all(|list| self.complete.contains(&list))
    }

    /// Takes one event, and says what it concerned.
    pub fn take(&mut self, seen: Seen) -> Vec<Touched> {
        let around = Around { groups: &self.groups, pods: &self.pods };
        match seen {
            Seen::Owner(kind, event) => {
                listed(&mut self.complete, &event, List::Owners(kind));
                self.owners.take(kind, event, around)
            }
            Seen::Deployment(event) => {
                listed(&mut self.complete, &event, List::Deployments);
                self.owners.take_deployment(event, around)
            }
            Seen::Pod(scheduler, event) => {
                listed(&mut self.complete, &event, List::Pods(scheduler));
                self.pods.take(scheduler, event)
            }
            Seen::Group(event) => {
                listed(&mut self.complete, &event, List::Groups);
                self.groups.take(event)
            }
            Seen::Namespace(event) => {
                listed(&mut self.complete, &event, List::Namespaces);
                let (changed, mut touched) = self.owners.take_namespace(event, around);
                touched.extend(self.pods.told_of_in(&changed).map(Touched::Owner));
                touched.sort();
                touched
            }
        }
    }

    /// Every group that there is something to know of.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<GroupKey> {
        let found = self.owners.served().chain(self.groups.keys().cloned()).chain(self.pods.groups().cloned());
        found.filter(|key| key.owner().is_some()).collect()
    }

    /// The group that is there.
    #[must_use]
    pub fn group(&self, key: &GroupKey) -> Option<&Existing> {
        self.groups.get(key)
    }

    /// Everything about this group now.
    #[must_use]
    pub fn freeze(&self, key: &GroupKey) -> Frozen {
        let seen = self.owners.find(key);
        let (owner, selector) = self.owner(key, seen);
        let (members, unstamped) = self.pods.members(key);
        let may_be_ours = matches!(seen, Some(SeenOwner::Elsewhere(facts)) if facts.wants_pods && !facts.named_group);
        Frozen { owner, members, cached: self.groups.get(key).cloned(), selector, may_be_ours, unstamped }
    }

    fn wishes_of(&self, owner: &OwnerFacts) -> FrozenOwner {
        match self.owners.wish(owner, &self.schedulers) {
            Some(wish) => FrozenOwner::Wishes(Box::new(wish)),
            None if owner.deleting => FrozenOwner::Gone,
            None => FrozenOwner::Unserved,
        }
    }

    fn owner(&self, key: &GroupKey, seen: Option<&SeenOwner>) -> (FrozenOwner, Option<String>) {
        // Nothing can be made where all is taken away; what is there goes with the namespace.
        if self.owners.is_ending(&key.namespace) {
            return (FrozenOwner::Gone, None);
        }
        match seen {
            Some(SeenOwner::Unserved { selector, .. }) => (FrozenOwner::Unserved, selector.as_deref().map(str::to_owned)),
            Some(SeenOwner::Served(facts)) => (self.wishes_of(facts), facts.selector.clone()),
            Some(SeenOwner::Elsewhere(facts)) => {
                // Whoever placed the pods' name in them knew better than the template.
                let scheduler = self.pods.scheduler(key).and_then(|place| self.schedulers.get(place));
                let facts = scheduler.map_or(Cow::Borrowed(&**facts), |name| {
                    Cow::Owned(OwnerFacts { scheduler: Arc::from(name.as_str()), ..(**facts).clone() })
                });
                (self.wishes_of(&facts), facts.selector.clone())
            }
            // Somebody's UID in another namespace: the reference lies, and the garbage collector takes the pod away for it.
            None if self.owners.is_elsewhere(key) => (FrozenOwner::Gone, None),
            None => {
                let told = self.pods.newest_source(key).and_then(|source| self.owners.wish(&source.owner, &self.schedulers));
                // Of a pod that was bare and has a controller now, the group from then is nobody's, and the garbage collector would leave it as long as the pod.
                let unseen = self.groups.has_unwatched_owner(key) || self.pods.is_member_elsewhere(key);
                let nobody = if unseen { FrozenOwner::Unseen } else { FrozenOwner::Gone };
                (told.map_or(nobody, |wish| FrozenOwner::Wishes(Box::new(wish))), None)
            }
        }
    }
}

fn listed<K>(complete: &mut BTreeSet<List>, event: &WatchEvent<K>, list: List) {
    if let WatchEvent::Reset { .. } = event {
        complete.insert(list);
    }
}

fn bad_uid(bad: &BadObject) -> Uid {
    Uid::from(bad.uid.as_deref().unwrap_or_default())
}

/// Takes a UID out of an index, and the entry with its last one.
fn remove<K: Hash + Eq + Borrow<Q>, Q: Hash + Eq + ?Sized>(index: &mut HashMap<K, BTreeSet<Uid>>, key: &Q, uid: &Uid) {
    if let Some(uids) = index.get_mut(key) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
