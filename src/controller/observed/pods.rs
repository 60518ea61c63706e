//! Whose member is each pod, and what do pods say of owners that are not watched?

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::workload::PodSource;
use crate::api::{GroupKey, Uid};
use crate::lifecycle::Members;
use crate::runtime::watch::WatchEvent;

use super::{Touched, bad_uid, remove};

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

struct Member {
    group: GroupKey,
    scheduler: usize,
    deleting: bool,
    stamped: bool,
    name: Arc<str>,
    source: Option<Box<PodSource>>,
}

/// Pods that have not ended, by UID and by group.
#[derive(Default)]
pub(super) struct Pods {
    members: HashMap<Uid, Member>,
    pub(super) by_group: HashMap<GroupKey, BTreeSet<Uid>>,
}

impl Pods {
    /// Every group that has a member.
    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupKey> {
        self.by_group.keys()
    }

    /// The members of a group, and those that do not name it, in the order of their UIDs.
    pub(super) fn members(&self, key: &GroupKey) -> (Members, Vec<PodRef>) {
        let mut members = Members::None;
        let mut unstamped = Vec::new();
        for (uid, member) in self.by_group.get(key).into_iter().flatten().filter_map(|uid| self.members.get_key_value(uid)) {
            members = members.max(if member.deleting { Members::Ending } else { Members::Living });
            if !member.stamped && !member.deleting {
                unstamped.push(PodRef { name: Arc::clone(&member.name), uid: uid.clone() });
            }
        }
        (members, unstamped)
    }

    /// Whether the group has a member.
    pub(super) fn has_member(&self, key: &GroupKey) -> bool {
        self.by_group.contains_key(key)
    }

    /// Who places the living members of a group, by its place in the list of flags: of several the first.
    pub(super) fn scheduler(&self, key: &GroupKey) -> Option<usize> {
        let members = self.by_group.get(key)?.iter().filter_map(|uid| self.members.get(uid));
        members.filter(|member| !member.deleting).map(|member| member.scheduler).min()
    }

    /// Whether the owner that the group's name speaks of is a pod that is a member of another group.
    pub(super) fn is_member_elsewhere(&self, key: &GroupKey) -> bool {
        key.owner().and_then(|uid| self.members.get(&uid)).is_some_and(|member| member.group != *key)
    }

    /// What living members say of an owner that is not watched: the owner itself where it is a pod (a Spark driver owns its executors), else the newest,
    /// and of several of one second the one with the greatest UID.
    pub(super) fn newest_source(&self, key: &GroupKey) -> Option<&PodSource> {
        let owner = key.owner();
        let members = self.by_group.get(key)?.iter().filter_map(|uid| self.members.get_key_value(uid));
        let living = members.filter(|(_, member)| !member.deleting);
        let sources = living.filter_map(|(uid, member)| Some((owner.as_ref() == Some(uid), member.source.as_deref()?)));
        sources.max_by_key(|(is_owner, source)| (*is_owner, source.born)).map(|(_, source)| source)
    }

    /// The groups in these namespaces that only their pods tell of. Namespaces change so seldom that every group may be looked at.
    pub(super) fn told_of_in(&self, namespaces: &BTreeSet<Arc<str>>) -> impl Iterator<Item = GroupKey> {
        self.by_group.keys().filter(|key| namespaces.contains(&key.namespace) && self.newest_source(key).is_some()).cloned()
    }

    pub(super) fn take(&mut self, scheduler: usize, event: WatchEvent<SeenPod>) -> Vec<Touched> {
        match event {
            WatchEvent::Reset { objects, .. } => {
                let here: BTreeSet<&Uid> = objects.iter().map(|seen| &seen.pod.uid).collect();
                let gone = |(uid, member): &(&Uid, &Member)| member.scheduler == scheduler && !here.contains(*uid);
                let mut gone: Vec<Uid> = self.members.iter().filter(gone).map(|(uid, _)| uid.clone()).collect();
                gone.sort();
                let mut touched: Vec<Touched> = gone.iter().filter_map(|uid| self.drop(uid)).collect();
                touched.extend(objects.into_iter().flat_map(|seen| self.put(scheduler, seen)));
                touched
            }
            WatchEvent::Apply(seen) => self.put(scheduler, seen),
            WatchEvent::Delete(seen) => self.drop(&seen.pod.uid).into_iter().collect(),
            // Whose it is cannot be read; the look before a DELETE lists metadata alone and sees it.
            WatchEvent::Bad(bad) => self.drop(&bad_uid(&bad)).into_iter().collect(),
        }
    }

    fn put(&mut self, scheduler: usize, seen: SeenPod) -> Vec<Touched> {
        if seen.ended {
            return self.drop(&seen.pod.uid).into_iter().collect();
        }
        let unchanged = |known: &Member| {
            known.group == seen.group && known.deleting == seen.deleting && known.stamped == seen.stamped && known.source == seen.source
        };
        if self.members.get(&seen.pod.uid).is_some_and(unchanged) {
            return Vec::new();
        }
        let mut touched: Vec<Touched> = self.drop(&seen.pod.uid).into_iter().collect();
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

    fn drop(&mut self, uid: &Uid) -> Option<Touched> {
        let member = self.members.remove(uid)?;
        remove(&mut self.by_group, &member.group, uid);
        Some(Touched::Member(member.group))
    }
}
