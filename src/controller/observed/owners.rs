//! Which owners of pods are there, what stands above and around them, and what does each wish?

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::workload::{DeploymentFacts, Gang, NamespaceFacts, OwnerFacts, PodOwner, selector_text};
use crate::api::{GroupKey, Uid};
use crate::lifecycle::{Wish, intend};
use crate::runtime::watch::WatchEvent;

use super::groups::Groups;
use super::pods::Pods;
use super::{Touched, bad_uid, remove};

/// The kinds of owners that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// ReplicaSets.
    ReplicaSet,
    /// StatefulSets.
    StatefulSet,
    /// DaemonSets.
    DaemonSet,
    /// Jobs.
    Job,
}

impl OwnerKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ReplicaSet, Self::StatefulSet, Self::DaemonSet, Self::Job];
}

/// An owner. Most of a cluster's are another scheduler's and want no pods any more: of those nothing is kept but that they are there.
#[derive(Clone, Debug, PartialEq)]
pub enum SeenOwner {
    /// Its template names a scheduler that we serve.
    Served(Box<OwnerFacts>),
    /// Its template names another one. Its pods may be ours all the same: an admission webhook names the scheduler of each when it is made, and then only
    /// the pods tell of it.
    Elsewhere(Box<OwnerFacts>),
    /// Nothing that it says could matter, but for what narrows a look at its last pods.
    Unserved {
        /// Where it is.
        namespace: Arc<str>,
        /// Which one it is.
        uid: Uid,
        /// The selector of its pods; see [`OwnerFacts::selector`].
        selector: Option<Box<str>>,
    },
}

impl SeenOwner {
    /// What this object says, with these schedulers served.
    #[must_use]
    pub fn of<K: PodOwner>(object: &K, served: &[String]) -> Self {
        let scheduler = object.template().scheduler();
        if served.iter().any(|name| name == scheduler) {
            return Self::Served(Box::new(OwnerFacts::of(object)));
        }
        let meta = object.meta();
        let (wants, gang) = object.wants();
        // Of one that another controller manages only its pods tell whether it wants any.
        if wants || gang == Gang::Unknown || meta.deletion_timestamp.is_some() {
            return Self::Elsewhere(Box::new(OwnerFacts::of(object)));
        }
        Self::Unserved {
            namespace: Arc::from(meta.namespace.as_deref().unwrap_or_default()),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            selector: selector_text(object.selector()).map(String::into_boxed_str),
        }
    }

    fn facts(&self) -> Option<&OwnerFacts> {
        match self {
            Self::Served(facts) | Self::Elsewhere(facts) => Some(facts),
            Self::Unserved { .. } => None,
        }
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Served(facts) | Self::Elsewhere(facts) => &facts.object.namespace,
            Self::Unserved { namespace, .. } => namespace,
        }
    }

    fn uid(&self) -> &Uid {
        match self {
            Self::Served(facts) | Self::Elsewhere(facts) => &facts.object.uid,
            Self::Unserved { uid, .. } => uid,
        }
    }

    fn key(&self) -> GroupKey {
        GroupKey::generated(self.namespace(), self.uid())
    }
}

/// Owners by UID, with Deployments and namespaces, and whom a change of those concerns.
#[derive(Default)]
pub(super) struct Owners {
    by_uid: HashMap<Uid, (OwnerKind, SeenOwner)>,
    deployments: HashMap<Uid, DeploymentFacts>,
    namespaces: HashMap<Arc<str>, NamespaceFacts>,
    /// The owners with facts that somebody controls, and those in a namespace.
    pub(super) by_above: HashMap<Uid, BTreeSet<Uid>>,
    pub(super) by_namespace: HashMap<Arc<str>, BTreeSet<Uid>>,
}

/// What else is there. An owner of another scheduler concerns us only where it has a group or a member of ours: it costs no work otherwise.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) groups: &'a Groups,
    pub(super) pods: &'a Pods,
}

impl Around<'_> {
    fn concerns(&self, seen: &SeenOwner) -> bool {
        if matches!(seen, SeenOwner::Served(_)) {
            return true;
        }
        let key = seen.key();
        self.groups.get(&key).is_some() || self.pods.has_member(&key)
    }
}

impl Owners {
    /// The owner for whom the group is: in its own namespace, where alone an owner can be.
    pub(super) fn find(&self, key: &GroupKey) -> Option<&SeenOwner> {
        let (_, seen) = self.by_uid.get(&key.owner()?)?;
        (seen.namespace() == &*key.namespace).then_some(seen)
    }

    /// Whether the owner that the group's name speaks of is in another namespace.
    pub(super) fn is_elsewhere(&self, key: &GroupKey) -> bool {
        key.owner().and_then(|uid| self.by_uid.get(&uid)).is_some_and(|(_, seen)| seen.namespace() != &*key.namespace)
    }

