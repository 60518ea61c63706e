//! Tests that each event affects exactly the PodGroups that depend on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;

use crate::api::workload::{Deployment, Job, NamespaceQueue, PodSource, ReplicaSet, StatefulSet};
use crate::lifecycle::{NotOurs, Ours, Version};
use crate::runtime::clock;

fn uid(number: u32) -> Uid {
    Uid::from(format!("{number:08x}-0000-1111-2222-333344445555"))
}

fn key(number: u32) -> GroupKey {
    GroupKey::generated("ns", &uid(number))
}

fn placed_by(scheduler: &str, number: u32, wants: u32, deployment: Option<u32>) -> ObservedOwner {
    ObservedOwner::of(&template(scheduler, number, wants, deployment), &["ours".to_owned()])
}

fn template(scheduler: &str, number: u32, wants: u32, deployment: Option<u32>) -> ReplicaSet {
    let owners = deployment
        .map(|number| json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": &*uid(number), "controller": true }]));
    serde_json::from_value(json!({
        "metadata": { "name": "rs", "namespace": "ns", "uid": &*uid(number), "ownerReferences": owners },
        "spec": { "replicas": wants, "selector": { "matchLabels": { "app": "x" } }, "template": { "spec": { "schedulerName": scheduler, "containers": [] } } },
    }))
    .unwrap()
}

fn replica_set(number: u32, wants: u32, deployment: Option<u32>) -> ObservedOwner {
    placed_by("ours", number, wants, deployment)
}

/// Returns a ReplicaSet of another scheduler that wants pods.
fn other_scheduler(number: u32) -> ObservedOwner {
    placed_by("theirs", number, 2, Some(7))
}

/// Returns a ReplicaSet of another scheduler that wants no pods.
fn unserved(number: u32) -> ObservedOwner {
    placed_by("theirs", number, 0, Some(7))
}

fn deployment(number: u32, queue: &str) -> DeploymentFacts {
    let object: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "d", "namespace": "ns", "uid": &*uid(number), "annotations": { "scheduling.volcano.sh/queue-name": queue } },
        "spec": { "replicas": 2 },
    }))
    .unwrap();
    DeploymentFacts::of(&object)
}

fn pod(number: u32, group: u32) -> ObservedPod {
    let name = Arc::from(format!("pod-{number}"));
    ObservedPod {
        pod: PodRef { name, uid: uid(number) },
        group: key(group),
        ended: false,
        deleting: false,
        stamped: true,
        elsewhere: None,
        mislabelled: false,
        source: None,
    }
}

