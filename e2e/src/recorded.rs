//! Records every version of all PodGroups and ReplicaSets of the case's namespace and checks minMember against the replicas of the ReplicaSet.
//!
//! The versions come from watches, in the order of etcd. A controller decides on what it has seen, so recent replicas of a ReplicaSet
//! count, too. The rules:
//! * A version of a PodGroup that is the first or changes minMember must fit a number of replicas that its ReplicaSet had within [`SEEN`] before it.
//! * A minMember that is too large, because the ReplicaSet was scaled down, must be corrected within [`FOLLOWS`].
//!
//! A ReplicaSet with 0 replicas does not count, because minMember is not reduced when its owner is scaled to 0.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::objects::{field, podgroups};
use crate::wait::{in_time, secs};
use crate::workloads::owner::Kind;

/// How long a controller may not have seen a change of the replicas.
const SEEN: Duration = secs(5);

/// How long a minMember may be too large: the same time, and as long again until the write is seen.
const FOLLOWS: Duration = secs(10);

/// A recording that runs until it is judged.
pub struct Recording {
    client: Client,
    seen: mpsc::UnboundedReceiver<Version>,
    tasks: JoinSet<Result<()>>,
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    version: u64,
    at: Instant,
    what: What,
    /// The UID of the ReplicaSet, or of the ReplicaSet that the PodGroup belongs to.
    uid: String,
    /// The replicas or the minMember; `None` when the object is deleted.
    number: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Set,
    Group,
}

impl Recording {
    /// Starts a recording with the next version of any object.
    pub async fn start(client: &Client) -> Result<Self> {
        let (send, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (what, api) in [(What::Set, Kind::ReplicaSet.api(client)), (What::Group, podgroups(client))] {
            let from =
                api.list_metadata(&ListParams::default()).await?.metadata.resource_version.context("the list has no resourceVersion")?;
            tasks.spawn(follow(what, api, from, send.clone()));
        }
        Ok(Self { client: client.clone(), seen, tasks })
    }

    /// Ends the recording and fails if a rule is violated. Returns the number of versions of PodGroups, which must not be 0.
    pub async fn judge(mut self) -> Result<usize> {
        // The recording must have seen everything that a list shows now, or its end is missing.
        let mut all: Vec<Version> = Vec::new();
        for (what, api) in [(What::Set, Kind::ReplicaSet.api(&self.client)), (What::Group, podgroups(&self.client))] {
            let listed = api.list_metadata(&ListParams::default()).await?;
            let newest = listed.items.iter().filter_map(|item| number(&item.resource_version())).max().unwrap_or(0);
            let text = format!("the recording of {what:?} has version {newest}");
            let seen = in_time(secs(10), &text, async {
                while !all.iter().any(|version| version.what == what && version.version >= newest) && newest > 0 {
                    all.push(self.seen.recv().await?);
                }
                Some(())
            });
            match seen.await {
                Some(Some(())) => {}
                Some(None) => anyhow::bail!("the recording ended: {:?}", self.tasks.join_next().await),
                None => anyhow::bail!("not within 10 s: {text}"),
            }
        }
        self.tasks.shutdown().await;
        while let Ok(version) = self.seen.try_recv() {
            all.push(version);
        }
        all.sort_by_key(|version| version.version);
        let wrong = wrong(&all, Instant::now());
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        let groups = all.iter().filter(|version| version.what == What::Group).count();
        ensure!(groups > 0, "no version of any PodGroup was seen");
        Ok(groups)
    }
}

fn number(text: &Option<String>) -> Option<u64> {
    text.as_ref()?.parse().ok()
}

async fn follow(what: What, api: Api<DynamicObject>, mut from: String, send: mpsc::UnboundedSender<Version>) -> Result<()> {
    loop {
        let mut stream = api.watch(&WatchParams::default().timeout(280), &from).await?.boxed();
        while let Some(event) = stream.next().await {
            let (object, gone) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => anyhow::bail!("the watch ended: {status:?}"),
            };
            from = object.resource_version().context("no resourceVersion")?;
            let (uid, key) = match what {
                What::Set => (object.uid().unwrap_or_default(), "/spec/replicas"),
                What::Group => (object.name_any().trim_start_matches("podgroup-").to_owned(), "/spec/minMember"),
            };
            let number = (!gone).then(|| field(&object, key).as_i64().unwrap_or(1));
            let version = Version { version: number_of(&from)?, at: Instant::now(), what, uid, number };
            if send.send(version).is_err() {
                return Ok(());
            }
        }
    }
}

