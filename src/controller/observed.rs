//! What have the watches shown, and what does that say about one group?
//!
//! The controller's picture of the cluster: facts by kind, indexed so that everything about one group is found by its key. It is changed only by
//! `take`, which says which groups the change concerns; it never asks, never waits and never decides.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::workload::{DeploymentFacts, PodSource, ReplicaSetFacts};
use crate::api::{GroupKey, Uid};
use crate::lifecycle::{Existing, Members, Sight, Version, Wish, intend, intend_for_pod};
use crate::runtime::watch::{BadObject, WatchEvent};

/// What a watch has shown, as facts.
#[derive(Debug)]
pub enum Seen {
    /// ReplicaSets.
    ReplicaSet(WatchEvent<SeenReplicaSet>),
    /// Deployments.
    Deployment(WatchEvent<DeploymentFacts>),
    /// Pods of one of our schedulers, which is named by its place in the list of flags.
    Pod(usize, WatchEvent<SeenPod>),
    /// PodGroups.
    Group(WatchEvent<SeenGroup>),
    /// Namespaces.
    Namespace(WatchEvent<SeenNamespace>),
}

/// A ReplicaSet; of those of other schedulers nothing is kept but that they are there.
#[derive(Clone, Debug)]
pub enum SeenReplicaSet {
    /// Its pods are ours to serve.
    Served(Box<ReplicaSetFacts>),
    /// They are not.
    Unserved(Arc<str>, Uid),
}

/// A member of a group, or one that was: pods that have ended are none.
#[derive(Clone, Debug)]
pub struct SeenPod {
    /// Which pod.
    pub pod: PodRef,
    /// Whose member it is.
    pub group: GroupKey,
    /// Whether it has ended.
    pub ended: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it names its group.
    pub stamped: bool,
    /// What it says of the group, where its owner is not watched itself.
    pub source: Option<Box<PodSource>>,
}

/// A pod by name and identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its name, in the namespace of its group.
    pub name: Arc<str>,
    /// Its identity.
    pub uid: Uid,
}

/// A PodGroup.
#[derive(Clone, Debug)]
pub struct SeenGroup {
    /// Its namespace and name.
    pub key: GroupKey,
    /// What is there.
    pub existing: Existing,
}

/// A namespace, and the queue that it names.
#[derive(Clone, Debug)]
pub struct SeenNamespace {
    /// Its name.
    pub name: Arc<str>,
    /// The queue for pods that name none.
    pub queue: Option<String>,
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

/// Everything about one group at one moment: what the decision is made of.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// What the owner wishes; `Err(true)` where it is there and not served, `Err(false)` where it is gone.
    pub owner: Result<Wish, bool>,
    /// The members that are there.
    pub members: Members,
    /// The group that is there.
    pub cached: Option<Existing>,
    /// The selector of the owner's pods, where it is known.
    pub selector: Option<String>,
    /// Members that do not name their group, in order.
    pub unstamped: Vec<PodRef>,
}

struct Member {
    group: GroupKey,
    scheduler: usize,
    deleting: bool,
    stamped: bool,
    name: Arc<str>,
    source: Option<Box<PodSource>>,
}

/// The controller's picture of the cluster.
pub struct Observed {
    schedulers: Vec<String>,
    replica_sets: HashMap<Uid, SeenReplicaSet>,
    deployments: HashMap<Uid, DeploymentFacts>,
    /// The ReplicaSets that a Deployment controls, and those in a namespace: whom a change up there concerns.
    by_deployment: HashMap<Uid, BTreeSet<Uid>>,
    by_namespace: HashMap<Arc<str>, BTreeSet<Uid>>,
    members: HashMap<Uid, Member>,
    by_group: HashMap<GroupKey, BTreeSet<Uid>>,
    groups: HashMap<GroupKey, Existing>,
    namespaces: HashMap<Arc<str>, Option<String>>,
    /// The lists that have been read to their end at least once.
    complete: BTreeSet<(u8, usize)>,
}

impl Observed {
    /// Nothing yet, of the pods of these schedulers.
    #[must_use]
    pub fn new(schedulers: &[String]) -> Self {
        Self {
            schedulers: schedulers.to_vec(),
            replica_sets: HashMap::new(),
            deployments: HashMap::new(),
            by_deployment: HashMap::new(),
            by_namespace: HashMap::new(),
            members: HashMap::new(),
            by_group: HashMap::new(),
            groups: HashMap::new(),
            namespaces: HashMap::new(),
            complete: BTreeSet::new(),
        }
    }

