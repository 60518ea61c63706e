//! Tests of how the PodGroup that a user means is found.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use kube::Client;

use super::*;

/// Answers for a JobSet with one Job of one pod, and for its PodGroup if that exists.
fn fetch(group: Option<&'static str>) -> Fetch {
    let owned = |kind: &str, name: &str, owner: Value| {
        let labels = json!({"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/restart-attempt": "0",
            "jobset.sigs.k8s.io/global-replicas": "1"});
        json!({"kind": kind, "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-of-{name}"), "ownerReferences": [owner],
            "labels": labels, "annotations": {"podgroup.dev/gang": "jobset"}}, "spec": {}})
    };
    let by = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name, "uid": format!("uid-of-{name}"), "controller": true});
    let answer = move |request: Request| async move {
        let of_jobset = by("jobset.x-k8s.io/v1alpha2", "JobSet", "train");
        let pod_group = |name: &str| owned("PodGroup", name, of_jobset.clone());
        match request.uri().path() {
            "/api/v1/namespaces/ns/pods/train-0-0" => {
                axum::Json(owned("Pod", "train-0-0", by("batch/v1", "Job", "train-0"))).into_response()
            }
            "/apis/batch/v1/namespaces/ns/jobs/train-0" => axum::Json(owned("Job", "train-0", of_jobset)).into_response(),
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups" => {
                axum::Json(json!({"items": group.map(pod_group).into_iter().collect::<Vec<_>>(), "metadata": {}})).into_response()
            }
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/jobset-train-0" => {
                axum::Json(pod_group("jobset-train-0")).into_response()
            }
            _ => (StatusCode::NOT_FOUND, axum::Json(json!({"kind": "Status", "code": 404, "reason": "NotFound"}))).into_response(),
        }
    };
    Fetch::new(Client::new(Router::new().fallback(answer), "ns"), Duration::from_secs(10))
}

#[tokio::test]
async fn the_events_of_the_jobset_are_read_for_its_podgroup_and_its_pods() {
    let of = |kind, name: &str, group| {
        let target = Target { kind: Some(kind), name: name.to_owned() };
        async move {
            let mut gaps = Vec::new();
            let found = find(&fetch(group), "ns", &target, &mut gaps).await.unwrap();
            assert_eq!(gaps, []);
            match found {
                Ok(found) => (true, found.uids.join(" ")),
                Err(absent) => (false, absent.uids().join(" ")),
            }
        }
    };
    let (pods, group) = ("uid-of-train-0-0 uid-of-train-0 uid-of-train", "jobset-train-0");
    assert_eq!(of(Kind::Pod, "train-0-0", Some(group)).await, (true, format!("{pods} uid-of-{group}")));
    assert_eq!(of(Kind::Pod, "train-0-0", None).await, (false, pods.to_owned()));
    assert_eq!(of(Kind::PodGroup, group, Some(group)).await, (true, format!("uid-of-{group} uid-of-train")));
}

#[test]
fn the_group_of_an_owner_comes_from_its_template_or_is_its_own() {
    let uid = "0a1b2c3d-0000-1111-2222-333344445555";
    let owner = |annotations: Value| json!({"metadata": {"namespace": "ns", "uid": uid}, "spec": {"template": {"metadata": {"annotations": annotations}}}});
    assert_eq!(group_of_owner(&owner(json!({}))), GroupKey::generated("ns", uid));
    assert_eq!(group_of_owner(&owner(json!({"scheduling.k8s.io/group-name": "spark"}))), GroupKey::new("ns", "spark"));
    assert_eq!(group_of_owner(&owner(json!(7))), GroupKey::generated("ns", uid));
    let mut job = owner(json!({"podgroup.dev/gang": "jobset"}));
    assert_eq!(group_of_owner(&job), GroupKey::generated("ns", uid), "no labels of a JobSet");
    job["spec"]["template"]["metadata"]["labels"] = json!({"jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/restart-attempt": "0", "jobset.sigs.k8s.io/global-replicas": "2"});
    assert_eq!(group_of_owner(&job), GroupKey::new("ns", "jobset-train-0"));
}

#[test]
fn a_missing_name_is_searched_in_other_namespaces_and_among_similar_names() {
    let target = Target { kind: None, name: "trian".to_owned() };
    let object = |kind, namespace: &str, name: &str| {
        (kind, ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() })
    };
    let here = [object(Kind::PodGroup, "ns", "podgroup-0a1b"), object(Kind::Deployment, "ns", "tran")];
    let there: Vec<_> = ["b", "a", "a", "d", "c"].iter().map(|namespace| object(Kind::Pod, namespace, "trian")).collect();
    assert_eq!(meant(&target, &here, &[]), "did you mean deployment/tran?");
    assert_eq!(meant(&target, &here[..1], &there[..1]), "there is one in namespace b (say -n b)");
    assert_eq!(meant(&target, &here, &there[..3]), "there are some in 2 other namespaces (a, b; say -n); or did you mean deployment/tran?");
    assert_eq!(meant(&target, &[], &there), "there are some in 4 other namespaces (a, b, c and 1 more; say -n)");
    assert_eq!(meant(&target, &here[..1], &[]), "see kubectl get podgroups -A, or say -n");
}

