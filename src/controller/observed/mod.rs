//! The controller's cache of the cluster, and the snapshot of one PodGroup taken from it.
//!
//! The cache has facts by kind ([`owners`], [`pods`], [`groups`]), with indexes from the key of a PodGroup to everything about it. Only
//! [`Observed::take`] changes it and returns the affected PodGroups. The cache sends no requests, never waits and decides nothing.

mod groups;
mod owners;
mod pods;

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::jobset::{jobset_of_group, selector_of_jobset};
use crate::api::lws::selector_of_lws;
use crate::api::workload::{DeploymentFacts, NamespaceFacts, OwnerFacts};
use crate::api::{GroupKey, Uid};
use crate::lifecycle::{CacheChange, DesiredGroup, Existing, Members, Owner, Warning, misnamed};
use crate::runtime::watch::{BadObject, WatchEvent};

use groups::Groups;
use owners::{Owners, Related};
use pods::Pods;

pub use groups::ObservedGroup;
pub use owners::{ObservedOwner, OwnerKind};
pub use pods::{ObservedPod, PodRef};

/// An event of a watch, as facts.
#[derive(Debug)]
pub enum Observation {
    /// About owners of this kind.
    Owner(OwnerKind, WatchEvent<ObservedOwner>),
    /// About Deployments.
    Deployment(WatchEvent<DeploymentFacts>),
    /// About pods of one served scheduler. The number is the index of the scheduler in the flags.
    Pod(usize, WatchEvent<ObservedPod>),
    /// About PodGroups.
    Group(WatchEvent<ObservedGroup>),
    /// About namespaces.
    Namespace(WatchEvent<NamespaceFacts>),
    /// The cluster went back to an earlier state: its etcd was restored from a backup. Lists of this and later generations show the state since.
    WentBack(u64),
}

/// A list that must be complete before the first decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Owners(OwnerKind),
    Deployments,
    Pods(usize),
    Groups,
    Namespaces,
}

/// A PodGroup that an observation affects, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Affected {
    /// The owner changed, or another object that its desired PodGroup depends on.
    Owner(GroupKey),
    /// A member changed.
    Member(GroupKey),
    /// The PodGroup itself changed. The UID is that of the deleted object, if it was deleted.
    Group(GroupKey, Option<Uid>),
    /// A new complete list does not contain the PodGroup.
    UnlistedGroup(GroupKey),
}

impl Affected {
    /// Returns the affected PodGroup.
    #[must_use]
    pub const fn key(&self) -> &GroupKey {
        match self {
            Self::Owner(key) | Self::Member(key) | Self::Group(key, _) | Self::UnlistedGroup(key) => key,
        }
    }

    /// Returns the change without the key, for the memory of the PodGroup.
    #[must_use]
    pub const fn cache_change(&self) -> CacheChange<'_> {
        match self {
            Self::Owner(_) => CacheChange::Owner,
            Self::Member(_) => CacheChange::Member,
            Self::Group(_, Some(uid)) => CacheChange::Deleted(uid),
            // After a new list, the reconciler sends `CacheChange::Relisted` for every remembered PodGroup.
            Self::Group(_, None) | Self::UnlistedGroup(_) => CacheChange::Group,
        }
    }
}

/// The owner in a snapshot: [`Owner`] with its own copy of the desired PodGroup.
#[derive(Clone, Debug)]
pub enum OwnerSnapshot {
    /// See [`Owner::Gone`].
    Gone,
    /// See [`Owner::Unknown`].
    Unknown,
    /// See [`Owner::Unserved`].
    Unserved,
    /// See [`Owner::Served`].
    Served(Box<DesiredGroup>),
}

impl OwnerSnapshot {
    /// Returns the desired PodGroup; `None` unless the owner is [`OwnerSnapshot::Served`].
    #[must_use]
    pub fn desired(&self) -> Option<&DesiredGroup> {
        if let Self::Served(desired) = self { Some(desired) } else { None }
    }

    /// Returns the owner as the decision takes it.
    #[must_use]
    pub fn known(&self) -> Owner<'_> {
        match self {
            Self::Gone => Owner::Gone,
            Self::Unknown => Owner::Unknown,
            Self::Unserved => Owner::Unserved,
            Self::Served(desired) => Owner::Served(desired),
        }
    }
}

