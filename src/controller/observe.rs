//! Which watches feed the controller, and what becomes of an object at the border?

use std::sync::Arc;

use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::api::membership::{generated_name, group_of};
use crate::api::names::GROUP_NAME;
use crate::api::workload::{self, Deployment, DeploymentFacts, Namespace, PodSource, ReplicaSet, ReplicaSetFacts};
use crate::api::{GroupKey, Pod, PodGroup, Uid};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::watch::{WatchConfig, WatchEvent, watch_into};

use super::dialect;
use super::observed::{PodRef, Seen, SeenGroup, SeenNamespace, SeenPod, SeenReplicaSet};

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
        let served = schedulers.to_vec();
        self.watch::<ReplicaSet, _>(program, WatchConfig::new("replicasets"), "replicasets", move |event| {
            Seen::ReplicaSet(event.map(|object| replica_set(object, &served)))
        });
        self.watch::<Deployment, _>(program, WatchConfig::new("deployments"), "deployments", |event| {
            Seen::Deployment(event.map(|object| DeploymentFacts::of(&object)))
        });
        self.watch::<Namespace, _>(program, WatchConfig::new("namespaces"), "namespaces", |event| Seen::Namespace(event.map(namespace)));
        self.watch::<PodGroup, _>(program, WatchConfig::new("podgroups"), "podgroups", |event| Seen::Group(event.map(group)));
        for (place, scheduler) in schedulers.iter().enumerate() {
            // The pods of other schedulers are never even sent to us.
            let field_selector = Some(format!("spec.schedulerName={scheduler}"));
            let config = WatchConfig { field_selector, ..WatchConfig::new("pods") };
            self.watch::<Pod, _>(program, config, "pods", move |event| Seen::Pod(place, event.map(pod)));
        }
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

fn replica_set(object: ReplicaSet, served: &[String]) -> SeenReplicaSet {
    let scheduler = workload::scheduler_of(&object);
    if served.iter().any(|name| name == scheduler) {
        return SeenReplicaSet::Served(Box::new(ReplicaSetFacts::of(&object)));
    }
    let meta = &object.metadata;
    SeenReplicaSet::Unserved(Arc::from(meta.namespace.as_deref().unwrap_or_default()), Uid::from(meta.uid.as_deref().unwrap_or_default()))
}

fn namespace(object: Namespace) -> SeenNamespace {
    let queue = workload::namespace_queue(&object);
    SeenNamespace { name: Arc::from(object.metadata.name.unwrap_or_default()), queue }
}

fn group(object: PodGroup) -> SeenGroup {
    let meta = &object.metadata;
    let key = GroupKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    SeenGroup { key, existing: dialect::existing(&object) }
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
