//! Tests which pods are told that they name nearly a scheduler that is served.

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::api::pod::PodCondition;
use crate::cycle::testing::{pod, running};

const SERVED: [&str; 1] = ["podgroup-scheduler"];

fn at(seconds: u64) -> Now {
    Now { since_start: Duration::from_secs(seconds), wall: Timestamp::UNIX_EPOCH }
}

fn slip(name: &str) -> PodFacts {
    PodFacts { scheduler: "podgroup-schedular".into(), asks_alone: true, ..pod("ns", name, "g", &[]) }
}

fn told(slips: &mut Slips, now: Now) -> Option<String> {
    match slips.due(now) {
        Some(Command::MisnamedPod { name, message, .. }) => Some(format!("{name}: {message}")),
        _ => None,
    }
}

#[test]
fn a_pod_that_nobody_takes_is_told_once_after_a_moment() {
    let mut slips = Slips::default();
    slips.seen(&slip("a"), SERVED.into_iter());
    assert_eq!((told(&mut slips, at(1)), slips.next()), (None, Some(Duration::from_secs(6))));
    let text = told(&mut slips, at(6)).unwrap();
    assert!(text.starts_with("a: spec.schedulerName \"podgroup-schedular\": no scheduler of this name is served here"), "{text}");
    assert!(text.ends_with("meant may be podgroup-scheduler"), "{text}");
    slips.seen(&slip("a"), SERVED.into_iter());
    assert_eq!((told(&mut slips, at(60)), slips.next()), (None, None));
}

#[test]
fn a_pod_that_somebody_takes_or_that_asks_for_nothing_is_not_told() {
    let condition = |reason: &str| PodCondition { kind: "PodScheduled".into(), reason: Some(reason.to_owned()), ..PodCondition::default() };
    let none = [
        PodFacts { asks_alone: false, ..slip("p") },
        PodFacts { scheduler: "podgroup-scheduler".into(), ..slip("p") },
        PodFacts { scheduler: "another".into(), ..slip("p") },
        PodFacts { deleting: true, ..slip("p") },
        PodFacts { scheduled_condition: Some(condition("Unschedulable")), ..slip("p") },
        running(slip("p"), "n"),
    ];
    for taken in none {
        let mut slips = Slips::default();
        slips.seen(&slip("p"), SERVED.into_iter());
        assert_eq!(told(&mut slips, at(0)), None);
        slips.seen(&taken, SERVED.into_iter());
        assert_eq!(told(&mut slips, at(60)), None, "{taken:?}");
    }
    let mut slips = Slips::default();
    slips.seen(&PodFacts { scheduled_condition: Some(condition("SchedulingGated")), ..slip("p") }, SERVED.into_iter());
    assert_eq!(told(&mut slips, at(0)), None);
    assert!(told(&mut slips, at(60)).is_some(), "the API server says so of a gate, and nobody takes the pod");
}

#[test]
fn many_pods_are_told_one_after_the_other_and_remembered_up_to_a_bound() {
    let mut slips = Slips::default();
    (0..MOST + 5).for_each(|number| slips.seen(&slip(&format!("p-{number}")), SERVED.into_iter()));
    assert_eq!(slips.waiting.len(), MOST);
    assert_eq!(told(&mut slips, at(0)), None);
    assert!(told(&mut slips, at(5)).is_some());
    assert_eq!(told(&mut slips, at(5)), None);
    assert_eq!(slips.next(), Some(Duration::from_millis(5_100)));
    slips.gone(&Uid::from("ns/p-0"));
    slips.seen(&slip("more"), SERVED.into_iter());
    assert_eq!(slips.waiting.len() + slips.told.len(), MOST);
}
