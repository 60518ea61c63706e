//! The status writer: decides which statuses, conditions and Events are written, and when.
//!
//! A [`WriteQueue`] merges the changes of an object and limits its writes. The content is computed when the write starts.
//! A namespace that does not answer delays no write of another namespace ([`crate::runtime::lanes`]).
//! A written status counts as current until the watch has caught up, so a lagging watch causes no second write.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::queue::QueueStatus;
use crate::api::{GroupFacts, GroupKey, Uid};
use crate::cycle::cache::Group;
use crate::cycle::cache::phase::runs_out;
use crate::cycle::explain::{Code, Refusal};
use crate::cycle::queue_status;
use crate::cycle::state::SchedulingState;
use crate::cycle::status::report;
use crate::runtime::flags::QueueStatusBy;
use crate::runtime::lanes::{Lanes, Slots};
use crate::scheduler::dialect;

use super::pod_writes::PodWrites;
use super::write_queue::WriteQueue;
use super::write_throttle::{Budget, WriteThrottle};
use super::written::{WrittenQueue, WrittenStatus};
use crate::scheduler::command::{Command, MADE, UNKNOWN_FIELD};
use crate::scheduler::event::{Subject, WriteOutcome};
use crate::scheduler::state::{Now, subject};

/// Changes within this time are merged into one write.
pub(super) const MERGE: Duration = Duration::from_millis(150);
/// The time for which missing objects are not reported, because pods and their PodGroup are created one after the other.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// The time in which the starts of a gang's members are merged into one write.
const START: Duration = Duration::from_secs(1);
/// The least time between two writes to a PodGroup or a queue.
const INTERVAL: Duration = Duration::from_secs(1);
/// The status writes under way: as many for one namespace as there were for all, when all namespaces shared them. Binds have their own limit.
const SLOTS: Slots = Slots { all: 16, lane: 8, slow_lane: 1, slow: 8 };
/// Conditions in which only amounts have changed, over all PodGroups and pods. A few are always of the moment; of thousands that wait in a
/// full cluster nobody reads each, and every pod that ends changes all of them.
const AMOUNTS: Budget = Budget { at_once: 20, every: Duration::from_secs(5) };
/// The time in which a write usually ends. Then its namespace counts as slow.
const EXPECTED: Duration = Duration::from_secs(3);

/// The statuses that were written, and the objects to be written.
#[derive(Debug)]
pub struct StatusWriter {
    /// The program that writes state and counts of queues.
    pub(in crate::scheduler) queue_status_by: QueueStatusBy,
    groups: WriteQueue<GroupKey>,
    queues: WriteQueue<Arc<str>>,
    pods: PodWrites,
    group_status: BTreeMap<GroupKey, WrittenStatus>,
    queue_status: BTreeMap<Arc<str>, QueueStatus>,
    /// The last write to each queue, so that two programs that write it do not answer each other without end.
    queue_writes: BTreeMap<Arc<str>, WrittenQueue>,
    /// The shared budget for conditions in which only the amounts have changed.
    throttle: WriteThrottle,
    /// The cause in the last Event about each PodGroup.
    events: BTreeMap<GroupKey, (Uid, Code)>,
    /// The message of the last Event about each queue, while it is true.
    queue_events: BTreeMap<Arc<str>, String>,
    /// The time until which changes of a PodGroup are merged, because its members are being created or are starting.
    merging: BTreeMap<GroupKey, Duration>,
    /// The writes under way.
    slots: Lanes<Subject, Duration>,
    /// The lane of the queues, which have no namespace.
    cluster: Arc<str>,
}

