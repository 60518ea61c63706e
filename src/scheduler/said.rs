//! What was said to people, what is to be said next, and does it stand there already?
//!
//! Status, conditions and Events are merged and rate-capped here ([`Teller`]) and worked out at the moment they are sent. What was written
//! counts as standing there until the watch has caught up, so a watch that lags causes no second write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::QueueFault;
use crate::api::pod::PodCondition;
use crate::api::queue::QueueStatus;
use crate::api::{Fault, GroupFacts, GroupKey, QueueFacts, Uid};
use crate::cycle::explain::{Code, Refusal};
use crate::cycle::world::{Group, Member, State as MemberState, World};
use crate::cycle::{queue_status, status};
use crate::runtime::flags::QueueStatusBy;

use super::command::{Command, MADE};
use super::event::{Subject, Told};
use super::numbers::Numbers;
use super::state::Now;
use super::tell::Teller;
use super::written::Written;

/// Changes that come within this time are one write.
const MERGE: Duration = Duration::from_millis(150);
/// Pods and their PodGroup are made one after the other: what is only missing for so long is not worth a write.
const SETTLE: Duration = Duration::from_secs(2);
/// The members of a gang start one after the other: so long their start is one change.
const START: Duration = Duration::from_secs(1);
/// A PodGroup or queue is written at most this often.
const INTERVAL: Duration = Duration::from_secs(1);
/// A pod is told at most this often why it waits: there may be many thousands that wait.
const POD_INTERVAL: Duration = Duration::from_secs(10);
/// How many of these writes are under way at the same time; binds have a limit of their own.
const UNDER_WAY: usize = 8;

/// Why a queue cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum QueueNews {
    /// Its place in the tree.
    Misplaced(QueueFault),
    /// A value that cannot be read.
    Unreadable(Fault),
}

/// What was said, and what is to be said.
#[derive(Debug)]
pub struct Said {
    /// Who writes state and counts of queues.
    pub(super) queue_status_by: QueueStatusBy,
    groups: Teller<GroupKey>,
    queues: Teller<Arc<str>>,
    pods: Teller<Uid>,
    group_status: BTreeMap<GroupKey, Written>,
    queue_status: BTreeMap<Arc<str>, QueueStatus>,
    pod_condition: BTreeMap<Uid, PodCondition>,
    /// Of whom only the numbers have changed.
    numbers: Numbers,
    /// The cause that the last Event about a group was about.
    events: BTreeMap<GroupKey, (Uid, Code)>,
    /// What the last Event about a queue was about, while that is so.
    queue_events: BTreeMap<Arc<str>, QueueNews>,
    /// Until when the changes of these groups are merged into one write: their members are being made, or start.
    merging: BTreeMap<GroupKey, Duration>,
    under_way: usize,
}

