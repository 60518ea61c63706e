//! Which watches feed the controller, and what becomes of an object at the border?

use std::sync::Arc;

use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::api::membership::{controller_of, generated_name, group_of};
use crate::api::names::GROUP_NAME;
use crate::api::workload::{
    DaemonSet, Deployment, DeploymentFacts, Job, Namespace, NamespaceFacts, PodOwner, PodSource, ReplicaSet, StatefulSet, is_watched,
};
use crate::api::{GroupKey, Pod, PodGroup, Uid};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::{Listed, Readiness};
use crate::runtime::watch::{Outlet, WatchConfig, WatchEvent, watch_into};

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
        self.watch(program, "deployments", |object: Deployment| DeploymentFacts::of(&object), Seen::Deployment);
        self.watch(program, "namespaces", |object: Namespace| NamespaceFacts::of(&object), Seen::Namespace);
        let served = schedulers.to_vec();
        self.watch(program, "podgroups", move |object: PodGroup| group(&object, &served), Seen::Group);
        for (place, scheduler) in schedulers.iter().enumerate() {
            // The pods of other schedulers are never even sent to us.
            let field_selector = Some(format!("spec.schedulerName={scheduler}"));
            let config = WatchConfig { field_selector, ..WatchConfig::new("pods") };
            let listed = self.readiness.expect(&pods_of(scheduler, schedulers.len()));
            self.watch_as(program, config, "pods", listed, pod, move |event| Seen::Pod(place, event));
        }
    }

    fn watch_owners<K>(&self, program: &mut Program, kind: OwnerKind, name: &'static str, schedulers: &[String])
    where
        K: PodOwner + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let served = schedulers.to_vec();
        self.watch(program, name, move |object: K| SeenOwner::of(&object, &served), move |event| Seen::Owner(kind, event));
    }

    fn watch<K, F>(
        &self,
        program: &mut Program,
        name: &'static str,
        keep: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> Seen + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
        F: Send + 'static,
    {
        self.watch_as(program, WatchConfig::new(name), name, self.readiness.expect(name), keep, wrap);
    }

    fn watch_as<K, F>(
        &self,
        program: &mut Program,
        config: WatchConfig,
        name: &'static str,
        listed: Listed,
        keep: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> Seen + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
        F: Send + 'static,
    {
        let (api, metrics) = (Api::<K>::all(self.client.clone()), self.metrics.clone());
        let outlet = Outlet::new(self.events.clone(), keep, wrap);
        program.spawn(Stage::Work, name, move |stop| async move {
            watch_into(api, config, listed, metrics, outlet, stop).await;
            Ok::<(), String>(())
        });
    }
}

/// What `/readyz` calls the list of one scheduler's pods, of which there are so many.
fn pods_of(scheduler: &str, schedulers: usize) -> String {
    if schedulers == 1 { "pods".to_owned() } else { format!("pods of {scheduler}") }
}

fn group(object: &PodGroup, served: &[String]) -> SeenGroup {
    let meta = &object.metadata;
    let key = GroupKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    // A pod's group goes with the pod, which the garbage collector sees to: to look for members would be a list of the namespace for each pod that ends.
    let is_pod = |api_version: &str, kind: &str| api_version == "v1" && kind == "Pod";
    let unwatched = |api_version: &str, kind: &str| !is_watched(api_version, kind) && !is_pod(api_version, kind);
    let unwatched_owner = controller_of(meta).is_some_and(|owner| unwatched(&owner.api_version, &owner.kind));
    SeenGroup { key, existing: dialect::existing(object, served), unwatched_owner }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pods_of_each_scheduler_are_a_list_of_their_own() {
        assert_eq!(pods_of("a", 1), "pods");
        assert_eq!((pods_of("a", 2), pods_of("b", 2)), ("pods of a".to_owned(), "pods of b".to_owned()));
    }

    #[test]
    fn the_group_of_a_pod_goes_with_the_pod_and_that_of_an_unknown_kind_must_be_looked_after() {
        for (api_version, kind, unwatched) in [
            ("v1", "Pod", false),
            ("apps/v1", "ReplicaSet", false),
            ("batch/v1", "Job", false),
            ("v1", "ReplicationController", true),
            ("x/v1", "Pod", true),
        ] {
            let owner = json!([{ "apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": true }]);
            let object = json!({ "metadata": { "name": "g", "namespace": "ns", "ownerReferences": owner }, "spec": {} });
            let seen = group(&serde_json::from_value(object).unwrap(), &[]);
            assert_eq!(seen.unwatched_owner, unwatched, "{api_version} {kind}");
        }
    }
}
