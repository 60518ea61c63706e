//! Tests of the PodGroup of several owners together, over every order in which they appear and change.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::api::Uid;
use crate::api::workload::{NamespaceQueue, ObjectRef};
use crate::resources::Amount;

const JOBSET: &str = "0a1b2c3d-0000-1111-2222-333344445555";
const NEWER: &str = "0a1b2c3d-0000-1111-2222-333344446666";

fn key() -> GroupKey {
    GroupKey::new("ns", "jobset-train-0")
}

fn object(kind: &str, name: &str, uid: &str) -> ObjectRef {
    ObjectRef { kind: kind.into(), api_version: "x/v1".into(), namespace: "ns".into(), name: name.into(), uid: Uid::from(uid) }
}

/// Returns one of two Jobs of the JobSet: `index` is its position, and it wants `pods` pods of `index + 1` cpu.
fn job(index: u32, pods: u32) -> OwnerFacts {
    let set = OwnerSet {
        object: object("JobSet", "train", JOBSET),
        owners: 2,
        group: key(),
        joins: true,
        index,
        pods,
        succeeded: None,
        born: Timestamp::from_second(100).ok(),
    };
    OwnerFacts {
        object: object("Job", &format!("train-{index}"), &format!("job-{index}")),
        deleting: false,
        wants_pods: pods > 0,
        gang: Gang::UpTo { now: pods, in_all: pods, completions: None },
        parent: None,
        set: Some(set),
        scheduler: Arc::from("ours"),
        annotations: GroupAnnotations::new(),
        template_annotations: GroupAnnotations::new(),
        named_group: true,
        priority_class: None,
        request: Resources::new().with("cpu", Amount::from_units(i64::from(index) + 1)).with("pods", Amount::from_units(1)),
        selector: None,
        faults: Vec::new(),
    }
}

fn asking(facts: OwnerFacts, pairs: &[(&str, &str)]) -> OwnerFacts {
    let template_annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    OwnerFacts { template_annotations, ..facts }
}

/// Changes what the Job says about its set.
fn with_set(mut facts: OwnerFacts, change: impl FnOnce(&mut OwnerSet)) -> OwnerFacts {
    change(facts.set.as_mut().unwrap());
    facts
}

fn of(jobs: &[OwnerFacts]) -> Option<DesiredGroup> {
    intend_for_set(&key(), &jobs.iter().collect::<Vec<_>>(), &NamespaceQueue::Unsaid, &["ours".to_owned()])
}

fn min_member(jobs: &[OwnerFacts]) -> u32 {
    of(jobs).unwrap().intent.fields.min_member
}

#[test]
fn a_jobset_has_one_podgroup_with_all_its_pods_and_their_requests() {
    let desired = of(&[job(1, 4), job(0, 1)]).unwrap();
    assert_eq!((desired.intent.group.clone(), desired.intent.owner.clone()), (key(), object("JobSet", "train", JOBSET)));
    assert_eq!((desired.intent.fields.min_member, desired.intent.fields.asked), (5, None));
    assert_eq!(desired.intent.fields.min_resources.get("cpu").map(String::as_str), Some("9"), "1 pod of 1 cpu and 4 of 2");
    assert!(!desired.intent.fields.min_resources.contains_key("pods"));
    assert_eq!((desired.intent.fields.queue.as_str(), desired.intent.fields.scheduler.as_deref()), ("default", Some("ours")));
    assert!(desired.wants_pods && desired.faults.is_empty() && desired.part_of.is_none());
    assert_eq!(desired.event_target, object("JobSet", "train", JOBSET), "people edit the JobSet");
}

/// What can be seen of one Job, in the order of its life. It can be seen in any of these states together with any state of the other Job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Absent,
    Suspended,
    Wants,
    Finished,
    Deleting,
}

