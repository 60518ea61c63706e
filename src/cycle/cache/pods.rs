//! Updates the cache when a pod is added, changed or deleted.

use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::names::DEFAULT_QUEUE;
use crate::api::pod_facts::PodPhase;
use crate::api::{GroupKey, PodFacts, Uid};
use crate::by_key::ByKey;
use crate::cycle::explain::Refusal;
use crate::cycle::placement::class::ClassId;
use crate::cycle::placement::placer::Pod;
use crate::cycle::placement::topology::place::Place;
use crate::cycle::plan::Victim;
use crate::resources::Resources;

use super::budgets::{frees_unready, is_guarded_otherwise};
use super::queues::read_path;
use super::{Cache, Change, LostMember, Wake};

/// One of our pods.
#[derive(Clone, Debug)]
pub struct Member {
    /// The facts of the pod.
    pub facts: Arc<PodFacts>,
    /// The node that a cycle chose, until the watch shows the pod there.
    pub assumed: Option<Assumed>,
    /// Its nominated node, while victims are on their way out.
    pub nominated: Option<Assumed>,
    /// Its scheduling class, while it waits.
    pub class: Option<ClassId>,
    /// Why it waits, as the last cycle found; none where it does not wait or no cycle has tried it.
    pub refusal: Option<Arc<Refusal>>,
    /// Whether it ended and ran for an earlier PodGroup of that name.
    pub of_earlier: bool,
}

/// A decision that the watch has not shown yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The node.
    pub node: Arc<str>,
    /// The queue it is charged to.
    pub queue: Arc<str>,
    /// Whether the API server accepted the bind.
    pub confirmed: bool,
    /// Whether the cluster went back after that. The next list of pods shows whether the bind is lost.
    pub doubtful: bool,
    /// Why the outcome of the bind is unknown for long, of a bounded set; none where it is not.
    pub open: Option<&'static str>,
    /// Whether it is not being bound yet, because claims of its placement have no volume.
    pub is_held: bool,
}

/// The state of a member, as its gang counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It may be placed.
    Waiting,
    /// It has a nominated node and waits for victims to end. It is not bound yet.
    Nominated,
    /// It has scheduling gates, so it is not placed.
    Gated,
    /// It requests something that the scheduler does not support, or a claim of it cannot be used now.
    Blocked,
    /// It has a node or is being bound.
    Placed,
    /// It has a node and is being deleted. It is charged, but its gang cannot count on it.
    Leaving,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It is being deleted and never had a node, or it ended for an earlier PodGroup of that name.
    Gone,
}

impl Assumed {
    /// Returns the decision of this placement, of which the API server knows nothing yet.
    #[must_use]
    pub fn of(placement: &Placement) -> Self {
        let (node, queue) = (Arc::clone(&placement.node), Arc::clone(&placement.queue));
        Self { node, queue, confirmed: false, doubtful: false, open: None, is_held: false }
    }
}

impl Member {
    /// Returns the state of the member.
    #[must_use]
    pub fn state(&self) -> State {
        let facts = &self.facts;
        match facts.phase {
            _ if self.of_earlier => return State::Gone,
            PodPhase::Succeeded => return State::Succeeded,
            PodPhase::Failed => return State::Failed,
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {}
        }
        let has_node = facts.node.is_some() || self.assumed.is_some();
        match (has_node, facts.deleting) {
            (true, true) => State::Leaving,
            (true, false) => State::Placed,
            (false, true) => State::Gone,
            (false, false) if facts.gated => State::Gated,
            (false, false) if !facts.unsupported.is_empty() || !facts.faults.is_empty() || facts.unusable_claim.is_some() => State::Blocked,
            (false, false) if self.nominated.is_some() => State::Nominated,
            (false, false) => State::Waiting,
        }
    }

    /// Whether it may still be placed, or has a node and has not ended.
    #[must_use]
    pub fn lives(&self) -> bool {
        !matches!(self.state(), State::Succeeded | State::Failed | State::Gone)
    }

    /// Returns why the pod cannot be placed as it and its claims are; none where it can.
    #[must_use]
    pub fn blocked(&self) -> Option<Refusal> {
        match (self.facts.unsupported.as_slice(), self.facts.faults.first()) {
            ([], None) => self.facts.unusable_claim.clone().map(Refusal::Claim),
            ([], Some(fault)) => Some(Refusal::Faulty(fault.clone())),
            (fields, _) => Some(Refusal::Unsupported(fields.to_vec())),
        }
    }
}

impl Cache {
    /// Whether pods that name this scheduler are ours.
    pub(in crate::cycle) fn serves(&self, scheduler: &str) -> bool {
        self.schedulers.contains(scheduler)
    }