/// Returns a pod with an owner that is known only through its pods.
fn lone_pod(number: u32, group: u32) -> ObservedPod {
    let value =
        json!({ "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(group) }, "spec": { "schedulerName": "ours" }, "status": {} });
    let source = PodSource::of(&serde_json::from_value(value).unwrap());
    ObservedPod { source: source.map(Box::new), ..pod(number, group) }
}

fn group(number: u32, version: u32, retiring: bool) -> ObservedGroup {
    let version = Version { uid: Uid::from(format!("g{number}")), resource_version: version.to_string() };
    ObservedGroup {
        key: key(number),
        existing: Existing::Ours(Ours { version, retiring, terminating: false, owner: None, applied: None }),
        unwatched_owner: false,
    }
}

fn namespace(queue: Option<&str>) -> NamespaceFacts {
    NamespaceFacts {
        name: Arc::from("ns"),
        queue: queue.map_or(NamespaceQueue::Unsaid, |name| NamespaceQueue::Named(name.to_owned())),
        deleting: false,
    }
}

fn reset<K>(objects: Vec<K>) -> WatchEvent<K> {
    WatchEvent::Reset { objects, bad: Vec::new(), generation: 0, back: false, as_of: clock::monotonic() }
}

fn bad(number: u32) -> BadObject {
    let owner = uid(number);
    let name = key(number).name.to_string();
    BadObject {
        namespace: Some("ns".into()),
        name,
        uid: Some(owner.to_string()),
        resource_version: Some("9".into()),
        ..BadObject::default()
    }
}

fn observed(events: impl IntoIterator<Item = Observation>) -> Observed {
    let mut observed = Observed::new(&["ours".to_owned()]);
    for event in events {
        observed.take(event);
    }
    observed
}

use Observation::{Deployment as D, Group as G, Namespace as N, Pod as P};
use WatchEvent::{Apply, Bad, Delete};

#[allow(non_snake_case, reason = "used beside the short names of the variants")]
fn R(event: WatchEvent<ObservedOwner>) -> Observation {
    Observation::Owner(OwnerKind::ReplicaSet, event)
}

#[test]
fn the_cache_is_complete_only_when_every_list_is_complete() {
    let mut observed = Observed::new(&["ours".to_owned(), "other".to_owned()]);
    let lists = [
        R(reset(vec![])),
        D(reset(vec![])),
        P(0, reset(vec![])),
        P(0, reset(vec![])),
        G(reset(vec![])),
        N(reset(vec![])),
        R(Apply(replica_set(1, 1, None))),
        Observation::Owner(OwnerKind::StatefulSet, reset(vec![])),
        Observation::Owner(OwnerKind::DaemonSet, reset(vec![])),
        P(1, reset(vec![])),
    ];
    for list in lists {
        observed.take(list);
        assert!(!observed.is_complete());
    }
    observed.take(Observation::Owner(OwnerKind::Job, reset(vec![])));
    assert!(observed.is_complete());
}

#[test]
fn each_event_affects_the_podgroups_that_depend_on_it() {
    let before = || {
        vec![
            R(reset(vec![replica_set(1, 1, Some(7)), replica_set(2, 1, None), unserved(3), other_scheduler(5)])),
            D(reset(vec![deployment(7, "a"), deployment(8, "a")])),
            P(0, reset(vec![pod(11, 1), pod(12, 2), lone_pod(14, 4)])),
            G(reset(vec![group(1, 5, false), group(2, 5, false)])),
            N(reset(vec![namespace(Some("q"))])),
        ]
    };
    let (owner, member) = (|number| Affected::Owner(key(number)), |number| Affected::Member(key(number)));
    let ended = ObservedPod { ended: true, ..pod(11, 1) };
    let deleting = ObservedPod { deleting: true, ..pod(11, 1) };
    let gone = |number: u32| Affected::Group(key(number), Some(Uid::from(format!("g{number}"))));
    let cases: Vec<(&str, Observation, Vec<Affected>)> = vec![
        ("scaled", R(Apply(replica_set(2, 2, None))), vec![owner(2)]),
        ("the status changed", R(Apply(replica_set(2, 1, None))), vec![]),
        ("new", R(Apply(replica_set(9, 1, None))), vec![owner(9)]),
        ("deleted", R(Delete(replica_set(1, 1, Some(7)))), vec![owner(1)]),
        ("cannot be decoded", R(Bad(bad(1))), vec![owner(1)]),
        ("of another scheduler, new", R(Apply(unserved(9))), vec![]),
        ("of another scheduler, changed", R(Apply(unserved(3))), vec![]),
        ("of another scheduler, scaled", R(Apply(other_scheduler(3))), vec![]),
        ("of another scheduler, with a pod of a served scheduler", P(0, Apply(pod(15, 5))), vec![member(5)]),
        ("of another scheduler, deleted", R(Delete(unserved(3))), vec![]),
        ("moved to another scheduler", R(Apply(unserved(2))), vec![owner(2)]),
        ("a new list without one of them", R(reset(vec![replica_set(2, 1, None)])), vec![owner(1)]),
        ("the status of a Deployment", D(Apply(deployment(7, "a"))), vec![]),
        ("an annotation of a Deployment", D(Apply(deployment(7, "b"))), vec![owner(1)]),
        ("a Deployment without ReplicaSets", D(Apply(deployment(8, "b"))), vec![]),
        ("a Deployment is deleted", D(Delete(deployment(7, "a"))), vec![owner(1)]),
        ("a Deployment cannot be decoded", D(Bad(bad(7))), vec![owner(1)]),
        ("an unchanged pod", P(0, Apply(pod(11, 1))), vec![]),
        ("a pod is new", P(0, Apply(pod(13, 1))), vec![member(1)]),
        ("a pod is being deleted", P(0, Apply(deleting)), vec![member(1), member(1)]),
        ("a pod has succeeded or failed", P(0, Apply(ended)), vec![member(1)]),
        ("a pod is deleted", P(0, Delete(pod(11, 1))), vec![member(1)]),
        ("an unknown pod is deleted", P(0, Delete(pod(99, 1))), vec![]),
        ("a pod changes its owner", P(0, Apply(pod(11, 2))), vec![member(1), member(2)]),
        ("a pod cannot be decoded", P(0, Bad(bad(12))), vec![member(2)]),
        ("a new list of pods without one of them", P(0, reset(vec![pod(12, 2), lone_pod(14, 4)])), vec![member(1)]),
        ("a list of another scheduler", P(1, reset(vec![])), vec![]),
        ("a group changed", G(Apply(group(1, 6, true))), vec![Affected::Group(key(1), None)]),
        ("a group is deleted", G(Delete(group(1, 6, true))), vec![gone(1)]),
        ("a group cannot be decoded", G(Bad(bad(1))), vec![Affected::Group(key(1), None)]),
        (
            "a new list of groups without one of them",
            G(reset(vec![group(2, 5, false)])),
            vec![Affected::Group(key(2), None), Affected::UnlistedGroup(key(1))],
        ),
        ("an unchanged namespace", N(Apply(namespace(Some("q")))), vec![]),
        ("the queue of a namespace", N(Apply(namespace(Some("r")))), vec![owner(1), owner(2), owner(4)]),
        ("a namespace is deleted", N(Delete(namespace(None))), vec![owner(1), owner(2), owner(4)]),
        ("another namespace", N(Apply(NamespaceFacts { name: Arc::from("other"), ..namespace(Some("q")) })), vec![]),
    ];
    for (case, event, expected) in cases {
        assert_eq!(observed(before()).take(event), expected, "{case}");
    }
}

#[test]
fn replica_sets_of_other_schedulers_affect_nothing() {
    for other in [unserved, other_scheduler] {
        let mut observed = observed([D(reset(vec![deployment(7, "a")])), N(reset(vec![namespace(None)]))]);
        assert_eq!(observed.take(R(reset((10..1000).map(other).collect()))), vec![]);
        assert!((10..1000).all(|number| observed.take(R(Apply(other(number)))).is_empty()));
        assert!(observed.take(D(Apply(deployment(7, "b")))).is_empty());
        assert!(observed.take(N(Apply(namespace(Some("r"))))).is_empty());
        assert!(observed.keys().is_empty());
    }
}

#[test]
fn pods_whose_scheduler_was_set_by_a_webhook_have_a_podgroup() {
    let lists = || [D(reset(vec![deployment(7, "a")])), G(reset(vec![])), N(reset(vec![namespace(None)]))];
    for pod_first in [true, false] {
        let mut observed = Observed::new(&["ours".to_owned(), "too".to_owned()]);
        lists().into_iter().for_each(|list| drop(observed.take(list)));
        let mut affected = BTreeSet::new();
        let mut events = [R(Apply(other_scheduler(1))), P(0, Apply(pod(11, 1)))];
        if pod_first {
            events.reverse();
        }
        for event in events {
            affected = observed.take(event).into_iter().map(|affected| affected.key().clone()).collect();
        }
        assert!(affected.contains(&key(1)), "the second event affects the PodGroup");
        let desired = observed.snapshot(&key(1)).owner.desired().cloned().unwrap();
        assert!(desired.wants_pods);
        assert_eq!(
            (desired.intent.fields.scheduler.as_deref(), &*desired.intent.fields.queue),
            (Some("ours"), "a"),
            "the scheduler of its pods, and its own queue"
        );
        assert!(!observed.take(D(Apply(deployment(7, "b")))).is_empty(), "the queue is followed");
        assert_eq!(observed.keys(), BTreeSet::from([key(1)]), "also after a start");
        observed.take(P(1, Apply(pod(12, 1))));
        let scheduler =
            |observed: &Observed| observed.snapshot(&key(1)).owner.desired().and_then(|desired| desired.intent.fields.scheduler.clone());
        assert_eq!(scheduler(&observed).as_deref(), Some("ours"), "the first of two served schedulers");
        observed.take(P(0, Apply(ObservedPod { deleting: true, ..pod(11, 1) })));
        assert_eq!(scheduler(&observed).as_deref(), Some("too"), "the scheduler of the active pods");
        observed.take(P(1, Delete(pod(12, 1))));
        let snapshot = observed.snapshot(&key(1));
        assert!(matches!(snapshot.owner, OwnerSnapshot::Unserved), "without an active pod the owner is not served");
        assert!(snapshot.awaits_webhook_pods, "but its next pod may be");
        observed.take(R(Apply(unserved(1))));
        let snapshot = observed.snapshot(&key(1));
        assert!(
            !snapshot.awaits_webhook_pods && snapshot.selector.is_some(),
            "it wants no pods any more, and its selector is still known for a list of its last pods"
        );
        let mut going = template("theirs", 1, 0, None);
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        observed.take(R(Apply(ObservedOwner::of(&going, &["ours".to_owned()]))));
        assert!(matches!(observed.snapshot(&key(1)).owner, OwnerSnapshot::Gone), "the garbage collector deletes its PodGroup");
    }
}

#[test]
fn a_job_that_another_controller_manages_may_have_pods_of_a_served_scheduler() {
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": "j", "namespace": "ns", "uid": &*uid(1) },
        "spec": { "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 2, "template": { "spec": { "schedulerName": "theirs", "containers": [] } } },
    }))
    .unwrap();
    let observed =
        observed([Observation::Owner(OwnerKind::Job, Apply(ObservedOwner::of(&job, &["ours".to_owned()]))), P(0, Apply(pod(11, 1)))]);
    assert!(observed.snapshot(&key(1)).owner.desired().is_some());
}

