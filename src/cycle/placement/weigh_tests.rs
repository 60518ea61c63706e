//! Preferences decide among nodes that fit, one at a time and against each other.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::accounting::Ledger;
use crate::api::images::{NodeImage, PodImages};
use crate::api::node::Taint;
use crate::api::{GroupKey, NodeFacts, PodFacts, Uid};
use crate::cycle::placement::Strategy;
use crate::cycle::placement::class::Classes;
use crate::cycle::placement::finder::{Asks, NodeFinder};
use crate::cycle::placement::nodes::Nodes;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::place::Place;
use crate::cycle::placement::topology::placed::PlacedPods;
use crate::cycle::testing::node;
use crate::resources::Amount;

#[derive(Default)]
struct Cluster {
    nodes: Nodes,
    ledger: Ledger,
    placed: PlacedPods,
    classes: Classes,
    finder: NodeFinder,
}

/// A pod with 1 cpu: its name, its labels, its spec, and the kind of its controller (of `apps/v1`, unless the version stands before it).
fn pod_of(name: &str, app: &str, spec: Value, controller: Option<&str>) -> PodFacts {
    let mut spec = spec;
    spec["containers"] = json!([{ "name": "c", "resources": { "requests": { "cpu": "1" } } }]);
    let owners: Vec<Value> = controller
        .map(|kind| kind.split_once(' ').unwrap_or(("apps/v1", kind)))
        .map(|(version, kind)| json!({ "apiVersion": version, "kind": kind, "name": app, "uid": format!("{app}-uid"), "controller": true }))
        .into_iter()
        .collect();
    let meta = json!({ "namespace": "ns", "name": name, "uid": name, "labels": { "app": app }, "ownerReferences": owners });
    PodFacts::of(&serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap())
}

fn pod(name: &str, app: &str, spec: Value) -> PodFacts {
    pod_of(name, app, spec, None)
}

impl Cluster {
    /// Nodes with 100 cpu, each with its zone; the disk of the nodes in zone b is fast.
    fn new(nodes: &[(&str, &str)]) -> Self {
        let mut cluster = Self::default();
        for (name, zone) in nodes {
            cluster.add(node(name, &[("cpu", 100)]), zone);
        }
        cluster
    }

    fn add(&mut self, mut facts: NodeFacts, zone: &str) {
        let labels = [("kubernetes.io/hostname", &*facts.name), (ZONE, zone), ("disk", if zone == "b" { "fast" } else { "slow" })];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        facts.labels.extend(labels);
        self.ledger.node_upsert(&facts.name, facts.allocatable.clone());
        let name = Arc::clone(&facts.name);
        self.placed.set_offers(&name, Some(&facts.allocatable));
        self.nodes.upsert(facts);
        self.placed.set_node(&name, self.nodes.id(&name));
    }

    fn put(&mut self, pod: &PodFacts, node: &str) {
        self.placed.learn(pod);
        self.placed.put(&pod.uid, Place::on(node));
        self.ledger.charge(&pod.uid, Some(node), pod.request.clone(), false);
        self.nodes.touch_name(node);
    }

    fn with(mut self, pods: &[(&str, &str)]) -> Self {
        for (at, (app, node)) in pods.iter().enumerate() {
            self.put(&pod(&format!("there-{at}"), app, json!({})), node);
        }
        self
    }

    /// Where the pod goes, also if others of its class wait.
    fn best(&mut self, pod: &PodFacts) -> String {
        self.placed.learn(pod);
        let id = self.classes.join(pod, &mut self.placed);
        let class = Arc::clone(self.classes.get(id).unwrap());
        let barred = BTreeSet::new();
        let snapshot =
            Snapshot { nodes: &self.nodes, ledger: &self.ledger, placed: &self.placed, strategy: Strategy::Auto, barred: &barred };
        let mut best = |users| {
            let asks =
                Asks { id, class: &class, users, replica_of: pod.terms.replica_of.as_ref(), images: pod.images.as_ref(), within: None };
            self.finder.best(asks, &BTreeSet::new(), snapshot).unwrap()
        };
        let (alone, among) = (best(1), best(2));
        assert_eq!(alone, among, "the shortlist says the same");
        self.nodes.get(alone).unwrap().name.to_string()
    }
}

