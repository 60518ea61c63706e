//! The cache of the owners of pods, with their Deployments and namespaces, and the desired PodGroup of each owner.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::misspelt::{asks_of_group, misspelt_scheduler};
use crate::api::workload::{
    DeploymentFacts, Gang, GroupAnnotations, NamespaceFacts, NamespaceQueue, OwnerFacts, OwnerSet, PodOwner, selector_text,
};
use crate::api::{Fault, GroupKey, Uid};
use crate::lifecycle::{DesiredGroup, intend, intend_for_set};
use crate::runtime::watch::WatchEvent;

use super::groups::Groups;
use super::pods::Pods;
use super::{Affected, bad_uid, remove};

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
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::ReplicaSet, Self::StatefulSet, Self::DaemonSet, Self::Job];
}

/// The facts about an owner. Most owners of a cluster belong to another scheduler and want no pods any more. Of those only
/// [`Self::Unserved`] is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum ObservedOwner {
    /// The template names a served scheduler.
    Served(Box<OwnerFacts>),
    /// The template names another scheduler. An admission webhook may set a served scheduler on each new pod; then only the pods show it.
    OtherScheduler(Box<OwnerFacts>),
    /// The owner needs no PodGroup. Only what a list of its last pods needs is stored.
    Unserved {
        /// The namespace of the owner.
        namespace: Arc<str>,
        /// The UID of the owner.
        uid: Uid,
        /// The label selector of its pods; see [`OwnerFacts::selector`].
        selector: Option<Box<str>>,
    },
}

impl ObservedOwner {
    /// Returns the facts about an object, for a controller that serves the schedulers `served`.
    #[must_use]
    pub fn of<K: PodOwner>(object: &K, served: &[String]) -> Self {
        let scheduler = object.template().scheduler();
        if served.iter().any(|name| name == scheduler) {
            return Self::Served(Box::new(OwnerFacts::of(object)));
        }
        let meta = object.meta();
        let (wants, gang) = object.wants();
        // Only the pods show whether an owner that another controller manages wants pods. An owner of a set is counted by the others.
        if wants || gang == Gang::Unknown || meta.deletion_timestamp.is_some() || object.set().is_some() {
            let mut facts = OwnerFacts::of(object);
            facts.faults = misnamed_scheduler(&facts, served).into_iter().collect();
            return Self::OtherScheduler(Box::new(facts));
        }
        Self::Unserved {
            namespace: Arc::from(meta.namespace.as_deref().unwrap_or_default()),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            selector: selector_text(object.selector()).map(String::into_boxed_str),
        }
    }

    /// Returns the owner and the fault of its scheduler's name, if that is nearly the name of one that is served.
    pub(super) fn misnamed(&self) -> Option<(&OwnerFacts, &Fault)> {
        match self {
            Self::OtherScheduler(facts) => facts.faults.first().map(|fault| (&**facts, fault)),
            Self::Served(_) | Self::Unserved { .. } => None,
        }
    }

    fn facts(&self) -> Option<&OwnerFacts> {
        match self {
            Self::Served(facts) | Self::OtherScheduler(facts) => Some(facts),
            Self::Unserved { .. } => None,
        }
    }

    fn set(&self) -> Option<&OwnerSet> {
        self.facts()?.set.as_ref()
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Served(facts) | Self::OtherScheduler(facts) => &facts.object.namespace,
            Self::Unserved { namespace, .. } => namespace,
        }
    }

    fn uid(&self) -> &Uid {
        match self {
            Self::Served(facts) | Self::OtherScheduler(facts) => &facts.object.uid,
            Self::Unserved { uid, .. } => uid,
        }
    }

    fn key(&self) -> GroupKey {
        GroupKey::generated(self.namespace(), self.uid())
    }
}

/// Returns the fault of a scheduler's name that is nearly the name of one that is served, where the owner asks for something of a PodGroup.
fn misnamed_scheduler(owner: &OwnerFacts, served: &[String]) -> Option<Fault> {
    let asks = |annotations: &GroupAnnotations| annotations.keys().any(|key| asks_of_group(key));
    let asks = owner.named_group || asks(&owner.annotations) || asks(&owner.template_annotations);
    let served = served.iter().map(String::as_str);
    let fault = || misspelt_scheduler("spec.template.spec.schedulerName", &owner.scheduler, served);
    (asks && !owner.deleting && owner.wants_pods).then(fault).flatten()
}