    /// Whether every list has been read to its end: before that nothing may be decided.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        // ReplicaSets, Deployments, PodGroups, namespaces, and the pods of each scheduler.
        self.complete.len() == self.schedulers.len().saturating_add(4)
    }

    /// Takes one event, and says what it concerned.
    pub fn take(&mut self, seen: Seen) -> Vec<Touched> {
        match seen {
            Seen::ReplicaSet(event) => self.take_replica_set(event),
            Seen::Deployment(event) => self.take_deployment(event),
            Seen::Pod(scheduler, event) => self.take_pod(scheduler, event),
            Seen::Group(event) => self.take_group(event),
            Seen::Namespace(event) => self.take_namespace(event),
        }
    }

    /// Every group that there is something to know of.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<GroupKey> {
        let served = self.replica_sets.values().filter_map(|seen| match seen {
            SeenReplicaSet::Served(facts) => Some(GroupKey::generated(&facts.object.namespace, &facts.object.uid)),
            SeenReplicaSet::Unserved(..) => None,
        });
        served.chain(self.groups.keys().cloned()).chain(self.by_group.keys().cloned()).filter(|key| key.owner().is_some()).collect()
    }

    /// The group that is there.
    #[must_use]
    pub fn group(&self, key: &GroupKey) -> Option<&Existing> {
        self.groups.get(key)
    }

    /// Everything about this group now.
    #[must_use]
    pub fn freeze(&self, key: &GroupKey) -> Frozen {
        let replica_set = key.owner().and_then(|owner| self.replica_sets.get(&owner));
        let queue = self.namespaces.get(&*key.namespace).and_then(Option::as_deref);
        let (owner, selector) = match replica_set {
            // Known only through its pods, as long as one is there to stay; the garbage collector takes the group with the owner.
            None => (self.source(key).map(|source| intend_for_pod(source, queue)).ok_or(false), None),
            Some(SeenReplicaSet::Unserved(..)) => (Err(true), None),
            Some(SeenReplicaSet::Served(facts)) => {
                let deployment = facts.deployment.as_ref().and_then(|uid| self.deployments.get(uid));
                let wish = intend(facts, deployment, queue, &self.schedulers);
                (wish.ok_or(!facts.deleting), facts.selector.clone())
            }
        };
        let mut members = Members::None;
        let mut unstamped = Vec::new();
        for (uid, member) in self.by_group.get(key).into_iter().flatten().filter_map(|uid| self.members.get_key_value(uid)) {
            members = members.max(if member.deleting { Members::Ending } else { Members::Living });
            if !member.stamped && !member.deleting {
                unstamped.push(PodRef { name: Arc::clone(&member.name), uid: uid.clone() });
            }
        }
        Frozen { owner, members, cached: self.groups.get(key).cloned(), selector, unstamped }
    }

    /// What the first living member, by UID, says of an owner that is not watched.
    fn source(&self, key: &GroupKey) -> Option<&PodSource> {
        let members = self.by_group.get(key)?.iter().filter_map(|uid| self.members.get(uid));
        members.filter(|member| !member.deleting).find_map(|member| member.source.as_deref())
    }

    fn take_replica_set(&mut self, event: WatchEvent<SeenReplicaSet>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                self.complete.insert((0, 0));
                let here: BTreeSet<Uid> = objects.iter().map(|seen| identity(seen).1.clone()).collect();
                let mut gone: Vec<Uid> = self.replica_sets.keys().filter(|uid| !here.contains(*uid)).cloned().collect();
                gone.sort();
                let mut touched: Vec<Touched> = gone.iter().filter_map(|uid| self.drop_replica_set(uid)).collect();
                touched.extend(objects.into_iter().filter_map(|seen| self.put_replica_set(seen)));
                touched
            }
            WatchEvent::Apply(seen) => self.put_replica_set(seen).into_iter().collect(),
            WatchEvent::Delete(seen) => self.drop_replica_set(&identity(&seen).1.clone()).into_iter().collect(),
            // Its owner counts as gone: nothing is made, and nothing that has an owner is deleted.
            WatchEvent::Bad(bad) => self.drop_replica_set(&bad_uid(&bad)).into_iter().collect(),
        }
    }

    fn put_replica_set(&mut self, seen: SeenReplicaSet) -> Option<Touched> {
        let (namespace, uid) = identity(&seen);
        let (key, uid) = (GroupKey::generated(&namespace, uid), uid.clone());
        // Its status changes with every pod; only what a group is made of wakes anybody.
        if let (Some(SeenReplicaSet::Served(known)), SeenReplicaSet::Served(facts)) = (self.replica_sets.get(&uid), &seen)
            && known == facts
        {
            return None;
        }
        let before = self.drop_replica_set(&uid);
        let served = match &seen {
            SeenReplicaSet::Served(facts) => {
                self.by_namespace.entry(namespace).or_default().insert(uid.clone());
                if let Some(deployment) = &facts.deployment {
                    self.by_deployment.entry(deployment.clone()).or_default().insert(uid.clone());
                }
                true
            }
            SeenReplicaSet::Unserved(..) => false,
        };
        self.replica_sets.insert(uid, seen);
        // One of another scheduler concerns us only where it was ours, or has a group of ours: it costs no work otherwise.
        (served || before.is_some() || self.groups.contains_key(&key)).then_some(Touched::Owner(key))
    }

    fn drop_replica_set(&mut self, uid: &Uid) -> Option<Touched> {
        let gone = self.replica_sets.remove(uid)?;
        match &gone {
            SeenReplicaSet::Unserved(namespace, uid) => {
                let key = GroupKey::generated(namespace, uid);
                self.groups.contains_key(&key).then_some(Touched::Owner(key))
            }
            SeenReplicaSet::Served(facts) => {
                remove(&mut self.by_namespace, &*facts.object.namespace, uid);
                if let Some(deployment) = &facts.deployment {
                    remove(&mut self.by_deployment, deployment, uid);
                }
                Some(Touched::Owner(GroupKey::generated(&facts.object.namespace, uid)))
            }
        }
    }

    fn take_deployment(&mut self, event: WatchEvent<DeploymentFacts>) -> Vec<Touched> {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                self.complete.insert((1, 0));
                changed.extend(self.deployments.drain().map(|(uid, _)| uid));
                for facts in objects {
                    changed.insert(facts.object.uid.clone());
                    self.deployments.insert(facts.object.uid.clone(), facts);
                }
            }
            WatchEvent::Apply(facts) => {
                let uid = facts.object.uid.clone();
                // Its status changes with every pod; only what a group is made of wakes anybody.
                if self.deployments.get(&uid) != Some(&facts) {
                    self.deployments.insert(uid.clone(), facts);
                    changed.insert(uid);
                }
            }
            WatchEvent::Delete(facts) => {
                self.deployments.remove(&facts.object.uid);
                changed.insert(facts.object.uid);
            }
            WatchEvent::Bad(bad) => {
                let uid = bad_uid(&bad);
                self.deployments.remove(&uid);
                changed.insert(uid);
            }
        }
        let replica_sets: BTreeSet<Uid> = changed.iter().filter_map(|uid| self.by_deployment.get(uid)).flatten().cloned().collect();
        self.owners(&replica_sets)
    }

    fn take_namespace(&mut self, event: WatchEvent<SeenNamespace>) -> Vec<Touched> {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                self.complete.insert((3, 0));
                let before = std::mem::take(&mut self.namespaces);
                self.namespaces = objects.into_iter().map(|seen| (seen.name, seen.queue)).collect();
                changed.extend(before.keys().chain(self.namespaces.keys()).cloned());
            }
            WatchEvent::Apply(seen) => {
                if self.namespaces.insert(Arc::clone(&seen.name), seen.queue.clone()) != Some(seen.queue) {
                    changed.insert(seen.name);
                }
            }
            WatchEvent::Delete(seen) => {
                self.namespaces.remove(&seen.name);
                changed.insert(seen.name);
            }
            WatchEvent::Bad(_) => {}
        }
        let replica_sets: BTreeSet<Uid> = changed.iter().filter_map(|name| self.by_namespace.get(name)).flatten().cloned().collect();
        // Rare enough to look at every group for those that are known only through their pods.
        let sourced = |key: &&GroupKey| changed.contains(&key.namespace) && self.source(key).is_some();
        let mut touched = self.owners(&replica_sets);
        touched.extend(self.by_group.keys().filter(sourced).cloned().map(Touched::Owner));
        touched.sort();
        touched
    }

    fn owners(&self, uids: &BTreeSet<Uid>) -> Vec<Touched> {
        let namespaced = |uid: &Uid| self.replica_sets.get(uid).map(|seen| Touched::Owner(GroupKey::generated(&identity(seen).0, uid)));
        uids.iter().filter_map(namespaced).collect()
    }

    fn take_pod(&mut self, scheduler: usize, event: WatchEvent<SeenPod>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                self.complete.insert((2, scheduler));
                let here: BTreeSet<&Uid> = objects.iter().map(|seen| &seen.pod.uid).collect();
                let mut gone: Vec<Uid> = self
                    .members
                    .iter()
                    .filter(|(uid, member)| member.scheduler == scheduler && !here.contains(uid))
                    .map(|(uid, _)| uid.clone())
                    .collect();
                gone.sort();
                let mut touched: Vec<Touched> = gone.iter().filter_map(|uid| self.drop_pod(uid)).collect();
                touched.extend(objects.into_iter().flat_map(|seen| self.put_pod(scheduler, seen)));
                touched
            }
            WatchEvent::Apply(seen) => self.put_pod(scheduler, seen),
            WatchEvent::Delete(seen) => self.drop_pod(&seen.pod.uid).into_iter().collect(),
            // Whose it is cannot be read; the look before a DELETE lists metadata alone and sees it.
            WatchEvent::Bad(bad) => self.drop_pod(&bad_uid(&bad)).into_iter().collect(),
        }
    }

    fn put_pod(&mut self, scheduler: usize, seen: SeenPod) -> Vec<Touched> {
        if seen.ended {
            return self.drop_pod(&seen.pod.uid).into_iter().collect();
        }
        let unchanged = |known: &Member| {
            known.group == seen.group && known.deleting == seen.deleting && known.stamped == seen.stamped && known.source == seen.source
        };
        if self.members.get(&seen.pod.uid).is_some_and(unchanged) {
            return Vec::new();
        }
        let mut touched: Vec<Touched> = self.drop_pod(&seen.pod.uid).into_iter().collect();
        self.by_group.entry(seen.group.clone()).or_default().insert(seen.pod.uid.clone());
        touched.push(Touched::Member(seen.group.clone()));
        let member = Member {
            group: seen.group,
            scheduler,
            deleting: seen.deleting,
            stamped: seen.stamped,
            name: seen.pod.name,
            source: seen.source,
        };
        self.members.insert(seen.pod.uid, member);
        touched
    }

    fn drop_pod(&mut self, uid: &Uid) -> Option<Touched> {
        let member = self.members.remove(uid)?;
        remove(&mut self.by_group, &member.group, uid);
        Some(Touched::Member(member.group))
    }

    fn take_group(&mut self, event: WatchEvent<SeenGroup>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, bad } => {
                self.complete.insert((4, 0));
                let before = std::mem::take(&mut self.groups);
                let mut touched = Vec::new();
                for seen in objects.into_iter().chain(bad.iter().map(foreign)) {
                    touched.push(Touched::Group(seen.key.clone(), None));
                    self.groups.insert(seen.key, seen.existing);
                }
                let mut missed: Vec<GroupKey> = before.into_keys().filter(|key| !self.groups.contains_key(key)).collect();
                missed.sort();
                touched.extend(missed.into_iter().map(Touched::MissedGroup));
                touched
            }
            WatchEvent::Apply(seen) => {
                let key = seen.key.clone();
                self.groups.insert(seen.key, seen.existing);
                vec![Touched::Group(key, None)]
            }
            WatchEvent::Delete(seen) => {
                self.groups.remove(&seen.key);
                vec![Touched::Group(seen.key, Some(seen.existing.version().uid.clone()))]
            }
            WatchEvent::Bad(bad) => {
                let seen = foreign(&bad);
                if bad.deleted {
                    self.groups.remove(&seen.key);
                    return vec![Touched::Group(seen.key, Some(seen.existing.version().uid.clone()))];
                }
                let key = seen.key.clone();
                self.groups.insert(seen.key, seen.existing);
                vec![Touched::Group(key, None)]
            }
        }
    }
}

/// A PodGroup that cannot be read is somebody else's: it is left alone, and people are told.
fn foreign(bad: &BadObject) -> SeenGroup {
    let version = Version { uid: bad_uid(bad), resource_version: bad.resource_version.clone().unwrap_or_default() };
    SeenGroup { key: GroupKey::new(bad.namespace.as_deref().unwrap_or_default(), &bad.name), existing: Existing::Foreign(version) }
}

fn bad_uid(bad: &BadObject) -> Uid {
    Uid::from(bad.uid.as_deref().unwrap_or_default())
}

fn identity(seen: &SeenReplicaSet) -> (Arc<str>, &Uid) {
    match seen {
        SeenReplicaSet::Served(facts) => (Arc::from(facts.object.namespace.as_str()), &facts.object.uid),
        SeenReplicaSet::Unserved(namespace, uid) => (Arc::clone(namespace), uid),
    }
}

fn remove<K: std::hash::Hash + Eq + std::borrow::Borrow<Q>, Q: std::hash::Hash + Eq + ?Sized>(
    index: &mut HashMap<K, BTreeSet<Uid>>,
    key: &Q,
    uid: &Uid,
) {
    if let Some(uids) = index.get_mut(key) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
