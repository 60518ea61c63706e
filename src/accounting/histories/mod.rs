//! Property tests: the accounting is right after any history (B1–B4).
//!
//! Random events over few names, so that they collide: nodes and queues that come, go and move; pods that are seen twice,
//! resized, moved, assumed, forgotten, tried. The simplest possible record of the facts runs next to the accounting, and the rules are
//! computed on it word for word. After every step the audit is clean. At the end, the record's facts in any order give the same accounting,
//! and so does any other order of the history with the same end (`replay`).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Accounting, QueueLimits, QueueShape, Stage};
use crate::resources::Resources;
use event::{Event, QUEUES, charge, event, guaranteed, node_name, pod_uid, queue_name};
use replay::reordered;

mod event;
mod replay;
mod rules;

type Charged = (Option<u8>, Option<u8>, Resources, Stage);

/// The facts, without any sums.
#[derive(Default)]
struct Record {
    nodes: BTreeMap<u8, Resources>,
    queues: BTreeMap<u8, (u8, QueueLimits)>,
    /// Where deleted queues were (T5).
    places: BTreeMap<u8, u8>,
    pods: BTreeMap<u8, Charged>,
    groups: BTreeMap<u8, (u8, Resources)>,
}

impl Record {
    /// Returns the events that lead to these facts.
    fn facts(&self) -> Vec<Event> {
        let nodes = self.nodes.iter().map(|(node, offers)| Event::Node(*node, offers.clone()));
        let queues = self.queues.iter().map(|(queue, (parent, limits))| Event::Queue(*queue, *parent, limits.clone()));
        let pods = self.pods.iter().map(|(pod, (node, queue, asked, _))| Event::Seen(*pod, *node, *queue, asked.clone()));
        let groups = self.groups.iter().map(|(group, (queue, asked))| Event::Reserve(*group, *queue, asked.clone()));
        nodes.chain(queues).chain(pods).chain(groups).collect()
    }

    /// Computes the use by its definition: on the way up of each pod's queue, without any of the code under test.
    fn used_by(&self, of: u8) -> Resources {
        let mut sum = Resources::new();
        for (_, queue, asked, _) in self.pods.values() {
            let Some(queue) = *queue else { continue };
            if self.way(queue).contains(&of) {
                sum.add(asked);
            }
        }
        sum
    }
}

fn apply(accounting: &mut Accounting, record: &mut Record, event: &Event) {
    match event.clone() {
        Event::Node(node, offers) => {
            accounting.node_upsert(&node_name(node), offers.clone());
            record.nodes.insert(node, offers);
        }
        Event::NoNode(node) => {
            accounting.node_delete(&node_name(node));
            record.nodes.remove(&node);
        }
        Event::Queue(queue, parent, limits) => {
            let shape = QueueShape { name: queue_name(queue).into(), parent: Some(queue_name(parent).into()) };
            accounting.queue_upsert(&shape, limits.clone());
            record.queues.insert(queue, (parent, limits));
        }
        Event::NoQueue(queue) => {
            accounting.queue_remove(&queue_name(queue));
            record.delete(queue);
        }
        Event::Seen(pod, node, queue, asked) => {
            let (on, into) = (node.map(node_name), queue.map(queue_name));
            accounting.charge_observed(&pod_uid(pod), on.as_deref(), into.as_deref(), &asked);
            let has_node = record.pods.get(&pod).is_some_and(|(node, ..)| node.is_some());
            if node.is_some() || !has_node {
                record.pods.insert(pod, (node, queue, asked, Stage::Observed));
            }
        }
        Event::Gone(pod) => {
            assert_eq!(accounting.release(&pod_uid(pod)), record.pods.remove(&pod).is_some());
        }
        Event::Assume(pod, node, queue, asked) => {
            let fits = accounting.fits_queue(&queue_name(queue), &asked);
            assert_eq!(fits.is_ok(), record.fits(queue, &asked), "{fits:?}");
            if accounting.assume(&pod_uid(pod), &node_name(node), &queue_name(queue), &asked).is_ok() {
                record.pods.insert(pod, (Some(node), Some(queue), asked, Stage::Assumed));
            }
        }
        Event::Confirm(pod) => {
            accounting.confirm(&pod_uid(pod));
            if let Some((.., stage)) = record.pods.get_mut(&pod) {
                *stage = Stage::Observed;
            }
        }
        Event::Forget(pod) => {
            let assumed = record.pods.get(&pod).is_some_and(|(.., stage)| *stage == Stage::Assumed);
            assert_eq!(accounting.forget(&pod_uid(pod)), assumed);
            if assumed {
                record.pods.remove(&pod);
            }
        }
        Event::Reserve(group, queue, asked) => {
            accounting.reserve(&node_name(group), &queue_name(queue), &asked);
            record.groups.insert(group, (queue, asked));
        }
        Event::Unreserve(group) => {
            accounting.unreserve(&node_name(group));
            record.groups.remove(&group);
        }
        Event::Try(places, back, keep) => attempt(accounting, record, places, back, keep),
    }
    accounting.forget_unused_places();
    record.forget_unused_places();
}

