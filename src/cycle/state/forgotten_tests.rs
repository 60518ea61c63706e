//! Random histories with preemptions: no PodGroup is forgotten, no nomination binds too early or for ever, and preemptions end.
//!
//! After every step cycles run until nothing is left to do. Then every PodGroup is tried once more, and every preemption is retried:
//! nothing may change by that. After every step and for every plan the checks of `invariants` hold. At the end all binds are confirmed,
//! all victims terminate and are recreated, and after a while no pod is evicted any more, and nothing is left of any nomination.

use std::time::Duration;

use proptest::prelude::*;

use crate::api::{GroupKey, PodFacts};
use crate::cycle::cache::{Group, State};
use crate::cycle::plan::Plan;
use crate::cycle::run;
use crate::cycle::testing::POLICY;
use crate::cycle::testing::histories::{Step, World, step};
use crate::cycle::testing::steps::takes_effect;
use play::Play;

mod invariants;
mod play;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(900) })]
    #[test]
    fn no_podgroup_is_forgotten_and_preemptions_come_to_rest(steps in prop::collection::vec(step(), 5..45)) {
        let mut play = Play::new();
        play.take_all(&steps)?;
        // Every victim is recreated.
        let mut quiet = 0;
        for _ in 0..100 {
            let before = play.evicted;
            let world = &mut play.world;
            while let Some(bind) = world.binds.pop() {
                takes_effect(&mut world.state, &bind);
            }
            while !world.evictions.is_empty() {
                if let Some(facts) = world.goes(0) {
                    let again = world.pod(&facts.group.name, 0, facts.priority);
                    world.state.apply_pod(PodFacts { request: facts.request, preemptable: facts.preemptable, labels: facts.labels, task: facts.task, terms: facts.terms, constraints: facts.constraints, ..again });
                }
            }
            let leaving = world.uids(|member| member.state() == State::Leaving);
            leaving.iter().for_each(|uid| world.state.delete_pod(uid));
            world.now += Duration::from_secs(61);
            play.settle()?;
            quiet = if play.evicted == before && play.world.binds.is_empty() { quiet + 1 } else { 0 };
            if quiet > 12 {
                break;
            }
        }
        prop_assert!(quiet > 12, "it goes on for ever");
        invariants::check_nothing_is_left(&play.world.state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(256) })]
    /// A PodGroup without members that is admitted within its entitlement reserves nothing, until there is room or its queue closes. No pod
    /// waits, so none is preempted.
    #[test]
    fn no_podgroup_without_members_is_forgotten(owed in 3..6_u8, steps in prop::collection::vec(step(), 5..30)) {
        let mut play = Play::new();
        play.take_all(&[Step::Borrowed(owed)])?;
        let brings_a_waiting_pod = |step: &&Step| matches!(step, Step::Pods(..) | Step::Choosy(..) | Step::AtOnce(_));
        let steps: Vec<Step> = steps.iter().filter(|step| !brings_a_waiting_pod(step)).cloned().collect();
        play.take_all(&steps)?;
    }
}

/// Found by random histories: a gang kept the place that it had from the leader before, though a pod of another scheduler had taken the room.
#[test]
fn a_nomination_is_given_up_when_another_scheduler_takes_its_room() -> Result<(), TestCaseError> {
    Play::new().take_all(&[
        Step::Borrowed(3),
        Step::Pods(0, 1, 1, 0),
        Step::Group { at: 5, min: 0, queue: 3, class: 0, preemptable: true, min_resources: None },
        Step::Ends(1),
        Step::Runs(0, 0, 1),
        Step::Pods(5, 1, 2, 1),
        Step::Handover(0),
        Step::NominatedByOther(0, 4, 2, 1),
    ])
}

/// Found by random histories: what a PodGroup had reserved in a queue that is gone counted in the shares of the queue above it, also after it
/// had given that back.
#[test]
fn shares_follow_a_reservation_in_a_queue_that_is_gone() -> Result<(), TestCaseError> {
    Play::new().take_all(&[
        Step::Group { at: 1, min: 2, queue: 0, class: 0, preemptable: false, min_resources: None },
        Step::AtOnce(vec![Step::Pods(7, 1, 2, 1), Step::Class(0, 0)]),
        Step::Pods(7, 1, 1, 0),
        Step::QueueGone(4),
        Step::Pods(0, 1, 1, 0),
    ])
}

/// Found by random histories: where the place of a lost member was dropped and kept again in one cycle, what is reserved for it gave way.
#[test]
fn what_is_reserved_for_a_kept_place_gives_way_to_none() -> Result<(), TestCaseError> {
    Play::new().take_all(&[
        Step::Group { at: 1, min: 2, queue: 0, class: 0, preemptable: false, min_resources: None },
        Step::Runs(7, 0, 1),
        Step::Pods(1, 3, 1, 0),
        Step::AtOnce(vec![Step::Moves(6, 0), Step::Taken(0)]),
        Step::AtOnce(vec![Step::Handover(12), Step::Gone(3)]),
    ])
}

/// Found by random histories: what was reserved for a lost member was a demand as well, until the next change, and the shares kept both.
#[test]
fn shares_count_what_is_reserved_for_a_kept_place_once() -> Result<(), TestCaseError> {
    Play::new().take_all(&[
        Step::Pods(2, 1, 1, 0),
        Step::Node(0, 0, false),
        Step::Pods(6, 3, 3, 0),
        Step::Group { at: 6, min: 2, queue: 3, class: 0, preemptable: true, min_resources: None },
        Step::AtOnce(vec![Step::Handover(3), Step::Resized(0, 1)]),
        Step::Group { at: 1, min: 0, queue: 1, class: 0, preemptable: false, min_resources: Some(0) },
        Step::AtOnce(vec![Step::Nominated(0, 2, 1), Step::Handover(130), Step::Lost(2, false)]),
    ])
}
