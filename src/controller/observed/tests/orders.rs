//! Property tests: the cache does not depend on the order of the kinds or on new lists, and every event affects the PodGroups that depend on it.

use proptest::prelude::*;

use super::*;
use crate::lifecycle::{Memory, Situation, Step, decide};

/// The events of one kind, in the server's order.
fn any_of(kind: usize) -> BoxedStrategy<Vec<Change>> {
    let change = (0..4_u32, 0..4_u32, any::<bool>()).prop_map(move |(number, to, gone)| Change { kind, number, to, gone });
    proptest::collection::vec(change, 0..6).boxed()
}

#[derive(Clone, Copy, Debug)]
struct Change {
    kind: usize,
    number: u32,
    to: u32,
    gone: bool,
}

impl Change {
    fn event(self) -> Observation {
        let Self { kind, number, to, gone } = self;
        fn event<K>(object: K, gone: bool) -> WatchEvent<K> {
            if gone { Delete(object) } else { Apply(object) }
        }
        match kind {
            // A pod of a ReplicaSet never has facts about an unwatched owner, so the two kinds of pods have different numbers.
            0 if to == 3 => R(event(unserved(number % 3), gone)),
            0 if to == 2 => R(event(other_scheduler(number % 3), gone)),
            0 => R(event(replica_set(number % 3, to, (number < 2).then_some(7 + number)), gone)),
            1 => D(event(deployment(7 + number % 2, ["a", "b", "c", "d"][to as usize]), gone)),
            2 => P(
                0,
                event(ObservedPod { deleting: to == 1, ..if to == 3 { lone_pod(10 + number, 3) } else { pod(10 + number, to) } }, gone),
            ),
            3 => G(event(group(number, 5 + to, to == 1), gone)),
            _ => N(event(namespace(["a", "b", "c", "d"].get(to as usize).copied()), gone)),
        }
    }
}

fn snapshots(observed: &Observed) -> Vec<String> {
    (0..4).map(|number| format!("{:?}", observed.snapshot(&key(number)))).collect()
}

fn next_steps(observed: &Observed) -> Vec<(Step, String)> {
    let step = |number| {
        let snapshot = observed.snapshot(&key(number));
        let memory = Memory::default();
        let step = decide(&Situation {
            pods_elsewhere: snapshot.pods_elsewhere,
            owner: snapshot.owner.known(),
            members: snapshot.members,
            cached: snapshot.cached.as_ref(),
            memory: &memory,
        });
        let faults = snapshot.owner.desired().map(|desired| format!("{:?}", desired.faults)).unwrap_or_default();
        (step, faults)
    };
    (0..4).map(step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(256) })]

    #[test]
    fn the_cache_is_the_same_for_any_order_of_the_kinds_and_for_repeated_events(
        kinds in [any_of(0), any_of(1), any_of(2), any_of(3), any_of(4)], picks in proptest::collection::vec(0..5_usize, 60), twice in any::<bool>(),
    ) {
        let in_order = observed(kinds.iter().flatten().map(|change| change.event()));
        let mut left: Vec<_> = kinds.iter().map(|kind| kind.iter()).collect();
        let mut shuffled = observed([]);
        for pick in picks.into_iter().chain((0..5).flat_map(|kind| [kind; 6])) {
            if let Some(change) = left[pick].next() {
                shuffled.take(change.event());
                if twice {
                    shuffled.take(change.event());
                }
            }
        }
        prop_assert_eq!(snapshots(&in_order), snapshots(&shuffled));
    }

    #[test]
    fn an_event_affects_every_podgroup_whose_next_step_it_changes(changes in proptest::collection::vec((0..5_usize, 0..4_u32, 0..4_u32, any::<bool>()), 1..24)) {
        let mut observed = observed([]);
        for (kind, number, to, gone) in changes {
            let before = next_steps(&observed);
            let affected = observed.take(Change { kind, number, to, gone }.event());
            for (number, (before, after)) in (0..).zip(before.iter().zip(next_steps(&observed))) {
                prop_assert!(*before == after || affected.iter().any(|affected| *affected.key() == key(number)), "{number}: {before:?} became {after:?}");
            }
        }
    }

    #[test]
    fn a_new_list_leaves_only_the_objects_that_it_contains(listed in proptest::collection::vec(0..4_u32, 0..4), changes in any_of(0), pods in any_of(2)) {
        let mut relisted = observed(changes.iter().chain(&pods).map(|change| change.event()));
        let listed: BTreeSet<u32> = listed.into_iter().collect();
        let replica_sets = || R(reset(listed.iter().map(|number| replica_set(*number, 1, Some(7))).collect()));
        let pods = || P(0, reset(listed.iter().map(|number| pod(10 + number, *number)).collect()));
        relisted.take(replica_sets());
        relisted.take(pods());
        let mut fresh = observed([replica_sets(), pods()]);
        prop_assert_eq!(snapshots(&relisted), snapshots(&fresh));
        // The indexes are also those of a new cache.
        prop_assert_eq!(relisted.take(D(Apply(deployment(7, "z")))), fresh.take(D(Apply(deployment(7, "z")))));
        prop_assert_eq!(relisted.take(N(Apply(namespace(Some("z"))))), fresh.take(N(Apply(namespace(Some("z"))))));
        prop_assert_eq!(relisted.keys(), fresh.keys());
        prop_assert_eq!(relisted.owners.by_namespace, fresh.owners.by_namespace);
        prop_assert_eq!(relisted.owners.by_controller, fresh.owners.by_controller);
        prop_assert_eq!(relisted.pods.by_group, fresh.pods.by_group);
    }
}
