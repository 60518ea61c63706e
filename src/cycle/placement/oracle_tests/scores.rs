//! kube-scheduler's own plugins and ours prefer the same nodes: for random clusters and pods, each node that takes a pod has the same
//! points by each plugin, with its weight.
//!
//! kube-scheduler rounds the points of each plugin down to whole hundredths, ours are millionths. So they agree where they differ by at
//! most one hundredth. How empty nodes are is left out: that differs on purpose, as
//! docs/decisions/2026-11-23-scores-beside-kube-scheduler.md says.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::api::Uid;
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::placement::filter::Query;
use crate::cycle::placement::finder::{NodeFinder, fitting_of_each};
use crate::cycle::placement::images::KnownPoints;
use crate::cycle::placement::preferred_nodes;
use crate::cycle::placement::score::WHOLE;
use crate::cycle::placement::snapshot::Snapshot;
use crate::cycle::placement::topology::counting::counting;
use crate::cycle::placement::topology::domains::Domains;
use crate::cycle::placement::topology::verdict::Facts;
use crate::cycle::placement::weigh::{Kind, Weighed, ZONE, points};
use crate::cycle::state::SchedulingState;

use super::clusters::{node, placed, question_of};
use super::judge::{Oracle, Scores, pending, state_of};
use super::pods::{pod, stored, without_nulls};
use super::terms::{node_affinity, spread, terms};

/// The plugins that are compared, with the kind of ours, the weight, and how many pods of a run must find different points on their nodes.
const PLUGINS: [(&str, Kind, i64, u32); 5] = [
    ("TaintToleration", Kind::NotWanted, 3, 40),
    ("NodeAffinity", Kind::NodeAffinity, 2, 20),
    ("InterPodAffinity", Kind::OtherPods, 2, 80),
    ("PodTopologySpread", Kind::Spread, 2, 50),
    ("ImageLocality", Kind::Images, 1, 150),
];

/// The images of nodes, each with its size in MiB. Pods ask for them by these names, but for the tag `latest`.
const IMAGES: [(&str, u64); 5] = [("a:1", 800), ("a:latest", 3_000), ("reg:5000/b:latest", 300), ("c@sha256:0", 60), ("d:1", 20_000)];
const ASKED: [&str; 7] = ["a:1", "a", "reg:5000/b", "c@sha256:0", "d:1", "none:1", ""];

/// The label of the replicas of the one ReplicaSet.
const SET: &str = "set";

/// Terms that are preferred: for pods, for pods that should be elsewhere, and for nodes.
fn preferred() -> impl Strategy<Value = [Value; 3]> {
    let weights = || prop::collection::vec(1..=100_i32, 3);
    let others = || {
        (terms(), weights(), any::<bool>()).prop_map(|(terms, weights, there)| {
            let terms = terms["requiredDuringSchedulingIgnoredDuringExecution"].as_array().cloned().filter(|_| there).unwrap_or_default();
            terms.into_iter().zip(weights).map(|(term, weight)| json!({ "weight": weight, "podAffinityTerm": term })).collect::<Value>()
        })
    };
    let nodes = (node_affinity(), weights()).prop_map(|(affinity, weights)| {
        let terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
        terms.into_iter().zip(weights).map(|(term, weight)| json!({ "weight": weight, "preference": term })).collect::<Value>()
    });
    (others(), others(), nodes).prop_map(|(near, far, nodes)| [near, far, nodes])
}

/// Constraints with `ScheduleAnyway`.
fn soft_spread() -> impl Strategy<Value = Value> {
    spread().prop_map(|mut constraints| {
        for constraint in constraints.as_array_mut().unwrap() {
            constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
            constraint["minDomains"] = Value::Null;
        }
        constraints
    })
}

