//! The watches. Each turns objects into facts in its own task and sends them as events to the owner of the state.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriver, CsiDriverFacts, CsiNode, CsiNodeFacts,
    CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClassFacts, VolumeAttachment, VolumeFacts,
};
use crate::api::workload::{Namespace, NamespaceLabels};
use crate::api::{
    BudgetFacts, BudgetKey, GroupFacts, GroupKey, Node, NodeFacts, Pod, PodDisruptionBudget, PodFacts, PodGroup, PriorityClassFacts, Queue,
    QueueFacts, Uid,
};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::watch::Relist;
use crate::runtime::watch::{BadObject, Outlet, WatchConfig, WatchEvent, watch_into};

use super::event::{Change, Event};

/// Starts the watches, which send to `events` and list again when `relist` asks for it. `begin` is the start of the program, on the clock
/// that runs while the machine is suspended.
pub fn start(
    program: &mut Program,
    client: &Client,
    readiness: &Readiness,
    metrics: &WatchMetrics,
    relist: &Relist,
    events: &mpsc::Sender<Event>,
    begin: Instant,
) {
    let (asked, back) = (relist.clone(), events.clone());
    program.spawn(Stage::Work, "watch for a restored etcd", |stop| async move {
        let forward = async {
            let mut known = 0;
            loop {
                known = asked.back_after(known).await;
                if back.send(Event::WentBack(known)).await.is_err() {
                    return;
                }
            }
        };
        stop.unless(forward).await;
        Ok::<(), String>(())
    });
    let mut watches = Watches { program, client, readiness, metrics, relist, events, begin };
    watches.start(
        "nodes",
        "watch nodes",
        |node: Node| NodeFacts::of(&node),
        move |event| Event::Nodes(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "pods",
        "watch pods",
        |pod: Pod| PodFacts::of(&pod),
        move |event| Event::Pods(change(event, begin, |facts| facts.uid, |bad| Uid::from(bad.uid.unwrap_or_default()))),
    );
    watches.start(
        "podgroups",
        "watch podgroups",
        |group: PodGroup| GroupFacts::of(&group),
        move |event| {
            Event::Groups(change(event, begin, |facts| facts.key, |bad| GroupKey::new(&bad.namespace.unwrap_or_default(), &bad.name)))
        },
    );
    watches.start(
        "queues",
        "watch queues",
        |queue: Queue| QueueFacts::of(&queue),
        move |event| Event::Queues(change(event, begin, |facts| Arc::from(facts.name), |bad| Arc::from(bad.name))),
    );
    watches.start("priorityclasses", "watch priorityclasses", PriorityClassFacts::of, move |event| {
        Event::PriorityClasses(change(event, begin, |facts| facts.name, |bad| bad.name))
    });
    watches.start(
        "poddisruptionbudgets",
        "watch poddisruptionbudgets",
        |budget: PodDisruptionBudget| BudgetFacts::of(&budget),
        move |event| {
            Event::Budgets(change(event, begin, |facts| facts.key, |bad| BudgetKey::new(&bad.namespace.unwrap_or_default(), &bad.name)))
        },
    );
    watches.start(
        "namespaces",
        "watch namespaces",
        |namespace: Namespace| NamespaceLabels::of(&namespace),
        move |event| Event::Namespaces(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    start_storage(&mut watches);
}

/// Starts the watches of the storage objects. They always run: whether a claim can be used must be known when the first pod with one comes.
fn start_storage(watches: &mut Watches<'_>) {
    let begin = watches.begin;
    watches.start(
        "persistentvolumeclaims",
        "watch persistentvolumeclaims",
        |claim: PersistentVolumeClaim| ClaimFacts::of(&claim),
        move |event| {
            Event::Claims(change(event, begin, |facts| facts.key, |bad| ClaimKey::new(&bad.namespace.unwrap_or_default(), &bad.name)))
        },
    );
    watches.start(
        "persistentvolumes",
        "watch persistentvolumes",
        |volume: PersistentVolume| VolumeFacts::of(&volume),
        move |event| Event::Volumes(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "storageclasses",
        "watch storageclasses",
        |class: StorageClass| StorageClassFacts::of(&class),
        move |event| Event::StorageClasses(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "csinodes",
        "watch csinodes",
        |node: CsiNode| CsiNodeFacts::of(&node),
        move |event| Event::CsiNodes(change(event, begin, |facts| facts.node, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "volumeattachments",
        "watch volumeattachments",
        |attachment: VolumeAttachment| AttachmentFacts::of(&attachment),
        move |event| Event::Attachments(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "csidrivers",
        "watch csidrivers",
        |driver: CsiDriver| CsiDriverFacts::of(&driver),
        move |event| Event::CsiDrivers(change(event, begin, |facts| facts.name, |bad| Arc::from(bad.name))),
    );
    watches.start(
        "csistoragecapacities",
        "watch csistoragecapacities",
        |capacity: CsiStorageCapacity| CapacityFacts::of(&capacity),
        move |event| {
            let bad_key = |bad: BadObject| CapacityKey::new(&bad.namespace.unwrap_or_default(), &bad.name);
            Event::StorageCapacities(change(event, begin, |facts| facts.key, bad_key))
        },
    );
}

struct Watches<'a> {
    program: &'a mut Program,
    client: &'a Client,
    readiness: &'a Readiness,
    metrics: &'a WatchMetrics,
    relist: &'a Relist,
    events: &'a mpsc::Sender<Event>,
    begin: Instant,
}

impl Watches<'_> {
    fn start<K, F>(
        &mut self,
        resource: &'static str,
        task: &'static str,
        keep: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> Event + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
        F: Send + 'static,
    {
        let (api, listed) = (Api::<K>::all(self.client.clone()), self.readiness.expect(resource));
        let (metrics, outlet) = (self.metrics.clone(), Outlet::new(self.events.clone(), keep, wrap));
        let config = WatchConfig { never_back: true, relist: self.relist.clone(), ..WatchConfig::new(resource) };
        self.program.spawn(Stage::Work, task, move |stop| async move {
            watch_into(api, config, listed, metrics, outlet, stop).await;
            Ok::<(), String>(())
        });
    }
}

fn change<F, I>(event: WatchEvent<F>, begin: Instant, key: impl Fn(F) -> I, bad_key: impl Fn(BadObject) -> I) -> Change<F, I> {
    let since_begin = |time: Instant| time.saturating_duration_since(begin);
    match event {
        WatchEvent::Reset { objects, bad, generation, back, as_of } => {
            let unreadable = bad.into_iter().map(bad_key).collect();
            Change::Reset { all: objects, unreadable, generation, back, as_of: since_begin(as_of) }
        }
        WatchEvent::UpToDate(as_of) => Change::UpToDate(since_begin(as_of)),
        WatchEvent::Apply(facts) => Change::Apply(facts),
        WatchEvent::Delete(facts) => Change::Delete(key(facts)),
        WatchEvent::Bad(bad) if bad.deleted => Change::Delete(bad_key(bad)),
        WatchEvent::Bad(bad) => Change::Unreadable(bad_key(bad)),
    }
}