fn prefers_nodes(terms: &[(i32, &str, &str)]) -> Value {
    let term = |(weight, key, value): &(i32, &str, &str)| json!({ "weight": weight, "preference": { "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] } });
    let terms: Vec<Value> = terms.iter().map(term).collect();
    json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": terms } } })
}

/// `kind` is `podAffinity` or `podAntiAffinity`; each term has a weight, an app and a topology key.
fn prefers_pods(kind: &str, terms: &[(i32, &str, &str)]) -> Value {
    let term = |(weight, app, key): &(i32, &str, &str)| json!({ "weight": weight, "podAffinityTerm": { "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } } });
    let terms: Vec<Value> = terms.iter().map(term).collect();
    json!({ "affinity": { kind: { "preferredDuringSchedulingIgnoredDuringExecution": terms } } })
}

/// The pod needs this image in its one container.
fn needs(image: &str, pod: PodFacts) -> PodFacts {
    PodFacts { images: Some(Arc::new(PodImages { containers: 1, names: vec![Arc::from(image)] })), ..pod }
}

/// A gibibyte, which is enough for all points.
fn image(name: &str) -> NodeImage {
    NodeImage { name: Arc::from(name), size: 1 << 30 }
}

const HOST: &str = "kubernetes.io/hostname";

#[test]
fn the_weights_of_preferred_node_affinity_are_added() {
    let nodes = [("n1", "a"), ("n2", "b"), ("n3", "c")];
    let best = |terms: &[(i32, &str, &str)]| Cluster::new(&nodes).best(&pod("p", "x", prefers_nodes(terms)));
    assert_eq!(best(&[(1, "disk", "fast")]), "n2");
    assert_eq!(best(&[(2, "disk", "fast"), (3, ZONE, "c")]), "n3");
    assert_eq!(best(&[(2, "disk", "fast"), (2, ZONE, "b"), (3, ZONE, "c")]), "n2");
    assert_eq!(best(&[(9, "disk", "none")]), "n1", "a preference refuses no node");
}

#[test]
fn preferred_node_affinity_follows_the_labels_of_the_nodes_and_the_terms_of_the_class() {
    let mut cluster = Cluster::new(&[("n1", "a"), ("n2", "b"), ("n3", "c")]);
    let fast = pod("p", "x", prefers_nodes(&[(1, "disk", "fast")]));
    assert_eq!(cluster.best(&fast), "n2");
    let id = cluster.nodes.id("n2").unwrap();
    let slow = NodeFacts { labels: [("disk".to_owned(), "slow".to_owned())].into(), ..(**cluster.nodes.get(id).unwrap()).clone() };
    cluster.nodes.upsert(slow);
    assert_eq!(cluster.best(&fast), "n1");
    for term in 1..200 {
        let zone = pod("p", "x", prefers_nodes(&[(term, ZONE, "c")]));
        assert_eq!(cluster.best(&zone), "n3", "another class, and as many as there may be");
    }
}

#[test]
fn preferred_affinity_seeks_pods_and_preferred_anti_affinity_avoids_them() {
    let best = |spec: Value| {
        Cluster::new(&[("n1", "a"), ("n2", "a"), ("n3", "b")]).with(&[("db", "n2"), ("web", "n1")]).best(&pod("p", "x", spec))
    };
    assert_eq!(best(json!({})), "n3");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "db", HOST)])), "n2");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "db", HOST), (6, "web", HOST)])), "n1");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "db", ZONE)])), "n1", "n1 and n2 are of the zone");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "web", ZONE), (1, "db", HOST)])), "n2", "by two keys");
    assert_eq!(best(prefers_pods("podAntiAffinity", &[(5, "db", ZONE)])), "n3");
}

#[test]
fn the_preferences_and_the_required_affinity_of_pods_that_are_there_count() {
    let best = |spec: Value| {
        let mut cluster = Cluster::new(&[("n1", "a"), ("n2", "b"), ("n3", "c")]);
        cluster.put(&pod("there", "other", spec), "n2");
        cluster.best(&pod("p", "x", json!({})))
    };
    assert_eq!(best(json!({})), "n1");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "x", HOST)])), "n2");
    assert_eq!(best(prefers_pods("podAffinity", &[(5, "y", HOST)])), "n1");
    let required = json!([{ "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": "x" } } }]);
    assert_eq!(best(json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })), "n2");
    let mut cluster = Cluster::new(&[("n1", "a"), ("n2", "b")]).with(&[("z", "n2"), ("z", "n2")]);
    cluster.put(&pod("there", "other", prefers_pods("podAntiAffinity", &[(5, "x", ZONE)])), "n1");
    assert_eq!(cluster.best(&pod("p", "x", json!({}))), "n2", "though it is fuller");
}