/// The owners by UID, with Deployments, namespaces, and the indexes from those to the owners.
#[derive(Default)]
pub(super) struct Owners {
    by_uid: HashMap<Uid, (OwnerKind, ObservedOwner)>,
    deployments: HashMap<Uid, DeploymentFacts>,
    namespaces: HashMap<Arc<str>, NamespaceFacts>,
    /// The owners by the UID of their own controller (a Deployment).
    pub(super) by_controller: HashMap<Uid, BTreeSet<Uid>>,
    /// The owners by namespace.
    pub(super) by_namespace: HashMap<Arc<str>, BTreeSet<Uid>>,
    /// The owners by the PodGroup of their set, also those that do not join it.
    by_set: HashMap<GroupKey, BTreeSet<Uid>>,
    /// Those of them that join it.
    joined: HashMap<GroupKey, BTreeSet<Uid>>,
}

/// The other caches. An owner of another scheduler is relevant only if it has a PodGroup or a member. Otherwise its changes cost no work.
#[derive(Clone, Copy)]
pub(super) struct Related<'a> {
    pub(super) groups: &'a Groups,
    pub(super) pods: &'a Pods,
}

impl Related<'_> {
    /// Returns whether a change of this owner affects a PodGroup.
    fn is_relevant(&self, seen: &ObservedOwner) -> bool {
        if matches!(seen, ObservedOwner::Served(_)) || seen.misnamed().is_some() {
            return true;
        }
        let key = seen.key();
        self.groups.get(&key).is_some() || self.pods.has_member(&key)
    }
}

impl Owners {
    /// Returns the owner of a PodGroup. It is always in the namespace of the PodGroup.
    pub(super) fn find(&self, key: &GroupKey) -> Option<&ObservedOwner> {
        let (_, seen) = self.by_uid.get(&key.owner()?)?;
        (seen.namespace() == &*key.namespace).then_some(seen)
    }

    /// Returns whether the UID in the name of the PodGroup is that of an owner in another namespace.
    pub(super) fn is_in_other_namespace(&self, key: &GroupKey) -> bool {
        key.owner().and_then(|uid| self.by_uid.get(&uid)).is_some_and(|(_, seen)| seen.namespace() != &*key.namespace)
    }