/// Everything about one PodGroup at one moment: the input of the decision, without the memory.
#[derive(Clone, Debug)]
pub struct GroupSnapshot {
    /// The owner and its desired PodGroup.
    pub owner: OwnerSnapshot,
    /// The members in the cache.
    pub members: Members,
    /// The PodGroup in the cache; `None` if there is none.
    pub cached: Option<Existing>,
    /// The label selector of the owner's pods; `None` if it is not known.
    pub selector: Option<String>,
    /// Whether the owner wants pods but its template names another scheduler. A webhook may give its next pod to a served scheduler at any moment.
    pub awaits_webhook_pods: bool,
    /// What is wrong with the name of the owner's scheduler, if there is no PodGroup for that alone, and this name.
    pub misnamed: Option<(Warning, Arc<str>)>,
    /// The members without the annotation that names their PodGroup, in the order of their UIDs.
    pub unstamped: Vec<PodRef>,
    /// Whether pods of the owner exist that name another PodGroup.
    pub pods_elsewhere: bool,
    /// Those of them with a label that names this PodGroup, each with its own PodGroup.
    pub mislabelled: Vec<(PodRef, GroupKey)>,
}

/// The controller's cache of the cluster.
pub struct Observed {
    schedulers: Vec<String>,
    owners: Owners,
    pods: Pods,
    groups: Groups,
    /// The generation of the last complete list of each kind.
    complete: BTreeMap<List, u64>,
    /// The generation that every list must have: the cluster went back before it.
    required: u64,
}