#[test]
fn schedule_anyway_prefers_the_domain_with_the_fewest_pods() {
    let spread = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": { "app": "x" } },
    }] });
    let mut cluster =
        Cluster::new(&[("n1", "a"), ("n2", "a"), ("n3", "b")]).with(&[("x", "n1"), ("x", "n1"), ("x", "n3"), ("y", "n3"), ("y", "n3")]);
    assert_eq!(cluster.best(&pod("p", "x", spread.clone())), "n3", "zone a has one more");
    cluster.put(&pod("leaves", "x", json!({})), "n3");
    cluster.put(&pod("another", "x", json!({})), "n3");
    assert_eq!(cluster.best(&pod("q", "x", spread)), "n2");
}

#[test]
fn the_images_that_a_node_has_weigh_half_as_much_as_how_empty_it_is() {
    // With the preference all is weighed; without it the node comes from the table.
    for spec in [json!({}), prefers_nodes(&[(1, "disk", "none")])] {
        let best = |used: usize, image_of: &str| {
            let mut cluster = Cluster::new(&[("n1", "a"), ("n2", "a"), ("n3", "a")]).with(&vec![("y", "n2"); used]);
            ["n2", "n3"].iter().for_each(|node| cluster.nodes.set_images(node, &[image("a:1")]));
            // So full that it is never chosen.
            (0..90).for_each(|at| cluster.put(&pod(&format!("z-{at}"), "z", json!({})), "n3"));
            cluster.best(&needs(image_of, pod("p", "x", spec.clone())))
        };
        // Two of three nodes have it: 660 of 977 MiB above the least, or 0.675 of all points. Half of that is 33.8 pods of a hundredth of the node.
        assert_eq!((best(33, "a:1"), best(34, "a:1")), ("n2".to_owned(), "n1".to_owned()));
        assert_eq!(best(1, "b:1"), "n1", "no node has the image");
    }
}

#[test]
fn an_image_on_every_node_or_on_few_nodes_decides_nothing() {
    let nodes: Vec<(String, &str)> = (0..50).map(|at| (format!("n{at}"), "a")).collect();
    let nodes: Vec<(&str, &str)> = nodes.iter().map(|(name, zone)| (name.as_str(), *zone)).collect();
    let without = Cluster::new(&nodes).best(&pod("p", "x", json!({})));
    let with = |on: &[&str]| {
        let mut cluster = Cluster::new(&nodes);
        on.iter().for_each(|node| cluster.nodes.set_images(node, &[image("a:1")]));
        cluster.best(&needs("a:1", pod("p", "x", json!({}))))
    };
    assert_eq!(with(&nodes.iter().map(|(name, _)| *name).collect::<Vec<_>>()), without);
    assert_eq!(with(&[if without == "n40" { "n41" } else { "n40" }]), without, "a fiftieth of a gibibyte is too little");
    let two: Vec<&str> = nodes.iter().map(|(name, _)| *name).filter(|name| *name != without).take(2).collect();
    assert!(two.contains(&&*with(&two)), "two fiftieths are not");
}

#[test]
fn where_pods_are_packed_images_decide_among_equally_full_nodes_only() {
    for spec in [json!({}), prefers_nodes(&[(1, "disk", "none")])] {
        let best = |busy: &[&str]| {
            let mut cluster = Cluster::default();
            ["n1", "n2", "n3"].iter().for_each(|name| cluster.add(node(name, &[("cpu", 100), ("x.y/gpu", 8)]), "a"));
            let gpu = |name: &str| {
                let plain = pod(name, "x", spec.clone());
                PodFacts { request: plain.request.with("x.y/gpu", Amount::from_units(1)), ..plain }
            };
            busy.iter().enumerate().for_each(|(at, node)| cluster.put(&gpu(&format!("b-{at}")), node));
            cluster.nodes.set_images("n3", &[image("a:1")]);
            cluster.best(&needs("a:1", gpu("p")))
        };
        assert_eq!(best(&[]), "n3", "of empty nodes");
        assert_eq!(best(&["n2"]), "n2", "the fuller one, so that whole nodes stay free");
        assert_eq!(best(&["n2", "n3"]), "n3", "of equally full ones");
    }
}

