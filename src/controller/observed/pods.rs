//! The cache of pods: the members of each PodGroup, and the facts that pods have about unwatched owners.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::workload::{OwnerFacts, PodSource};
use crate::api::{GroupKey, Uid};
use crate::lifecycle::Members;
use crate::runtime::watch::WatchEvent;

use super::{Affected, bad_uid, remove};

/// The facts about a pod. A pod that is Succeeded or Failed is not a member.
#[derive(Clone, Debug)]
pub struct ObservedPod {
    /// The name and UID of the pod.
    pub pod: PodRef,
    /// The PodGroup that the pod belongs to.
    pub group: GroupKey,
    /// Whether the pod is Succeeded or Failed.
    pub ended: bool,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Whether the pod has the annotation that names its PodGroup, or needs none.
    pub stamped: bool,
    /// The PodGroup of its controller owner, if the pod names another one; otherwise `None`.
    pub elsewhere: Option<GroupKey>,
    /// Whether its label names the generated PodGroup of its owner, though the pod belongs to another one.
    pub mislabelled: bool,
    /// The facts about the owner that the pod has; `None` if a watch shows the owner itself.
    pub source: Option<Box<PodSource>>,
}

/// A reference to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// The name of the pod, in the namespace of its PodGroup.
    pub name: Arc<str>,
    /// The UID of the pod.
    pub uid: Uid,
}

struct Member {
    group: GroupKey,
    scheduler: usize,
    deleting: bool,
    stamped: bool,
    elsewhere: Option<GroupKey>,
    mislabelled: bool,
    name: Arc<str>,
    source: Option<Box<PodSource>>,
}

/// The pods that are neither Succeeded nor Failed, by UID and by PodGroup.
#[derive(Default)]
pub(super) struct Pods {
    members: HashMap<Uid, Member>,
    pub(super) by_group: HashMap<GroupKey, BTreeSet<Uid>>,
    /// By the PodGroup of their owner: the pods that name another one.
    elsewhere: HashMap<GroupKey, BTreeSet<Uid>>,
}

impl Pods {
    /// Returns every PodGroup that has a member.
    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupKey> {
        self.by_group.keys()
    }

    /// Returns the state of the members of a PodGroup, and the members without the annotation, in the order of their UIDs.
    pub(super) fn members(&self, key: &GroupKey) -> (Members, Vec<PodRef>) {
        let mut members = Members::None;
        let mut unstamped = Vec::new();
        for (uid, member) in self.by_group.get(key).into_iter().flatten().filter_map(|uid| self.members.get_key_value(uid)) {
            members = members.max(if member.deleting { Members::Terminating } else { Members::Active });
            if !member.stamped && !member.deleting {
                unstamped.push(PodRef { name: Arc::clone(&member.name), uid: uid.clone() });
            }
        }
        (members, unstamped)
    }

    /// Returns whether the owner of this PodGroup has pods that name another one.
    pub(super) fn has_pods_elsewhere(&self, key: &GroupKey) -> bool {
        self.elsewhere.contains_key(key)
    }

    /// Returns the pods of this PodGroup's owner with a label that names this PodGroup though they belong to another one, and that one.
    pub(super) fn mislabelled(&self, key: &GroupKey) -> Vec<(PodRef, GroupKey)> {
        let pods = self.elsewhere.get(key).into_iter().flatten().filter_map(|uid| self.members.get_key_value(uid));
        let wrong = pods.filter(|(_, member)| member.mislabelled && !member.deleting);
        wrong.map(|(uid, member)| (PodRef { name: Arc::clone(&member.name), uid: uid.clone() }, member.group.clone())).collect()
    }

    /// Returns whether the PodGroup has a member.
    pub(super) fn has_member(&self, key: &GroupKey) -> bool {
        self.by_group.contains_key(key)
    }

    /// Returns the scheduler of the active members of a PodGroup, as an index into the flags. Of several schedulers the first counts.
    pub(super) fn scheduler(&self, key: &GroupKey) -> Option<usize> {
        let members = self.by_group.get(key)?.iter().filter_map(|uid| self.members.get(uid));
        members.filter(|member| !member.deleting).map(|member| member.scheduler).min()
    }

    /// Returns whether the UID in the name of the PodGroup is that of a pod that belongs to another PodGroup.
    pub(super) fn is_member_of_another(&self, key: &GroupKey) -> bool {
        key.owner().and_then(|uid| self.members.get(&uid)).is_some_and(|member| member.group != *key)
    }

