//! Was minMember ever above what its ReplicaSet wants? Every version of all PodGroups and ReplicaSets of the case's namespace, as the API's watches
//! show them, in the one order that etcd gave them.
//!
//! A controller writes what it decided on what it had seen, so the version that a ReplicaSet had a moment before counts too. What is asserted:
//! * a version of a PodGroup that changes minMember (or is the first) has one that fits a size which its ReplicaSet had within [`SEEN`] before it;
//! * a minMember that is too large, because the ReplicaSet was made smaller, is so for no longer than [`FOLLOWS`].
//!
//! A ReplicaSet that wants none does not count: a gang is not made smaller because its owner goes to 0.

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
use crate::wait::secs;
use crate::workloads::owner::Kind;

/// For how long a controller may not have seen a new size, on a machine on which everything may stand still for a while.
const SEEN: Duration = secs(5);

/// For how long a minMember may be too large: as long as that, and as long again until what is written is seen.
const FOLLOWS: Duration = secs(10);

/// A recording that goes on until it is judged.
pub struct Recording {
    client: Client,
    seen: mpsc::UnboundedReceiver<Version>,
    tasks: JoinSet<Result<()>>,
}

/// What one version of an object said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    version: u64,
    at: Instant,
    what: What,
    /// Of the ReplicaSet, or of that which the PodGroup belongs to.
    uid: String,
    /// replicas or minMember; none where the object is gone.
    number: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Set,
    Group,
}

impl Recording {
    /// Starts with the next version of anything.
    pub async fn start(client: &Client) -> Result<Self> {
        let (send, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (what, api) in [(What::Set, Kind::ReplicaSet.api(client)), (What::Group, podgroups(client))] {
            let from = api.list_metadata(&ListParams::default()).await?.metadata.resource_version.context("a list without a version")?;
            tasks.spawn(follow(what, api, from, send.clone()));
        }
        Ok(Self { client: client.clone(), seen, tasks })
    }

    /// Ends it and says what is wrong with what was seen; how many versions of PodGroups there were, which must be some.
    pub async fn judge(mut self) -> Result<usize> {
        // What a list shows now must have been seen, or the end of the story is missing.
        let mut newest = Vec::new();
        for api in [Kind::ReplicaSet.api(&self.client), podgroups(&self.client)] {
            newest
                .extend(api.list_metadata(&ListParams::default()).await?.items.iter().filter_map(|item| number(&item.resource_version())));
        }
        let newest = newest.into_iter().max().unwrap_or(0);
        let mut all: Vec<Version> = Vec::new();
        let deadline = Instant::now() + secs(10);
        while all.iter().map(|version| version.version).max().unwrap_or(0) < newest {
            ensure!(Instant::now() < deadline, "the recording has not caught up");
            match tokio::time::timeout_at(deadline, self.seen.recv()).await {
                Ok(Some(version)) => all.push(version),
                Ok(None) | Err(_) => anyhow::bail!("the recording ended: {:?}", self.tasks.join_next().await),
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
    version.parse().context("an odd resourceVersion")
}

/// What the versions, in their order, break of the two rules.
fn wrong(all: &[Version], end: Instant) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut uids: Vec<&str> = all.iter().filter(|version| version.what == What::Group).map(|version| version.uid.as_str()).collect();
    uids.sort_unstable();
    uids.dedup();
    for uid in uids {
        let of_it: Vec<&Version> = all.iter().filter(|version| version.uid == uid).collect();
        // A PodGroup whose ReplicaSet had no version while we looked has none that could be too small.
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
                    // In force within the time: the newest before it, and all since.
                    let recent = sizes.values().rev().scan(true, |go_on, (at, size)| {
                        let here = *go_on;
                        *go_on = version.at.saturating_duration_since(*at) < SEEN;
                        here.then_some(*size)
                    });
                    let largest = recent.max();
                    if let Some(largest) = largest.filter(|largest| now > (*largest).max(1)) {
                        wrong.push(format!(
                            "podgroup-{uid} was given minMember {now} at {}, and its ReplicaSet wanted {largest} at most",
                            version.version
                        ));
                    }
                }
                members = number;
            }
        }
        let bad = matches!((members, size), (Some(members), Some(size)) if size > 0 && members > size);
        if let Some(since) = too_large.filter(|since| version.at.saturating_duration_since(*since) > FOLLOWS) {
            wrong.push(format!("podgroup-{uid} had a minMember above its ReplicaSet's size for {:?}", version.at - since));
        }
        too_large = if bad { too_large.or(Some(version.at)) } else { None };
    }
    if too_large.is_some_and(|since| end.saturating_duration_since(since) > FOLLOWS) {
        wrong.push(format!("podgroup-{uid} has minMember {members:?}, and its ReplicaSet wants {size:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, what, number.
    fn found(story: &[(u64, What, i64)], end: u64) -> usize {
        let start = Instant::now();
        let version = |(index, (at, what, number)): (usize, &(u64, What, i64))| Version {
            version: index as u64,
            at: start + secs(*at),
            what: *what,
            uid: "u".to_owned(),
            number: Some(*number),
        };
        wrong(&story.iter().enumerate().map(version).collect::<Vec<_>>(), start + secs(end)).len()
    }

    #[test]
    fn a_size_of_a_moment_ago_may_still_be_written_and_an_older_one_may_not() {
        use What::{Group, Set};
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 5)], 1), 1, "more than it ever wanted");
        assert_eq!(found(&[(0, Set, 4), (10, Set, 2), (11, Group, 4), (12, Group, 2)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (10, Set, 2), (16, Group, 4), (17, Group, 2)], 60), 1);
        assert_eq!(found(&[(0, Set, 0), (1, Group, 1)], 60), 0, "one is the least");
    }

    #[test]
    fn what_became_too_large_is_followed_in_time_unless_nothing_is_wanted() {
        use What::{Group, Set};
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2), (19, Group, 2)], 60), 0);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2), (21, Group, 2)], 60), 1);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 2)], 21), 1);
        assert_eq!(found(&[(0, Set, 4), (1, Group, 4), (10, Set, 0)], 60), 0);
    }
}
