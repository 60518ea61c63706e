//! Tests of the PodGroup of a set in the cache: which events affect it, and what a snapshot of it shows.

use super::*;

/// Returns one of two Jobs of the JobSet `train` in its first attempt. It wants `pods` pods of this scheduler.
fn job(number: u32, pods: u32, scheduler: &str, joins: bool) -> ObservedOwner {
    let labels = json!({
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "jobset.sigs.k8s.io/global-replicas": "2",
        "jobset.sigs.k8s.io/job-global-index": number.to_string(),
    });
    let object: Job = serde_json::from_value(json!({
        "metadata": { "name": format!("train-{number}"), "namespace": "ns", "uid": &*uid(number), "ownerReferences": [
            { "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "train", "uid": &*uid(9), "controller": true }] },
        "spec": { "parallelism": pods, "completions": pods, "suspend": pods == 0,
            "template": { "metadata": { "labels": labels }, "spec": { "schedulerName": scheduler, "containers": [] } } },
    }))
    .unwrap();
    let mut seen = ObservedOwner::of(&object, &["ours".to_owned()]);
    let (ObservedOwner::Served(facts) | ObservedOwner::OtherScheduler(facts)) = &mut seen else { panic!("facts of a set are stored") };
    facts.named_group = joins;
    facts.set.as_mut().unwrap().joins = joins;
    seen
}

fn set() -> GroupKey {
    GroupKey::new("ns", "jobset-train-0")
}

fn jobs(event: WatchEvent<ObservedOwner>) -> Observation {
    Observation::Owner(OwnerKind::Job, event)
}

fn min_member(observed: &Observed) -> Option<u32> {
    observed.snapshot(&set()).owner.desired().map(|desired| desired.intent.fields.min_member)
}

#[test]
fn each_job_of_a_jobset_affects_the_podgroup_of_the_whole() {
    let mut observed = observed([jobs(reset(vec![]))]);
    let affected = |number: u32| vec![Affected::Owner(set()), Affected::Owner(key(number))];
    assert_eq!(observed.take(jobs(Apply(job(1, 2, "ours", true)))), affected(1));
    assert_eq!(min_member(&observed), Some(3), "the other Job is missing");
    assert_eq!(observed.take(jobs(Apply(job(1, 2, "ours", true)))), [], "nothing changed");
    assert_eq!(observed.take(jobs(Apply(job(2, 3, "ours", true)))), affected(2));
    assert_eq!(min_member(&observed), Some(5));
    assert!(observed.keys().contains(&set()));
    for number in [1, 2] {
        assert!(matches!(observed.snapshot(&key(number)).owner, OwnerSnapshot::Unserved), "{number} has no PodGroup of its own");
    }
    assert_eq!(observed.take(N(Apply(namespace(Some("q"))))), [Affected::Owner(set()), Affected::Owner(key(1)), Affected::Owner(key(2))]);
    let mut gone = observed.take(jobs(Delete(job(1, 2, "ours", true))));
    gone.sort();
    assert_eq!(gone, affected(1));
    assert_eq!(min_member(&observed), Some(4));
    observed.take(jobs(reset(vec![])));
    assert_eq!(min_member(&observed), None);
    assert!(!observed.keys().contains(&set()), "nothing is remembered of it");
}

#[test]
fn a_job_of_another_scheduler_is_counted_as_there_also_when_it_wants_nothing() {
    let mut observed = observed([jobs(reset(vec![job(1, 2, "ours", true)]))]);
    assert_eq!(min_member(&observed), Some(3));
    assert_eq!(observed.take(jobs(Apply(job(2, 0, "theirs", false)))), [Affected::Owner(set())]);
    assert_eq!(min_member(&observed), Some(2));
}

#[test]
fn jobs_that_do_not_join_the_podgroup_of_the_whole_do_not_affect_it() {
    let mut observed = observed([jobs(reset(vec![]))]);
    for number in [1, 2] {
        assert_eq!(observed.take(jobs(Apply(job(number, 2, "ours", false)))), [Affected::Owner(key(number))]);
        assert!(observed.snapshot(&key(number)).owner.desired().is_some(), "each has a PodGroup of its own");
    }
    assert!(!observed.keys().contains(&set()));
    assert!(matches!(observed.snapshot(&set()).owner, OwnerSnapshot::Gone));
}

#[test]
fn a_podgroup_of_a_jobset_without_jobs_has_an_unknown_owner_and_is_listed_by_the_labels_of_its_pods() {
    let left = ObservedGroup { key: set(), unwatched_owner: true, ..group(1, 5, false) };
    let observed = observed([jobs(reset(vec![])), G(reset(vec![left]))]);
    let snapshot = observed.snapshot(&set());
    assert!(matches!(snapshot.owner, OwnerSnapshot::Unknown));
    let selector = "jobset.sigs.k8s.io/jobset-name=train,jobset.sigs.k8s.io/restart-attempt=0";
    assert_eq!(snapshot.selector.as_deref(), Some(selector));
}