#[test]
fn for_an_object_without_a_group_the_cause_is_named() {
    let of = |kind, object: Value, below: &[(&str, bool)]| {
        let below: Vec<_> = below.iter().map(|(name, wants)| (GroupKey::new("ns", name), *wants)).collect();
        cause(kind, &object, &below)
    };
    let made = "podgroup-0a1b2c3d-0000-1111-2222-333344445555";
    let finished = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let suspended = json!({"spec": {"suspend": true}});
    let lws = json!({"labels": {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/worker-index": "0",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": "r1"},
        "annotations": {"leaderworkerset.sigs.k8s.io/size": "4", "podgroup.dev/gang": "leaderworkerset"}});
    let leaders = json!({"spec": {"template": {"metadata": lws}}});
    let table = [
        (
            Kind::StatefulSet,
            leaders,
            vec![(made, true)],
            "its pods lead groups of LeaderWorkerSet serve, and each group has a PodGroup: name one of its leaders, as pod/serve-0",
        ),
        (Kind::Deployment, json!({"spec": {"replicas": 0}}), vec![(made, true)], "it wants no pods (replicas: 0)"),
        (Kind::Deployment, json!({}), vec![(made, false)], "none of its ReplicaSets wants pods"),
        (Kind::DaemonSet, json!({"status": {"desiredNumberScheduled": 0}}), vec![(made, true)], "no node matches it"),
        (Kind::Job, finished, vec![(made, true)], "it has finished: a finished Job has no PodGroup"),
        (Kind::Job, suspended.clone(), vec![(made, true)], "it is suspended"),
        (Kind::CronJob, suspended, vec![], "it has no Job yet: it is suspended (spec.suspend)"),
        (Kind::CronJob, json!({}), vec![(made, false)], "none of its Jobs wants pods"),
        (Kind::Pod, json!({"status": {"phase": "Succeeded"}}), vec![(made, true)], "it has ended"),
        (Kind::Job, json!({}), vec![("mine", true)], "PodGroup mine does not exist: its pods name it (scheduling.k8s.io/group-name)"),
        (Kind::Job, json!({}), vec![("../x", true)], "\"../x\" cannot be the name of a PodGroup"),
    ];
    for (kind, object, below, part) in table {
        let why = of(kind, object, &below).unwrap();
        assert!(why.contains(part), "{why}");
    }
    let running = json!({"status": {"conditions": [{"type": "Complete", "status": "False"}]}, "spec": {"parallelism": 1}});
    assert_eq!(of(Kind::Job, running, &[(made, true)]), None);
    assert_eq!(of(Kind::Job, json!({}), &[("jobset-train-1", true)]), None, "the controller creates it");
}

#[test]
fn without_a_visible_cause_one_likely_cause_is_named() {
    let page = |scheduler: &str, reason: Option<&str>, controller: Option<&str>| {
        let event = |said: &str| {
            let (reason, message) = said.split_once('|').unwrap_or((said, "why"));
            Event::of(&json!({"type": "Warning", "reason": reason, "message": message}))
        };
        let scheduler = scheduler_of(Kind::Job, &json!({"spec": {"template": {"spec": {"schedulerName": scheduler}}}}));
        let absent =
            Absent { what: "Job ns/x".into(), namespace: "ns".into(), uids: vec![], scheduler, why: None, events: vec![], unknown: vec![] };
        absent.told(reason.map(event).into_iter().collect(), vec![], controller.map(str::to_owned)).page().render(false)
    };
    let told = page("podgroup-schedular", None, Some("unused"));
    assert!(told.ends_with("by default podgroup-scheduler; did you mean podgroup-scheduler?\n") && !told.contains("unused"), "{told}");
    assert!(page("", None, None).contains("schedulerName default-scheduler: "));
    assert_eq!(page(DEFAULT_SCHEDULER, None, Some("no process")), "Job ns/x has no PodGroup\n  * no process\n");
    assert!(page(DEFAULT_SCHEDULER, None, None).contains("within seconds, or writes a warning Event"));
    assert_eq!(page("ours", Some("PodGroupRefused"), None), "Job ns/x has no PodGroup\n  Warning PodGroupRefused (): why\n");
    let told = page("ours", Some("PodGroupRefused|queue c may not be used: ann lacks the verb use on it"), None);
    assert!(told.contains("PodGroupRefused (): queue c may not be used"), "{told}");
    assert!(told.contains("\n  * give ann the verb use on queues.scheduling.volcano.sh c (") && told.matches("*").count() == 1, "{told}");
    let told = page(DEFAULT_SCHEDULER, Some("Other"), Some("no process"));
    assert_eq!(told, "Job ns/x has no PodGroup\n  Warning Other (): why\n  * no process\n");
}
