//! Applies each step of a history to the real cycle and to the model.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::both::Both;
use super::scene::{DIMENSIONS, GroupFields, KEYS, QueueFields, Triple, name, parent, queue_of};
use super::steps::Step;
use crate::accounting::reference::cycle_model::{GroupSpec, Member, MemberState, Place};
use crate::accounting::reference::{Amounts, Queue};
use crate::api::names::QUEUE_DESIRED_STATE;
use crate::api::pod_facts::PodPhase;
use crate::api::podgroup::PodGroupStatus;
use crate::api::quantities::{RawQuantity, minimum};
use crate::api::queue::DequeueStrategy;
use crate::api::{self, GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::testing::{self, amounts, group, limits, node, running};
use crate::resources::Resources;

const UNIT: i128 = 1_000_000_000;
/// The back-off of a PodGroup after a failed bind, in milliseconds.
const BACK_OFF: u64 = 5_000;

impl Both {
    pub(super) fn node(&mut self, at: usize, offers: Triple) {
        let name = format!("n{at}");
        self.state.apply_node(NodeFacts { allocatable: resources(offers), ..node(&name, &[]) });
        self.model.node(&name, reference_amounts(offers.map(Some)));
    }

    pub(super) fn queue(&mut self, at: usize) {
        let (fields, parent) = (&self.queues[at], parent(&self.queues, at));
        let mut object = api::Queue::default();
        object.metadata.annotations = fields.desired.map(|state| [(QUEUE_DESIRED_STATE.to_owned(), state.to_owned())].into());
        self.state.apply_queue(QueueFacts {
            capability: limits(&list(fields.capability)),
            deserved: limits(&list(fields.deserved.map(Some))),
            guarantee: limits(&list(fields.guarantee)),
            priority: fields.priority,
            reclaimable: fields.reclaimable,
            dequeue_strategy: if fields.fifo { DequeueStrategy::Fifo } else { DequeueStrategy::Traverse },
            closed_by_hand: QueueFacts::of(&object).closed_by_hand,
            ..testing::queue(&name(at), parent.as_deref(), &[])
        });
        let queue = Queue {
            parent,
            capability: reference_amounts(fields.capability),
            deserved: reference_amounts(fields.deserved.map(Some)),
            guarantee: reference_amounts(fields.guarantee),
            priority: i64::from(fields.priority),
            reclaimable: fields.reclaimable,
            closed_by_hand: fields.desired == Some("Closed"),
            ..Queue::default()
        };
        self.model.queue(&name(at), queue, fields.fifo);
    }

    pub(super) fn group(&mut self, at: usize) {
        let Some(fields) = &self.groups[at] else { return };
        let (over, queue, created) = (self.over.contains(&at), queue_of(&self.queues, fields.queue), u64::from(fields.created));
        // When a key occurs twice, the last value counts.
        // A PodGroup with minMember 0 does not request its minResources again, so it has none here.
        let keys: Option<BTreeMap<&str, i64>> = fields
            .min_resources
            .as_ref()
            .filter(|_| fields.min_member > 0)
            .map(|keys| keys.iter().map(|(key, amount)| (KEYS[*key], *amount)).collect());
        let raw = |keys: &BTreeMap<&str, i64>| keys.iter().map(|(key, amount)| ((*key).to_owned(), RawQuantity::Int(*amount))).collect();
        let phase = over.then(|| "Completed".to_owned());
        self.state.apply_group(GroupFacts {
            min_resources: keys.as_ref().map(|keys| minimum(&raw(keys), "spec.minResources", &mut Vec::new())),
            priority_class: fields.class.map(|value| format!("c{value}")),
            created: second(fields.created),
            managed: fields.managed,
            completions: fields.completions,
            status: PodGroupStatus { phase, ..PodGroupStatus::default() },
            ..group("ns", &format!("g{at}"), fields.min_member, &queue)
        });
        let written =
            |keys: BTreeMap<&str, i64>| keys.into_iter().map(|(key, amount)| (key.to_owned(), i128::from(amount) * UNIT)).collect();
        let fields = GroupSpec {
            queue,
            min_member: usize::try_from(fields.min_member).unwrap(),
            completions: fields.completions.map(|number| usize::try_from(number).unwrap()),
            managed: fields.managed,
            min_resources: keys.map(written),
            class: fields.class.map(i64::from),
            created,
            over,
        };
        self.model.group(&format!("g{at}"), fields);
    }

    /// Applies one step to both.
    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Pods { group, count, gated, created, priority } => {
                (0..*count).for_each(|_| self.create_pod(group % self.groups.len(), *gated, *created, *priority));
            }
            Step::Lift(at) => {
                self.change_member(*at, |state| *state == MemberState::Gated, |_, facts| facts.gated = false, |_| MemberState::Waits)
            }
            Step::Gone(at) => {
                if let Some(uid) = self.choose(*at, |_| true) {
                    self.state.delete_pod(&key(&uid));
                    self.model.member_gone(&uid);
                }
            }
            Step::Leaves(at) => self.change_member(
                *at,
                is_bound,
                |_, facts| facts.deleting = true,
                |place| place.map_or(MemberState::Waits, |place| MemberState::On(Place { terminating: true, ..place })),
            ),
            Step::Touched(at) => self.change_member(
                *at,
                is_bound,
                |_, facts| facts.grace += Duration::from_secs(1),
                |place| place.map_or(MemberState::Waits, MemberState::On),
            ),
            Step::Ends(at, well) => {
                let phase = if *well { PodPhase::Succeeded } else { PodPhase::Failed };
                let state = if *well { MemberState::Succeeded } else { MemberState::Failed };
                self.change_member(*at, is_bound, |_, facts| facts.phase = phase, |_| state.clone());
            }
            Step::Seen(at) => _ = self.confirm_bind(*at),
            Step::AllSeen => while self.confirm_bind(0) {},
            Step::Refused(at) => {
                if let Some(uid) = self.choose(*at, is_binding) {
                    let wait = |_| Duration::from_millis(BACK_OFF);
                    self.state.refuse_bind(&key(&uid), "test", Duration::from_millis(self.now), wait);
                    self.model.bind_refused(&uid, self.now, self.now + BACK_OFF);
                }
            }
            Step::Elsewhere(at, on) => {
                let Some(uid) = self.choose(*at, |state| *state == MemberState::Waits) else { return };
                let member = self.model.members()[&uid].clone();
                let number: usize = member.group[1..].parse().unwrap();
                let Some(fields) = &self.groups[number] else { return };
                let (node, queue) = (format!("n{}", on % self.nodes), queue_of(&self.queues, fields.queue));
                let facts = (*self.state.cache().pods()[&key(&uid)].facts).clone();
                self.state.apply_pod(PodFacts { charged_queue: Some(queue.clone()), ..running(facts, &node) });
                let place = Place { node, queue, bound: true, terminating: false };
                self.model.member(&uid, Member { state: MemberState::On(place), ..member });
            }
            Step::Queue(at, fields) => {
                let at = at % self.queues.len();
                // The parent changes only in some of the steps.
                let parent = if fields.priority == 0 { self.queues[at].parent } else { fields.parent };
                self.queues[at] = QueueFields { parent, ..fields.clone() };
                (0..self.queues.len()).for_each(|at| self.queue(at));
            }
            Step::Desired(at, desired) => {
                let at = at % self.queues.len();
                self.queues[at].desired = *desired;
                self.queue(at);
            }
            Step::Strategy(at, fifo) => {
                let at = at % self.queues.len();
                self.queues[at].fifo = *fifo;
                self.queue(at);
            }
            Step::Group(at, min_member, min_resources) => {
                self.change_group(*at, |fields| (fields.min_member, fields.min_resources) = (*min_member, min_resources.clone()));
            }
            Step::MinMember(at, min_member) => self.change_group(*at, |fields| fields.min_member = *min_member),
            Step::Moves(at, queue) => self.change_group(*at, |fields| fields.queue = *queue),
            Step::Over(at) => {
                let at = at % self.groups.len();
                let name = format!("g{at}");
                let lives = |member: &Member| match &member.state {
                    MemberState::Gated | MemberState::Waits => true,
                    MemberState::On(place) => !place.bound,
                    MemberState::Succeeded | MemberState::Failed => false,
                };
                if !self.model.members().values().any(|member| member.group == name && lives(member)) {
                    self.over.insert(at);
                    self.group(at);
                }
            }
            Step::GroupGone(at) => {
                let at = at % self.groups.len();
                let name = format!("g{at}");
                let members = self.state.cache().pods().iter().filter(|(_, member)| *member.facts.group.name == *name);
                let members: Vec<Uid> = members.map(|(uid, _)| uid.clone()).collect();
                members.iter().for_each(|uid| self.state.delete_pod(uid));
                self.state.delete_group(&GroupKey::new("ns", &name));
                self.model.group_gone(&name);
                self.groups[at] = None;
            }
            Step::Node(at, offers) => self.node(at % self.nodes, *offers),
            Step::Later(seconds) => self.now += seconds * 1_000,
        }
    }

    /// Changes the fields of a PodGroup's object.
    fn change_group(&mut self, at: usize, change: impl FnOnce(&mut GroupFields)) {
        let at = at % self.groups.len();
        if let Some(fields) = &mut self.groups[at] {
            change(fields);
            self.group(at);
        }
    }

    fn create_pod(&mut self, at: usize, gated: bool, created: u8, priority: i32) {
        let Some(fields) = self.groups[at].clone().filter(|_| !self.over.contains(&at)) else { return };
        let (name, group) = (format!("p{}", self.pods_created), format!("g{at}"));
        self.pods_created += 1;
        // A pod that does not preempt causes no evictions (R1c).
        self.state.apply_pod(PodFacts {
            request: resources(fields.asks),
            gated,
            priority,
            preempts: false,
            created: second(created),
            ..testing::pod("ns", &name, &group, &[])
        });
        let state = if gated { MemberState::Gated } else { MemberState::Waits };
        let asks = reference_amounts(fields.asks.map(Some));
        self.model.member(&name, Member { group, asks, priority: i64::from(priority), created: u64::from(created), state });
    }

    /// Returns one of the pods in such a state; `None` when there is none.
    fn choose(&self, at: usize, which: impl Fn(&MemberState) -> bool) -> Option<String> {
        let which: Vec<&String> = self.model.members().iter().filter(|(_, member)| which(&member.state)).map(|(uid, _)| uid).collect();
        which.get(at.checked_rem(which.len())?).map(|uid| (*uid).clone())
    }

    /// Changes one of the pods in such a state.
    fn change_member(
        &mut self,
        at: usize,
        which: impl Fn(&MemberState) -> bool,
        change: impl FnOnce(&Place, &mut PodFacts),
        then: impl FnOnce(Option<Place>) -> MemberState,
    ) {
        let Some(uid) = self.choose(at, which) else { return };
        let member = self.model.members()[&uid].clone();
        let place = if let MemberState::On(place) = &member.state { Some(place.clone()) } else { None };
        let nowhere = Place { node: String::new(), queue: String::new(), bound: false, terminating: false };
        let mut facts = (*self.state.cache().pods()[&key(&uid)].facts).clone();
        change(place.as_ref().unwrap_or(&nowhere), &mut facts);
        self.state.apply_pod(facts);
        self.model.member(&uid, Member { state: then(place), ..member });
    }

    /// Confirms a bind. Returns false when no bind is in progress.
    fn confirm_bind(&mut self, at: usize) -> bool {
        let Some(uid) = self.choose(at, is_binding) else { return false };
        self.state.confirm(&key(&uid));
        let bind = |place: &Place, facts: &mut PodFacts| {
            *facts = PodFacts { charged_queue: Some(place.queue.clone()), ..running(facts.clone(), &place.node) };
        };
        let then = |place: Option<Place>| place.map_or(MemberState::Waits, |place| MemberState::On(Place { bound: true, ..place }));
        self.change_member(at, is_binding, bind, then);
        true
    }
}

fn is_bound(state: &MemberState) -> bool {
    matches!(state, MemberState::On(place) if place.bound && !place.terminating)
}

fn is_binding(state: &MemberState) -> bool {
    matches!(state, MemberState::On(place) if !place.bound)
}

fn key(name: &str) -> Uid {
    Uid::from(format!("ns/{name}").as_str())
}

fn second(at: u8) -> Timestamp {
    Timestamp::from_second(i64::from(at)).unwrap()
}

fn list(bounds: [Option<i64>; 3]) -> Vec<(&'static str, i64)> {
    DIMENSIONS.into_iter().zip(bounds).filter_map(|(dimension, bound)| Some((dimension, bound?))).collect()
}

fn resources(units: Triple) -> Resources {
    amounts(&list(units.map(Some)))
}

fn reference_amounts(bounds: [Option<i64>; 3]) -> Amounts {
    list(bounds).into_iter().map(|(dimension, units)| (dimension.to_owned(), i128::from(units) * UNIT)).collect()
}
