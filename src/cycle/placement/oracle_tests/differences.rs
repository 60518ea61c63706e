//! Where kube-scheduler and our predicates differ on purpose: the tables of docs/scheduling.md and
//! docs/decisions/2026-11-23-pods-that-matter-to-each-other.md. `nominated` holds the row about nominated pods, and
//! `api/pod_terms_tests.rs` and `cycle/cache/refused_for_selectors_tests.rs` those about limits for selectors.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Uid;
use crate::cycle::testing::{POLICY, group};

use super::clusters::{named_node, namespace};
use super::judge::{Answer, Oracle, ours, state_of};
use super::pods::{named, without_nulls};

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

/// A pod of a group, with these requests and claims on devices.
fn asks_for_devices(requests: &Value, claims: &Value) -> Value {
    let mut pod = pod("asking", "y", &Value::Null);
    pod["metadata"]["annotations"] = json!({ "scheduling.k8s.io/group-name": "g" });
    pod["spec"]["containers"] = json!([{ "name": "c", "resources": { "requests": requests, "limits": requests } }]);
    pod["spec"]["resourceClaims"] = claims.clone();
    without_nulls(pod)
}

/// kube-scheduler claims a device for the pod where a DeviceClass offers the resource (`extendedResourceName`). Ours does not know
/// DeviceClasses: only what device plugins report counts.
#[test]
fn a_node_lacks_an_extended_resource_that_no_device_plugin_reports_whatever_a_device_class_offers() {
    let mut with_plugin = node(1);
    with_plugin["status"]["allocatable"]["example.com/gpu"] = json!("1");
    let asking = asks_for_devices(&json!({ "example.com/gpu": "1" }), &Value::Null);
    let [ours, theirs] = both(&[node(0), with_plugin], &[], &asking);
    let lacks = ["NodeResourcesFit", "Insufficient example.com/gpu"].map(str::to_owned).to_vec();
    assert_eq!(ours, Answer::from([("n0".to_owned(), lacks)]));
    // Without a DeviceClass both say the same.
    assert_eq!(ours, theirs);
}

#[test]
fn a_pod_with_resource_claims_is_refused_by_the_name_of_the_field_and_never_placed() {
    let claims = json!([{ "name": "gpu", "resourceClaimTemplateName": "gpu" }]);
    for (claims, placed) in [(Value::Null, 1), (claims, 0)] {
        let asking = asks_for_devices(&json!({}), &claims);
        let question = json!({ "nodes": [node(0)], "pods": [], "namespaces": [], "pending": [asking] });
        let mut state = state_of(&question);
        state.apply_group(group("y", "g", 1, "default"));
        assert_eq!(crate::cycle::run(&mut state, &POLICY, Duration::ZERO).binds.len(), placed);
        let refused = state.cache().pods()[&Uid::from("asking")].blocked().map(|refusal| refusal.to_string());
        assert_eq!(refused.is_some_and(|words| words.contains("spec.resourceClaims")), placed == 0);
    }
}
