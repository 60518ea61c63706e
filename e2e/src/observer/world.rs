//! What was the cluster at one resourceVersion, and in the moments before it?
//!
//! Applied one change at a time, in the order of resourceVersions, which is the order in which one etcd took them, whatever the kind.
//! Objects whose recent past matters (a scheduler can only act on what it has seen) keep their versions for a while.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts::Amounts;
use super::facts::{Change, GroupFact, Key, PodFact, QueueFact};

/// The versions of one object, the oldest first. The first may be older than the time that is kept: it is what was in force then.
#[derive(Debug, Clone)]
pub struct Track<T>(Vec<Version<T>>);

/// One version: when it was, in both orders, and what it said (`None`: there was no such object).
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

    /// What it says now.
    pub fn now(&self) -> Option<&T> {
        self.0.last().and_then(|version| version.value.as_ref())
    }

    /// What it said at a resourceVersion that is not older than what is kept.
    pub fn as_of(&self, version: u64) -> Option<&T> {
        self.0.iter().rev().find(|known| known.version <= version).and_then(|known| known.value.as_ref())
    }

    /// Everything that it said since a time, what was in force then included; `None` where it was not there.
    pub fn since(&self, from: i64) -> impl Iterator<Item = Option<&T>> {
        let first = self.0.iter().rposition(|version| version.at <= from);
        // An object that is younger than the time asked about was not there at that time.
        let before = if first.is_none() { Some(None) } else { None };
        before.into_iter().chain(self.0.iter().skip(first.unwrap_or(0)).map(|version| version.value.as_ref()))
    }
}

/// A pod with its recent past.
#[derive(Debug, Default)]
pub struct Pod {
    /// Its versions.
    pub track: Track<PodFact>,
    /// S was seen to bind it.
    pub bound_by_us: bool,
    /// The queue that it was charged to when it was bound.
    pub queue: Option<String>,
    /// What it holds there now.
    held: Amounts,
}

/// The cluster.
#[derive(Debug, Default)]
pub struct World {
    /// How long versions are kept, in milliseconds.
    pub keep: i64,
    /// Allocatable by node.
    pub nodes: BTreeMap<String, Track<Amounts>>,
    /// Queues by name, gone ones too.
    pub queues: BTreeMap<String, Track<QueueFact>>,
    /// resourceVersion and time of every recent change of the tree: of what a queue is, not of what its status says.
    pub tree_changes: Vec<(u64, i64)>,
    /// PodGroups by namespace and name, gone ones too.
    pub groups: BTreeMap<Key, Track<GroupFact>>,
    /// Every pod that exists, by UID.
    pub pods: BTreeMap<String, Pod>,
    /// Pods that hold room, by node.
    pub on_node: BTreeMap<String, BTreeSet<String>>,
    /// Pods of S by the group that they belong to.
    pub members: BTreeMap<Key, BTreeSet<String>>,
    /// What pods of S hold, by the queue that they were charged to.
    pub held: BTreeMap<String, Amounts>,
    /// PodGroups by the UID of their owner.
    pub owned: BTreeMap<String, BTreeSet<Key>>,
    /// UIDs of the owners that exist, pods included.
    pub alive: BTreeSet<String>,
    /// Namespaces that are being taken down.
    pub ending: BTreeSet<String>,
}

impl World {
    /// The pod as it is now.
    pub fn pod(&self, uid: &str) -> Option<&PodFact> {
        self.pods.get(uid).and_then(|pod| pod.track.now())
    }

    /// The PodGroup as it is now.
    pub fn group(&self, key: &Key) -> Option<&GroupFact> {
        self.groups.get(key).and_then(Track::now)
    }

    /// Takes one change; `at` is its time in milliseconds, `binding` says that it is S who binds this pod.
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
        }
        if let Some(queue) = &pod.queue {
            self.held.entry(queue.clone()).or_default().sub(&pod.held);
        }
        pod.held = Amounts::default();
        let Some(now) = now else {
            self.alive.remove(uid);
            return;
        };
        self.alive.insert(uid.to_owned());
        if now.ours {
            self.members.entry(now.group.clone()).or_default().insert(uid.to_owned());
        }
        if let Some(node) = now.node.as_ref().filter(|_| !now.ended) {
            self.on_node.entry(node.clone()).or_default().insert(uid.to_owned());
            if now.ours {
                // Fixed at the binding: a change of spec.queue is for new pods, and a group that goes does not take its pods' charge along.
                pod.queue = pod.queue.or_else(|| now.queue.clone()).or_else(|| self.group(&now.group).map(|group| group.queue.clone()));
                if let Some(queue) = &pod.queue {
                    pod.held = now.requests.clone();
                    self.held.entry(queue.clone()).or_default().add(&pod.held);
                }
            }
        }
        pod.bound_by_us |= binding;
        pod.track.push(version, at, Some(now.clone()), keep_from);
        self.pods.insert(uid.to_owned(), pod);
    }

    /// What a pod holds, at least, by what S could have seen since a time: what somebody else bound or resized in between does not count yet,
    /// but a binding by S counts from its own moment.
    pub fn held_since(&self, uid: &str, dimension: &str, from: i64) -> i128 {
        let Some(pod) = self.pods.get(uid) else { return 0 };
        let Some(now) = pod.track.now().filter(|now| now.node.is_some() && !now.ended) else { return 0 };
        let mut least = now.requests.get(dimension);
        for version in pod.track.since(from) {
            match version.filter(|version| version.node.is_some()) {
                Some(version) => least = least.min(version.requests.get(dimension)),
                None if pod.bound_by_us => {}
                None => return 0,
            }
        }
        least
    }

    /// Whether S bound this pod after a resourceVersion that is not older than what is kept.
    pub fn bound_by_us_after(&self, uid: &str, version: u64) -> bool {
        let bound = |pod: &Pod| pod.track.as_of(version).is_some_and(|pod| pod.node.is_some());
        self.pods.get(uid).is_some_and(|pod| pod.bound_by_us && !bound(pod))
    }

    /// A queue and its ancestors up to root, as the tree was at a resourceVersion. Ends early where a parent is missing; bounded, so that a cycle ends.
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