    /// Returns whether the namespace is being deleted.
    pub(super) fn is_being_deleted(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.deleting)
    }

    /// Returns what the namespace says about the queue of its PodGroups.
    fn queue_of(&self, namespace: &str) -> &NamespaceQueue {
        self.namespaces.get(namespace).map_or(&NamespaceQueue::Unsaid, |namespace| &namespace.queue)
    }

    /// Returns the desired PodGroup of this owner, from the owner, its Deployment and its namespace.
    pub(super) fn desired(&self, owner: &OwnerFacts, schedulers: &[String]) -> Option<DesiredGroup> {
        let deployment = owner.parent.as_ref().and_then(|parent| self.deployments.get(&parent.uid));
        // A Deployment in another namespace does not count, whatever UID a tenant wrote into an owner reference.
        let deployment = deployment.filter(|deployment| deployment.namespace == owner.object.namespace);
        intend(owner, deployment, self.queue_of(&owner.object.namespace), schedulers)
    }

    /// Returns the desired PodGroup of the owners of a set; `None` if none of them asks for it.
    pub(super) fn desired_of_set(&self, key: &GroupKey, schedulers: &[String]) -> Option<DesiredGroup> {
        let owners: Vec<&OwnerFacts> = self.in_set(key).filter_map(ObservedOwner::facts).collect();
        intend_for_set(key, &owners, self.queue_of(&key.namespace), schedulers)
    }

    /// Returns the desired PodGroup of the leader of a group of a LeaderWorkerSet and of its workers. The StatefulSet of the workers says
    /// how many there are and what they request. Until it exists, and if its template names another scheduler, the leader says how many
    /// pods the group has, and each counts as what the leader requests.
    pub(super) fn desired_by_leader(&self, key: &GroupKey, leader: &OwnerFacts, schedulers: &[String]) -> Option<DesiredGroup> {
        let is_led = |facts: &&OwnerFacts| {
            let is_ours = schedulers.iter().any(|name| **name == *facts.scheduler);
            is_ours && !facts.deleting && facts.set.as_ref().is_some_and(|set| set.joins && set.object.uid == leader.object.uid)
        };
        let workers: Vec<&OwnerFacts> = self.in_set(key).filter_map(ObservedOwner::facts).filter(is_led).collect();
        let mut alone = leader.clone();
        if let Some(set) = alone.set.as_mut().filter(|_| !workers.is_empty()) {
            set.pods = 1;
        }
        let owners: Vec<&OwnerFacts> = std::iter::once(&alone).chain(workers).collect();
        let mut desired = intend_for_set(key, &owners, self.queue_of(&key.namespace), schedulers)?;
        // Its own metadata names it. The owner reference of the workers may not.
        desired.intent.owner = leader.object.clone();
        desired.event_target = leader.object.clone();
        Some(desired)
    }

    /// Returns the PodGroups of all owners with a template that names a served scheduler, or nearly one, and of the sets that owners join.
    pub(super) fn served(&self) -> impl Iterator<Item = GroupKey> {
        let served = self.by_uid.values().map(|(_, seen)| seen);
        let served = served.filter(|seen| matches!(seen, ObservedOwner::Served(_)) || seen.misnamed().is_some()).map(ObservedOwner::key);
        served.chain(self.joined.keys().cloned())
    }

    fn in_set(&self, key: &GroupKey) -> impl Iterator<Item = &ObservedOwner> {
        self.by_set.get(key).into_iter().flatten().filter_map(|uid| self.by_uid.get(uid)).map(|(_, seen)| seen)
    }

    /// Returns whether an owner of the set joins its PodGroup. The changes of other sets cost no work.
    fn is_joined(&self, key: &GroupKey) -> bool {
        self.joined.contains_key(key)
    }

    pub(super) fn take(&mut self, kind: OwnerKind, event: WatchEvent<ObservedOwner>, related: Related<'_>) -> Vec<Affected> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                let here: BTreeSet<Uid> = objects.iter().map(|seen| seen.uid().clone()).collect();
                let gone = |(uid, (of, _)): &(&Uid, &(OwnerKind, ObservedOwner))| *of == kind && !here.contains(*uid);
                let mut gone: Vec<Uid> = self.by_uid.iter().filter(gone).map(|(uid, _)| uid.clone()).collect();
                gone.sort();
                let mut affected: Vec<Affected> = gone.iter().flat_map(|uid| self.drop(uid, related)).collect();
                affected.extend(objects.into_iter().flat_map(|seen| self.put(kind, seen, related)));
                affected
            }
            WatchEvent::UpToDate(_) => Vec::new(),
            WatchEvent::Apply(seen) => self.put(kind, seen, related),
            WatchEvent::Delete(seen) => self.drop(seen.uid(), related),
            // An owner that cannot be decoded counts as deleted: no PodGroup is created for it, and no PodGroup with an owner is deleted.
            WatchEvent::Bad(bad) => self.drop(&bad_uid(&bad), related),
        }
    }

    fn put(&mut self, kind: OwnerKind, seen: ObservedOwner, related: Related<'_>) -> Vec<Affected> {
        let (key, uid) = (seen.key(), seen.uid().clone());
        // The status changes with every pod. Only facts that a PodGroup depends on affect it.
        if self.by_uid.get(&uid).is_some_and(|(_, known)| *known == seen) {
            return Vec::new();
        }
        let mut affected: BTreeSet<Affected> = self.drop(&uid, related).into_iter().collect();
        let set = seen.set().map(|set| set.group.clone());
        if let Some(facts) = seen.facts() {
            self.by_namespace.entry(Arc::clone(&key.namespace)).or_default().insert(uid.clone());
            if let Some(parent) = &facts.parent {
                self.by_controller.entry(parent.uid.clone()).or_default().insert(uid.clone());
            }
        }
        if let Some(set) = seen.set().filter(|set| set.joins) {
            self.joined.entry(set.group.clone()).or_default().insert(uid.clone());
        }
        if let Some(set) = &set {
            self.by_set.entry(set.clone()).or_default().insert(uid.clone());
        }
        if related.is_relevant(&seen) {
            affected.insert(Affected::Owner(key));
        }
        self.by_uid.insert(uid, (kind, seen));
        affected.extend(set.filter(|set| self.is_joined(set)).map(Affected::Owner));
        affected.into_iter().collect()
    }

    fn drop(&mut self, uid: &Uid, related: Related<'_>) -> Vec<Affected> {
        let Some((_, gone)) = self.by_uid.remove(uid) else { return Vec::new() };
        let key = gone.key();
        let mut affected = Vec::new();
        if let Some(facts) = gone.facts() {
            remove(&mut self.by_namespace, &*key.namespace, uid);
            if let Some(parent) = &facts.parent {
                remove(&mut self.by_controller, &parent.uid, uid);
            }
        }
        if let Some(set) = gone.set() {
            remove(&mut self.by_set, &set.group, uid);
            remove(&mut self.joined, &set.group, uid);
            affected.extend((set.joins || self.is_joined(&set.group)).then(|| Affected::Owner(set.group.clone())));
        }
        affected.extend(related.is_relevant(&gone).then_some(Affected::Owner(key)));
        affected
    }

    pub(super) fn take_deployment(&mut self, event: WatchEvent<DeploymentFacts>, related: Related<'_>) -> Vec<Affected> {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                let before = std::mem::take(&mut self.deployments);
                self.deployments = objects.into_iter().map(|facts| (facts.uid.clone(), facts)).collect();
                changed = differing(&before, &self.deployments);
            }
            WatchEvent::UpToDate(_) => {}
            WatchEvent::Apply(facts) => {
                let uid = facts.uid.clone();
                // The status changes with every pod. Only facts that a PodGroup depends on affect it.
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
        let owners: BTreeSet<Uid> = changed.iter().filter_map(|uid| self.by_controller.get(uid)).flatten().cloned().collect();
        self.affected(&owners, related)
    }

    /// Updates the namespaces. Returns those that changed, and the PodGroups of the owners in them.
    pub(super) fn take_namespace(
        &mut self,
        event: WatchEvent<NamespaceFacts>,
        related: Related<'_>,
    ) -> (BTreeSet<Arc<str>>, Vec<Affected>) {
        let mut changed = BTreeSet::new();
        match event {
            WatchEvent::Reset { objects, .. } => {
                let before = std::mem::take(&mut self.namespaces);
                self.namespaces = objects.into_iter().map(|facts| (Arc::clone(&facts.name), facts)).collect();
                changed = differing(&before, &self.namespaces);
            }
            WatchEvent::UpToDate(_) => {}
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
        let affected = self.affected(&owners, related);
        (changed, affected)
    }

    fn affected(&self, uids: &BTreeSet<Uid>, related: Related<'_>) -> Vec<Affected> {
        let seen: Vec<&ObservedOwner> = uids.iter().filter_map(|uid| self.by_uid.get(uid)).map(|(_, seen)| seen).collect();
        let sets: BTreeSet<&GroupKey> = seen.iter().filter_map(|seen| seen.set()).map(|set| &set.group).collect();
        let joined = sets.into_iter().filter(|set| self.is_joined(set)).cloned();
        let own = seen.iter().filter(|seen| related.is_relevant(seen)).map(|seen| seen.key());
        own.chain(joined).map(Affected::Owner).collect()
    }
}

/// Returns the keys with different values in two maps.
fn differing<K: Clone + Ord + Hash, V: PartialEq>(before: &HashMap<K, V>, after: &HashMap<K, V>) -> BTreeSet<K> {
    before.keys().chain(after.keys()).filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}
