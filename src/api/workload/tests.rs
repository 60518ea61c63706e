//! Tests of the facts about each kind of owner.

use serde_json::{Value, json};

use super::*;
use crate::api::Pod;

fn facts<K: PodOwner + serde::de::DeserializeOwned>(value: &Value) -> OwnerFacts {
    OwnerFacts::of(&serde_json::from_value::<K>(value.clone()).unwrap())
}

fn up_to(now: u32, in_all: u32) -> (bool, Gang) {
    (now > 0, Gang::UpTo { now, in_all, completions: None })
}

/// The same of a Job of which so many pods are to succeed in all.
fn of_job(now: u32, in_all: u32, completions: u32) -> (bool, Gang) {
    (now > 0, Gang::UpTo { now, in_all, completions: Some(completions) })
}

fn wants<K: PodOwner + serde::de::DeserializeOwned>(value: &Value) -> (bool, Gang) {
    let facts = facts::<K>(value);
    (facts.wants_pods, facts.gang)
}

#[test]
fn a_replica_set_wants_its_replicas() {
    for (replicas, expected) in [(json!(null), 1), (json!(0), 0), (json!(7), 7), (json!(-3), 0)] {
        assert_eq!(
            wants::<ReplicaSet>(&json!({ "metadata": {}, "spec": { "replicas": replicas } })),
            up_to(expected, expected),
            "{replicas}"
        );
    }
}

#[test]
fn the_pods_of_a_stateful_set_are_a_gang_only_if_they_are_created_in_parallel() {
    let of = |policy: Value, replicas: i32| {
        wants::<StatefulSet>(&json!({ "metadata": {}, "spec": { "replicas": replicas, "podManagementPolicy": policy } }))
    };
    assert_eq!(of(json!("Parallel"), 3), up_to(3, 3));
    assert_eq!(of(json!("Parallel"), 0), up_to(0, 0));
    for policy in [json!("OrderedReady"), json!("")] {
        assert!(matches!(of(policy.clone(), 3), (true, Gang::One(_))), "{policy}");
        assert!(matches!(of(policy.clone(), 0), (false, Gang::One(_))), "{policy}");
    }
}

#[test]
fn only_a_stateful_set_that_a_pod_controls_has_the_workers_of_a_leader() {
    let of = |api_version: &str, kind: &str| {
        let metadata = json!({ "labels": { "leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "1",
            "leaderworkerset.sigs.k8s.io/template-revision-hash": "r1" }, "annotations": { "leaderworkerset.sigs.k8s.io/size": "4" } });
        let owners = json!([{ "apiVersion": api_version, "kind": kind, "name": "serve-1", "uid": "u", "controller": true }]);
        facts::<StatefulSet>(&json!({ "metadata": { "namespace": "ns", "ownerReferences": owners }, "spec": { "replicas": 3, "template": { "metadata": metadata } } })).set
    };
    let set = of("v1", "Pod").unwrap();
    assert_eq!((&*set.group.name, &*set.object.name, set.pods, set.joins), ("lws-serve-1-r1", "serve-1", 3, false));
    for (api_version, kind) in [("v1", "ReplicationController"), ("x/v1", "Pod"), ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")] {
        assert_eq!(of(api_version, kind), None, "{kind}");
    }
}

#[test]
fn a_daemon_set_wants_pods_if_a_node_should_run_one_or_its_status_is_old() {
    let of = |generation: i64, observed: i64, desired: i32| {
        let status = json!({ "desiredNumberScheduled": desired, "observedGeneration": observed });
        wants::<DaemonSet>(&json!({ "metadata": { "generation": generation }, "spec": {}, "status": status })).0
    };
    assert_eq!([of(1, 1, 3), of(1, 1, 0), of(2, 1, 0), of(1, 0, 0)], [true, false, true, true], "an old status does not count");
}