#[test]
fn a_list_of_unchanged_objects_affects_nothing() {
    let lists = || [D(reset(vec![deployment(7, "a")])), N(reset(vec![namespace(None)]))];
    let mut observed = observed(lists().into_iter().chain([R(reset(vec![replica_set(1, 1, Some(7))]))]));
    for list in lists() {
        assert_eq!(observed.take(list), vec![]);
    }
}

#[test]
fn a_podgroup_that_cannot_be_decoded_is_foreign() {
    let observed = observed([G(reset(vec![group(1, 5, false)])), G(Bad(bad(1)))]);
    assert!(matches!(observed.snapshot(&key(1)).cached, Some(Existing::Foreign(_, NotOurs::Unreadable))));
}

#[test]
fn active_members_count_before_terminating_members() {
    let deleting = |number| ObservedPod { deleting: true, ..pod(number, 1) };
    let members = |events: Vec<Observation>| observed(events).snapshot(&key(1)).members;
    assert_eq!(members(vec![]), Members::None);
    assert_eq!(members(vec![P(0, Apply(deleting(11)))]), Members::Terminating);
    assert_eq!(members(vec![P(0, Apply(deleting(11))), P(0, Apply(pod(12, 1)))]), Members::Active);
    assert_eq!(members(vec![P(0, Apply(pod(12, 1))), P(0, Apply(ObservedPod { ended: true, ..pod(12, 1) }))]), Members::None);
}