    /// Whether the namespace is being deleted.
    pub(super) fn is_ending(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.ending)
    }

    /// What this owner wishes, with what stands above and around it.
    pub(super) fn wish(&self, owner: &OwnerFacts, schedulers: &[String]) -> Option<Wish> {
        let deployment = owner.above.as_ref().and_then(|above| self.deployments.get(&above.uid));
        // An owner is in the namespace of what it owns, whatever UID a tenant wrote into a reference.
        let deployment = deployment.filter(|deployment| deployment.namespace == owner.object.namespace);
        let queue = self.namespaces.get(owner.object.namespace.as_str()).and_then(|namespace| namespace.queue.as_deref());
        intend(owner, deployment, queue, schedulers)
    }

    /// The groups of all owners that are served.
    pub(super) fn served(&self) -> impl Iterator<Item = GroupKey> {
        self.by_uid.values().filter(|(_, seen)| matches!(seen, SeenOwner::Served(_))).map(|(_, seen)| seen.key())
    }

    pub(super) fn take(&mut self, kind: OwnerKind, event: WatchEvent<SeenOwner>, around: Around<'_>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                let here: BTreeSet<Uid> = objects.iter().map(|seen| seen.uid().clone()).collect();
                let gone = |(uid, (of, _)): &(&Uid, &(OwnerKind, SeenOwner))| *of == kind && !here.contains(*uid);
                let mut gone: Vec<Uid> = self.by_uid.iter().filter(gone).map(|(uid, _)| uid.clone()).collect();
                gone.sort();
                let mut touched: Vec<Touched> = gone.iter().filter_map(|uid| self.drop(uid, around)).collect();
                touched.extend(objects.into_iter().filter_map(|seen| self.put(kind, seen, around)));
                touched
            }
            WatchEvent::Apply(seen) => self.put(kind, seen, around).into_iter().collect(),
            WatchEvent::Delete(seen) => self.drop(seen.uid(), around).into_iter().collect(),
            // It counts as gone: nothing is made, and nothing that has an owner is deleted.
            WatchEvent::Bad(bad) => self.drop(&bad_uid(&bad), around).into_iter().collect(),
        }
    }

    fn put(&mut self, kind: OwnerKind, seen: SeenOwner, around: Around<'_>) -> Option<Touched> {
        let (key, uid) = (seen.key(), seen.uid().clone());
        // Its status changes with every pod; only what a group is made of wakes anybody.
        if self.by_uid.get(&uid).is_some_and(|(_, known)| *known == seen) {
            return None;
        }
        let before = self.drop(&uid, around);
        if let Some(facts) = seen.facts() {
            self.by_namespace.entry(Arc::clone(&key.namespace)).or_default().insert(uid.clone());
            if let Some(above) = &facts.above {
                self.by_above.entry(above.uid.clone()).or_default().insert(uid.clone());
            }
        }
        let concerns = around.concerns(&seen);
        self.by_uid.insert(uid, (kind, seen));
        (concerns || before.is_some()).then_some(Touched::Owner(key))
    }

    fn drop(&mut self, uid: &Uid, around: Around<'_>) -> Option<Touched> {
        let (_, gone) = self.by_uid.remove(uid)?;
        let key = gone.key();
        if let Some(facts) = gone.facts() {
            remove(&mut self.by_namespace, &*key.namespace, uid);
            if let Some(above) = &facts.above {
                remove(&mut self.by_above, &above.uid, uid);
            }
        }
        around.concerns(&gone).then_some(Touched::Owner(key))
    }

    pub(super) fn take_deployment(&mut self, event: WatchEvent<DeploymentFacts>, around: Around<'_>) -> Vec<Touched> {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                let before = std::mem::take(&mut self.deployments);
                self.deployments = objects.into_iter().map(|facts| (facts.uid.clone(), facts)).collect();
                changed = differing(&before, &self.deployments);
            }
            WatchEvent::Apply(facts) => {
                let uid = facts.uid.clone();
                // Its status changes with every pod; only what a group is made of wakes anybody.
                if self.deployments.get(&uid) != Some(&facts) {
                    self.deployments.insert(uid.clone(), facts);
                    changed.insert(uid);
                }
            }
            WatchEvent::Delete(facts) => {
                self.deployments.remove(&facts.uid);
                changed.insert(facts.uid);
            }
            WatchEvent::Bad(bad) => {
                let uid = bad_uid(&bad);
                self.deployments.remove(&uid);
                changed.insert(uid);
            }
        }
        let owners: BTreeSet<Uid> = changed.iter().filter_map(|uid| self.by_above.get(uid)).flatten().cloned().collect();
        self.touched(&owners, around)
    }

    /// The namespaces that changed, and the owners in them.
    pub(super) fn take_namespace(&mut self, event: WatchEvent<NamespaceFacts>, around: Around<'_>) -> (BTreeSet<Arc<str>>, Vec<Touched>) {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                let before = std::mem::take(&mut self.namespaces);
                self.namespaces = objects.into_iter().map(|facts| (Arc::clone(&facts.name), facts)).collect();
                changed = differing(&before, &self.namespaces);
            }
            WatchEvent::Apply(facts) => {
                let name = Arc::clone(&facts.name);
                if self.namespaces.get(&name) != Some(&facts) {
                    self.namespaces.insert(Arc::clone(&name), facts);
                    changed.insert(name);
                }
            }
            WatchEvent::Delete(facts) => {
                self.namespaces.remove(&facts.name);
                changed.insert(facts.name);
            }
            WatchEvent::Bad(_) => {}
        }
        let owners: BTreeSet<Uid> = changed.iter().filter_map(|name| self.by_namespace.get(name)).flatten().cloned().collect();
        let touched = self.touched(&owners, around);
        (changed, touched)
    }

    fn touched(&self, uids: &BTreeSet<Uid>, around: Around<'_>) -> Vec<Touched> {
        let seen = uids.iter().filter_map(|uid| self.by_uid.get(uid)).map(|(_, seen)| seen);
        seen.filter(|seen| around.concerns(seen)).map(|seen| Touched::Owner(seen.key())).collect()
    }
}

/// The keys under which two lists have not the same.
fn differing<K: Clone + Ord + Hash, V: PartialEq>(before: &HashMap<K, V>, after: &HashMap<K, V>) -> BTreeSet<K> {
    before.keys().chain(after.keys()).filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}
