//! What is written to a waiting pod, and when: its condition PodScheduled, its nominated node, and an Event `FailedScheduling`.
//!
//! * The condition is written when its reason or its nominated node changes; where only amounts have changed, as the write throttle permits.
//! * The Event is created when the cause changes, and again before the API server deletes it, so that `kubectl describe pod` explains the wait
//!   (kube-scheduler creates one at each attempt). Events share a rate over all pods. The condition never waits for the Event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::Uid;
use crate::api::pod::PodCondition;
use crate::cycle::cache::{Cache, Member, State as MemberState};
use crate::cycle::explain::{Code, Refusal};
use crate::cycle::state::SchedulingState;

use super::write_queue::WriteQueue;
use super::write_throttle::{Budget, WriteThrottle};
use super::writer::{MERGE, SETTLE};
use crate::scheduler::command::{Command, NominatedNode};
use crate::scheduler::event::Subject;
use crate::scheduler::state::Now;

/// The least time between two writes to a pod. Many thousands of pods may wait.
const INTERVAL: Duration = Duration::from_secs(10);

/// A pod that still waits has its Event again at each multiple of this time since its creation, whichever replica leads. The API server
/// deletes an Event after an hour (`--event-ttl`).
const REPEAT: Duration = Duration::from_secs(50 * 60);

/// Events over all pods.
const EVENTS: Budget = Budget { at_once: 100, every: Duration::from_millis(50) };

/// What was written to a waiting pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WrittenPod {
    condition: PodCondition,
    nominated_node: Option<Arc<str>>,
}

/// The last Event about a pod.
#[derive(Clone, Copy, Debug)]
struct Told {
    code: Code,
    /// When it is repeated; at once where it failed.
    again: Duration,
}

/// The pods to be written, and what was written to them.
#[derive(Debug)]
pub(super) struct PodWrites {
    pub(super) queue: WriteQueue<Uid>,
    pub(super) event_queue: WriteQueue<Uid>,
    written: BTreeMap<Uid, WrittenPod>,
    /// The last Event about each pod that waits; `None` where it had none.
    events: BTreeMap<Uid, Option<Told>>,
    /// The rate of Events over all pods.
    event_throttle: WriteThrottle,
}

impl PodWrites {
    pub(super) fn new() -> Self {
        Self {
            queue: WriteQueue::new(INTERVAL),
            event_queue: WriteQueue::new(Duration::ZERO),
            written: BTreeMap::new(),
            events: BTreeMap::new(),
            event_throttle: WriteThrottle::new(EVENTS),
        }
    }

    /// Requests a write after a change of the pod, if the pod has a refusal.
    pub(super) fn changed(&mut self, uid: &Uid, scheduling: &SchedulingState, now: Duration) {
        let Some(member) = scheduling.cache().pods().get(uid).filter(|member| member.refusal.is_some()) else {
            self.forget_event(uid);
            return;
        };
        let lane = &member.facts.namespace;
        match member.state() {
            MemberState::Blocked => self.queue.want(uid, lane, now, MERGE),
            // The next leader learns of the nomination from this write alone.
            MemberState::Nominated if nominated_node(member) != self.named_node(member) => self.queue.want_urgently(uid, lane, now, MERGE),
            MemberState::Waiting | MemberState::Nominated => self.queue.want(uid, lane, now, SETTLE),
            MemberState::Gated
            | MemberState::Placed
            | MemberState::Leaving
            | MemberState::Succeeded
            | MemberState::Failed
            | MemberState::Gone => {}
        }
    }

    /// Takes note of a pod from the watch.
    pub(super) fn seen(&mut self, uid: &Uid) {
        self.written.remove(uid);
    }

    /// Forgets a deleted pod.
    pub(super) fn gone(&mut self, uid: &Uid) {
        self.written.remove(uid);
        self.queue.forget(uid);
        self.forget_event(uid);
    }

    fn forget_event(&mut self, uid: &Uid) {
        self.events.remove(uid);
        self.event_queue.forget(uid);
        self.event_throttle.forget(&Subject::Pod(uid.clone()));
    }

