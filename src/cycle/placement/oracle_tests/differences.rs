//! Where kube-scheduler and our predicates differ on purpose: the table of docs/decisions/2026-11-23-pods-that-matter-to-each-other.md. `nominated` holds its row
//! about nominated pods.

use serde_json::{Value, json};

use super::clusters::{named_node, namespace};
use super::judge::{Answer, Oracle, ours};
use super::pods::named;

fn node(number: usize) -> Value {
    named_node(json!({ "metadata": { "labels": {} }, "spec": {}, "status": { "allocatable": { "cpu": "4", "pods": "9" } } }), number)
}

fn pod(name: &str, in_namespace: &str, affinity: &Value) -> Value {
    let pod = json!({
        "metadata": { "namespace": in_namespace, "labels": { "app": "web" } },
        "spec": { "schedulerName": "ours", "containers": [{ "name": "c" }], "affinity": affinity }, "status": {},
    });
    named(pod, name)
}

/// The answers of both about one pod.
fn both(nodes: &[Value], pods: &[Value], pending: &Value) -> [Answer; 2] {
    let namespaces = [namespace("x", &json!({ "team": "a" })), namespace("y", &json!({})), namespace("z", &json!({}))];
    let question = json!({ "nodes": nodes, "pods": pods, "namespaces": namespaces, "pending": [pending] });
    [ours(&question).remove(0).answer, Oracle::start().ask(&question).remove(0).answer]
}

#[test]
fn kube_scheduler_reads_a_namespace_selector_that_matches_no_labels_as_every_namespace() {
    let mut there = pod("there", "x", &Value::Null);
    there["spec"]["nodeName"] = json!("n0");
    let keeps_away = |expression: Value| {
        let term = json!({
            "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": { "matchExpressions": [expression] },
        });
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
    };
    let expressions =
        [json!({ "key": "team", "operator": "DoesNotExist" }), json!({ "key": "team", "operator": "NotIn", "values": ["a"] })];
    for expression in expressions {
        let asking = pod("asking", "y", &keeps_away(expression));
        // Namespace x has the label, so the selector does not match it.
        let [ours, theirs] = both(&[node(0)], &[there.clone()], &asking);
        assert_eq!(ours, Answer::new());
        assert_eq!(theirs["n0"], ["InterPodAffinity", "node(s) didn't match pod anti-affinity rules"]);
    }
    let [ours, theirs] = both(&[node(0)], &[there], &pod("asking", "y", &keeps_away(json!({ "key": "team", "operator": "Exists" }))));
    assert!(ours["n0"] == theirs["n0"] && theirs["n0"][0] == "InterPodAffinity");
}