    /// Adds or updates a pod. A foreign pod is charged to its node and to no queue.
    pub fn apply_pod(&mut self, mut facts: PodFacts) {
        if !self.serves(&facts.scheduler) {
            self.foreign_pod_applied(&facts);
            self.charge_foreign(&facts);
            return;
        }
        if facts.node.is_some() {
            (facts.charged_queue, facts.queue_path) = self.settled_queue(&facts);
        }
        self.refuse_for_selectors(&mut facts);
        if self.take_what_moves_no_pod(&mut facts) {
            return;
        }
        self.notice_changed_victim(&facts);
        self.notice_new_member(&facts);
        let had_failed = self.pods.get(&facts.uid).is_some_and(|known| known.facts.phase == PodPhase::Failed);
        if facts.phase == PodPhase::Failed && !had_failed {
            self.notice_lost(&facts.uid);
            self.changed(Change::MemberGone(facts.group.clone()));
        }
        if !self.pods.contains_key(&facts.uid)
            && !facts.phase.ended()
            && let Some(group) = self.groups.get_mut(&facts.group)
        {
            group.comes();
        }
        let uid = facts.uid.clone();
        let left_before = self.leaving.contains_key(&uid);
        let old = self.detach(&uid);
        let ended = facts.phase.ended();
        let assumed = old.as_ref().and_then(|old| old.assumed.clone()).filter(|_| facts.node.is_none() && !ended);
        // A change that breaks the nomination was handled before, so here the nomination goes on.
        let nominated = old.as_ref().and_then(|old| old.nominated.clone());
        let refusal = old.and_then(|old| old.refusal).filter(|_| facts.node.is_none() && !ended);
        if facts.node.is_some() && !ended {
            self.charge_seen(&facts);
        } else if assumed.is_some() {
            self.charge_assumed(&facts);
        } else if nominated.is_none() {
            self.release(&uid);
        }
        let on = facts.node.as_ref().or(assumed.as_ref().map(|assumed| &assumed.node)).map(|node| Place::on(node));
        let place = on.or_else(|| nominated.as_ref().map(|nominated| Place::nominated(&nominated.node)));
        self.count_on(&facts, place.filter(|_| !ended));
        let waiting = facts.node.is_none().then(|| facts.group.clone());
        self.attach(Member { facts: Arc::new(facts), assumed, nominated, class: None, refusal, of_earlier: false });
        if !left_before && self.leaving.contains_key(&uid) {
            self.termination_began();
        }
        waiting.into_iter().for_each(|group| self.changed(Change::WaitingPod(group)));
    }

    /// Takes in what no placement depends on: the resourceVersion, readiness, which matters to disruption budgets only, and the conditions
    /// and the nominated node, which this scheduler writes itself. Returns whether nothing else about the pod changed.
    fn take_what_moves_no_pod(&mut self, facts: &mut PodFacts) -> bool {
        let Some(known) = self.pods.get_mut(&facts.uid) else { return false };
        let ready = std::mem::replace(&mut facts.ready, known.facts.ready);
        let condition = std::mem::replace(&mut facts.scheduled_condition, known.facts.scheduled_condition.clone());
        let nominated = std::mem::replace(&mut facts.nominated_node, known.facts.nominated_node.clone());
        let fenced = std::mem::replace(&mut facts.fenced, known.facts.fenced);
        let version = std::mem::replace(&mut facts.resource_version, known.facts.resource_version);
        let same = *known.facts == *facts;
        let (ready_changed, told) = (ready != facts.ready, condition != facts.scheduled_condition || nominated != facts.nominated_node);
        let changed = ready_changed || told || version != facts.resource_version;
        (facts.ready, facts.scheduled_condition, facts.nominated_node) = (ready, condition, nominated);
        (facts.fenced, facts.resource_version) = (fenced, version);
        if same {
            if told {
                self.dirty.pods.insert(facts.uid.clone());
            }
            if changed {
                known.facts = Arc::new(facts.clone());
            }
        }
        if ready_changed && frees_unready(&self.budgets, facts) {
            // PodGroups that found this pod protected by a budget try to preempt again.
            self.changed(Change::Victim(facts.uid.clone()));
        }
        same
    }

    /// Removes a pod.
    pub fn delete_pod(&mut self, uid: &Uid) {
        self.notice_lost(uid);
        if let Some(member) = self.detach(uid) {
            if member.state() == State::Succeeded
                && let Some(group) = self.groups.get_mut(&member.facts.group)
            {
                let subgroup = group.subgroup_of(&member.facts);
                group.successes.add(member.facts.task(), subgroup);
            }
            self.changed(Change::MemberGone(member.facts.group.clone()));
        }
        self.foreign_pod_gone(uid);
        self.leaving.remove(uid);
        self.refused_for_selectors.remove(uid);
        self.count_no_more(uid);
        self.release(uid);
        self.changed(Change::PodGone(uid.clone()));
    }

