//! The queues, by name.

use std::sync::Arc;

use crate::api::{Queue, QueueFacts};
use crate::cycle::state::SchedulingState;
use crate::runtime::flags::QueueStatusBy;
use crate::scheduler::state::{Now, State};

use super::{Kind, WatchedKind};

/// The queues, by name.
#[derive(Debug)]
pub enum Queues {}

impl WatchedKind for Queues {
    type Object = Queue;
    type Facts = QueueFacts;
    type Key = Arc<str>;

    const KIND: Kind = Kind::new("queues");

    fn facts(object: Queue) -> QueueFacts {
        QueueFacts::of(&object)
    }

    fn key(facts: &QueueFacts) -> Arc<str> {
        Arc::from(facts.name.as_str())
    }

    fn known(scheduling: &SchedulingState) -> Vec<Arc<str>> {
        scheduling.cache().queues().keys().cloned().collect()
    }

    fn apply(state: &mut State, facts: QueueFacts) {
        let queue = match state.status_writer.queue_status_by {
            QueueStatusBy::Own => facts,
            QueueStatusBy::Obey => facts.obeying(),
        };
        let known = state.scheduling.cache().queues().get(&*queue.name).map(|known| known.faults.as_slice());
        super::log_faults("queue", &queue.name, known, &queue.faults);
        state.status_writer.queue_seen(&queue.name);
        // A standby shows no queues.
        if state.decides() {
            state.metrics.waiting_times.queue_known(&Arc::from(queue.name.as_str()));
        }
        state.scheduling.apply_queue(queue);
    }

    fn delete(state: &mut State, key: &Arc<str>) {
        state.status_writer.queue_gone(key);
        state.metrics.waiting_times.queue_deleted(key);
        state.scheduling.delete_queue(key);
    }

    fn applied(state: &mut State, now: Now) {
        // Before that, `start_deciding` makes them.
        if state.decides() {
            state.make_missing_queues(now);
        }
    }
}