/// Gives a pod preferences and images. Most pods lose what they require, so that several nodes take them; a replica has no constraint on its spread.
fn with_preferences(pod: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let images = prop::collection::vec(prop::sample::select(&ASKED[..]), 6);
    let odds = (prop::bool::weighted(0.2), prop::bool::weighted(0.3), prop::option::of(soft_spread()), prop::bool::weighted(0.2));
    (pod, preferred(), images, odds).prop_map(|(mut pod, [near, far, nodes], images, (requires, is_replica, spread, mounts))| {
        let spec = &mut pod["spec"];
        // Which nodes count for the default spread differs on purpose, where the pod requires something of its node.
        if !requires || is_replica {
            let near = spec["affinity"]["podAffinity"].take();
            spec["affinity"] = json!({ "podAffinity": near });
            ["nodeSelector", "topologySpreadConstraints"].iter().for_each(|field| spec[field] = Value::Null);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        spec["affinity"]["podAffinity"][preferred] = near;
        spec["affinity"]["podAntiAffinity"][preferred] = far;
        spec["affinity"]["nodeAffinity"][preferred] = nodes;
        let mut images = images.into_iter();
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                container["image"] = json!(images.next().unwrap());
            }
        }
        if mounts {
            spec["volumes"] = json!([{ "name": "v", "image": { "reference": images.next().unwrap() } }]);
        }
        if is_replica {
            spec["topologySpreadConstraints"] = Value::Null;
            pod["metadata"]["namespace"] = json!("x");
            pod["metadata"]["labels"][SET] = json!("web");
            let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true });
            pod["metadata"]["ownerReferences"] = json!([owner]);
        } else if let Some(spread) = spread {
            let hard = spec["topologySpreadConstraints"].as_array().cloned().unwrap_or_default();
            spec["topologySpreadConstraints"] = hard.into_iter().chain(spread.as_array().cloned().unwrap()).collect();
        }
        without_nulls(stored(pod))
    })
}

/// A node that offers no devices, which ours keeps for pods that request them, with some images and mostly a zone.
fn node_with_images() -> impl Strategy<Value = Value> {
    (node(), 0..32_u8, prop::bool::weighted(0.8)).prop_map(|(mut node, images, has_zone)| {
        let has = IMAGES.iter().enumerate().filter(|(at, _)| images & (1 << at) != 0);
        let image = |(_, (name, mib)): (usize, &(&str, u64))| json!({ "names": [name, format!("{name}-other")], "sizeBytes": mib << 20 });
        node["status"]["images"] = has.map(image).collect();
        node["status"]["allocatable"].as_object_mut().unwrap().remove("example.com/gpu");
        node["status"]["allocatable"]["cpu"] = json!("16");
        node["spec"]["unschedulable"] = json!(false);
        if let Some(zone) = node["metadata"]["labels"].get("zone").filter(|_| has_zone).cloned() {
            node["metadata"]["labels"][ZONE] = zone;
        }
        node
    })
}

/// A cluster whose nodes have images and whose pods have preferences, and the ReplicaSet that the default spread reads.
fn question() -> impl Strategy<Value = Value> {
    let nodes = prop::collection::vec(node_with_images(), 2..9);
    question_of(nodes, with_preferences(placed()), with_preferences(pod())).prop_map(|mut question| {
        question["replicaSets"] =
            json!([{ "metadata": { "name": "web", "namespace": "x" }, "spec": { "selector": { "matchLabels": { SET: "web" } } } }]);
        question
    })
}

/// The nodes that take a pod, and their points by each kind of ours that has something to say.
struct Ours {
    nodes: Vec<String>,
    points: BTreeMap<Kind, Vec<i64>>,
    /// Whether it is the first replica: it has no points for its spread.
    is_first_replica: bool,
}