impl StatusWriter {
    /// Creates a writer that has written nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue_status_by: QueueStatusBy::Own,
            groups: WriteQueue::new(INTERVAL),
            queues: WriteQueue::new(INTERVAL),
            pods: PodWrites::new(),
            group_status: BTreeMap::new(),
            queue_status: BTreeMap::new(),
            queue_writes: BTreeMap::new(),
            throttle: WriteThrottle::new(AMOUNTS),
            events: BTreeMap::new(),
            queue_events: BTreeMap::new(),
            merging: BTreeMap::new(),
            slots: Lanes::new(SLOTS),
            cluster: Arc::from(""),
        }
    }

    /// Requests a write after a cycle has tried the PodGroup.
    pub fn group_changed(&mut self, key: &GroupKey, scheduling: &SchedulingState, now: Duration) {
        let Some(group) = scheduling.cache().groups().get(key).filter(|group| group.facts.is_some()) else { return };
        match merges(group) {
            Some(time) => {
                let until = now.saturating_add(time);
                self.merging.entry(key.clone()).and_modify(|known| *known = until.min(*known)).or_insert(until);
            }
            None => _ = self.merging.remove(key),
        }
        self.groups.want(key, &key.namespace, now, MERGE);
    }

    /// Requests a write after a change of the queue's use or of its waiting PodGroups.
    pub fn queue_changed(&mut self, name: &Arc<str>, now: Duration) {
        self.queues.want(name, &self.cluster, now, MERGE);
    }

    /// Requests a write after a change of the pod, if the pod has a refusal.
    pub fn pod_changed(&mut self, uid: &Uid, scheduling: &SchedulingState, now: Duration) {
        self.pods.changed(uid, scheduling, now);
    }

    /// Takes note of a PodGroup from the watch.
    pub fn group_seen(&mut self, facts: &GroupFacts) {
        if self.group_status.get(&facts.key).is_some_and(|written| written.is_observed(facts)) {
            self.group_status.remove(&facts.key);
        }
    }

    /// Forgets what was written: the cluster went back to a state that may not have it.
    pub fn went_back(&mut self) {
        self.group_status.clear();
        self.queue_writes.clear();
    }

    /// Forgets a deleted PodGroup.
    pub fn group_gone(&mut self, key: &GroupKey) {
        self.group_status.remove(key);
        self.events.remove(key);
        self.merging.remove(key);
        self.groups.forget(key);
        self.throttle.forget(&Subject::Group(key.clone()));
    }

    /// Takes note of a queue from the watch. If that is an older version, the same status is written once more.
    pub fn queue_seen(&mut self, name: &str) {
        self.queue_status.remove(name);
    }

    /// Forgets a deleted queue.
    pub fn queue_gone(&mut self, name: &Arc<str>) {
        self.queue_events.remove(name);
        self.queue_status.remove(name);
        self.queue_writes.remove(name);
        self.queues.forget(name);
    }

    /// Takes note of a pod from the watch.
    pub fn pod_seen(&mut self, uid: &Uid) {
        self.pods.seen(uid);
    }

    /// Forgets a deleted pod.
    pub fn pod_gone(&mut self, uid: &Uid) {
        self.pods.gone(uid);
        self.throttle.forget(&Subject::Pod(uid.clone()));
    }

    /// Returns the numbers of PodGroups, queues and pods in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> [usize; 3] {
        [self.groups.remembered(), self.queues.remembered(), self.pods.remembered() + self.throttle.remembered()]
    }

    /// Returns the time of the next write. An object that waits for a slot has no time: the end of a write is an event.
    #[must_use]
    pub fn next(&self, now: Duration) -> Option<Duration> {
        if self.slots.is_full() {
            return None;
        }
        let has_room = |lane: &Arc<str>| self.slots.has_room(std::slice::from_ref(lane), now);
        [self.groups.next(has_room), self.queues.next(has_room), self.pods.next(has_room), self.throttle.next()].into_iter().flatten().min()
    }

    /// Adds the writes that are due to `commands`: PodGroups first, pods last. A namespace that does not answer has few slots.
    pub fn due(&mut self, scheduling: &SchedulingState, now: Now, commands: &mut Vec<Command>) {
        while !self.slots.is_full() {
            self.hand_out_turns(now.since_start);
            let Some((lane, command)) = self.next_command(scheduling, now) else { return };
            if let Some((subject, command)) = command.and_then(|command| Some((subject(&command)?, command))) {
                self.slots.start(subject, vec![lane], now.since_start.saturating_add(EXPECTED));
                commands.push(command);
            }
        }
    }

    /// Makes the objects due that have their turn in the write throttle.
    fn hand_out_turns(&mut self, now: Duration) {
        while let Some(subject) = self.throttle.next_turn(now) {
            match subject {
                Subject::Group(key) => self.groups.want_again(&key, now),
                Subject::Pod(uid) => self.pods.queue.want_again(&uid, now),
                // A queue's status consists of amounts, so it is not throttled.
                Subject::Queue(_) | Subject::PodEvent(_) => {}
            }
        }
        self.pods.hand_out_turns(now);
    }

    /// Takes the next object that is due, with its lane. The command is `None` if the object needs no write.
    fn next_command(&mut self, scheduling: &SchedulingState, now: Now) -> Option<(Arc<str>, Option<Command>)> {
        let slots = &self.slots;
        let has_room = |lane: &Arc<str>| slots.has_room(std::slice::from_ref(lane), now.since_start);
        if let Some((lane, key)) = self.groups.take(now.since_start, has_room) {
            let command = self.group_command(&key, scheduling, now);
            if command.is_none() {
                self.groups.nothing(&key);
            }
            return Some((lane, command));
        }
        if let Some((lane, name)) = self.queues.take(now.since_start, has_room) {
            let command = self.queue_command(&name, scheduling, now);
            if command.is_none() {
                // A user can write any queue name into a PodGroup, so a queue that does not exist is forgotten.
                if !scheduling.cache().queues().contains_key(&name) {
                    self.queues.forget(&name);
                }
                self.queues.nothing(&name);
            }
            return Some((lane, command));
        }
        if let Some((lane, uid)) = self.pods.queue.take(now.since_start, has_room) {
            let command = self.pods.command(&uid, scheduling, &mut self.throttle, now);
            if command.is_none() {
                self.pods.queue.nothing(&uid);
            }
            return Some((lane, command));
        }
        let (lane, uid) = self.pods.event_queue.take(now.since_start, has_room)?;
        let command = self.pods.event_command(&uid, scheduling, now);
        if command.is_none() {
            self.pods.event_queue.nothing(&uid);
        }
        Some((lane, command))
    }

    fn group_command(&mut self, key: &GroupKey, scheduling: &SchedulingState, now: Now) -> Option<Command> {
        let group = scheduling.cache().groups().get(key).filter(|_| !scheduling.cache().is_foreign(key))?;
        // The status waits for the binds under way, unless a binding is unanswered, waits for volumes, or was refused: the next try of that one
        // may be under way before the others have ended. The end of a bind requests a write again.
        let counts = group.counts;
        let is_refused = group.retry.failures > 0 && group.refusal.is_some();
        let facts = group.facts.as_ref().filter(|_| counts.binding == 0 || counts.open > 0 || counts.held > 0 || is_refused)?;
        if let Some(until) = self.merging.get(key).copied().filter(|until| *until > now.since_start) {
            self.groups.want(key, &key.namespace, until, Duration::ZERO);
            return None;
        }
        let stands = match self.group_status.get(key) {
            Some(written) => Cow::Owned(GroupFacts { status: written.status.clone(), ..(**facts).clone() }),
            None => Cow::Borrowed(&**facts),
        };
        let refusal = scheduling.cache().why_group_waits(group);
        let said = LazyCell::new(|| refusal.as_deref().map(|refusal| scheduling.cache().group_message(group, refusal)).unwrap_or_default());
        let report = report(group, &stands, refusal.as_deref());
        let wanted = dialect::status(&report, &stands.status, || said.clone(), now.wall);
        let subject = Subject::Group(key.clone());
        if wanted == stands.status || dialect::is_no_news(scheduling.cache(), &stands.status, &wanted) {
            self.throttle.forget(&subject);
            self.merging.remove(key);
            return None;
        }
        let only_amounts_changed = refusal.is_some() && dialect::says_the_same(&wanted, &stands.status);
        if only_amounts_changed && !self.throttle.may_write(&subject, now.since_start) {
            return None;
        }
        self.throttle.forget(&subject);
        self.merging.remove(key);
        // After a restart the refusal that the status shows already causes no Event.
        // Nor does one without members, as its creator makes them now.
        let told = refusal.as_deref().filter(|_| group.refusal.is_some() && !runs_out(group, facts));
        let event = self.event(key, &facts.uid, told.map(Refusal::code), || said.clone()).filter(|_| !only_amounts_changed);
        // It comes with the first status, so this Event needs no memory. `kubectl podgroup why` shows the fields as long as the PodGroup waits.
        let unknown = facts.unknown.as_ref().filter(|_| stands.status.phase.is_none());
        let unknown = unknown.map(|fault| (UNKNOWN_FIELD.to_owned(), fault.to_string()));
        let events = unknown.into_iter().chain(event).collect();
        self.group_status.insert(key.clone(), WrittenStatus { uid: facts.uid.clone(), status: wanted.clone(), version: None });
        Some(Command::Group { key: key.clone(), uid: facts.uid.clone(), status: wanted, events, now: now.wall })
    }

    /// Returns the Event for a refusal; `None` if the last Event had the same cause, or nothing is wrong: volumes are being made.
    fn event(&mut self, key: &GroupKey, uid: &Uid, code: Option<Code>, message: impl FnOnce() -> String) -> Option<(String, String)> {
        let Some(code) = code.filter(|code| *code != Code::WaitingForVolumes) else {
            self.events.remove(key);
            return None;
        };
        if self.events.insert(key.clone(), (uid.clone(), code)).is_some_and(|(of, last)| of == *uid && last.is_like(code)) {
            return None;
        }
        // The reason of the condition is more exact. Tools for Volcano expect an Event with this reason.
        Some((dialect::UNSCHEDULABLE.to_owned(), message()))
    }

    fn queue_command(&mut self, name: &Arc<str>, scheduling: &SchedulingState, now: Now) -> Option<Command> {
        let Some(facts) = scheduling.cache().queues().get(name) else {
            return MADE.contains(&&**name).then(|| Command::MakeQueue { name: Arc::clone(name) });
        };
        let mut own = dialect::queue::status(&queue_status::report(scheduling, name));
        if let Some(message) = self.queue_news(name, own.message.as_ref()) {
            // The queue's status is written next.
            self.queues.want(name, &self.cluster, now.since_start, MERGE);
            return Some(Command::QueueEvent { name: Arc::clone(name), uid: facts.uid.clone(), message, now: now.wall });
        }
        let stands = self.queue_status.get(name).unwrap_or(&facts.status);
        let by = self.queue_status_by;
        let wanted = match by {
            QueueStatusBy::Own => own.clone(),
            QueueStatusBy::Obey => {
                own = QueueStatus { allocated: own.allocated, ..QueueStatus::default() };
                QueueStatus { allocated: own.allocated.clone(), ..stands.clone() }
            }
        };
        if dialect::queue::same(stands, &wanted) {
            return None;
        }
        let repeated = self.queue_writes.get(name).is_some_and(|last| last.has(&facts.uid, &own));
        if repeated && dialect::queue::same(stands, &dialect::queue::of_volcano(&wanted)) {
            return None;
        }
        let may_repeat = self.queue_writes.get(name).filter(|last| last.has(&facts.uid, &own)).map(WrittenQueue::may_repeat);
        if let Some(until) = may_repeat.filter(|until| *until > now.since_start) {
            self.queues.want(name, &self.cluster, until, Duration::ZERO);
            return None;
        }
        let kept = |key: &&String| wanted.allocated.as_ref().is_some_and(|allocated| allocated.contains_key(*key));
        let standing = stands.allocated.iter().chain(&facts.status.allocated).flatten().map(|(key, _)| key);
        let gone = standing.filter(|key| !kept(key)).cloned().collect();
        self.queue_status.insert(Arc::clone(name), wanted.clone());
        self.queue_writes.insert(Arc::clone(name), WrittenQueue { uid: facts.uid.clone(), own, at: now.since_start });
        Some(Command::Queue { name: Arc::clone(name), status: wanted, gone, by })
    }

    /// Returns the message of a new Event about a queue in which something is wrong. It is that of its status.
    fn queue_news(&mut self, name: &Arc<str>, message: Option<&String>) -> Option<String> {
        let Some(message) = message else {
            self.queue_events.remove(name);
            return None;
        };
        let known = self.queue_events.insert(Arc::clone(name), message.clone());
        (known.as_ref() != Some(message)).then(|| message.clone())
    }

    /// Takes in the outcome of a write.
    pub fn done(&mut self, subject: &Subject, outcome: &WriteOutcome, now: Duration) {
        self.slots.end(subject, now);
        let failed = matches!(outcome, WriteOutcome::Failed(_));
        match subject {
            Subject::Group(key) => {
                match outcome {
                    WriteOutcome::Written { resource_version } => {
                        if let Some(written) = self.group_status.get_mut(key) {
                            written.version = Some(resource_version.parse().unwrap_or(0));
                        }
                    }
                    // The Event of this write is not repeated, because it may have been sent.
                    WriteOutcome::Gone | WriteOutcome::Failed(_) => {
                        self.group_status.remove(key);
                    }
                }
                self.groups.done(key, now, !failed);
            }
            Subject::Queue(name) => {
                if !matches!(outcome, WriteOutcome::Written { .. }) {
                    self.queue_status.remove(name);
                    self.queue_writes.remove(name);
                }
                self.queues.done(name, now, !failed);
            }
            Subject::Pod(uid) => self.pods.done(uid, failed, now),
            Subject::PodEvent(uid) => self.pods.event_done(uid, failed, now),
        }
    }
}

/// Returns how long the changes of a PodGroup are merged: while its members are being created or are starting.
fn merges(group: &Group) -> Option<Duration> {
    if matches!(
        group.refusal.as_deref(),
        Some(Refusal::NotEnoughTasks { .. } | Refusal::NotEnoughPodsOfTask { .. } | Refusal::NotEnoughSubGroups { .. })
    ) {
        return Some(SETTLE);
    }
    (group.refusal.is_none() && group.counts.running < group.counts.placed).then_some(START)
}

impl Default for StatusWriter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