#[test]
fn no_part_of_a_jobset_can_start_alone_whatever_is_seen_of_its_jobs() {
    use Seen::{Absent, Deleting, Finished, Suspended, Wants};
    let all = [Absent, Suspended, Wants, Finished, Deleting];
    let seen = |index: u32, pods: u32, state: Seen| match state {
        Absent => None,
        Wants => Some(job(index, pods)),
        Suspended => {
            Some(OwnerFacts { wants_pods: false, gang: Gang::UpTo { now: 0, in_all: pods, completions: None }, ..job(index, pods) })
        }
        Finished => Some(OwnerFacts { gang: Gang::UpTo { now: 0, in_all: pods, completions: None }, ..job(index, 0) }),
        Deleting => Some(OwnerFacts { deleting: true, ..job(index, pods) }),
    };
    for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
        let jobs: Vec<OwnerFacts> = [seen(0, 2, one), seen(1, 3, other)].into_iter().flatten().collect();
        let desired = of(&jobs);
        let exists = |state: Seen| !matches!(state, Absent | Deleting);
        assert_eq!(desired.is_some(), exists(one) || exists(other), "{one:?} {other:?}: a PodGroup needs a Job that is not deleted");
        let Some(desired) = desired else { continue };
        assert_eq!(desired.wants_pods, one == Wants || other == Wants, "{one:?} {other:?}");
        let minimum = desired.intent.fields.min_member;
        // A Job has its pods only if it is not suspended. They must not satisfy the gang unless the other Job is finished.
        for (state, pods, rest) in [(one, 2, other), (other, 3, one)] {
            if state == Wants {
                assert_eq!(minimum <= pods, rest == Finished, "{one:?} {other:?}: minMember {minimum} with {pods} pods of one Job");
            }
        }
        if one == Wants && other == Wants {
            assert_eq!(minimum, 5, "and together they do");
        }
    }
}

#[test]
fn a_job_with_a_podgroup_of_its_own_counts_as_there_and_its_pods_do_not_count() {
    let apart = with_set(job(1, 3), |set| set.joins = false);
    assert_eq!(min_member(&[job(0, 2), apart.clone()]), 2);
    assert_eq!(min_member(&[job(0, 2)]), 3, "it is not there yet");
    assert_eq!(of(&[apart]), None, "no Job asks for the PodGroup");
    let other_scheduler = OwnerFacts { scheduler: Arc::from("default-scheduler"), ..job(1, 3) };
    assert_eq!(min_member(&[job(0, 2), other_scheduler.clone()]), 2, "its pods are never members");
    assert_eq!(of(&[other_scheduler]), None);
}

#[test]
fn a_stated_minimum_is_that_of_the_whole_and_does_not_wait_for_missing_jobs() {
    let stated = |text| asking(job(0, 2), &[(MIN_MEMBER, text)]);
    assert_eq!(min_member(&[stated("2")]), 2, "later Jobs are created when this one is ready");
    assert_eq!(min_member(&[stated("4"), job(1, 3)]), 4);
    let both = of(&[stated("4"), asking(job(1, 3), &[(MIN_MEMBER, "5")])]).unwrap();
    assert_eq!(both.intent.fields.min_member, 5, "the largest");
    assert_eq!(both.faults.iter().map(|fault| fault.value.as_str()).collect::<Vec<_>>(), ["4, 5"]);
    let much = of(&[stated("9"), job(1, 3)]).unwrap();
    assert_eq!((much.intent.fields.min_member, much.intent.fields.asked, much.faults.len()), (5, Some(9), 1));
    let later = of(&[stated("5"), OwnerFacts { gang: Gang::UpTo { now: 0, in_all: 3, completions: None }, ..job(1, 0) }]).unwrap();
    assert_eq!((later.intent.fields.min_member, later.faults.len()), (2, 0), "the last pods do not wait for those that succeeded");
    let bad = of(&[stated("x"), job(1, 3)]).unwrap();
    assert_eq!((bad.intent.fields.min_member, bad.faults.len()), (5, 1), "an invalid value is ignored");
}