#[test]
fn replicas_are_spread_over_nodes_and_then_over_zones() {
    let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")];
    let places = |kind: &str, spec: &Value| {
        // The first nodes are the emptiest all the time.
        let mut cluster = Cluster::new(&nodes).with(&[("y", "n3"), ("y", "n3"), ("y", "n4"), ("y", "n4"), ("y", "n4"), ("y", "n2")]);
        let mut place = |at: usize| {
            let pod = pod_of(&format!("r-{at}"), "web", spec.clone(), Some(kind));
            let node = cluster.best(&pod);
            cluster.put(&pod, &node);
            node
        };
        (0..5).map(&mut place).collect::<Vec<_>>()
    };
    let none = json!({});
    for kind in ["ReplicaSet", "StatefulSet", "v1 ReplicationController"] {
        assert_eq!(places(kind, &none), ["n1", "n3", "n2", "n4", "n1"], "{kind}: one zone after the other, however full");
    }
    assert_eq!(places("Job", &none), ["n1", "n1", "n2", "n1", "n2"], "the emptiest");
    let beside = prefers_nodes(&[(1, "disk", "none")]);
    assert_eq!(places("ReplicaSet", &beside), ["n1", "n3", "n2", "n4", "n1"], "the same where all is weighed");
}

#[test]
fn replicas_are_spread_with_those_of_their_controller_whatever_their_podgroups_are() {
    // The first nodes are the emptiest all the time.
    let cluster = || Cluster::new(&[("n1", "a"), ("n2", "b")]).with(&[("y", "n2"), ("y", "n2")]);
    let places = |pods: [(&str, &str); 2]| {
        let mut cluster = cluster();
        pods.map(|(app, group)| {
            let pod =
                PodFacts { group: GroupKey::new("ns", group), ..pod_of(&format!("{app}-{group}"), app, json!({}), Some("StatefulSet")) };
            let node = cluster.best(&pod);
            cluster.put(&pod, &node);
            node
        })
    };
    assert_eq!(places([("leader", "one"), ("leader", "other")]), ["n1", "n2"], "each is a PodGroup, as the leaders of a LeaderWorkerSet");
    assert_eq!(places([("web", "all"), ("db", "all")]), ["n1", "n1"], "two services in one PodGroup");
}

#[test]
fn a_replica_that_another_controller_adopts_is_spread_with_those_of_that_one() {
    let mut cluster = Cluster::new(&[("n1", "a"), ("n2", "b")]).with(&[("y", "n2"), ("y", "n2")]);
    let replica = |name: &str, app: &str| pod_of(name, app, json!({}), Some("ReplicaSet"));
    cluster.put(&replica("adopted", "web"), "n1");
    assert_eq!(cluster.best(&replica("new", "db")), "n1");
    let mut adopted = replica("adopted", "web");
    adopted.terms = Arc::clone(&replica("adopted", "db").terms);
    cluster.placed.learn(&adopted);
    assert_eq!(cluster.best(&replica("new", "db")), "n2");
    assert_eq!(cluster.best(&replica("new", "web")), "n1");
}

#[test]
fn nodes_that_are_wanted_for_others_come_last_for_replicas_and_where_all_is_weighed() {
    for (preference, kind) in [(json!({}), "ReplicaSet"), (prefers_nodes(&[(1, "disk", "fast")]), "Job")] {
        let mut cluster = Cluster::new(&[("n1", "a")]).with(&[("y", "n1"), ("y", "n1")]);
        let taint = Taint { key: "k".into(), value: None, effect: "PreferNoSchedule".into() };
        cluster.add(NodeFacts { soft_taints: vec![taint], ..node("n2", &[("cpu", 100)]) }, "b");
        let first = pod_of("r-0", "web", preference.clone(), Some(kind));
        cluster.put(&first, "n1");
        assert_eq!(cluster.best(&pod_of("r-1", "web", preference, Some(kind))), "n1");
    }
}

#[test]
fn a_replica_that_says_how_it_spreads_is_not_spread_otherwise() {
    let says = json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule" }] });
    let replica_of = |says, controller| pod_of("p", "web", says, controller).terms.replica_of.clone();
    assert_eq!(replica_of(says, Some("ReplicaSet")), None);
    assert_eq!(replica_of(json!({}), Some("ReplicaSet")), Some(Uid::from("web-uid")));
    assert_eq!(replica_of(json!({}), Some("v1 ReplicationController")), Some(Uid::from("web-uid")));
    assert_eq!(replica_of(json!({}), Some("apps.kruise.io/v1beta1 StatefulSet")), None);
    assert_eq!(replica_of(json!({}), Some("Job")), None);
    assert_eq!(replica_of(json!({}), None), None);
}

#[test]
fn more_domains_weigh_more() {
    let exact = |domains: u32| (f64::from(domains) + 2.0).ln() * 1e9;
    for domains in (0..100).chain([1_000, 4_999, 5_000, 100_000, u32::MAX]) {
        let weight = f64::from(u32::try_from(spread_weight(usize::try_from(domains).unwrap()) / 8).unwrap()) * 8.0;
        assert!((weight - exact(domains)).abs() < 16.0, "{domains}: {weight} and {}", exact(domains));
    }
}