#[test]
fn a_job_wants_the_pods_that_must_still_succeed() {
    let condition = |kind: &str, status: &str| json!([{ "type": kind, "status": status }]);
    let table = [
        ("one", json!({}), json!({}), of_job(1, 1, 1)),
        ("four at a time of ten", json!({ "parallelism": 4, "completions": 10 }), json!({ "succeeded": 3 }), of_job(4, 4, 10)),
        ("the last two", json!({ "parallelism": 4, "completions": 10 }), json!({ "succeeded": 8 }), of_job(2, 4, 10)),
        ("more at a time than in all", json!({ "parallelism": 9, "completions": 2 }), json!({}), of_job(2, 2, 2)),
        (
            "indexes that failed",
            json!({ "parallelism": 4, "completions": 4 }),
            json!({ "succeeded": 1, "failedIndexes": "0,2" }),
            of_job(1, 4, 2),
        ),
        ("none at a time", json!({ "parallelism": 0, "completions": 4 }), json!({}), of_job(0, 0, 4)),
        ("suspended", json!({ "parallelism": 3, "completions": 3, "suspend": true }), json!({}), of_job(0, 3, 3)),
        ("a work queue", json!({ "parallelism": 3 }), json!({}), of_job(3, 3, 3)),
        ("a work queue that runs out", json!({ "parallelism": 3 }), json!({ "succeeded": 1, "active": 2 }), of_job(2, 3, 3)),
        ("complete", json!({ "parallelism": 3 }), json!({ "conditions": condition("Complete", "True") }), of_job(0, 3, 3)),
        ("about to fail", json!({ "parallelism": 3 }), json!({ "conditions": condition("FailureTarget", "True") }), of_job(0, 3, 3)),
        ("not complete", json!({ "parallelism": 3 }), json!({ "conditions": condition("Complete", "False") }), of_job(3, 3, 3)),
        ("suspended once", json!({ "parallelism": 3 }), json!({ "conditions": condition("Suspended", "True") }), of_job(3, 3, 3)),
        ("of another controller", json!({ "parallelism": 3, "managedBy": "example.com/x" }), json!({}), (false, Gang::Unknown)),
        (
            "of the Job controller, by name",
            json!({ "parallelism": 3, "managedBy": "kubernetes.io/job-controller" }),
            json!({}),
            of_job(3, 3, 3),
        ),
    ];
    for (case, mut spec, status, expected) in table {
        if case == "one" {
            spec["completions"] = json!(1);
        }
        assert_eq!(wants::<Job>(&json!({ "metadata": {}, "spec": spec, "status": status })), expected, "{case}");
    }
}

fn controlled(api_version: &str, kind: &str) -> Value {
    let owner = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "also", "uid": "also" },
        { "apiVersion": api_version, "kind": kind, "name": "parent", "uid": "parent", "controller": true },
    ]);
    json!({ "name": "x", "namespace": "ns", "uid": "own", "ownerReferences": owner })
}

#[test]
fn the_parent_of_an_owner_is_the_controller_that_people_edit() {
    let parent = |facts: OwnerFacts| facts.parent.map(|parent| (parent.kind, parent.namespace, parent.uid.to_string()));
    let of = |kind: &str| Some((kind.to_owned(), "ns".to_owned(), "parent".to_owned()));
    assert_eq!(parent(facts::<ReplicaSet>(&json!({ "metadata": controlled("apps/v1", "Deployment") }))), of("Deployment"));
    assert_eq!(parent(facts::<ReplicaSet>(&json!({ "metadata": controlled("argoproj.io/v1alpha1", "Rollout") }))), of("Rollout"));
    assert_eq!(parent(facts::<ReplicaSet>(&json!({ "metadata": { "name": "x" } }))), None);
    assert_eq!(parent(facts::<Job>(&json!({ "metadata": controlled("batch/v1", "CronJob") }))), of("CronJob"));
    assert_eq!(
        parent(facts::<Job>(&json!({ "metadata": controlled("jobset.x-k8s.io/v1alpha2", "JobSet") }))),
        None,
        "people look at the Jobs of a JobSet"
    );
    assert_eq!(parent(facts::<StatefulSet>(&json!({ "metadata": controlled("x/v1", "Database") }))), None);
}

/// Returns a Job of the JobSet `parent`, which has two Jobs.
fn job_of_a_set() -> Value {
    let mut metadata = controlled("jobset.x-k8s.io/v1alpha2", "JobSet");
    metadata["creationTimestamp"] = json!("2026-11-26T08:00:00Z");
    let labels = json!({
        "jobset.sigs.k8s.io/jobset-name": "parent",
        "jobset.sigs.k8s.io/restart-attempt": "3",
        "jobset.sigs.k8s.io/global-replicas": "2",
        "jobset.sigs.k8s.io/job-global-index": "1",
    });
    json!({ "metadata": metadata, "spec": { "parallelism": 3, "completions": 3, "template": { "metadata": { "labels": labels } } } })
}

fn set_of(job: &Value) -> Option<OwnerSet> {
    facts::<Job>(job).set
}