    /// Takes in the resourceVersion that the answer to a write of this pod carried, if the watch has not shown a newer one.
    pub fn pod_version(&mut self, uid: &Uid, version: u64) {
        if let Some(member) = self.pods.get_mut(uid).filter(|member| member.facts.resource_version < version) {
            Arc::make_mut(&mut member.facts).resource_version = version;
        }
    }

    /// The pod is about to be gone or has failed: its gang has lost it where it had a node and has not ended.
    fn notice_lost(&mut self, uid: &Uid) {
        let Some(facts) = self.pods.get(uid).map(|member| Arc::clone(&member.facts)) else { return };
        let Some(node) = facts.node.clone().filter(|_| !facts.phase.ended()) else { return };
        if let Some(queue) = self.accounting.pod(uid).and_then(|pod| pod.queue).map(Arc::from) {
            self.changed(Change::Lost(Box::new(LostMember { facts, node, queue })));
        }
    }

    /// A pod starts to terminate. It counts as gone in every preemption (R3).
    pub(super) fn termination_began(&mut self) {
        self.changed(Change::Victims);
    }

    /// A pod that has a node may be preempted otherwise than before, alone or with others (R4, R2c, R6).
    fn notice_changed_victim(&mut self, facts: &PodFacts) {
        let Some(known) = self.pods.get(&facts.uid).filter(|known| known.state() == State::Placed) else { return };
        let old = &known.facts;
        let same = (&old.group, &old.task, old.preemptable, old.protected, old.priority)
            == (&facts.group, &facts.task, facts.preemptable, facts.protected, facts.priority);
        let group = self.groups.get(&facts.group);
        let moves = group.is_some_and(|group| group.subgroup_of(old) != group.subgroup_of(facts));
        if !same || moves || is_guarded_otherwise(&self.budgets, old, facts) {
            self.changed(Change::Victim(facts.uid.clone()));
        }
    }

    /// A pod that has a node becomes a member of another PodGroup: what that reserves shrinks by a charge that was there before (A4), so
    /// its queue has room for others.
    fn notice_new_member(&mut self, facts: &PodFacts) {
        let moves = |known: &Member| known.state() == State::Placed && known.facts.group != facts.group;
        if !self.pods.get(&facts.uid).is_some_and(moves) {
            return;
        }
        let queue = self.groups.get(&facts.group).and_then(|group| self.reserves_in(group));
        queue.into_iter().for_each(|queue| self.changed(Wake::Quota(queue)));
    }

    /// Returns the queue to which a pod on a node is charged for good, where one is settled. It is the queue of our decision, or the one
    /// in its annotation when the pod was first seen on a node. Any editor of the pod may change the annotation later; a settled charge
    /// does not move. With it the path of queues that was written then; none for our own decision, since this process knows where its queue is.
    fn settled_queue(&self, facts: &PodFacts) -> (Option<String>, Option<Arc<str>>) {
        match self.pods.get(&facts.uid) {
            Some(known) if known.facts.node.is_some() => (known.facts.charged_queue.clone(), known.facts.queue_path.clone()),
            Some(Member { assumed: Some(assumed), .. }) => (Some(assumed.queue.to_string()), None),
            _ => (facts.charged_queue.clone(), facts.queue_path.clone()),
        }
    }

    /// Charges a pod that was seen on a node to the queue in its binding; else to that of its PodGroup, or where it was charged before.
    pub(super) fn charge_seen(&mut self, facts: &PodFacts) {
        let before = self
            .accounting
            .pod(&facts.uid)
            .map(|pod| (pod.node.map(Arc::<str>::from), pod.queue.map(Arc::<str>::from), pod.resources.clone()));
        let of_group = || self.groups.get(&facts.group).and_then(|group| group.facts.as_ref()).map(|group| Arc::from(group.queue.as_str()));
        let charged = || before.as_ref().and_then(|(_, queue, _)| queue.clone());
        let queue: Arc<str> = match &facts.charged_queue {
            Some(queue) => Arc::from(queue.as_str()),
            None => of_group().or_else(charged).unwrap_or_else(|| Arc::from(DEFAULT_QUEUE)),
        };
        match facts.queue_path.as_deref().and_then(|path| read_path(path, &queue)) {
            Some(path) => {
                let created = facts.created.as_second();
                self.accounting.charge_observed_on_path(&facts.uid, facts.node.as_deref(), &path, created, &facts.request);
            }
            None => self.accounting.charge_observed(&facts.uid, facts.node.as_deref(), Some(&queue), &facts.request),
        }
        let same =
            before.as_ref().is_some_and(|(node, at, asked)| *node == facts.node && at.as_ref() == Some(&queue) && *asked == facts.request);
        if same {
            return;
        }
        if let Some((node, queue, _)) = before {
            self.charge_changed(node.as_deref(), queue.as_deref(), true);
        }
        self.charge_changed(facts.node.as_deref(), Some(&queue), false);
    }