impl Observed {
    /// Returns an empty cache for the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: &[String]) -> Self {
        Self {
            schedulers: schedulers.to_vec(),
            owners: Owners::default(),
            pods: Pods::default(),
            groups: Groups::default(),
            complete: BTreeMap::new(),
            required: 0,
        }
    }

    /// Returns whether every list is complete, and since the cluster went back, if it did. Before that no decision is allowed: an owner and
    /// its PodGroup may be shown at different moments of the cluster's life.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let owners = OwnerKind::ALL.into_iter().map(List::Owners);
        let pods = (0..self.schedulers.len()).map(List::Pods);
        let is_current = |list| self.complete.get(&list).is_some_and(|generation| *generation >= self.required);
        owners.chain(pods).chain([List::Deployments, List::Groups, List::Namespaces]).all(is_current)
    }

    /// Updates the cache with one observation. Returns the affected PodGroups.
    pub fn take(&mut self, seen: Observation) -> Vec<Affected> {
        let related = Related { groups: &self.groups, pods: &self.pods };
        match seen {
            Observation::Owner(kind, event) => {
                listed(&mut self.complete, &event, List::Owners(kind));
                self.owners.take(kind, event, related)
            }
            Observation::Deployment(event) => {
                listed(&mut self.complete, &event, List::Deployments);
                self.owners.take_deployment(event, related)
            }
            Observation::Pod(scheduler, event) => {
                listed(&mut self.complete, &event, List::Pods(scheduler));
                self.pods.take(scheduler, event)
            }
            Observation::Group(event) => {
                listed(&mut self.complete, &event, List::Groups);
                self.groups.take(event)
            }
            Observation::Namespace(event) => {
                listed(&mut self.complete, &event, List::Namespaces);
                let (changed, mut affected) = self.owners.take_namespace(event, related);
                affected.extend(self.pods.known_by_pods_in(&changed).map(Affected::Owner));
                affected.sort();
                affected
            }
            Observation::WentBack(generation) => {
                self.required = self.required.max(generation);
                Vec::new()
            }
        }
    }

    /// Returns the key of every PodGroup that has an owner, a member or an object.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<GroupKey> {
        let found = self.owners.served().chain(self.groups.keys().cloned()).chain(self.pods.groups().cloned());
        found.filter(GroupKey::is_generated).collect()
    }

    /// Returns the PodGroup in the cache.
    #[must_use]
    pub fn group(&self, key: &GroupKey) -> Option<&Existing> {
        self.groups.get(key)
    }

    /// Returns everything about one PodGroup at this moment.
    #[must_use]
    pub fn snapshot(&self, key: &GroupKey) -> GroupSnapshot {
        let seen = self.owners.find(key);
        let (owner, selector) = self.owner(key, seen);
        let (members, unstamped) = self.pods.members(key);
        let awaits_webhook_pods = matches!(seen, Some(ObservedOwner::OtherScheduler(facts)) if facts.wants_pods && !facts.named_group);
        let (pods_elsewhere, mislabelled) = (self.pods.has_pods_elsewhere(key), self.pods.mislabelled(key));
        let cached = self.groups.get(key).cloned();
        // Where another release serves that name, there is a PodGroup, maybe one of the whole set.
        let has_one = |owner: &OwnerFacts| {
            let of_set = owner.set.as_ref().map(|set| GroupKey::generated(&owner.object.namespace, &set.object.uid));
            of_set.is_some_and(|key| self.groups.get(&key).is_some())
        };
        let near = seen.and_then(ObservedOwner::misnamed).filter(|(owner, _)| !has_one(owner));
        let misnamed = near.map(|(owner, fault)| (misnamed(owner, fault), owner.scheduler.clone()));
        GroupSnapshot { owner, members, cached, selector, awaits_webhook_pods, misnamed, unstamped, pods_elsewhere, mislabelled }
    }

    fn desired_by(&self, owner: &OwnerFacts) -> OwnerSnapshot {
        match self.owners.desired(owner, &self.schedulers) {
            Some(desired) => OwnerSnapshot::Served(Box::new(desired)),
            None if owner.deleting => OwnerSnapshot::Gone,
            None => OwnerSnapshot::Unserved,
        }
    }

    fn owner(&self, key: &GroupKey, seen: Option<&ObservedOwner>) -> (OwnerSnapshot, Option<String>) {
        // Nothing can be created in a namespace that is being deleted, and its objects are deleted with it.
        if self.owners.is_being_deleted(&key.namespace) {
            return (OwnerSnapshot::Gone, None);
        }
        if let Some((name, attempt)) = jobset_of_group(&key.name) {
            // No watch shows the JobSet. While none of its Jobs asks for the PodGroup, it may exist and create some again.
            let without = if self.groups.has_unwatched_owner(key) { OwnerSnapshot::Unknown } else { OwnerSnapshot::Gone };
            let desired = self.owners.desired_of_set(key, &self.schedulers);
            let owner = desired.map_or(without, |desired| OwnerSnapshot::Served(Box::new(desired)));
            return (owner, Some(selector_of_jobset(name, attempt)));
        }
        if let Some(selector) = selector_of_lws(&key.name) {
            let desired = self.pods.leader(key).and_then(|leader| self.owners.desired_by_leader(key, leader, &self.schedulers));
            let owner = desired.map_or(OwnerSnapshot::Gone, |desired| OwnerSnapshot::Served(Box::new(desired)));
            return (owner, Some(selector));
        }
        match seen {
            Some(ObservedOwner::Unserved { selector, .. }) => (OwnerSnapshot::Unserved, selector.as_deref().map(str::to_owned)),
            Some(ObservedOwner::Served(facts)) => (self.desired_by(facts), facts.selector.clone()),
            Some(ObservedOwner::OtherScheduler(facts)) => {
                // The scheduler of the pods counts, not that of the template: a webhook has set it.
                let scheduler = self.pods.scheduler(key).and_then(|place| self.schedulers.get(place));
                let facts = scheduler.map_or(Cow::Borrowed(&**facts), |name| {
                    Cow::Owned(OwnerFacts { scheduler: Arc::from(name.as_str()), ..(**facts).clone() })
                });
                (self.desired_by(&facts), facts.selector.clone())
            }
            // The UID belongs to an owner in another namespace: the owner reference is wrong, and the garbage collector deletes the pod.
            None if self.owners.is_in_other_namespace(key) => (OwnerSnapshot::Gone, None),
            None => {
                let from_pods = self.pods.newest_source(key).and_then(|source| self.owners.desired(&source.owner, &self.schedulers));
                // A bare pod that a controller has adopted is no member of its old PodGroup any more. The garbage collector would keep that
                // PodGroup as long as the pod exists.
                let unseen = self.groups.has_unwatched_owner(key) || self.pods.is_member_of_another(key);
                let without_pods = if unseen { OwnerSnapshot::Unknown } else { OwnerSnapshot::Gone };
                (from_pods.map_or(without_pods, |desired| OwnerSnapshot::Served(Box::new(desired))), None)
            }
        }
    }
}

fn listed<K>(complete: &mut BTreeMap<List, u64>, event: &WatchEvent<K>, list: List) {
    if let WatchEvent::Reset { generation, .. } = event {
        complete.insert(list, *generation);
    }
}

fn bad_uid(bad: &BadObject) -> Uid {
    Uid::from(bad.uid.as_deref().unwrap_or_default())
}

/// Removes a UID from an index, and the entry when it was the last UID.
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