#[test]
fn a_job_of_a_jobset_is_one_of_a_set() {
    let set = set_of(&job_of_a_set()).unwrap();
    assert_eq!((set.object.kind.as_str(), set.object.name.as_str(), &*set.object.uid), ("JobSet", "parent", "parent"));
    assert_eq!((set.object.api_version.as_str(), set.object.namespace.as_str()), ("jobset.x-k8s.io/v1alpha2", "ns"));
    assert_eq!((set.owners, set.index, set.pods), (2, 1, 3));
    assert_eq!(set.group, GroupKey::new("ns", "jobset-parent-3"));
    assert!(set.born.is_some());
    let changed = |path: &str, value: Value| {
        let mut job = job_of_a_set();
        *job.pointer_mut(path).unwrap() = value;
        set_of(&job)
    };
    let reference = |part: &str| format!("/metadata/ownerReferences/1/{part}");
    for (path, value) in [
        (reference("apiVersion"), "example.com/v1"),
        (reference("apiVersion"), "jobset.x-k8s.io.example.com/v1"),
        (reference("kind"), "Other"),
        (reference("name"), "another"),
        ("/spec/template/metadata/labels".to_owned(), "none"),
    ] {
        let value = if value == "none" { json!({}) } else { json!(value) };
        assert_eq!(changed(&path, value.clone()), None, "{path} {value}");
    }
}

#[test]
fn a_job_of_a_set_counts_its_pods_while_it_is_suspended_and_none_when_it_is_finished() {
    let pods = |spec: Value, status: Value| {
        let mut job = job_of_a_set();
        spec.as_object().unwrap().iter().for_each(|(key, value)| job["spec"][key] = value.clone());
        job["status"] = status;
        set_of(&job).unwrap().pods
    };
    assert_eq!(pods(json!({ "suspend": true }), json!({})), 3);
    assert_eq!(pods(json!({}), json!({ "succeeded": 1 })), 2);
    assert_eq!(pods(json!({}), json!({ "conditions": [{ "type": "Failed", "status": "True" }] })), 0);
}

#[test]
fn a_job_joins_the_podgroup_of_its_jobset_only_if_its_template_asks_for_it() {
    let of = |annotations: Value| {
        let mut job = job_of_a_set();
        job["spec"]["template"]["metadata"]["annotations"] = annotations;
        let facts = facts::<Job>(&job);
        (facts.set.unwrap().joins, facts.named_group, facts.faults.len())
    };
    assert_eq!(of(json!({ "podgroup.dev/gang": "jobset" })), (true, true, 0));
    assert_eq!(of(json!({})), (false, false, 0));
    assert_eq!(of(json!({ "podgroup.dev/gang": "all" })), (false, false, 1), "an unknown value is a fault");
    assert_eq!(of(json!({ "podgroup.dev/gang": "jobset", "scheduling.k8s.io/group-name": "mine" })), (false, true, 0));
    let alone = json!({ "metadata": {}, "spec": { "template": { "metadata": { "annotations": { "podgroup.dev/gang": "jobset" } } } } });
    assert_eq!(facts::<Job>(&alone).faults.len(), 1, "a Job of no JobSet");
    let mut of_another = job_of_a_set();
    of_another["spec"]["template"]["metadata"]["annotations"] = json!({ "podgroup.dev/gang": "jobset" });
    of_another["metadata"]["ownerReferences"] = json!([]);
    let facts = facts::<Job>(&of_another);
    assert_eq!((facts.set, facts.named_group), (None, true), "its pods belong to the PodGroup of the JobSet, so it has none of its own");
}

#[test]
fn only_unwatched_owners_are_known_through_their_pods() {
    let of = |metadata: Value| {
        PodSource::of(&serde_json::from_value::<Pod>(json!({ "metadata": metadata, "spec": { "schedulerName": "s" } })).unwrap())
    };
    for (api_version, kind) in [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1beta9", "DaemonSet"), ("batch/v1", "Job")] {
        assert_eq!(of(controlled(api_version, kind)), None, "{api_version} {kind}");
    }
    for (api_version, kind) in [
        ("v1", "ReplicationController"),
        ("apps.kruise.io/v1", "StatefulSet"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("apps/v1", "Deployment"),
    ] {
        let owner = of(controlled(api_version, kind)).unwrap().owner;
        assert_eq!((owner.object.kind.as_str(), owner.object.api_version.as_str(), &*owner.object.uid), (kind, api_version, "parent"));
        assert!(owner.gang == Gang::Unknown && owner.wants_pods && !owner.deleting);
    }
    let bare = of(json!({ "name": "x", "namespace": "ns", "uid": "own" })).unwrap().owner;
    assert_eq!((bare.object.kind.as_str(), &*bare.object.uid), ("Pod", "own"));
    assert!(matches!(bare.gang, Gang::One(_)));
}