fn ours(state: &SchedulingState, uid: &Uid) -> Ours {
    let cache = &state.cache;
    let member = &cache.pods()[uid];
    let class = cache.classes().get(member.class.unwrap()).unwrap();
    let barred = [].into();
    let (nodes, placed) = (cache.nodes(), cache.on_nodes());
    let snapshot = Snapshot { nodes, ledger: cache.accounting().ledger(), placed, strategy: NodeStrategy::Spread, barred: &barred };
    let counting = counting(class, nodes);
    let verdict = NodeFinder::default().verdict(&class.terms, &counting, snapshot);
    let images = member.facts.images.as_ref().and_then(|images| KnownPoints::default().of(images, nodes));
    let query = Query { images: images.as_deref(), ..Query::of(class, &verdict, snapshot) };
    let candidates = fitting_of_each(&query, &[].into(), snapshot);
    let controller = member.facts.terms.replica_of.as_ref();
    let siblings = controller.and_then(|controller| placed.replicas_of(controller));
    let facts = Facts { nodes, placed, domains: &mut Domains::default() };
    let points =
        points(&candidates, Weighed { class, counting: &counting, preferred: &preferred_nodes::preferred(class, nodes), siblings }, facts)
            .into_iter()
            .map(|points| (points.kind, points.of));
    Ours {
        nodes: candidates.iter().map(|node| nodes.get(node.id).unwrap().name.to_string()).collect(),
        points: points.collect(),
        is_first_replica: controller.is_some() && siblings.is_none(),
    }
}

/// The plugins by which nodes differ, or what is not the same.
fn compare(ours: &Ours, theirs: &Scores) -> Result<Vec<Kind>, String> {
    if ours.nodes.len() != theirs.len() || !ours.nodes.iter().all(|node| theirs.contains_key(node)) {
        return Err(format!("ours take {:?}", ours.nodes));
    }
    let mut differing = Vec::new();
    for (plugin, kind, weight, _) in PLUGINS {
        let theirs: Option<Vec<i64>> = ours.nodes.iter().map(|node| theirs[node].get(plugin).copied()).collect();
        let equal = |points: &[i64]| points.iter().all(|one| Some(one) == points.first());
        let ours_of = ours.points.get(&kind);
        // Points that all nodes have decide nothing.
        let decides = |points: &Option<&Vec<i64>>| points.is_some_and(|points| !equal(points));
        if !decides(&ours_of) && !decides(&theirs.as_ref()) {
            continue;
        }
        let hundredth = i64::from(WHOLE) / 100;
        let near = |(ours, theirs): (&i64, &i64)| (ours * kind.weight() - theirs * hundredth).abs() <= hundredth * weight;
        match (ours_of, theirs) {
            (Some(ours), Some(theirs)) if kind.weight() == weight && ours.iter().zip(&theirs).all(near) => differing.push(kind),
            (None, Some(_)) if kind == Kind::Spread && ours.is_first_replica => {}
            (ours, theirs) => return Err(format!("{plugin}: ours {ours:?} by {}, theirs {theirs:?}", kind.weight())),
        }
    }
    Ok(differing)
}

#[test]
fn property_kube_scheduler_and_ours_prefer_the_same_nodes() {
    let (oracle, seen) = (RefCell::new(Oracle::start()), RefCell::new(BTreeMap::<Kind, u32>::new()));
    let mut runner = TestRunner::new(crate::random_tests::config(600));
    let done = runner.run(&question(), |question| {
        let theirs = oracle.borrow_mut().scores(&question);
        let state = state_of(&question);
        for (uid, theirs) in pending(&question).iter().zip(&theirs) {
            let ours = ours(&state, uid);
            match compare(&ours, theirs) {
                Ok(kinds) => kinds.iter().for_each(|kind| *seen.borrow_mut().entry(*kind).or_default() += 1),
                Err(what) => prop_assert!(false, "{uid}: {what} for the nodes {:?} in {question}", ours.nodes),
            }
        }
        Ok(())
    });
    done.unwrap();
    let seen = seen.into_inner();
    println!("{seen:?}");
    assert!(PLUGINS.iter().all(|(_, kind, _, least)| seen.get(kind).is_some_and(|count| count >= least)), "{seen:?}");
}