#[test]
fn a_list_of_one_kind_does_not_remove_owners_of_another_kind() {
    let object: StatefulSet = serde_json::from_value(json!({
        "metadata": { "name": "s", "namespace": "ns", "uid": &*uid(2) },
        "spec": { "template": { "spec": { "schedulerName": "ours", "containers": [] } } },
    }))
    .unwrap();
    let stateful_set = ObservedOwner::of(&object, &["ours".to_owned()]);
    let mut observed =
        observed([R(reset(vec![replica_set(1, 1, None)])), Observation::Owner(OwnerKind::StatefulSet, reset(vec![stateful_set]))]);
    assert_eq!(observed.take(R(reset(vec![]))), vec![Affected::Owner(key(1))]);
    assert!(observed.snapshot(&key(2)).owner.desired().is_some());
}

#[test]
fn a_pod_whose_owner_is_in_another_namespace_gets_no_podgroup() {
    let elsewhere = GroupKey::generated("elsewhere", &uid(1));
    let wrong = ObservedPod { group: elsewhere.clone(), source: lone_pod(11, 1).source, ..pod(11, 1) };
    let before = observed([P(0, Apply(wrong.clone()))]);
    assert!(before.snapshot(&elsewhere).owner.desired().is_some(), "while no watch shows the owner");
    let observed = observed([R(reset(vec![replica_set(1, 1, None)])), P(0, Apply(wrong))]);
    assert!(matches!(observed.snapshot(&elsewhere).owner, OwnerSnapshot::Gone), "the owner reference is wrong");
    assert!(observed.snapshot(&key(1)).owner.desired().is_some());
    assert_eq!(observed.snapshot(&key(1)).members, Members::None, "the pod is no member of the PodGroup in the owner's namespace");
}

