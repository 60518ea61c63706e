//! Starts the watches of the controller and turns each object into facts.

use std::sync::Arc;

use kube::api::Api;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::api::membership::{controller_of, group_of, named_group};
use crate::api::names::{GROUP_LABEL, GROUP_NAME};
use crate::api::workload::{
    DaemonSet, Deployment, DeploymentFacts, Job, Namespace, NamespaceFacts, PodOwner, PodSource, ReplicaSet, StatefulSet, is_watched,
};
use crate::api::{GroupKey, Pod, PodGroup, Uid};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::{Listed, Readiness};
use crate::runtime::watch::Relist;
use crate::runtime::watch::{Outlet, WatchConfig, WatchEvent, watch_into};

use super::dialect;
use super::observed::{Observation, ObservedGroup, ObservedOwner, ObservedPod, OwnerKind, PodRef};

/// What all watches of the controller share.
#[derive(Clone)]
pub struct Watches {
    /// The client of the API server.
    pub client: Client,
    /// The channel to the reconciler.
    pub events: mpsc::Sender<Observation>,
    /// Records which lists are complete, for `/readyz`.
    pub readiness: Readiness,
    /// The metrics of the watches.
    pub metrics: WatchMetrics,
    /// Requests of new lists.
    pub relist: Relist,
}

impl Watches {
    /// Starts every watch as a task of the program. Pods are watched only for these `schedulers`.
    pub fn start(&self, program: &mut Program, schedulers: &[String]) {
        let (relist, events) = (self.relist.clone(), self.events.clone());
        program.spawn(Stage::Work, "watch for a restored etcd", |stop| async move {
            let forward = async {
                let mut known = 0;
                loop {
                    known = relist.back_after(known).await;
                    if events.send(Observation::WentBack(known)).await.is_err() {
                        return;
                    }
                }
            };
            stop.unless(forward).await;
            Ok::<(), String>(())
        });
        self.watch_owners::<ReplicaSet>(program, OwnerKind::ReplicaSet, "replicasets", schedulers);
        self.watch_owners::<StatefulSet>(program, OwnerKind::StatefulSet, "statefulsets", schedulers);
        self.watch_owners::<DaemonSet>(program, OwnerKind::DaemonSet, "daemonsets", schedulers);
        self.watch_owners::<Job>(program, OwnerKind::Job, "jobs", schedulers);
        self.watch(program, "deployments", |object: Deployment| DeploymentFacts::of(&object), Observation::Deployment);
        self.watch(program, "namespaces", |object: Namespace| NamespaceFacts::of(&object), Observation::Namespace);
        let served = schedulers.to_vec();
        self.watch(program, "podgroups", move |object: PodGroup| group(&object, &served), Observation::Group);
        for (place, scheduler) in schedulers.iter().enumerate() {
            // With this selector the API server does not send pods of other schedulers.
            let field_selector = Some(format!("spec.schedulerName={scheduler}"));
            let config = WatchConfig { field_selector, ..WatchConfig::new("pods") };
            let listed = self.readiness.expect(&pod_list_name(scheduler, schedulers.len()));
            self.watch_as(program, config, "pods", listed, pod, move |event| Observation::Pod(place, event));
        }
    }

    fn watch_owners<K>(&self, program: &mut Program, kind: OwnerKind, name: &'static str, schedulers: &[String])
    where
        K: PodOwner + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let served = schedulers.to_vec();
        self.watch(program, name, move |object: K| ObservedOwner::of(&object, &served), move |event| Observation::Owner(kind, event));
    }

