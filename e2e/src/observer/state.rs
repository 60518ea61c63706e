//! The state of the cluster at one resourceVersion and shortly before.
//!
//! Changes are applied one by one, in the order of resourceVersions. This is the order in which one etcd accepted them, for all kinds.
//! Some objects keep their versions for a while, because the scheduler can only act on what it has seen.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts::Amounts;
use super::facts::{Change, GroupFact, Key, PodFact, QueueFact, Release};

/// The versions of one object, the oldest first. The first version may be older than the kept time: it was in force when that time began.
#[derive(Debug, Clone)]
pub struct Track<T>(Vec<Version<T>>);

/// One version: its resourceVersion, its time in milliseconds, and its value (`None`: the object did not exist).
#[derive(Debug, Clone)]
struct Version<T> {
    version: u64,
    at: i64,
    value: Option<T>,
}

impl<T> Default for Track<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Track<T> {
    fn push(&mut self, version: u64, at: i64, value: Option<T>, keep_from: i64) {
        self.0.push(Version { version, at, value });
        let needed = self.0.iter().rposition(|version| version.at <= keep_from).unwrap_or(0);
        self.0.drain(..needed);
    }

    /// Returns the present value.
    pub fn now(&self) -> Option<&T> {
        self.0.last().and_then(|version| version.value.as_ref())
    }

    /// Returns the value at a resourceVersion, which must not be older than the kept versions.
    pub fn as_of(&self, version: u64) -> Option<&T> {
        self.0.iter().rev().find(|known| known.version <= version).and_then(|known| known.value.as_ref())
    }

    /// Returns whether the object was created by a resourceVersion. It may be deleted since.
    pub fn began_by(&self, version: u64) -> bool {
        self.0.first().is_some_and(|first| first.version <= version)
    }

    /// Returns all values since a time, including the value in force at that time. `None` stands for a time without the object.
    pub fn since(&self, from: i64) -> impl Iterator<Item = Option<&T>> {
        let first = self.0.iter().rposition(|version| version.at <= from);
        // An object that was created later did not exist at that time.
        let before = if first.is_none() { Some(None) } else { None };
        before.into_iter().chain(self.0.iter().skip(first.unwrap_or(0)).map(|version| version.value.as_ref()))
    }
}

/// A pod with its recent versions.
#[derive(Debug, Default)]
pub struct Pod {
    /// Its versions.
    pub track: Track<PodFact>,
    /// The scheduler that was seen to bind it.
    pub bound_by: Option<Release>,
    /// The queue that was charged at the binding.
    pub queue: Option<String>,
    /// The amounts that are charged to that queue now.
    held: Amounts,
}

/// A pod of a scheduler that was bound and stayed, and then terminated, ended or was deleted. A pod that the scheduler evicted is none.
#[derive(Debug, Clone)]
pub struct Departure {
    /// The time, in milliseconds.
    pub at: i64,
    /// Its PodGroup.
    pub group: Key,
    /// The queue that was charged.
    pub queue: Option<String>,
    /// What it requested.
    pub requests: Amounts,
}

/// The state of the cluster.
#[derive(Debug, Default)]
pub struct ClusterState {
    /// How long versions are kept, in milliseconds.
    pub keep: i64,
    /// The allocatable, by node.
    pub nodes: BTreeMap<String, Track<Amounts>>,
    /// The queues by name, including deleted queues.
    pub queues: BTreeMap<String, Track<QueueFact>>,
    /// The resourceVersion and time of every recent change of the queue tree. A change of a queue's status is not a change of the tree.
    pub tree_changes: Vec<(u64, i64)>,
    /// The PodGroups by namespace and name, including deleted PodGroups.
    pub groups: BTreeMap<Key, Track<GroupFact>>,
    /// Every existing pod, by UID.
    pub pods: BTreeMap<String, Pod>,
    /// The pods that use resources of a node, by node.
    pub on_node: BTreeMap<String, BTreeSet<String>>,
    /// The pods of the schedulers, by PodGroup.
    pub members: BTreeMap<Key, BTreeSet<String>>,
    /// The members that have or had a node and did not fail. An index of its own, because a gang may have ten thousand members that wait.
    pub bound_members: BTreeMap<Key, BTreeSet<String>>,
    /// The usage by pods of a scheduler, by the scheduler and the queue that was charged.
    pub held: BTreeMap<(Release, String), Amounts>,
    /// The pods that recently stopped to use resources or to stay, the oldest first.
    pub departures: Vec<Departure>,
    /// The PodGroups, by the UID of their owner.
    pub owned: BTreeMap<String, BTreeSet<Key>>,
    /// The UIDs of the existing owners, including pods.
    pub alive: BTreeSet<String>,
    /// The namespaces that terminate.
    pub ending: BTreeSet<String>,
}

impl ClusterState {
    /// Returns the present state of a pod.
    pub fn pod(&self, uid: &str) -> Option<&PodFact> {
        self.pods.get(uid).and_then(|pod| pod.track.now())
    }

    /// Returns the present state of a PodGroup.
    pub fn group(&self, key: &Key) -> Option<&GroupFact> {
        self.groups.get(key).and_then(Track::now)
    }