fn attempt(accounting: &mut Accounting, record: &mut Record, places: Vec<(u8, u8, u8, Resources)>, back: usize, keep: bool) {
    let before = accounting.clone();
    let mut trial = accounting.trial();
    let mut kept = Vec::new();
    let mut savepoint = trial.savepoint();
    for (index, (pod, node, queue, asked)) in places.into_iter().enumerate() {
        if index == back {
            savepoint = trial.savepoint();
        }
        trial.reserve(&node_name(pod), &queue_name(queue), &asked);
        if trial.place(&pod_uid(pod), &node_name(node), &queue_name(queue), &asked).is_ok() && index < back {
            kept.push((pod, (Some(node), Some(queue), asked.clone(), Stage::Assumed)));
        }
        if index < back {
            savepoint = trial.savepoint();
            if keep {
                record.groups.insert(pod, (queue, asked.clone()));
            }
        }
    }
    trial.rollback_to(savepoint);
    if keep {
        assert_eq!(trial.commit().len(), kept.len());
        record.pods.extend(kept);
    } else {
        drop(trial);
        assert_eq!(*accounting, before, "a dropped trial leaves nothing behind (B3)");
    }
}

fn assert_right(accounting: &Accounting, record: &Record) {
    let report = accounting.audit();
    assert!(report.is_clean(), "{report:?}");
    for queue in QUEUES {
        let name = queue_name(queue);
        let view = accounting.quota().queue(&name);
        assert_eq!(*view.used, record.used_by(queue), "{name}");
        assert_eq!((view.floor, view.unused_guarantee), (&record.floors(queue), &record.unused_guarantee(queue)), "{name}");
    }
    for (uid, pod) in accounting.pods() {
        let number = uid.trim_start_matches("pod-").parse().unwrap();
        let (node, queue, asked, stage) = &record.pods[&number];
        assert_eq!((pod.node, pod.stage, pod.resources), (node.map(node_name).as_deref(), *stage, asked));
        assert_eq!(pod.queue, queue.map(queue_name).as_deref());
    }
    assert_eq!(accounting.pods().count(), record.pods.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..crate::random_tests::config(300) })]

    #[test]
    fn b4_any_history_with_the_same_end_gives_the_same_accounting(
        (events, seed) in (prop::collection::vec(event(), 0..60), any::<u64>()),
    ) {
        let (mut accounting, mut record) = (Accounting::new(), Record::default());
        for event in &events {
            apply(&mut accounting, &mut record, event);
            assert_right(&accounting, &record);
        }
        let all_exist = |accounting: &mut Accounting, record: &mut Record| {
            for queue in QUEUES.filter(|queue| !record.queues.contains_key(queue)).collect::<Vec<_>>() {
                apply(accounting, record, &Event::Queue(queue, 0, QueueLimits::default()));
            }
        };
        // Where a deleted queue was is known only by those that saw it, so no queue is missing at the end.
        all_exist(&mut accounting, &mut record);

        // From the end alone in any order, and from the whole history in any order in which an API server reports it.
        for replayed in [reordered(&[], &record, seed), reordered(&events, &record, seed)] {
            let (mut again, mut seen) = (Accounting::new(), Record::default());
            for event in &replayed {
                apply(&mut again, &mut seen, event);
                prop_assert!(again.audit().is_clean());
            }
            all_exist(&mut again, &mut seen);
            prop_assert_eq!(again.ledger(), accounting.ledger());
            prop_assert_eq!(again.quota(), accounting.quota());
            for queue in QUEUES {
                let name = queue_name(queue);
                prop_assert_eq!(again.quota().queue(&name), accounting.quota().queue(&name), "the unused guarantees do not depend on the order of the charges");
            }
        }
    }

    #[test]
    fn f4_the_unused_guarantee_follows_every_charge_and_reservation(events in prop::collection::vec(charge(), 0..40)) {
        let (mut accounting, mut record) = (Accounting::new(), Record::default());
        for event in guaranteed().iter().chain(&events) {
            apply(&mut accounting, &mut record, event);
            assert_right(&accounting, &record);
        }
    }

    #[test]
    fn our_placements_never_overcommit_a_node_or_a_queue(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let (mut accounting, mut record) = (Accounting::new(), Record::default());
        for event in &events {
            let before = accounting.clone();
            apply(&mut accounting, &mut record, event);
            if !matches!(event, Event::Assume(..) | Event::Try(..)) {
                continue;
            }
            for node in accounting.ledger().nodes() {
                prop_assert_eq!(node.overcommitted(), before.ledger().node(node.name).unwrap().overcommitted());
            }
            for queue in accounting.quota().queues() {
                let Some(limits) = queue.limits else { continue };
                for (name, ceiling) in limits.capability.iter() {
                    let grown = queue.used.get(name) > before.quota().queue(queue.name).used.get(name);
                    prop_assert!(!grown || queue.used.get(name) <= ceiling);
                }
            }
        }
    }
}