    /// Takes the charge of the pod back; nothing where it has none.
    pub(in crate::cycle) fn release(&mut self, uid: &Uid) {
        let Some(pod) = self.accounting.pod(uid) else { return };
        let (node, queue) = (pod.node.map(Arc::<str>::from), pod.queue.map(Arc::<str>::from));
        self.accounting.release(uid);
        self.changed(Change::Released(uid.clone()));
        self.charge_changed(node.as_deref(), queue.as_deref(), true);
    }

    /// Takes the pod out of the counts of its PodGroup. [`attach`](Self::attach) puts it back, if it is still there.
    pub(in crate::cycle) fn detach(&mut self, uid: &Uid) -> Option<Member> {
        let mut member = self.pods.remove(uid)?;
        self.leaving.remove(uid);
        self.nominated.remove(uid);
        self.leave_class(&mut member);
        if let Some(group) = self.groups.get_mut(&member.facts.group) {
            group.forget(&member);
        }
        if member.state() == State::Placed {
            self.placed_priorities.leave(&member.facts.priority);
        }
        self.changed(Change::Group(member.facts.group.clone()));
        Some(member)
    }

    /// Puts the pod into the counts of its PodGroup.
    pub(super) fn attach(&mut self, mut member: Member) {
        member.of_earlier = self.ran_for_an_earlier_group(&member.facts);
        if member.state() == State::Waiting {
            self.join_class(&mut member);
        }
        if member.state() == State::Leaving {
            self.leaving.insert(member.facts.uid.clone(), member.facts.grace);
        }
        if member.state() == State::Nominated {
            self.nominated.insert(member.facts.uid.clone());
        }
        if member.state() == State::Placed {
            self.placed_priorities.join(member.facts.priority);
        }
        let key = member.facts.group.clone();
        self.groups.get_or_default(&key).count(&member);
        self.dirty.pods.insert(member.facts.uid.clone());
        self.pods.insert(member.facts.uid.clone(), member);
        self.changed(Change::Group(key));
    }

    /// Whether the pod has ended, and began before its PodGroup was created: a PodGroup that a user or an operator makes again under its name
    /// begins anew, and what ended before counts for nothing. A PodGroup of our controller follows its pods.
    fn ran_for_an_earlier_group(&self, facts: &PodFacts) -> bool {
        let group = self.groups.get(&facts.group).and_then(|group| group.facts.as_ref()).filter(|group| !group.managed);
        facts.phase.ended() && group.zip(facts.ran_from).is_some_and(|(group, from)| from < group.created)
    }

    /// The PodGroup was made (again): counts its members that have ended anew.
    pub(super) fn recount_ended(&mut self, key: &GroupKey) {
        let members = self.groups.get(key).into_iter().flat_map(|group| &group.members);
        let ended = members.filter(|uid| self.pods.get(*uid).is_some_and(|member| member.facts.phase.ended()));
        for uid in ended.cloned().collect::<Vec<_>>() {
            if let Some(member) = self.detach(&uid) {
                self.attach(member);
            }
        }
    }

    /// The pod as a victim of an eviction; none where it is unknown or not charged to a queue.
    pub(in crate::cycle) fn victim(&self, uid: &Uid) -> Option<Victim> {
        let facts = &self.pods.get(uid)?.facts;
        let queue = Arc::from(self.accounting.pod(uid)?.queue?);
        let (namespace, name) = (Arc::clone(&facts.namespace), Arc::clone(&facts.name));
        Some(Victim { uid: uid.clone(), namespace, name, queue, group: facts.group.clone() })
    }
}

/// Returns the request of all these members together.
pub(in crate::cycle) fn request_of(pods: &ByKey<Uid, Member>, members: &[Uid]) -> Resources {
    let mut request = Resources::new();
    members.iter().filter_map(|uid| pods.get(uid)).for_each(|member| request.add(&member.facts.request));
    request
}

/// Returns these members in the form of the placer, for any node.
pub(in crate::cycle) fn to_place<'a>(pods: &'a ByKey<Uid, Member>, members: &[Uid]) -> Vec<Pod<'a>> {
    let pod = |uid: &Uid| pods.get(uid).map(|member| Pod::new(&member.facts, member.class));
    members.iter().filter_map(pod).collect()
}