    /// Applies one change. `at` is its time in milliseconds; `binding` means that the scheduler binds this pod.
    pub fn apply(&mut self, version: u64, at: i64, change: &Change, binding: bool) {
        let keep_from = at.saturating_sub(self.keep);
        match change {
            Change::Pod { uid, now, .. } => self.apply_pod(version, at, uid, now.as_deref(), binding),
            Change::Group { key, now } => {
                let old = self.group(key).and_then(|group| group.owner.clone());
                if let Some((owner, _)) = old {
                    drop_from(&mut self.owned, &owner, key);
                }
                if let Some((owner, _)) = now.as_deref().and_then(|group| group.owner.clone()) {
                    self.owned.entry(owner).or_default().insert(key.clone());
                }
                self.groups.entry(key.clone()).or_default().push(version, at, now.as_deref().cloned(), keep_from);
            }
            Change::Queue { name, now } => {
                let queue = self.queues.entry(name.clone()).or_default();
                let shape = |queue: Option<&QueueFact>| queue.map(|queue| (queue.parent.clone(), queue.capability.clone()));
                let is_change = shape(queue.now()) != shape(now.as_deref());
                queue.push(version, at, now.as_deref().cloned(), keep_from);
                if is_change {
                    self.tree_changes.push((version, at));
                    let needed = self.tree_changes.iter().rposition(|(_, at)| *at <= keep_from).unwrap_or(0);
                    self.tree_changes.drain(..needed);
                }
            }
            Change::Node { name, now } => self.nodes.entry(name.clone()).or_default().push(version, at, now.clone(), keep_from),
            Change::Owner { uid, alive: true } => drop(self.alive.insert(uid.clone())),
            Change::Owner { uid, alive: false } => drop(self.alive.remove(uid)),
            Change::Namespace { name, terminating: true } => drop(self.ending.insert(name.clone())),
            Change::Namespace { name, terminating: false } => drop(self.ending.remove(name)),
            Change::Listed { .. } => {}
        }
    }

    fn apply_pod(&mut self, version: u64, at: i64, uid: &str, now: Option<&PodFact>, binding: bool) {
        let keep_from = at.saturating_sub(self.keep);
        let mut pod = self.pods.remove(uid).unwrap_or_default();
        if let Some(old) = pod.track.now() {
            if let Some(node) = &old.node {
                drop_from(&mut self.on_node, node, &uid.to_owned());
            }
            drop_from(&mut self.members, &old.group, &uid.to_owned());
            drop_from(&mut self.bound_members, &old.group, &uid.to_owned());
        }
        if let (Some(queue), Some(release)) = (&pod.queue, pod.track.now().and_then(|old| old.served)) {
            self.held.entry((release, queue.clone())).or_default().sub(&pod.held);
        }
        if let Some(old) = pod.track.now().filter(|old| old.stays() && !old.evicted && !now.is_some_and(PodFact::stays)) {
            let (group, requests) = (old.group.clone(), old.requests.clone());
            self.departures.push(Departure { at, group, queue: pod.queue.clone(), requests });
            self.departures.retain(|departure| departure.at > keep_from);
        }
        pod.held = Amounts::default();
        let Some(now) = now else {
            self.alive.remove(uid);
            return;
        };
        self.alive.insert(uid.to_owned());
        if now.served.is_some() {
            self.members.entry(now.group.clone()).or_default().insert(uid.to_owned());
            if now.node.is_some() && !now.failed {
                self.bound_members.entry(now.group.clone()).or_default().insert(uid.to_owned());
            }
        }
        if let Some(node) = now.node.as_ref().filter(|_| !now.ended) {
            self.on_node.entry(node.clone()).or_default().insert(uid.to_owned());
            if let Some(release) = now.served {
                // The queue is fixed at the binding: a change of spec.queue affects new pods only, and the charge outlives the PodGroup.
                pod.queue = pod.queue.or_else(|| now.queue.clone()).or_else(|| self.group(&now.group).map(|group| group.queue.clone()));
                if let Some(queue) = &pod.queue {
                    pod.held = now.requests.clone();
                    self.held.entry((release, queue.clone())).or_default().add(&pod.held);
                }
            }
        }
        pod.bound_by = if binding { now.served } else { pod.bound_by };
        pod.track.push(version, at, Some(now.clone()), keep_from);
        self.pods.insert(uid.to_owned(), pod);
    }

    /// Returns the least usage of a pod that this scheduler could have seen since a time.
    ///
    /// A binding or resize by another client since then does not count yet. A binding by this scheduler counts from its own moment.
    pub fn held_since(&self, release: Release, uid: &str, dimension: &str, from: i64) -> i128 {
        let Some(pod) = self.pods.get(uid) else { return 0 };
        let Some(now) = pod.track.now().filter(|now| now.node.is_some() && !now.ended) else { return 0 };
        let mut least = now.requests.get(dimension);
        for version in pod.track.since(from) {
            match version.filter(|version| version.node.is_some()) {
                Some(version) => least = least.min(version.requests.get(dimension)),
                None if pod.bound_by == Some(release) => {}
                None => return 0,
            }
        }
        least
    }

    /// Returns whether its scheduler bound this pod after a resourceVersion, which must not be older than the kept versions.
    pub fn bound_by_scheduler_after(&self, uid: &str, version: u64) -> bool {
        let bound = |pod: &Pod| pod.track.as_of(version).is_some_and(|pod| pod.node.is_some());
        self.pods.get(uid).is_some_and(|pod| pod.bound_by.is_some() && !bound(pod))
    }

    /// Returns a queue and its ancestors up to root, in the tree of a resourceVersion. It ends early at a missing parent and is bounded in
    /// case of a cycle.
    pub fn path(&self, queue: &str, version: u64) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = Some(queue.to_owned());
        while let Some(name) = next.take() {
            if path.contains(&name) || path.len() > 64 {
                break;
            }
            next = self.queues.get(&name).and_then(|track| track.as_of(version)).and_then(|queue| queue.parent.clone());
            path.push(name);
        }
        path
    }
}

fn drop_from<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = index.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