#[test]
fn a_deployment_of_another_namespace_is_ignored() {
    let foreign = DeploymentFacts { namespace: "elsewhere".into(), ..deployment(7, "secret") };
    let observed = observed([R(reset(vec![replica_set(1, 1, Some(7))])), D(reset(vec![foreign]))]);
    assert_eq!(observed.snapshot(&key(1)).owner.desired().map(|desired| desired.intent.fields.queue.as_str()), Some("default"));
}

#[test]
fn no_podgroup_is_created_in_a_namespace_that_is_being_deleted() {
    let ending = NamespaceFacts { deleting: true, ..namespace(None) };
    let before = vec![R(reset(vec![replica_set(1, 1, None)])), P(0, reset(vec![lone_pod(14, 4)])), N(reset(vec![namespace(None)]))];
    let mut observed = observed(before);
    assert_eq!(observed.take(N(Apply(ending))), vec![Affected::Owner(key(1)), Affected::Owner(key(4))]);
    for number in [1, 4] {
        assert!(matches!(observed.snapshot(&key(number)).owner, OwnerSnapshot::Gone), "{number}");
    }
}

#[test]
fn the_newest_of_several_pods_gives_the_facts_about_their_owner() {
    let pod_with = |number: u32, born: &str, queue: &str| {
        let value = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(number), "creationTimestamp": born,
                "annotations": { "scheduling.volcano.sh/queue-name": queue },
                "ownerReferences": [{ "apiVersion": "x/v1", "kind": "Rollout", "name": "r", "uid": &*uid(1), "controller": true }] },
            "spec": { "schedulerName": "ours" },
        });
        let source = PodSource::of(&serde_json::from_value(value).unwrap());
        P(0, Apply(ObservedPod { source: source.map(Box::new), ..pod(number, 1) }))
    };
    let (old, new) = (pod_with(12, "2026-01-01T00:00:00Z", "old"), pod_with(11, "2026-01-01T00:00:01Z", "new"));
    let observed = observed([old, new]);
    let snapshot = observed.snapshot(&key(1));
    assert_eq!(snapshot.owner.desired().map(|desired| desired.intent.fields.queue.as_str()), Some("new"));
}

