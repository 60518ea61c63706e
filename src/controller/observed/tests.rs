//! Does each event touch the groups that it concerns, and no other?

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;

use crate::api::workload::{Deployment, Job, PodSource, ReplicaSet, StatefulSet};
use crate::lifecycle::{NotOurs, Ours, Version};

fn uid(number: u32) -> Uid {
    Uid::from(format!("{number:08x}-0000-1111-2222-333344445555"))
}

fn key(number: u32) -> GroupKey {
    GroupKey::generated("ns", &uid(number))
}

fn placed_by(scheduler: &str, number: u32, wants: u32, deployment: Option<u32>) -> SeenOwner {
    SeenOwner::of(&template(scheduler, number, wants, deployment), &["ours".to_owned()])
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

fn replica_set(number: u32, wants: u32, deployment: Option<u32>) -> SeenOwner {
    placed_by("ours", number, wants, deployment)
}

/// Another scheduler's, which wants pods.
fn elsewhere(number: u32) -> SeenOwner {
    placed_by("theirs", number, 2, Some(7))
}

/// Another scheduler's, which wants none.
fn unserved(number: u32) -> SeenOwner {
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

fn pod(number: u32, group: u32) -> SeenPod {
    let name = Arc::from(format!("pod-{number}"));
    SeenPod { pod: PodRef { name, uid: uid(number) }, group: key(group), ended: false, deleting: false, stamped: true, source: None }
}

/// A pod whose owner only its pods tell of.
fn lone_pod(number: u32, group: u32) -> SeenPod {
    let value =
        json!({ "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(group) }, "spec": { "schedulerName": "ours" }, "status": {} });
    let source = PodSource::of(&serde_json::from_value(value).unwrap());
    SeenPod { source: source.map(Box::new), ..pod(number, group) }
}

fn group(number: u32, version: u32, retiring: bool) -> SeenGroup {
    let version = Version { uid: Uid::from(format!("g{number}")), resource_version: version.to_string() };
    SeenGroup {
        key: key(number),
        existing: Existing::Ours(Ours { version, retiring, ending: false, owner: None, applied: None }),
        unwatched_owner: false,
    }
}

fn namespace(queue: Option<&str>) -> NamespaceFacts {
    NamespaceFacts { name: Arc::from("ns"), queue: queue.map(str::to_owned), ending: false }
}

fn reset<K>(objects: Vec<K>) -> WatchEvent<K> {
    WatchEvent::Reset { objects, bad: Vec::new() }
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

fn observed(events: impl IntoIterator<Item = Seen>) -> Observed {
    let mut observed = Observed::new(&["ours".to_owned()]);
    for event in events {
        observed.take(event);
    }
    observed
}

use Seen::{Deployment as D, Group as G, Namespace as N, Pod as P};
use WatchEvent::{Apply, Bad, Delete};

#[allow(non_snake_case, reason = "stands beside the variants that are called so")]
fn R(event: WatchEvent<SeenOwner>) -> Seen {
    Seen::Owner(OwnerKind::ReplicaSet, event)
}

#[test]
fn nothing_is_complete_before_every_list_is() {
    let mut observed = Observed::new(&["ours".to_owned(), "other".to_owned()]);
    let lists = [
        R(reset(vec![])),
        D(reset(vec![])),
        P(0, reset(vec![])),
        P(0, reset(vec![])),
        G(reset(vec![])),
        N(reset(vec![])),
        R(Apply(replica_set(1, 1, None))),
        Seen::Owner(OwnerKind::StatefulSet, reset(vec![])),
        Seen::Owner(OwnerKind::DaemonSet, reset(vec![])),
        P(1, reset(vec![])),
    ];
    for list in lists {
        observed.take(list);
        assert!(!observed.is_complete());
    }
    observed.take(Seen::Owner(OwnerKind::Job, reset(vec![])));
    assert!(observed.is_complete());
}

#[test]
fn each_event_touches_whom_it_concerns() {
    let before = || {
        vec![
            R(reset(vec![replica_set(1, 1, Some(7)), replica_set(2, 1, None), unserved(3), elsewhere(5)])),
            D(reset(vec![deployment(7, "a"), deployment(8, "a")])),
            P(0, reset(vec![pod(11, 1), pod(12, 2), lone_pod(14, 4)])),
            G(reset(vec![group(1, 5, false), group(2, 5, false)])),
            N(reset(vec![namespace(Some("q"))])),
        ]
    };
    let (owner, member) = (|number| Touched::Owner(key(number)), |number| Touched::Member(key(number)));
    let ended = SeenPod { ended: true, ..pod(11, 1) };
    let deleting = SeenPod { deleting: true, ..pod(11, 1) };
    let gone = |number: u32| Touched::Group(key(number), Some(Uid::from(format!("g{number}"))));
    let cases: Vec<(&str, Seen, Vec<Touched>)> = vec![
        ("scaled", R(Apply(replica_set(2, 2, None))), vec![owner(2)]),
        ("its status changed", R(Apply(replica_set(2, 1, None))), vec![]),
        ("new", R(Apply(replica_set(9, 1, None))), vec![owner(9)]),
        ("gone", R(Delete(replica_set(1, 1, Some(7)))), vec![owner(1)]),
        ("cannot be read", R(Bad(bad(1))), vec![owner(1)]),
        ("another scheduler's, new", R(Apply(unserved(9))), vec![]),
        ("another scheduler's, changed", R(Apply(unserved(3))), vec![]),
        ("another scheduler's, scaled", R(Apply(elsewhere(3))), vec![]),
        ("another scheduler's, with a pod of ours", P(0, Apply(pod(15, 5))), vec![member(5)]),
        ("another scheduler's, gone", R(Delete(unserved(3))), vec![]),
        ("became another scheduler's", R(Apply(unserved(2))), vec![owner(2)]),
        ("the list again, one is gone", R(reset(vec![replica_set(2, 1, None)])), vec![owner(1)]),
        ("a Deployment's status", D(Apply(deployment(7, "a"))), vec![]),
        ("a Deployment's annotation", D(Apply(deployment(7, "b"))), vec![owner(1)]),
        ("a Deployment without ReplicaSets", D(Apply(deployment(8, "b"))), vec![]),
        ("a Deployment is gone", D(Delete(deployment(7, "a"))), vec![owner(1)]),
        ("a Deployment cannot be read", D(Bad(bad(7))), vec![owner(1)]),
        ("a pod again", P(0, Apply(pod(11, 1))), vec![]),
        ("a pod is new", P(0, Apply(pod(13, 1))), vec![member(1)]),
        ("a pod ends", P(0, Apply(deleting)), vec![member(1), member(1)]),
        ("a pod has ended", P(0, Apply(ended)), vec![member(1)]),
        ("a pod is gone", P(0, Delete(pod(11, 1))), vec![member(1)]),
        ("a pod that nobody knew is gone", P(0, Delete(pod(99, 1))), vec![]),
        ("a pod changes its owner", P(0, Apply(pod(11, 2))), vec![member(1), member(2)]),
        ("a pod cannot be read", P(0, Bad(bad(12))), vec![member(2)]),
        ("the list of pods again, one is gone", P(0, reset(vec![pod(12, 2), lone_pod(14, 4)])), vec![member(1)]),
        ("another scheduler's list", P(1, reset(vec![])), vec![]),
        ("a group changed", G(Apply(group(1, 6, true))), vec![Touched::Group(key(1), None)]),
        ("a group is gone", G(Delete(group(1, 6, true))), vec![gone(1)]),
        ("a group cannot be read", G(Bad(bad(1))), vec![Touched::Group(key(1), None)]),
        ("the list of groups again", G(reset(vec![group(2, 5, false)])), vec![Touched::Group(key(2), None), Touched::MissedGroup(key(1))]),
        ("a namespace again", N(Apply(namespace(Some("q")))), vec![]),
        ("a namespace's queue", N(Apply(namespace(Some("r")))), vec![owner(1), owner(2), owner(4)]),
        ("a namespace is gone", N(Delete(namespace(None))), vec![owner(1), owner(2), owner(4)]),
        ("another namespace", N(Apply(NamespaceFacts { name: Arc::from("other"), ..namespace(Some("q")) })), vec![]),
    ];
    for (case, event, expected) in cases {
        assert_eq!(observed(before()).take(event), expected, "{case}");
    }
}

#[test]
fn replica_sets_of_other_schedulers_touch_nothing_by_the_thousand() {
    for other in [unserved, elsewhere] {
        let mut observed = observed([D(reset(vec![deployment(7, "a")])), N(reset(vec![namespace(None)]))]);
        assert_eq!(observed.take(R(reset((10..1000).map(other).collect()))), vec![]);
        assert!((10..1000).all(|number| observed.take(R(Apply(other(number)))).is_empty()));
        assert!(observed.take(D(Apply(deployment(7, "b")))).is_empty());
        assert!(observed.take(N(Apply(namespace(Some("r"))))).is_empty());
        assert!(observed.keys().is_empty());
    }
}

#[test]
fn pods_that_a_webhook_gave_to_us_have_a_group_whatever_their_template_says() {
    let lists = || [D(reset(vec![deployment(7, "a")])), G(reset(vec![])), N(reset(vec![namespace(None)]))];
    for pod_first in [true, false] {
        let mut observed = Observed::new(&["ours".to_owned(), "too".to_owned()]);
        lists().into_iter().for_each(|list| drop(observed.take(list)));
        let mut touched = BTreeSet::new();
        let mut events = [R(Apply(elsewhere(1))), P(0, Apply(pod(11, 1)))];
        if pod_first {
            events.reverse();
        }
        for event in events {
            touched = observed.take(event).into_iter().map(|touched| touched.key().clone()).collect();
        }
        assert!(touched.contains(&key(1)), "the second one wakes whoever makes the group");
        let wish = observed.freeze(&key(1)).owner.wish().cloned().unwrap();
        assert!(wish.wants_pods);
        assert_eq!(
            (wish.intent.fields.scheduler.as_deref(), &*wish.intent.fields.queue),
            (Some("ours"), "a"),
            "its pods' scheduler, its own queue"
        );
        assert!(!observed.take(D(Apply(deployment(7, "b")))).is_empty(), "the queue is followed");
        assert_eq!(observed.keys(), BTreeSet::from([key(1)]), "after a start too");
        observed.take(P(1, Apply(pod(12, 1))));
        let scheduler = |observed: &Observed| observed.freeze(&key(1)).owner.wish().and_then(|wish| wish.intent.fields.scheduler.clone());
        assert_eq!(scheduler(&observed).as_deref(), Some("ours"), "of two that are served the first");
        observed.take(P(0, Apply(SeenPod { deleting: true, ..pod(11, 1) })));
        assert_eq!(scheduler(&observed).as_deref(), Some("too"), "of the pods that are there to stay");
        observed.take(P(1, Delete(pod(12, 1))));
        let frozen = observed.freeze(&key(1));
        assert!(matches!(frozen.owner, FrozenOwner::Unserved), "without one that stays nothing says that it is ours");
        assert!(frozen.may_be_ours, "but the next may be");
        observed.take(R(Apply(unserved(1))));
        let frozen = observed.freeze(&key(1));
        assert!(
            !frozen.may_be_ours && frozen.selector.is_some(),
            "it wants none any more, and its last pods are looked for by its selector"
        );
        let mut going = template("theirs", 1, 0, None);
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        observed.take(R(Apply(SeenOwner::of(&going, &["ours".to_owned()]))));
        assert!(matches!(observed.freeze(&key(1)).owner, FrozenOwner::Gone), "the garbage collector takes its group");
    }
}

#[test]
fn a_job_that_another_controller_manages_may_be_given_to_us_by_a_webhook_too() {
    let job: Job = serde_json::from_value(json!({
        "metadata": { "name": "j", "namespace": "ns", "uid": &*uid(1) },
        "spec": { "managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 2, "template": { "spec": { "schedulerName": "theirs", "containers": [] } } },
    }))
    .unwrap();
    let observed = observed([Seen::Owner(OwnerKind::Job, Apply(SeenOwner::of(&job, &["ours".to_owned()]))), P(0, Apply(pod(11, 1)))]);
    assert!(observed.freeze(&key(1)).owner.wish().is_some());
}

#[test]
fn a_list_of_what_was_known_touches_nobody() {
    let lists = || [D(reset(vec![deployment(7, "a")])), N(reset(vec![namespace(None)]))];
    let mut observed = observed(lists().into_iter().chain([R(reset(vec![replica_set(1, 1, Some(7))]))]));
    for list in lists() {
        assert_eq!(observed.take(list), vec![]);
    }
}

#[test]
fn a_group_that_cannot_be_read_is_somebody_elses() {
    let observed = observed([G(reset(vec![group(1, 5, false)])), G(Bad(bad(1)))]);
    assert!(matches!(observed.freeze(&key(1)).cached, Some(Existing::Foreign(_, NotOurs::Unreadable))));
}

#[test]
fn members_that_end_are_less_than_members_that_live() {
    let deleting = |number| SeenPod { deleting: true, ..pod(number, 1) };
    let members = |events: Vec<Seen>| observed(events).freeze(&key(1)).members;
    assert_eq!(members(vec![]), Members::None);
    assert_eq!(members(vec![P(0, Apply(deleting(11)))]), Members::Ending);
    assert_eq!(members(vec![P(0, Apply(deleting(11))), P(0, Apply(pod(12, 1)))]), Members::Living);
    assert_eq!(members(vec![P(0, Apply(pod(12, 1))), P(0, Apply(SeenPod { ended: true, ..pod(12, 1) }))]), Members::None);
}

#[test]
fn the_list_of_one_kind_says_nothing_of_another() {
    let object: StatefulSet = serde_json::from_value(json!({
        "metadata": { "name": "s", "namespace": "ns", "uid": &*uid(2) },
        "spec": { "template": { "spec": { "schedulerName": "ours", "containers": [] } } },
    }))
    .unwrap();
    let stateful_set = SeenOwner::of(&object, &["ours".to_owned()]);
    let mut observed = observed([R(reset(vec![replica_set(1, 1, None)])), Seen::Owner(OwnerKind::StatefulSet, reset(vec![stateful_set]))]);
    assert_eq!(observed.take(R(reset(vec![]))), vec![Touched::Owner(key(1))]);
    assert!(observed.freeze(&key(2)).owner.wish().is_some());
}

#[test]
fn an_owner_in_another_namespace_is_nobodys() {
    let elsewhere = GroupKey::generated("elsewhere", &uid(1));
    let liar = SeenPod { group: elsewhere.clone(), source: lone_pod(11, 1).source, ..pod(11, 1) };
    let before = observed([P(0, Apply(liar.clone()))]);
    assert!(before.freeze(&elsewhere).owner.wish().is_some(), "as long as nobody knows better");
    let observed = observed([R(reset(vec![replica_set(1, 1, None)])), P(0, Apply(liar))]);
    assert!(matches!(observed.freeze(&elsewhere).owner, FrozenOwner::Gone), "the pod lies, and nothing is made for it");
    assert!(observed.freeze(&key(1)).owner.wish().is_some());
    assert_eq!(observed.freeze(&key(1)).members, Members::None, "it is no member of the group in the owner's namespace");
}

#[test]
fn a_deployment_of_another_namespace_has_no_say() {
    let stranger = DeploymentFacts { namespace: "elsewhere".into(), ..deployment(7, "secret") };
    let observed = observed([R(reset(vec![replica_set(1, 1, Some(7))])), D(reset(vec![stranger]))]);
    assert_eq!(observed.freeze(&key(1)).owner.wish().map(|wish| wish.intent.fields.queue.as_str()), Some("default"));
}

#[test]
fn nothing_is_made_in_a_namespace_that_goes() {
    let ending = NamespaceFacts { ending: true, ..namespace(None) };
    let before = vec![R(reset(vec![replica_set(1, 1, None)])), P(0, reset(vec![lone_pod(14, 4)])), N(reset(vec![namespace(None)]))];
    let mut observed = observed(before);
    assert_eq!(observed.take(N(Apply(ending))), vec![Touched::Owner(key(1)), Touched::Owner(key(4))]);
    for number in [1, 4] {
        assert!(matches!(observed.freeze(&key(number)).owner, FrozenOwner::Gone), "{number}");
    }
}

#[test]
fn of_several_pods_the_newest_tells_of_their_owner() {
    let told = |number: u32, born: &str, queue: &str| {
        let value = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(number), "creationTimestamp": born,
                "annotations": { "scheduling.volcano.sh/queue-name": queue },
                "ownerReferences": [{ "apiVersion": "x/v1", "kind": "Rollout", "name": "r", "uid": &*uid(1), "controller": true }] },
            "spec": { "schedulerName": "ours" },
        });
        let source = PodSource::of(&serde_json::from_value(value).unwrap());
        P(0, Apply(SeenPod { source: source.map(Box::new), ..pod(number, 1) }))
    };
    let (old, new) = (told(12, "2026-01-01T00:00:00Z", "old"), told(11, "2026-01-01T00:00:01Z", "new"));
    let observed = observed([old, new]);
    let frozen = observed.freeze(&key(1));
    assert_eq!(frozen.owner.wish().map(|wish| wish.intent.fields.queue.as_str()), Some("new"));
}

#[test]
fn a_pod_that_owns_others_speaks_for_itself() {
    let told = |number: u32, born: &str, queue: &str| {
        let value = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": &*uid(1), "creationTimestamp": born,
                "annotations": { "scheduling.volcano.sh/queue-name": queue } },
            "spec": { "schedulerName": "ours" },
        });
        let source = PodSource::of(&serde_json::from_value(value).unwrap());
        P(0, Apply(SeenPod { source: source.map(Box::new), ..pod(number, 1) }))
    };
    let observed = observed([told(1, "2026-01-01T00:00:00Z", "driver"), told(12, "2026-01-01T00:00:09Z", "executor")]);
    assert_eq!(observed.freeze(&key(1)).owner.wish().map(|wish| wish.intent.fields.queue.as_str()), Some("driver"));
}

