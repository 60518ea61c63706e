//! Admission within the entitlement, and the places of lost members (A3, A8).

use super::*;

/// A3 alone admits a PodGroup, and its own terminating pod is enough. Then no queue is over its share any more. The error: nobody looked for
/// what is terminating then, and the PodGroup backed off.
#[test]
fn a3_what_is_terminating_is_waited_for_though_no_queue_is_over_its_share() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 3), ("other", 0)] {
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), ..queue(name, Some("q"), &[]) });
    }
    gang(&mut state, "g", 1, "owed", 1, &[("cpu", 1)]);
    let rest = Some(amounts(&[("cpu", 5)]));
    state.apply_group(GroupFacts { min_resources: rest, ..group("ns", "other", 1, "other") });
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    let runs = PodFacts { charged_queue: Some("owed".into()), ..running(pod("ns", "g-0", "g", &[("cpu", 1)]), "n0") };
    state.apply_pod(PodFacts { deleting: true, ..runs });
    state.apply_pod(pod("ns", "g-1", "g", &[("cpu", 1)]));
    state.apply_pod(pod("ns", "other-0", "other", &[("cpu", 3)]));
    assert_eq!(bound(&at(&mut state, 1)), [("other-0", "n0")]);
    let owed = |state: &SchedulingState| state.cache().accounting().quota().queue("owed").reserved.get("cpu");
    assert_eq!(owed(&state), cpus(1));
    state.refuse_bind(&Uid::from("ns/other-0"), "test", Duration::from_secs(1), |_| Duration::from_secs(9));
    assert!(at(&mut state, 2).binds.is_empty());
    assert_eq!(owed(&state), cpus(1), "it waits for its terminating pod");
    state.delete_pod(&Uid::from("ns/g-0"));
    assert_eq!(bound(&at(&mut state, 3)), [("g-1", "n0")]);
}

/// In the turn of a PodGroup the other queue is not far enough over its share, and then another pod is placed there. The error: nobody asked
/// again whether it is admitted.
#[test]
fn a3_is_asked_again_after_what_was_placed_later_in_the_cycle() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 4), ("other", 2)] {
        let of_q = queue(name, Some("q"), &[]);
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), reclaimable: true, ..of_q });
    }
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "first", 3, "other") });
    (0..4).for_each(|at| state.apply_pod(pod("ns", &format!("first-{at}"), "first", &[("cpu", 1)])));
    state.apply_group(GroupFacts { min_resources: Some(amounts(&[("cpu", 4)])), ..group("ns", "g", 2, "owed") });
    assert_eq!(bound(&at(&mut state, 0)).len(), 4);
    let _plan = at(&mut state, 0);
    assert!(state.cache().groups()[&GroupKey::new("ns", "g")].is_admitted());
}

/// Of two that A3 alone admits one backs off, and what is terminating is enough for the other then. The error: it went by what it had found
/// when the reservation of the first was in its way, and backed off as well.
#[test]
fn a3_what_is_terminating_is_looked_for_again_when_a_reservation_has_ended() {
    let mut state = small(1, 6, DequeueStrategy::Traverse);
    state.apply_node(node("n0", &[("cpu", 9)]));
    for (name, deserved) in [("owed", 3), ("other", 3)] {
        let of_q = queue(name, Some("q"), &[]);
        state.apply_queue(QueueFacts { deserved: limits(&[("cpu", deserved)]), reclaimable: true, ..of_q });
    }
    let keeps = |name: &str, group: &str, cpu| PodFacts { preemptable: false, ..pod("ns", name, group, &[("cpu", cpu)]) };
    state.apply_group(group("ns", "runs", 1, "other"));
    let runs = |name: &str| PodFacts { charged_queue: Some("other".into()), ..running(keeps(name, "runs", 1), "n0") };
    let names: Vec<String> = (0..6).map(|at| format!("runs-{at}")).collect();
    names.iter().for_each(|name| state.apply_pod(runs(name)));
    assert!(at(&mut state, 0).binds.is_empty());
    for (name, cpu) in [("small", 1), ("large", 2)] {
        state.apply_group(group("ns", name, 1, "owed"));
        state.apply_pod(pod("ns", &format!("{name}-0"), name, &[("cpu", cpu)]));
    }
    names[..2].iter().for_each(|name| state.apply_pod(PodFacts { deleting: true, ..runs(name) }));
    (0..3).for_each(|_| assert!(at(&mut state, 1).binds.is_empty()));
    let times = |state: &SchedulingState| state.cache().groups()[&GroupKey::new("ns", "large")].admission.backoff.times;
    assert_eq!((reserved(&state), times(&state)), (cpus(1), 1), "the small one waits for what is terminating");
    let timeout = POLICY.admission_timeout.as_secs();
    let _plan = at(&mut state, timeout + 1);
    assert_eq!((reserved(&state), times(&state)), (cpus(2), 1), "now the large one does");
}

/// A gang was satisfied once, lost all members, and has one again. The error: the place of one that is lost then was not kept.
#[test]
fn a8_the_place_of_a_lost_member_is_kept_also_after_no_member_was_charged_for_a_while() {
    let mut state = small(2, 8, DequeueStrategy::Traverse);
    state.apply_group(group("ns", "g", 0, "q"));
    let [a, b] = ["a", "b"].map(|name| pod("ns", name, "g", &[("cpu", 3)]));
    state.apply_pod(a.clone());
    assert_eq!(bound(&at(&mut state, 0)).len(), 1);
    state.apply_pod(running(a.clone(), "n0"));
    // It is terminating, so no member is charged for its gang.
    state.apply_pod(PodFacts { deleting: true, ..running(a, "n0") });
    state.apply_pod(b);
    assert_eq!(bound(&at(&mut state, 0)), [("b", "n1")]);
    state.apply_group(group("ns", "g", 2, "q"));
    state.delete_pod(&Uid::from("ns/a"));
    assert_eq!(reserved(&state), cpus(3));
}