    /// Returns the time of the next write, of the namespaces for which `has_room` holds.
    pub(super) fn next(&self, has_room: impl Fn(&Arc<str>) -> bool + Copy) -> Option<Duration> {
        [self.queue.next(has_room), self.event_queue.next(has_room), self.event_throttle.next()].into_iter().flatten().min()
    }

    /// Returns the number of pods in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.queue.remembered() + self.event_queue.remembered() + self.event_throttle.remembered()
    }

    /// Returns the number of pods whose last Event is in memory.
    #[cfg(test)]
    pub(super) fn remembered_events(&self) -> usize {
        self.events.len()
    }

    /// Makes the pods due whose Events have their turn.
    pub(super) fn hand_out_turns(&mut self, now: Duration) {
        while let Some(Subject::Pod(uid)) = self.event_throttle.next_turn(now) {
            self.event_queue.want_again(&uid, now);
        }
    }

    /// Returns the write of the pod's status; `None` if it needs none. Where the cause is new, the Event is requested.
    pub(super) fn command(&mut self, uid: &Uid, scheduling: &SchedulingState, throttle: &mut WriteThrottle, now: Now) -> Option<Command> {
        let Some((member, refusal)) = waiting(uid, scheduling) else {
            throttle.forget(&Subject::Pod(uid.clone()));
            self.forget_event(uid);
            return None;
        };
        // A pod that had the condition before this process wrote to it had its Event by an earlier leader.
        let had = |stands: &PodCondition| stands.reason.as_deref() == Some(refusal.pod_reason());
        let had_event = member.facts.scheduled_condition.as_ref().is_some_and(had);
        let told = || Told { code: refusal.code(), again: next_repeat(member, now) };
        self.events.entry(uid.clone()).or_insert_with(|| had_event.then(told));
        let due = self.last_event(uid, refusal).map_or(Duration::ZERO, |last| last.again);
        self.event_queue.want(uid, &member.facts.namespace, due, Duration::ZERO);
        let condition = PodCondition {
            kind: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some(refusal.pod_reason().to_owned()),
            message: Some(scheduling.cache().pod_message(member, refusal)),
        };
        self.status(scheduling.cache(), member, condition, throttle, now)
    }

    fn status(
        &mut self,
        cache: &Cache,
        member: &Member,
        condition: PodCondition,
        throttle: &mut WriteThrottle,
        now: Now,
    ) -> Option<Command> {
        let uid = &member.facts.uid;
        let subject = Subject::Pod(uid.clone());
        let (named, node) = (self.named_node(member), nominated_node(member));
        let nominated = match node {
            _ if named == node => NominatedNode::Stays,
            Some(node) => NominatedNode::Is(Arc::clone(node)),
            None => NominatedNode::Removed,
        };
        let stands = self.written.get(uid).map(|written| &written.condition).or(member.facts.scheduled_condition.as_ref());
        let is_no_news = |stands: &PodCondition| {
            let [stands_message, message] = [stands, &condition].map(|condition| condition.message.as_deref().unwrap_or_default());
            PodCondition { message: None, ..stands.clone() } == PodCondition { message: None, ..condition.clone() }
                && cache.is_no_news(stands_message, message)
        };
        if stands.is_some_and(is_no_news) && nominated == NominatedNode::Stays {
            throttle.forget(&subject);
            return None;
        }
        let only_amounts_changed = nominated == NominatedNode::Stays && stands.is_some_and(|stands| stands.reason == condition.reason);
        if only_amounts_changed && !throttle.may_write(&subject, now.since_start) {
            return None;
        }
        let since = since(stands, &condition, now.wall);
        throttle.forget(&subject);
        self.written.insert(uid.clone(), WrittenPod { condition: condition.clone(), nominated_node: node.cloned() });
        let (namespace, name) = (Arc::clone(&member.facts.namespace), Arc::clone(&member.facts.name));
        Some(Command::Pod { namespace, name, uid: uid.clone(), condition, nominated, since })
    }

    /// Returns the Event of the pod; `None` if it needs none, or has to wait for its turn.
    pub(super) fn event_command(&mut self, uid: &Uid, scheduling: &SchedulingState, now: Now) -> Option<Command> {
        let subject = Subject::Pod(uid.clone());
        let Some((member, refusal)) = waiting(uid, scheduling) else {
            self.event_throttle.forget(&subject);
            return None;
        };
        let last = self.last_event(uid, refusal);
        if let Some(last) = last.filter(|last| last.again > now.since_start) {
            self.event_throttle.forget(&subject);
            self.event_queue.want_again(uid, last.again);
            return None;
        }
        // An Event with news comes before the repeated ones.
        let may_write = if last.is_none() { WriteThrottle::may_write } else { WriteThrottle::may_repeat };
        if !may_write(&mut self.event_throttle, &subject, now.since_start) {
            return None;
        }
        self.events.insert(uid.clone(), Some(Told { code: refusal.code(), again: next_repeat(member, now) }));
        let (namespace, name) = (Arc::clone(&member.facts.namespace), Arc::clone(&member.facts.name));
        Some(Command::PodEvent {
            namespace,
            name,
            uid: uid.clone(),
            message: scheduling.cache().pod_message(member, refusal),
            now: now.wall,
        })
    }

    /// Returns the last Event of the pod, if it had the same cause.
    fn last_event(&self, uid: &Uid, refusal: &Refusal) -> Option<Told> {
        self.events.get(uid).copied().flatten().filter(|last| last.code.is_like(refusal.code()))
    }

    /// Takes in the outcome of an Event. A failed one is repeated.
    pub(super) fn event_done(&mut self, uid: &Uid, failed: bool, now: Duration) {
        if let Some(Some(last)) = self.events.get_mut(uid) {
            if failed {
                last.again = Duration::ZERO;
            } else {
                self.event_queue.want_again(uid, last.again);
            }
        }
        self.event_queue.done(uid, now, !failed);
    }

    /// Takes in the outcome of a status write. A failed one is repeated.
    pub(super) fn done(&mut self, uid: &Uid, failed: bool, now: Duration) {
        if failed {
            self.written.remove(uid);
        }
        self.queue.done(uid, now, !failed);
    }

    /// Returns the node that the status of the pod names as nominated, as it was written or seen last.
    fn named_node<'a>(&'a self, member: &'a Member) -> Option<&'a Arc<str>> {
        self.written.get(&member.facts.uid).map_or(&member.facts.nominated_node, |written| &written.nominated_node).as_ref()
    }
}