    fn watch<K, F>(
        &self,
        program: &mut Program,
        name: &'static str,
        to_facts: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> Observation + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
        F: Send + 'static,
    {
        self.watch_as(program, WatchConfig::new(name), name, self.readiness.expect(name), to_facts, wrap);
    }

    fn watch_as<K, F>(
        &self,
        program: &mut Program,
        config: WatchConfig,
        name: &'static str,
        listed: Listed,
        to_facts: impl Fn(K) -> F + Send + 'static,
        wrap: impl Fn(WatchEvent<F>) -> Observation + Send + 'static,
    ) where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
        F: Send + 'static,
    {
        let config = WatchConfig { relist: self.relist.clone(), ..config };
        let (api, metrics) = (Api::<K>::all(self.client.clone()), self.metrics.clone());
        let outlet = Outlet::new(self.events.clone(), to_facts, wrap);
        program.spawn(Stage::Work, name, move |stop| async move {
            watch_into(api, config, listed, metrics, outlet, stop).await;
            Ok::<(), String>(())
        });
    }
}

/// Returns the name that `/readyz` shows for the list of the pods of one scheduler. `schedulers` is the number of served schedulers.
fn pod_list_name(scheduler: &str, schedulers: usize) -> String {
    if schedulers == 1 { "pods".to_owned() } else { format!("pods of {scheduler}") }
}

/// Turns a PodGroup into facts, for a controller that serves the schedulers `served`.
fn group(object: &PodGroup, served: &[String]) -> ObservedGroup {
    let meta = &object.metadata;
    let key = GroupKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    // The garbage collector deletes the PodGroup of a bare pod together with the pod. If the controller retired it, every pod that ends would cost a
    // list of its namespace.
    let is_pod = |api_version: &str, kind: &str| api_version == "v1" && kind == "Pod";
    let unwatched = |api_version: &str, kind: &str| !is_watched(api_version, kind) && !is_pod(api_version, kind);
    let unwatched_owner = controller_of(meta).is_some_and(|owner| unwatched(&owner.api_version, &owner.kind));
    ObservedGroup { key, existing: dialect::existing(object, served), unwatched_owner }
}

/// Turns a pod into facts.
fn pod(object: Pod) -> ObservedPod {
    let meta = &object.metadata;
    let group = group_of(meta);
    let annotations = meta.annotations.as_ref();
    let named = annotations.and_then(|annotations| annotations.get(GROUP_NAME));
    // A pod that names a PodGroup of a user or another controller needs no annotation. Any other pod needs a copy of the name that is derived.
    let stamped = named_group(annotations).is_some() || named.is_some_and(|name| **name == *group.name);
    // A webhook may name a PodGroup on the pods of an owner with a template that names none. The admission policy has labelled them before.
    let owner = controller_of(meta).filter(|_| group.owner().is_none());
    let elsewhere = owner.map(|owner| GroupKey::generated(&group.namespace, &owner.uid));
    let label = meta.labels.as_ref().and_then(|labels| labels.get(GROUP_LABEL));
    let mislabelled = elsewhere.as_ref().zip(label).is_some_and(|(generated, label)| **label == *generated.name);
    ObservedPod {
        elsewhere,
        mislabelled,
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
    use crate::api::membership::generated_name;

    #[test]
    fn readiness_names_the_list_of_pods_of_each_scheduler() {
        assert_eq!(pod_list_name("a", 1), "pods");
        assert_eq!((pod_list_name("a", 2), pod_list_name("b", 2)), ("pods of a".to_owned(), "pods of b".to_owned()));
    }

    #[test]
    fn a_pod_that_names_another_podgroup_than_its_owner_is_elsewhere_and_its_label_is_wrong() {
        let owner = "0a1b2c3d-0000-1111-2222-333344445555";
        let seen = |label: Option<&str>, named: Option<&str>| {
            let reference = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "o", "uid": owner, "controller": true }]);
            let mut metadata =
                json!({ "name": "p", "namespace": "ns", "uid": "u", "ownerReferences": reference, "labels": {}, "annotations": {} });
            label.iter().for_each(|label| metadata["labels"][GROUP_LABEL] = (*label).into());
            named.iter().for_each(|named| metadata["annotations"][GROUP_NAME] = (*named).into());
            pod(serde_json::from_value(json!({ "metadata": metadata, "spec": {}, "status": {} })).unwrap())
        };
        let generated = generated_name(owner);
        let own = seen(Some(&generated), Some(&generated));
        assert_eq!((own.elsewhere, own.mislabelled), (None, false));
        for (label, wrong) in [(Some(&*generated), true), (Some("lws"), false), (None, false)] {
            let other = seen(label, Some("lws"));
            assert_eq!((other.elsewhere, other.mislabelled), (Some(GroupKey::generated("ns", owner)), wrong), "{label:?}");
        }
    }

    #[test]
    fn a_podgroup_of_a_kind_that_is_neither_watched_nor_a_pod_has_an_unwatched_owner() {
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