#[test]
fn the_group_of_a_pod_that_was_adopted_is_nobodys_any_more() {
    let bare = lone_pod(5, 5);
    let mut observed = observed([G(reset(vec![group(5, 5, false)])), P(0, reset(vec![bare]))]);
    assert!(observed.freeze(&key(5)).owner.wish().is_some());
    assert_eq!(observed.take(P(0, Apply(pod(5, 1)))), vec![Touched::Member(key(5)), Touched::Member(key(1))]);
    assert!(matches!(observed.freeze(&key(5)).owner, FrozenOwner::Unseen), "it is retired, since its pod may live for years");
    observed.take(P(0, Delete(pod(5, 1))));
    assert!(matches!(observed.freeze(&key(5)).owner, FrozenOwner::Gone), "it goes with the pod");
}

#[test]
fn a_group_whose_owner_nobody_watches_and_no_pod_tells_of_is_unseen() {
    let unwatched = |number| SeenGroup { unwatched_owner: true, ..group(number, 5, false) };
    let observed = observed([G(reset(vec![unwatched(1), group(2, 5, false), unwatched(3)])), P(0, reset(vec![lone_pod(13, 3)]))]);
    assert!(matches!(observed.freeze(&key(1)).owner, FrozenOwner::Unseen));
    assert!(matches!(observed.freeze(&key(2)).owner, FrozenOwner::Gone));
    assert!(observed.freeze(&key(3)).owner.wish().is_some());
}

mod orders;