    /// Returns the facts that the active members have about an unwatched owner.
    ///
    /// * If the owner is a pod itself (a Spark driver owns its executors), its own facts count.
    /// * Otherwise the newest pod counts. Of several pods of one second, the pod with the greatest UID counts.
    pub(super) fn newest_source(&self, key: &GroupKey) -> Option<&PodSource> {
        let owner = key.owner();
        self.sources(key).max_by_key(|(uid, source)| (owner.as_ref() == Some(uid), source.born)).map(|(_, source)| source)
    }

    /// Returns the newest active member that leads the PodGroup: the leader of a group of a LeaderWorkerSet.
    pub(super) fn leader(&self, key: &GroupKey) -> Option<&OwnerFacts> {
        let leads = |source: &&PodSource| source.owner.set.as_ref().is_some_and(|set| set.group == *key);
        self.sources(key).map(|(_, source)| source).filter(leads).max_by_key(|source| source.born).map(|source| &source.owner)
    }

    /// Returns the active members that have facts about an owner, in the order of their UIDs.
    fn sources(&self, key: &GroupKey) -> impl Iterator<Item = (&Uid, &PodSource)> {
        let members = self.by_group.get(key).into_iter().flatten().filter_map(|uid| self.members.get_key_value(uid));
        members.filter(|(_, member)| !member.deleting).filter_map(|(uid, member)| Some((uid, member.source.as_deref()?)))
    }

    /// Returns the PodGroups in these namespaces with an owner that is known only through pods. It reads every PodGroup, which is acceptable because
    /// namespaces change rarely.
    pub(super) fn known_by_pods_in(&self, namespaces: &BTreeSet<Arc<str>>) -> impl Iterator<Item = GroupKey> {
        self.by_group.keys().filter(|key| namespaces.contains(&key.namespace) && self.newest_source(key).is_some()).cloned()
    }

    pub(super) fn take(&mut self, scheduler: usize, event: WatchEvent<ObservedPod>) -> Vec<Affected> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                let here: BTreeSet<&Uid> = objects.iter().map(|seen| &seen.pod.uid).collect();
                let gone = |(uid, member): &(&Uid, &Member)| member.scheduler == scheduler && !here.contains(*uid);
                let mut gone: Vec<Uid> = self.members.iter().filter(gone).map(|(uid, _)| uid.clone()).collect();
                gone.sort();
                let mut affected: Vec<Affected> = gone.iter().flat_map(|uid| self.drop(uid)).collect();
                affected.extend(objects.into_iter().flat_map(|seen| self.put(scheduler, seen)));
                affected
            }
            WatchEvent::UpToDate(_) => Vec::new(),
            WatchEvent::Apply(seen) => self.put(scheduler, seen),
            WatchEvent::Delete(seen) => self.drop(&seen.pod.uid),
            // The PodGroup of a pod that cannot be decoded is not known. The list before a DELETE reads only metadata and finds the pod.
            WatchEvent::Bad(bad) => self.drop(&bad_uid(&bad)),
        }
    }

    fn put(&mut self, scheduler: usize, seen: ObservedPod) -> Vec<Affected> {
        if seen.ended {
            return self.drop(&seen.pod.uid);
        }
        let unchanged = |known: &Member| {
            known.group == seen.group
                && known.deleting == seen.deleting
                && known.stamped == seen.stamped
                && known.elsewhere == seen.elsewhere
                && known.mislabelled == seen.mislabelled
                && known.source == seen.source
        };
        if self.members.get(&seen.pod.uid).is_some_and(unchanged) {
            return Vec::new();
        }
        let mut affected: Vec<Affected> = self.drop(&seen.pod.uid);
        if let Some(key) = &seen.elsewhere {
            self.elsewhere.entry(key.clone()).or_default().insert(seen.pod.uid.clone());
            affected.push(Affected::Owner(key.clone()));
        }
        self.by_group.entry(seen.group.clone()).or_default().insert(seen.pod.uid.clone());
        affected.push(Affected::Member(seen.group.clone()));
        let member = Member {
            group: seen.group,
            scheduler,
            deleting: seen.deleting,
            stamped: seen.stamped,
            elsewhere: seen.elsewhere,
            mislabelled: seen.mislabelled,
            name: seen.pod.name,
            source: seen.source,
        };
        self.members.insert(seen.pod.uid, member);
        affected
    }

    fn drop(&mut self, uid: &Uid) -> Vec<Affected> {
        let Some(member) = self.members.remove(uid) else { return Vec::new() };
        remove(&mut self.by_group, &member.group, uid);
        let of_owner = member.elsewhere.inspect(|key| remove(&mut self.elsewhere, key, uid));
        of_owner.map(Affected::Owner).into_iter().chain([Affected::Member(member.group)]).collect()
    }
}