impl Said {
    /// Nothing was said yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue_status_by: QueueStatusBy::Own,
            groups: Teller::new(INTERVAL),
            queues: Teller::new(INTERVAL),
            pods: Teller::new(POD_INTERVAL),
            group_status: BTreeMap::new(),
            queue_status: BTreeMap::new(),
            pod_condition: BTreeMap::new(),
            numbers: Numbers::default(),
            events: BTreeMap::new(),
            queue_events: BTreeMap::new(),
            merging: BTreeMap::new(),
            under_way: 0,
        }
    }

    /// A cycle looked at the group.
    pub fn group_changed(&mut self, key: &GroupKey, world: &World, now: Duration) {
        let Some(group) = world.groups().get(key).filter(|group| group.facts.is_some()) else { return };
        match merges(group) {
            Some(time) => {
                let until = now.saturating_add(time);
                self.merging.entry(key.clone()).and_modify(|known| *known = until.min(*known)).or_insert(until);
            }
            None => _ = self.merging.remove(key),
        }
        self.groups.want(key, now, MERGE);
    }

    /// What is used in the queue, or who waits in it, changed.
    pub fn queue_changed(&mut self, name: &Arc<str>, now: Duration) {
        self.queues.want(name, now, MERGE);
    }

    /// Something about the pod changed.
    pub fn pod_changed(&mut self, uid: &Uid, world: &World, now: Duration) {
        let Some(member) = world.pods().get(uid).filter(|member| member.refusal.is_some()) else { return };
        match member.state() {
            MemberState::Blocked => self.pods.want(uid, now, MERGE),
            MemberState::Waiting | MemberState::Nominated => self.pods.want(uid, now, SETTLE),
            MemberState::Gated
            | MemberState::Placed
            | MemberState::Leaving
            | MemberState::Succeeded
            | MemberState::Failed
            | MemberState::Gone => {}
        }
    }

    /// The watch showed the PodGroup.
    pub fn group_seen(&mut self, facts: &GroupFacts) {
        if self.group_status.get(&facts.key).is_some_and(|written| written.is_over(facts)) {
            self.group_status.remove(&facts.key);
        }
    }

    /// The PodGroup is gone.
    pub fn group_gone(&mut self, key: &GroupKey) {
        self.group_status.remove(key);
        self.events.remove(key);
        self.merging.remove(key);
        self.groups.forget(key);
        self.numbers.forget(&Subject::Group(key.clone()));
    }

    /// The watch showed the queue; at worst it is an older one, and the same is written once more.
    pub fn queue_seen(&mut self, name: &str) {
        self.queue_status.remove(name);
    }

    /// The queue is gone.
    pub fn queue_gone(&mut self, name: &Arc<str>) {
        self.queue_events.remove(name);
        self.queue_status.remove(name);
        self.queues.forget(name);
    }

    /// The watch showed the pod.
    pub fn pod_seen(&mut self, uid: &Uid) {
        self.pod_condition.remove(uid);
    }

    /// The pod is gone.
    pub fn pod_gone(&mut self, uid: &Uid) {
        self.pod_condition.remove(uid);
        self.pods.forget(uid);
        self.numbers.forget(&Subject::Pod(uid.clone()));
    }

    /// Of how many groups, queues and pods anything is remembered that is to be told.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> [usize; 3] {
        [self.groups.remembered(), self.queues.remembered(), self.pods.remembered() + self.numbers.remembered()]
    }

    /// When something is to be said next.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        if self.under_way >= UNDER_WAY {
            return None;
        }
        [self.groups.next(), self.queues.next(), self.pods.next(), self.numbers.next()].into_iter().flatten().min()
    }

    /// What is to be said now: groups first, pods last.
    pub fn due(&mut self, world: &World, now: Now, commands: &mut Vec<Command>) {
        while self.under_way < UNDER_WAY {
            self.hand_out_turns(now.since_start);
            let Some(command) = self.next_command(world, now) else { return };
            if let Some(command) = command {
                self.under_way = self.under_way.saturating_add(1);
                commands.push(command);
            }
        }
    }

    /// Whoever waited for numbers alone and has its turn is due.
    fn hand_out_turns(&mut self, now: Duration) {
        while let Some(subject) = self.numbers.next_turn(now) {
            match subject {
                Subject::Group(key) => self.groups.want(&key, now, Duration::ZERO),
                Subject::Pod(uid) => self.pods.want(&uid, now, Duration::ZERO),
                // Its numbers are what its status is for.
                Subject::Queue(_) => {}
            }
        }
    }

    /// The next that is due, if anything is due; it may turn out that there is nothing to say about it.
    fn next_command(&mut self, world: &World, now: Now) -> Option<Option<Command>> {
        if let Some(key) = self.groups.take(now.since_start) {
            let command = self.group_command(&key, world, now);
            if command.is_none() {
                self.groups.nothing(&key);
            }
            return Some(command);
        }
        if let Some(name) = self.queues.take(now.since_start) {
            let command = self.queue_command(&name, world, now);
            if command.is_none() && world.queues().contains_key(&name) {
                self.queues.nothing(&name);
            } else if command.is_none() {
                // Anybody can write the name of a queue into a group: of one that is not there nothing is remembered.
                self.queues.forget(&name);
            }
            return Some(command);
        }
        let uid = self.pods.take(now.since_start)?;
        let command = self.pod_command(&uid, world, now);
        if command.is_none() {
            self.pods.nothing(&uid);
        }
        Some(command)
    }

    fn group_command(&mut self, key: &GroupKey, world: &World, now: Now) -> Option<Command> {
        let group = world.groups().get(key).filter(|_| !world.is_foreign(key))?;
        // While binds are under way nothing is settled; their end brings the group here again. One that does not come is told.
        let facts = group.facts.as_ref().filter(|_| group.counts.binding == 0 || group.counts.open > 0)?;
        if let Some(until) = self.merging.get(key).copied().filter(|until| *until > now.since_start) {
            self.groups.want(key, until, Duration::ZERO);
            return None;
        }
        let stands = match self.group_status.get(key) {
            Some(written) => Cow::Owned(GroupFacts { status: written.status.clone(), ..(**facts).clone() }),
            None => Cow::Borrowed(&**facts),
        };
        let wanted = status::status(group, &stands, now.wall);
        let subject = Subject::Group(key.clone());
        if wanted == stands.status {
            self.numbers.forget(&subject);
            self.merging.remove(key);
            return None;
        }
        let only_numbers = group.refusal.is_some() && status::says_the_same(&wanted, &stands.status);
        if only_numbers && !self.numbers.may_tell(&subject, now.since_start) {
            return None;
        }
        self.numbers.forget(&subject);
        self.merging.remove(key);
        // Nobody who has just started says again what stands there.
        let refusal = group.refusal.as_deref().filter(|_| !status::runs_out(group, facts));
        let event = self.event(key, &facts.uid, refusal).filter(|_| !only_numbers);
        self.group_status.insert(key.clone(), Written { uid: facts.uid.clone(), status: wanted.clone(), version: None });
        Some(Command::Group { key: key.clone(), uid: facts.uid.clone(), status: wanted, event, now: now.wall })
    }

    /// The Event for this refusal, if its cause is another than that of the last one.
    fn event(&mut self, key: &GroupKey, uid: &Uid, refusal: Option<&Refusal>) -> Option<(String, String)> {
        let Some(refusal) = refusal else {
            self.events.remove(key);
            return None;
        };
        let code = refusal.code();
        if self.events.insert(key.clone(), (uid.clone(), code)).is_some_and(|(of, last)| of == *uid && last.is_like(code)) {
            return None;
        }
        // The reason of the condition is more exact; tools and test suites that know Volcano wait for an Event of this one.
        Some((status::UNSCHEDULABLE.to_owned(), refusal.message()))
    }

    fn queue_command(&mut self, name: &Arc<str>, world: &World, now: Now) -> Option<Command> {
        let Some(facts) = world.queues().get(name) else {
            return MADE.contains(&&**name).then(|| Command::MakeQueue { name: Arc::clone(name) });
        };
        if let Some(message) = self.queue_news(name, facts, world) {
            // Its status is written next.
            self.queues.want(name, now.since_start, MERGE);
            return Some(Command::QueueEvent { name: Arc::clone(name), uid: facts.uid.clone(), message, now: now.wall });
        }
        let stands = self.queue_status.get(name).unwrap_or(&facts.status);
        let mut wanted = queue_status::status(world, name);
        let by = self.queue_status_by;
        if by == QueueStatusBy::Obey {
            wanted = QueueStatus { allocated: wanted.allocated, ..stands.clone() };
        }
        if queue_status::same(stands, &wanted) {
            return None;
        }
        let kept = |key: &&String| wanted.allocated.as_ref().is_some_and(|allocated| allocated.contains_key(*key));
        let standing = stands.allocated.iter().chain(&facts.status.allocated).flatten().map(|(key, _)| key);
        let gone = standing.filter(|key| !kept(key)).cloned().collect();
        self.queue_status.insert(Arc::clone(name), wanted.clone());
        Some(Command::Queue { name: Arc::clone(name), status: wanted, gone, by })
    }

    /// Why the queue cannot be used as it is, if that was not said yet: its place in the tree, else a value that cannot be read.
    fn queue_news(&mut self, name: &Arc<str>, facts: &QueueFacts, world: &World) -> Option<String> {
        let misplaced = world.books().quota().fault(name).map(QueueNews::Misplaced);
        let Some(why) = misplaced.or_else(|| facts.faults.first().cloned().map(QueueNews::Unreadable)) else {
            self.queue_events.remove(name);
            return None;
        };
        let message = match &why {
            QueueNews::Misplaced(fault) => Refusal::Queue(fault.clone()).message(),
            QueueNews::Unreadable(fault) => fault.to_string(),
        };
        let known = self.queue_events.insert(Arc::clone(name), why.clone());
        (known.as_ref() != Some(&why)).then_some(message)
    }

    fn pod_command(&mut self, uid: &Uid, world: &World, now: Now) -> Option<Command> {
        let subject = Subject::Pod(uid.clone());
        let waits = |member: &&Member| matches!(member.state(), MemberState::Waiting | MemberState::Nominated | MemberState::Blocked);
        let waiting = world.pods().get(uid).filter(waits).and_then(|member| Some((member, member.refusal.as_ref()?)));
        let Some((member, refusal)) = waiting else {
            self.numbers.forget(&subject);
            return None;
        };
        let condition = PodCondition {
            kind: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some(refusal.pod_reason().to_owned()),
            message: Some(refusal.message()),
        };
        let stands = self.pod_condition.get(uid).or(member.facts.scheduled_condition.as_ref());
        if stands == Some(&condition) {
            self.numbers.forget(&subject);
            return None;
        }
        let only_numbers = stands.is_some_and(|stands| stands.reason == condition.reason);
        if only_numbers && !self.numbers.may_tell(&subject, now.since_start) {
            return None;
        }
        self.numbers.forget(&subject);
        self.pod_condition.insert(uid.clone(), condition.clone());
        let facts = &member.facts;
        let (namespace, name) = (Arc::clone(&facts.namespace), Arc::clone(&facts.name));
        Some(Command::Pod { namespace, name, uid: uid.clone(), condition, now: now.wall })
    }

    /// A write ended.
    pub fn done(&mut self, subject: &Subject, told: &Told, now: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        let failed = matches!(told, Told::Failed(_));
        match subject {
            Subject::Group(key) => {
                match told {
                    Told::Stands { resource_version } => {
                        if let Some(written) = self.group_status.get_mut(key) {
                            written.version = Some(resource_version.parse().unwrap_or(0));
                        }
                    }
                    // An Event that was to go with it is not repeated: it may have been sent.
                    Told::Gone | Told::Failed(_) => {
                        self.group_status.remove(key);
                    }
                }
                self.groups.done(key, now, !failed);
            }
            Subject::Queue(name) => {
                if !matches!(told, Told::Stands { .. }) {
                    self.queue_status.remove(name);
                }
                self.queues.done(name, now, !failed);
            }
            Subject::Pod(uid) => {
                if failed {
                    self.pod_condition.remove(uid);
                }
                self.pods.done(uid, now, !failed);
            }
        }
    }
}

/// How long the changes of the group are merged into one write: while its members are being made, and while they start.
fn merges(group: &Group) -> Option<Duration> {
    if matches!(group.refusal.as_deref(), Some(Refusal::NotEnoughTasks { .. } | Refusal::NotEnoughPodsOfTask { .. })) {
        return Some(SETTLE);
    }
    (group.refusal.is_none() && group.counts.running < group.counts.placed).then_some(START)
}

impl Default for Said {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "said_tests.rs"]
mod tests;