#[test]
fn min_resources_are_those_of_the_first_pods_in_the_order_of_the_jobs() {
    let cpu = |jobs: &[OwnerFacts]| of(jobs).unwrap().intent.fields.min_resources.get("cpu").cloned();
    assert_eq!(cpu(&[job(1, 3), asking(job(0, 2), &[(MIN_MEMBER, "3")])]).as_deref(), Some("4"), "2 pods of 1 cpu and 1 of 2");
    assert_eq!(cpu(&[job(1, 3)]).as_deref(), Some("6"), "the requests of a missing Job are not known");
    let asked = asking(job(1, 3), &[("scheduling.volcano.sh/group-min-resources", r#"{"cpu": 7}"#)]);
    assert_eq!(cpu(&[job(0, 2), asked]).as_deref(), Some("7"));
}

#[test]
fn each_field_comes_from_the_first_job_that_names_it_and_a_difference_is_a_fault() {
    let one = OwnerFacts { priority_class: Some("high".into()), ..asking(job(0, 2), &[(QUEUE_NAME, "a")]) };
    let other = OwnerFacts {
        priority_class: Some("low".into()),
        annotations: GroupAnnotations::from([("volcano.sh/x".to_owned(), "1".to_owned())]),
        ..asking(job(1, 3), &[(QUEUE_NAME, "b")])
    };
    let desired = of(&[other.clone(), one]).unwrap();
    let fields = &desired.intent.fields;
    assert_eq!((fields.queue.as_str(), fields.priority_class.as_deref(), fields.annotations.len()), ("a", Some("high"), 1));
    assert_eq!(desired.faults.iter().map(|fault| fault.value.as_str()).collect::<Vec<_>>(), ["a, b", "high, low"]);
    let resources = |facts, text| asking(facts, &[("scheduling.volcano.sh/group-min-resources", text)]);
    let copied = |facts: OwnerFacts, value: &str| {
        let pairs = [("volcano.sh/x", value), ("volcano.sh/same", "1"), ("other.example/x", value)];
        OwnerFacts { annotations: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), ..facts }
    };
    let desired = of(&[copied(resources(job(1, 3), r#"{"cpu":8}"#), "b"), copied(resources(job(0, 2), r#"{"cpu":7}"#), "a")]).unwrap();
    assert_eq!(desired.intent.fields.min_resources.get("cpu").map(String::as_str), Some("7"));
    assert_eq!(desired.intent.fields.annotations.get("volcano.sh/x").map(String::as_str), Some("a"));
    let faults: Vec<String> = desired.faults.iter().map(ToString::to_string).collect();
    let wanted = [
        r#"scheduling.volcano.sh/group-min-resources "{\"cpu\":7}, {\"cpu\":8}": different in parts of one gang; that of the first is used"#,
        r#"metadata.annotations "volcano.sh/x": different in parts of one gang; those of the first are used"#,
    ];
    assert_eq!(faults, wanted);
    let silent = of(&[job(0, 2), other]).unwrap();
    assert_eq!((silent.intent.fields.queue.as_str(), silent.faults.len()), ("b", 0), "a Job that names nothing is no difference");
}

#[test]
fn after_a_jobset_was_created_again_under_its_name_only_the_new_jobs_count() {
    let newer = |index: u32, pods: u32| {
        with_set(job(index, pods), |set| {
            set.object.uid = Uid::from(NEWER);
            set.born = Timestamp::from_second(200).ok();
        })
    };
    let old = job(0, 2);
    for jobs in [vec![old.clone(), newer(1, 3)], vec![newer(1, 3), old.clone()]] {
        let desired = of(&jobs).unwrap();
        assert_eq!(&*desired.intent.owner.uid, NEWER);
        assert_eq!(desired.intent.fields.min_member, 4, "the old Job counts as not there");
    }
    assert_eq!(&*of(&[old, OwnerFacts { deleting: true, ..newer(1, 3) }]).unwrap().intent.owner.uid, JOBSET);
}

#[test]
fn numbers_that_no_cluster_has_are_bounded() {
    let many = with_set(job(0, u32::MAX), |set| set.owners = u32::MAX);
    assert_eq!(min_member(&[many]), MOST_MEMBERS);
}

#[test]
fn jobs_that_are_not_created_yet_are_awaited_where_the_minimum_is_that_of_all() {
    let awaited = |owners: &[OwnerFacts]| of(owners).unwrap().intent.fields.annotations.get(AWAITED_OWNERS).cloned();
    assert_eq!(awaited(&[job(0, 2)]).as_deref(), Some("1"));
    assert_eq!(awaited(&[job(0, 2), job(1, 3)]), None);
    assert_eq!(awaited(&[asking(job(0, 2), &[(MIN_MEMBER, "2")])]), None, "the minimum is stated");
}