#[test]
fn a_pod_that_owns_other_pods_gives_the_facts_about_itself() {
    let pod_with = |number: u32, born: &str, queue: &str| {
        let value = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(1), "creationTimestamp": born,
                "annotations": { "scheduling.volcano.sh/queue-name": queue } },
            "spec": { "schedulerName": "ours" },
        });
        let source = PodSource::of(&serde_json::from_value(value).unwrap());
        P(0, Apply(ObservedPod { source: source.map(Box::new), ..pod(number, 1) }))
    };
    let observed = observed([pod_with(1, "2026-01-01T00:00:00Z", "driver"), pod_with(12, "2026-01-01T00:00:09Z", "executor")]);
    assert_eq!(observed.snapshot(&key(1)).owner.desired().map(|desired| desired.intent.fields.queue.as_str()), Some("driver"));
}

#[test]
fn the_owner_of_an_adopted_bare_pods_old_podgroup_is_unknown() {
    let bare = lone_pod(5, 5);
    let mut observed = observed([G(reset(vec![group(5, 5, false)])), P(0, reset(vec![bare]))]);
    assert!(observed.snapshot(&key(5)).owner.desired().is_some());
    assert_eq!(observed.take(P(0, Apply(pod(5, 1)))), vec![Affected::Member(key(5)), Affected::Member(key(1))]);
    assert!(
        matches!(observed.snapshot(&key(5)).owner, OwnerSnapshot::Unknown),
        "the PodGroup is retired, because its pod may run for years"
    );
    observed.take(P(0, Delete(pod(5, 1))));
    assert!(matches!(observed.snapshot(&key(5)).owner, OwnerSnapshot::Gone), "the garbage collector deletes it with the pod");
}

#[test]
fn an_unwatched_owner_without_pods_is_unknown() {
    let unwatched = |number| ObservedGroup { unwatched_owner: true, ..group(number, 5, false) };
    let observed = observed([G(reset(vec![unwatched(1), group(2, 5, false), unwatched(3)])), P(0, reset(vec![lone_pod(13, 3)]))]);
    assert!(matches!(observed.snapshot(&key(1)).owner, OwnerSnapshot::Unknown));
    assert!(matches!(observed.snapshot(&key(2)).owner, OwnerSnapshot::Gone));
    assert!(observed.snapshot(&key(3)).owner.desired().is_some());
}

mod lws;
mod orders;
mod sets;

#[test]
fn a_pod_that_names_another_podgroup_affects_that_of_its_owner_too() {
    use Observation as O;
    let mut observed = Observed::new(&["ours".to_owned()]);
    observed.take(O::Owner(OwnerKind::ReplicaSet, WatchEvent::Apply(replica_set(1, 2, None))));
    let named = GroupKey::new("ns", "lws");
    let away = |mislabelled| ObservedPod { group: named.clone(), elsewhere: Some(key(1)), mislabelled, ..pod(11, 1) };
    let affected = observed.take(O::Pod(0, WatchEvent::Apply(away(true))));
    assert_eq!(affected, [Affected::Owner(key(1)), Affected::Member(named.clone())]);
    let snapshot = observed.snapshot(&key(1));
    assert_eq!((snapshot.members, snapshot.pods_elsewhere), (Members::None, true));
    assert_eq!(snapshot.mislabelled, [(away(true).pod, named.clone())]);
    let affected = observed.take(O::Pod(0, WatchEvent::Apply(away(false))));
    assert!(affected.contains(&Affected::Owner(key(1))));
    assert!(observed.snapshot(&key(1)).mislabelled.is_empty());
    let affected = observed.take(O::Pod(0, WatchEvent::Delete(away(false))));
    assert_eq!(affected, [Affected::Owner(key(1)), Affected::Member(named)]);
    assert!(!observed.snapshot(&key(1)).pods_elsewhere);
}
