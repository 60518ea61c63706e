//! Tests of the PodGroup of one group of a LeaderWorkerSet in the cache: its leader and the StatefulSet of its workers make it.

use super::*;

use crate::api::membership::group_of;

/// The PodGroup of the second group of the LeaderWorkerSet `serve`.
fn whole() -> GroupKey {
    GroupKey::new("ns", "lws-serve-1-r1")
}

/// Returns the labels and annotations that LeaderWorkerSet writes, and its annotation that asks for one PodGroup.
fn metadata(worker: Option<&str>, gang: &str) -> serde_json::Value {
    let mut labels = json!({ "leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "1",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": "r1" });
    worker.iter().for_each(|worker| labels["leaderworkerset.sigs.k8s.io/worker-index"] = (*worker).into());
    json!({ "labels": labels, "annotations": { "leaderworkerset.sigs.k8s.io/size": "4", "podgroup.dev/gang": gang } })
}

/// Returns a pod of the group with requests of `cpu`. Its owner is a StatefulSet.
fn member(number: u32, worker: &str, cpu: &str) -> ObservedPod {
    let mut meta = metadata(Some(worker), "leaderworkerset");
    meta["name"] = format!("pod-{number}").into();
    meta["namespace"] = "ns".into();
    meta["uid"] = (*uid(number)).into();
    meta["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "uid": &*uid(90), "controller": true }]);
    let spec = json!({ "schedulerName": "ours", "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] });
    let object: crate::api::Pod = serde_json::from_value(json!({ "metadata": meta, "spec": spec, "status": {} })).unwrap();
    ObservedPod {
        group: group_of(&object.metadata),
        source: PodSource::of(&object).map(Box::new),
        elsewhere: Some(key(90)),
        ..pod(number, 0)
    }
}

/// Returns the StatefulSet of the three workers of the leader with this number.
fn workers(leader: u32, gang: &str, scheduler: &str) -> ObservedOwner {
    let spec = json!({ "schedulerName": scheduler, "containers": [{ "name": "c", "resources": { "requests": { "cpu": "8" } } }] });
    let object: StatefulSet = serde_json::from_value(json!({
        "metadata": { "name": "serve-1", "namespace": "ns", "uid": &*uid(91), "ownerReferences": [
            { "apiVersion": "v1", "kind": "Pod", "name": "serve-1", "uid": &*uid(leader), "controller": true }] },
        "spec": { "replicas": 3, "podManagementPolicy": "Parallel", "template": { "metadata": metadata(None, gang), "spec": spec } },
    }))
    .unwrap();
    ObservedOwner::of(&object, &["ours".to_owned()])
}

fn facts(seen: &mut ObservedOwner) -> &mut OwnerFacts {
    let (ObservedOwner::Served(facts) | ObservedOwner::OtherScheduler(facts)) = seen else { panic!("facts of a set are stored") };
    facts
}

fn sets(event: WatchEvent<ObservedOwner>) -> Observation {
    Observation::Owner(OwnerKind::StatefulSet, event)
}

/// Returns the owner, the minMember and the requested cpu of the desired PodGroup.
fn desired(observed: &Observed) -> Option<(Uid, u32, String)> {
    let snapshot = observed.snapshot(&whole());
    let intent = &snapshot.owner.desired()?.intent;
    let cpu = intent.fields.min_resources.get("cpu").map(ToString::to_string).unwrap_or_default();
    Some((intent.owner.uid.clone(), intent.fields.min_member, cpu))
}

#[test]
fn the_leader_asks_for_all_pods_of_its_group_also_before_the_workers_exist() {
    let mut observed = observed([sets(reset(vec![]))]);
    assert_eq!(observed.take(P(0, Apply(member(1, "0", "2")))), [Affected::Owner(key(90)), Affected::Member(whole())]);
    assert_eq!(desired(&observed), Some((uid(1), 4, "8".to_owned())), "each counts as the leader");
    let affected = observed.take(sets(Apply(workers(1, "leaderworkerset", "ours"))));
    assert_eq!(affected, [Affected::Owner(whole()), Affected::Owner(key(91))]);
    assert_eq!(desired(&observed), Some((uid(1), 4, "26".to_owned())), "2 of the leader and 8 of each worker");
    observed.take(P(0, Apply(member(2, "3", "8"))));
    assert_eq!(desired(&observed), Some((uid(1), 4, "26".to_owned())), "a worker says nothing");
    assert!(matches!(observed.snapshot(&key(91)).owner, OwnerSnapshot::Unserved), "the workers have no PodGroup of their own");
    let selector = "leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=1,\
                    leaderworkerset.sigs.k8s.io/template-revision-hash=r1";
    assert_eq!(observed.snapshot(&whole()).selector.as_deref(), Some(selector));
}

#[test]
fn workers_that_the_leader_cannot_count_are_counted_by_its_size() {
    let former = workers(7, "leaderworkerset", "ours");
    // A webhook may set the scheduler on the pods.
    let by_webhook = workers(1, "leaderworkerset", "theirs");
    let mut deleted = workers(1, "leaderworkerset", "ours");
    facts(&mut deleted).deleting = true;
    for other in [former, by_webhook, deleted, workers(1, "", "ours")] {
        let observed = observed([sets(reset(vec![other])), P(0, reset(vec![member(1, "0", "2")]))]);
        assert_eq!(desired(&observed), Some((uid(1), 4, "8".to_owned())));
    }
}

#[test]
fn without_a_living_leader_the_group_has_no_owner() {
    let mut observed = observed([sets(reset(vec![workers(1, "leaderworkerset", "ours")])), P(0, reset(vec![member(2, "1", "8")]))]);
    assert!(matches!(observed.snapshot(&whole()).owner, OwnerSnapshot::Gone), "no leader");
    observed.take(P(0, Apply(member(1, "0", "2"))));
    assert!(desired(&observed).is_some());
    observed.take(P(0, Apply(ObservedPod { deleting: true, ..member(1, "0", "2") })));
    assert!(matches!(observed.snapshot(&whole()).owner, OwnerSnapshot::Gone), "it is being deleted");
    observed.take(P(0, Delete(member(1, "0", "2"))));
    observed.take(P(0, Apply(member(3, "0", "2"))));
    assert_eq!(desired(&observed).map(|(owner, ..)| owner), Some(uid(3)), "the next leader");
}

#[test]
fn the_leader_owns_the_podgroup_under_its_own_name_whatever_its_workers_call_it() {
    let mut misnamed = workers(1, "leaderworkerset", "ours");
    facts(&mut misnamed).set.as_mut().unwrap().object.name = "other".to_owned();
    let observed = observed([sets(reset(vec![misnamed])), P(0, reset(vec![member(1, "0", "2")]))]);
    let snapshot = observed.snapshot(&whole());
    let desired = snapshot.owner.desired().unwrap();
    assert_eq!((&*desired.intent.owner.name, &*desired.event_target.name), ("pod-1", "pod-1"));
}

#[test]
fn a_pod_that_names_the_podgroup_does_not_lead_it() {
    let mut observed = observed([P(0, reset(vec![member(1, "0", "2")]))]);
    observed.take(P(0, Apply(ObservedPod { group: whole(), ..lone_pod(2, 5) })));
    assert_eq!(desired(&observed).map(|(owner, ..)| owner), Some(uid(1)));
}

#[test]
fn the_queue_of_the_namespace_is_that_of_the_group() {
    let mut observed = observed([P(0, reset(vec![member(1, "0", "2")]))]);
    assert!(observed.take(N(Apply(namespace(Some("q"))))).contains(&Affected::Owner(whole())));
    assert_eq!(observed.snapshot(&whole()).owner.desired().map(|desired| &*desired.intent.fields.queue), Some("q"));
}
