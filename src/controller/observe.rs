//! Which watches feed the controller, and what becomes of an object at the border?

use std::sync::Arc;

use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::api::membership::{controller_of, generated_name, group_of};
use crate::api::names::GROUP_NAME;
use crate::api::workload::{
    DaemonSet, Deployment, DeploymentFacts, Job, Namespace, NamespaceFacts, OwnerFacts, PodOwner, PodSource, ReplicaSet, StatefulSet,
    is_watched,
};
use crate::api::{GroupKey, Pod, PodGroup, Uid};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::watch::{WatchConfig, WatchEvent, watch_into};

use super::dialect;
use super::observed::{OwnerKind, PodRef, Seen, SeenGroup, SeenOwner, SeenPod};

/// Where all watches send to, and what they need.
#[derive(Clone)]
pub struct Watches {
    /// To the API server.
    pub client: Client,
    /// To the one owner of the picture.
    pub events: mpsc::Sender<Seen>,
    /// Which lists are complete, for `/readyz`.
    pub readiness: Readiness,
    /// Counters.
    pub metrics: WatchMetrics,
}

impl Watches {
    /// Starts all watches as tasks of the program.
    pub fn start(&self, program: &mut Program, schedulers: &[String]) {
        self.watch_owners::<ReplicaSet>(program, OwnerKind::ReplicaSet, "replicasets", schedulers);
        self.watch_owners::<StatefulSet>(program, OwnerKind::StatefulSet, "statefulsets", schedulers);
        self.watch_owners::<DaemonSet>(program, OwnerKind::DaemonSet, "daemonsets", schedulers);
        self.watch_owners::<Job>(program, OwnerKind::Job, "jobs", schedulers);
        self.watch::<Deployment, _>(program, WatchConfig::new("deployments"), "deployments", |event| {
            Seen::Deployment(event.map(|object| DeploymentFacts::of(&object)))
        });
        self.watch::<Namespace, _>(program, WatchConfig::new("namespaces"), "namespaces", |event| {
            Seen::Namespace(event.map(|object| NamespaceFacts::of(&object)))
        });
        self.watch::<PodGroup, _>(program, WatchConfig::new("podgroups"), "podgroups", |event| Seen::Group(event.map(group)));
        for (place, scheduler) in schedulers.iter().enumerate() {
            // The pods of other schedulers are never even sent to us.
            let field_selector = Some(format!("spec.schedulerName={scheduler}"));
            let config = WatchConfig { field_selector, ..WatchConfig::new("pods") };
            self.watch::<Pod, _>(program, config, "pods", move |event| Seen::Pod(place, event.map(pod)));
        }
    }

    fn watch_owners<K>(&self, program: &mut Program, kind: OwnerKind, name: &'static str, schedulers: &[String])
    where
        K: PodOwner + Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let served = schedulers.to_vec();
        self.watch::<K, _>(program, WatchConfig::new(name), name, move |event| {
            Seen::Owner(kind, event.map(|object| owner(&object, &served)))
        });
    }

    fn watch<K, F>(&self, program: &mut Program, config: WatchConfig, name: &'static str, wrap: F)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
        F: Fn(WatchEvent<K>) -> Seen + Send + Sync + 'static,
    {
        let watches = self.clone();
        let listed = self.readiness.expect(name);
        program.spawn(Stage::Work, name, move |stop| async move {
            watch_into(Api::<K>::all(watches.client), config, listed, watches.metrics, watches.events, wrap, stop).await;
            Ok::<(), String>(())
        });
    }
}

fn owner<K: PodOwner>(object: &K, served: &[String]) -> SeenOwner {
    let scheduler = object.template().scheduler();
    if served.iter().any(|name| name == scheduler) {
        return SeenOwner::Served(Box::new(OwnerFacts::of(object)));
    }
    let meta = object.metadata();
    SeenOwner::Unserved(Arc::from(meta.namespace.as_deref().unwrap_or_default()), Uid::from(meta.uid.as_deref().unwrap_or_default()))
}

fn group(object: PodGroup) -> SeenGroup {
    let meta = &object.metadata;
    let key = GroupKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let unwatched_owner = controller_of(meta).is_some_and(|owner| !is_watched(&owner.api_version, &owner.kind));
    SeenGroup { key, existing: dialect::existing(&object), unwatched_owner }
}

fn pod(object: Pod) -> SeenPod {
    let meta = &object.metadata;
    let group = group_of(meta);
    let named = meta.annotations.as_ref().and_then(|annotations| annotations.get(GROUP_NAME));
    // A group that somebody named is that one's business; only the generated name is ours to write.
    let stamped = group.owner().is_none_or(|owner| named.is_some_and(|name| *name == generated_name(&owner)));
    SeenPod {
        pod: PodRef { name: Arc::from(meta.name.as_deref().unwrap_or_default()), uid: Uid::from(meta.uid.as_deref().unwrap_or_default()) },
        group,
        ended: matches!(object.status.phase.as_str(), "Succeeded" | "Failed"),
        deleting: meta.deletion_timestamp.is_some(),
        stamped,
        source: PodSource::of(&object).map(Box::new),
    }
}
