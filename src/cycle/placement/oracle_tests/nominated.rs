//! The nominations of other schedulers' pods: no node takes a pod that kube-scheduler would keep off it for the sake of a nominated pod.
//!
//! kube-scheduler reads the nominations of the node that it asks, ours those of all nodes in the domain. So ours may refuse more nodes
//! where domains have several nodes. kube-scheduler also misses the anti-affinity of nominated pods where no other pod has any, and counts
//! nominated pods alone for a spread with an empty selector. Otherwise both say the same.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::clusters;
use super::judge::{Oracle, agree, ours};
use super::pods::{named, pod};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod of another scheduler, with a priority and a nominated node.
pub(super) fn nominated() -> impl Strategy<Value = (Value, Index)> {
    (pod(), any::<Index>(), 0..3_i32).prop_map(|(mut pod, node, priority)| {
        pod["spec"]["schedulerName"] = json!("theirs");
        pod["spec"]["priority"] = json!(priority);
        (pod, node)
    })
}

/// A cluster with nominated pods, and pods of some priority that wait. In half of them no constraint asks for pods on other nodes.
fn question() -> impl Strategy<Value = Value> {
    let (nominated, priorities) = (prop::collection::vec(nominated(), 1..5), prop::collection::vec(0..3_i32, 3));
    (clusters::question(), nominated, priorities, any::<bool>()).prop_map(|(mut question, nominated, priorities, own_nodes)| {
        let nodes = question["nodes"].as_array().unwrap().clone();
        let on_node = |(number, (pod, node)): (usize, (Value, Index))| {
            let mut pod = named(pod, &format!("nominated-{number}"));
            pod["status"]["nominatedNodeName"] = nodes[node.index(nodes.len())]["metadata"]["name"].clone();
            pod
        };
        question["nominated"] = nominated.into_iter().enumerate().map(on_node).collect();
        for (pod, priority) in question["pending"].as_array_mut().unwrap().iter_mut().zip(priorities) {
            pod["spec"]["priority"] = json!(priority);
        }
        if own_nodes {
            for list in ["nominated", "pending"] {
                question[list].as_array_mut().unwrap().iter_mut().for_each(ask_for_own_node_only);
            }
        }
        question
    })
}

/// Takes the constraints of the pod away that read other nodes than the one that may take it.
fn ask_for_own_node_only(pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["topologySpreadConstraints"] = json!([]);
    spec["affinity"]["podAffinity"] = json!({});
    let anti_affinity = spec["affinity"].get_mut("podAntiAffinity").and_then(|kind| kind.get_mut(REQUIRED));
    for term in anti_affinity.and_then(Value::as_array_mut).into_iter().flatten() {
        term["topologyKey"] = json!("kubernetes.io/hostname");
    }
}

/// Whether no constraint asks for pods on other nodes than the one that may take the pod, so that both must say the same.
fn is_local(question: &Value, pod: &Value) -> bool {
    let required = |pod: &Value, kind: &str| pod["spec"]["affinity"][kind][REQUIRED].as_array().cloned().unwrap_or_default();
    let on_node = |pod: &Value| required(pod, "podAntiAffinity").iter().all(|term| term["topologyKey"] == "kubernetes.io/hostname");
    let spread = pod["spec"]["topologySpreadConstraints"].as_array().is_some_and(|all| !all.is_empty());
    let nominated = question["nominated"].as_array().unwrap();
    // kube-scheduler skips InterPodAffinity where neither the pod nor one on a node has terms, and then does not read those of nominated pods.
    let is_read =
        !required(pod, "podAntiAffinity").is_empty() || nominated.iter().all(|other| required(other, "podAntiAffinity").is_empty());
    !spread && is_read && required(pod, "podAffinity").is_empty() && nominated.iter().chain([pod]).all(on_node)
}

/// Whether a spread of the pod has an empty selector: kube-scheduler counts no pod for it (`countPodsMatchSelector`), but nominated pods
/// (`updateWithPod`).
pub(super) fn counts_nominated_alone(pod: &Value) -> bool {
    let is_empty =
        |selector: &Value| selector.as_object().is_some_and(|parts| parts.values().all(|part| *part == json!([]) || *part == json!({})));
    pod["spec"]["topologySpreadConstraints"].as_array().is_some_and(|all| all.iter().any(|one| is_empty(&one["labelSelector"])))
}

#[test]
fn property_no_node_takes_a_pod_that_kube_scheduler_keeps_off_it_for_nominated_pods() {
    let (oracle, local, by_plugin) = (RefCell::new(Oracle::start()), RefCell::new(0), RefCell::new(BTreeMap::<String, u32>::new()));
    let mut runner = TestRunner::new(crate::random_tests::config(3_000));
    let done = runner.run(&question(), |question| {
        let mut without = question.clone();
        without["nominated"] = json!([]);
        let theirs = oracle.borrow_mut().ask(&question);
        let without = oracle.borrow_mut().ask(&without);
        let ours = ours(&question);
        for (((theirs, ours), without), pod) in theirs.iter().zip(&ours).zip(&without).zip(question["pending"].as_array().unwrap()) {
            let is_local = is_local(&question, pod);
            if is_local {
                prop_assert_eq!(&ours.message, &theirs.message, "the message for {} in {}", pod, question);
            }
            for node in question["nodes"].as_array().unwrap() {
                let name = node["metadata"]["name"].as_str().unwrap();
                let (ours, theirs) = (ours.answer.get(name), theirs.answer.get(name));
                prop_assert!(
                    ours.is_some() || theirs.is_none() || counts_nominated_alone(pod),
                    "{name} takes it, and for kube-scheduler: {theirs:?}; {pod} in {question}"
                );
                let same = ours.zip(theirs).map_or(ours.is_none() && theirs.is_none(), |(ours, theirs)| agree(ours, theirs));
                prop_assert!(!is_local || same, "{name}: ours {ours:?}, theirs {theirs:?} for {pod} in {question}");
                if let Some(said) = theirs.filter(|_| !without.answer.contains_key(name)) {
                    *local.borrow_mut() += u32::from(is_local);
                    *by_plugin.borrow_mut().entry(said[0].clone()).or_default() += 1;
                }
            }
        }
        Ok(())
    });
    done.unwrap();
    // The nodes that refuse for the sake of nominated pods alone.
    println!("{local:?} {by_plugin:?}");
    let by_plugin = by_plugin.into_inner();
    assert!(local.into_inner() >= 50, "{by_plugin:?}");
    for plugin in ["NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"] {
        assert!(by_plugin.contains_key(plugin), "{plugin}: {by_plugin:?}");
    }
}
