//! What is watched, and how does it become events? Turning objects into facts happens here, in the tasks of the watches, off the owner's path.

use std::sync::Arc;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::api::{
    BudgetFacts, BudgetKey, GroupFacts, GroupKey, Node, NodeFacts, Pod, PodDisruptionBudget, PodFacts, PodGroup, Queue, QueueFacts, Uid,
};
use crate::runtime::metrics::WatchMetrics;
use crate::runtime::program::{Program, Stage};
use crate::runtime::readiness::Readiness;
use crate::runtime::watch::{BadObject, WatchConfig, WatchEvent, watch_into};

use super::event::{Change, Event};

/// Starts the six watches, each of which ends up in `events`.
pub fn start(program: &mut Program, client: &Client, readiness: &Readiness, metrics: &WatchMetrics, events: &mpsc::Sender<Event>) {
    let mut watches = Watches { program, client, readiness, metrics, events };
    watches.start("nodes", "watch nodes", |event| {
        Event::Nodes(change(event, NodeFacts::of, |node: &Node| name(&node.metadata.name), |bad| Arc::from(bad.name.as_str())))
    });
    watches.start("pods", "watch pods", |event| {
        Event::Pods(change(event, PodFacts::of, |pod: &Pod| uid(pod.metadata.uid.as_deref()), |bad| uid(bad.uid.as_deref())))
    });
    watches.start("podgroups", "watch podgroups", |event| {
        let key = |group: &PodGroup| {
            GroupKey::new(group.metadata.namespace.as_deref().unwrap_or_default(), group.metadata.name.as_deref().unwrap_or_default())
        };
        Event::Groups(change(event, GroupFacts::of, key, |bad| GroupKey::new(bad.namespace.as_deref().unwrap_or_default(), &bad.name)))
    });
    watches.start("queues", "watch queues", |event| {
        Event::Queues(change(event, QueueFacts::of, |queue: &Queue| name(&queue.metadata.name), |bad| Arc::from(bad.name.as_str())))
    });
    watches.start("priorityclasses", "watch priorityclasses", |event| {
        let facts = |class: &PriorityClass| (class.metadata.name.clone().unwrap_or_default(), class.value.unwrap_or(0));
        let key = |class: &PriorityClass| class.metadata.name.clone().unwrap_or_default();
        Event::PriorityClasses(change(event, facts, key, |bad| bad.name.clone()))
    });
    watches.start("poddisruptionbudgets", "watch poddisruptionbudgets", |event| {
        let key = |budget: &PodDisruptionBudget| BudgetFacts::of(budget).key;
        Event::Budgets(change(event, BudgetFacts::of, key, |bad| BudgetKey::new(bad.namespace.as_deref().unwrap_or_default(), &bad.name)))
    });
}

struct Watches<'a> {
    program: &'a mut Program,
    client: &'a Client,
    readiness: &'a Readiness,
    metrics: &'a WatchMetrics,
    events: &'a mpsc::Sender<Event>,
}

impl Watches<'_> {
    fn start<K>(&mut self, resource: &'static str, task: &'static str, wrap: impl Fn(WatchEvent<K>) -> Event + Send + Sync + 'static)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
    {
        let (api, listed) = (Api::<K>::all(self.client.clone()), self.readiness.expect(resource));
        let (metrics, events) = (self.metrics.clone(), self.events.clone());
        self.program.spawn(Stage::Work, task, move |stop| async move {
            let config = WatchConfig { never_back: true, ..WatchConfig::new(resource) };
            watch_into(api, config, listed, metrics, events, wrap, stop).await;
            Ok::<(), String>(())
        });
    }
}

fn change<K, T, I>(
    event: WatchEvent<K>,
    facts: impl Fn(&K) -> T,
    key: impl Fn(&K) -> I,
    bad_key: impl Fn(&BadObject) -> I,
) -> Change<T, I> {
    match event {
        WatchEvent::Reset { objects, bad } => {
            Change::Reset { all: objects.iter().map(&facts).collect(), unreadable: bad.iter().map(bad_key).collect() }
        }
        WatchEvent::Apply(object) => Change::Apply(facts(&object)),
        WatchEvent::Delete(object) => Change::Delete(key(&object)),
        WatchEvent::Bad(bad) if bad.deleted => Change::Delete(bad_key(&bad)),
        WatchEvent::Bad(bad) => Change::Unreadable(bad_key(&bad)),
    }
}

fn name(name: &Option<String>) -> Arc<str> {
    Arc::from(name.as_deref().unwrap_or_default())
}

fn uid(uid: Option<&str>) -> Uid {
    Uid::from(uid.unwrap_or_default())
}
