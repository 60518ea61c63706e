//! Watches every kind and feeds the history with each version of each object.
//!
//! It uses the raw watch, not a reflector. A stream that ends is continued at the version where it stopped, so no version is missed.
//! Only a watch that is too old (410) starts again with a list. Then only the outcome of the missed changes is known (`exact: false`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Client, Error, ResourceExt};
use tokio::time::sleep;

use super::facts::Kind;
use super::observing::Shared;

/// How long a watch waits before it tries again. It is short, because checks are excused while a watch sees nothing.
const PAUSE: Duration = Duration::from_millis(200);

/// The kinds to watch: kind, API group, version, kind name, plural.
pub(super) const KINDS: [(Kind, &str, &str, &str, &str); 14] = [
    (Kind::Node, "", "v1", "Node", "nodes"),
    (Kind::Pod, "", "v1", "Pod", "pods"),
    (Kind::Namespace, "", "v1", "Namespace", "namespaces"),
    (Kind::Group, "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    (Kind::Queue, "scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
    (Kind::ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets"),
    (Kind::StatefulSet, "apps", "v1", "StatefulSet", "statefulsets"),
    (Kind::DaemonSet, "apps", "v1", "DaemonSet", "daemonsets"),
    (Kind::Job, "batch", "v1", "Job", "jobs"),
    (Kind::ReplicationController, "", "v1", "ReplicationController", "replicationcontrollers"),
    (Kind::ConfigMap, "", "v1", "ConfigMap", "configmaps"),
    (Kind::Claim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    (Kind::Volume, "", "v1", "PersistentVolume", "persistentvolumes"),
    (Kind::CsiNode, "storage.k8s.io", "v1", "CSINode", "csinodes"),
];

/// Returns an API client for one kind in all namespaces.
fn api(client: Client, (_, group, version, kind, plural): (Kind, &str, &str, &str, &str)) -> Api<DynamicObject> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource =
        ApiResource { group: group.to_owned(), version: version.to_owned(), api_version, kind: kind.to_owned(), plural: plural.to_owned() };
    Api::all_with(client, &resource)
}

/// Watches one kind until the task is dropped.
pub(super) async fn watch(client: Client, of: (Kind, &'static str, &'static str, &'static str, &'static str), shared: Shared) {
    let (kind, .., plural) = of;
    let api = api(client, of);
    let mut first = true;
    loop {
        let listed = match api.list(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(Error::Api(status)) if status.code == 404 => {
                // The definition does not exist (yet), so there are no objects of this kind.
                shared.with(|core| core.replace(kind, &[], None, true));
                sleep(PAUSE).await;
                continue;
            }
            Err(error) => {
                shared.with(|core| core.blind(kind, &format!("list of {plural}: {error}")));
                sleep(PAUSE).await;
                continue;
            }
        };
        let mut version = listed.metadata.resource_version.clone().unwrap_or_default();
        shared.with(|core| core.replace(kind, &listed.items, version.parse().ok(), first));
        first = false;
        follow(&api, kind, &mut version, &shared).await;
    }
}

/// Follows the watch from a version, over several streams if necessary, until the API server has compacted that version.
async fn follow(api: &Api<DynamicObject>, kind: Kind, version: &mut String, shared: &Shared) {
    let params = WatchParams::default().timeout(280);
    loop {
        let mut stream = match api.watch(&params, version).await {
            Ok(stream) => stream.boxed(),
            Err(Error::Api(status)) if matches!(status.code, 404 | 410) => return,
            Err(error) => {
                shared.with(|core| core.blind(kind, &format!("watch: {error}")));
                sleep(PAUSE).await;
                continue;
            }
        };
        shared.with(|core| core.sees(kind));
        while let Some(event) = stream.next().await {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    *version = object.resource_version().unwrap_or_default();
                    shared.with(|core| core.event(kind, &object, false, true));
                }
                Ok(WatchEvent::Deleted(object)) => {
                    *version = object.resource_version().unwrap_or_default();
                    shared.with(|core| core.event(kind, &object, true, true));
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    version.clone_from(&bookmark.metadata.resource_version);
                    shared.with(|core| core.reached(kind, version));
                }
                Ok(WatchEvent::Error(status)) if status.code == 410 => return,
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
        sleep(PAUSE).await;
    }
}

/// Makes one quorum list of each kind (metadata only). The history is complete up to now when it has reached these lists.
pub(super) async fn barrier(client: &Client) -> Result<Vec<Reached>, Error> {
    let mut all = Vec::new();
    for of in KINDS {
        let listed = match api(client.clone(), of).list_metadata(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error),
        };
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        let objects = listed.items.iter().map(|item| (item.uid().unwrap_or_default(), number(item.resource_version()))).collect();
        all.push(Reached { kind: of.0, version: number(listed.metadata.resource_version), objects });
    }
    Ok(all)
}

/// The state of one kind at one resourceVersion.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) kind: Kind,
    version: u64,
    objects: BTreeMap<String, u64>,
}

/// The known state of one kind: the newest resourceVersion, and the resourceVersion of every existing object.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) newest: u64,
    /// When its watch last showed anything, in milliseconds.
    pub(super) seen_at: i64,
    pub(super) objects: BTreeMap<String, (u64, DynamicObject)>,
}

impl Known {
    /// Returns whether everything up to the given state has been seen. A watch is ordered, so a newer version, or the last version of every
    /// object, is enough.
    pub(super) fn has(&self, reached: &Reached) -> bool {
        let seen = |uid: &String, version: u64| self.objects.get(uid).is_some_and(|(known, _)| *known >= version);
        self.newest >= reached.version
            || reached.objects.iter().all(|(uid, version)| seen(uid, *version))
                && self.objects.keys().all(|uid| reached.objects.contains_key(uid))
    }

    /// Returns the UIDs of known objects that are not in a list.
    pub(super) fn gone(&self, listed: &BTreeSet<String>) -> Vec<String> {
        self.objects.keys().filter(|uid| !listed.contains(*uid)).cloned().collect()
    }
}