fn number_of(version: &str) -> Result<u64> {
    version.parse().context("the resourceVersion is not a number")
}

/// Returns the violations of the two rules.
fn wrong(all: &[Version], end: Instant) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut uids: Vec<&str> = all.iter().filter(|version| version.what == What::Group).map(|version| version.uid.as_str()).collect();
    uids.sort_unstable();
    uids.dedup();
    for uid in uids {
        let of_it: Vec<&Version> = all.iter().filter(|version| version.uid == uid).collect();
        // If no version of the ReplicaSet was recorded, its replicas are not known.
        if of_it.iter().any(|version| version.what == What::Set) {
            judge_one(uid, &of_it, end, &mut wrong);
        }
    }
    wrong
}

fn judge_one(uid: &str, all: &[&Version], end: Instant, wrong: &mut Vec<String>) {
    let mut sizes: BTreeMap<u64, (Instant, i64)> = BTreeMap::new();
    let (mut size, mut members, mut too_large) = (None, None, None::<Instant>);
    for version in all {
        match (version.what, version.number) {
            (What::Set, Some(number)) => {
                sizes.insert(version.version, (version.at, number));
                size = Some(number);
            }
            (What::Set, None) => size = None,
            (What::Group, number) => {
                if let Some(now) = number.filter(|now| members != Some(*now)) {
                    // The replicas that were in force within the time: the newest before it, and all since.
                    let recent = sizes.values().rev().scan(true, |go_on, (at, size)| {
                        let here = *go_on;
                        *go_on = version.at.saturating_duration_since(*at) < SEEN;
                        here.then_some(*size)
                    });
                    let largest = recent.max();
                    if let Some(largest) = largest.filter(|largest| now > (*largest).max(1)) {
                        wrong.push(format!(
                            "podgroup-{uid} got minMember {now} at {}, but its ReplicaSet had at most {largest} replicas",
                            version.version
                        ));
                    }
                }
                members = number;
            }
        }
        let bad = matches!((members, size), (Some(members), Some(size)) if size > 0 && members > size);
        if let Some(since) = too_large.filter(|since| version.at.saturating_duration_since(*since) > FOLLOWS) {
            wrong.push(format!("podgroup-{uid} had a minMember above the replicas of its ReplicaSet for {:?}", version.at - since));
        }
        too_large = if bad { too_large.or(Some(version.at)) } else { None };
    }
    if too_large.is_some_and(|since| end.saturating_duration_since(since) > FOLLOWS) {
        wrong.push(format!("podgroup-{uid} has minMember {members:?}, but its ReplicaSet has {size:?} replicas"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of violations; a version is (seconds, kind of object, number).
    fn found(versions: &[(u64, What, i64)], end: u64) -> usize {
        let start = Instant::now();
        let version = |(index, (at, what, number)): (usize, &(u64, What, i64))| Version {
            version: index as u64,
            at: start + secs(*at),
            what: *what,
            uid: "u".to_owned(),
            number: Some(*number),
        };
        wrong(&versions.iter().enumerate().map(version).collect::<Vec<_>>(), start + secs(end)).len()
    }

    #[test]
    fn recent_replicas_are_allowed_as_min_member_and_older_ones_are_not() {
        use What::{Group, Set};
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 5)], 1), 1, "more than it ever had");
        assert_eq!(found(&[(0, Set, 4), (10, Set, 2), (11, Group, 4), (12, Group, 2)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (10, Set, 2), (16, Group, 4), (17, Group, 2)], 60), 1);
        assert_eq!(found(&[(0, Set, 0), (1, Group, 1)], 60), 0, "the least minMember is 1");
    }

    #[test]
    fn a_min_member_that_is_too_large_must_be_corrected_in_time_unless_replicas_is_0() {
        use What::{Group, Set};
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2), (19, Group, 2)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2), (21, Group, 2)], 60), 1);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2)], 21), 1);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 0)], 60), 0);
    }
}