/// Returns the pod and why it waits; `None` where it does not wait.
fn waiting<'a>(uid: &Uid, scheduling: &'a SchedulingState) -> Option<(&'a Member, &'a Refusal)> {
    let waits = |member: &&Member| matches!(member.state(), MemberState::Waiting | MemberState::Nominated | MemberState::Blocked);
    let member = scheduling.cache().pods().get(uid).filter(waits)?;
    Some((member, scheduling.cache().why_waits(member)?))
}

/// Returns when the Event of the pod is repeated next.
fn next_repeat(member: &Member, now: Now) -> Duration {
    let age = Duration::try_from(now.wall.duration_since(member.facts.created)).unwrap_or_default();
    let since_last = Duration::from_secs(age.as_secs().checked_rem(REPEAT.as_secs()).unwrap_or_default());
    now.since_start.saturating_add(REPEAT.saturating_sub(since_last))
}

/// Returns the new time of the transition; `None` where the status of the condition stays, and with it the time.
fn since(stands: Option<&PodCondition>, condition: &PodCondition, now: Timestamp) -> Option<Timestamp> {
    stands.is_none_or(|stands| stands.status != condition.status).then_some(now)
}

/// Returns the node that is nominated for the pod; `None` where none is.
fn nominated_node(member: &Member) -> Option<&Arc<str>> {
    member.nominated.as_ref().filter(|_| member.state() == MemberState::Nominated).map(|nominated| &nominated.node)
}
