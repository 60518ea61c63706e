//! What happens in a history, told to the real cycle and to the rules alike.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::both::Both;
use super::scene::{DIMENSIONS, GroupSaid, KEYS, QueueSaid, Triple, name, parent, queue_of};
use super::steps::Step;
use crate::accounting::reference::cycle_model::{GroupSpec as Said, Member, MemberState as Stands, Place};
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
/// How long a group whose bind was refused backs off, in milliseconds.
const BACK_OFF: u64 = 5_000;

impl Both {
    pub(super) fn node(&mut self, at: usize, offers: Triple) {
        let name = format!("n{at}");
        self.state.apply_node(NodeFacts { allocatable: resources(offers), ..node(&name, &[]) });
        self.story.node(&name, told(offers.map(Some)));
    }

    pub(super) fn queue(&mut self, at: usize) {
        let (said, parent) = (&self.queues[at], parent(&self.queues, at));
        let mut object = api::Queue::default();
        object.metadata.annotations = said.desired.map(|state| [(QUEUE_DESIRED_STATE.to_owned(), state.to_owned())].into());
        self.state.apply_queue(QueueFacts {
            capability: limits(&list(said.capability)),
            deserved: limits(&list(said.deserved.map(Some))),
            guarantee: limits(&list(said.guarantee)),
            priority: said.priority,
            reclaimable: said.reclaimable,
            dequeue_strategy: if said.fifo { DequeueStrategy::Fifo } else { DequeueStrategy::Traverse },
            closed_by_hand: QueueFacts::of(&object).closed_by_hand,
            ..testing::queue(&name(at), parent.as_deref(), &[])
        });
        let queue = Queue {
            parent,
            capability: told(said.capability),
            deserved: told(said.deserved.map(Some)),
            guarantee: told(said.guarantee),
            priority: i64::from(said.priority),
            reclaimable: said.reclaimable,
            closed_by_hand: said.desired == Some("Closed"),
            ..Queue::default()
        };
        self.story.queue(&name(at), queue, said.fifo);
    }

    pub(super) fn group(&mut self, at: usize) {
        let Some(said) = &self.groups[at] else { return };
        let (over, queue, created) = (self.over.contains(&at), queue_of(&self.queues, said.queue), u64::from(said.created));
        // A key that stands there twice has the last value.
        // A group whose minimum is nobody is not asked again what it asked for once, so it says nothing here.
        let keys: Option<BTreeMap<&str, i64>> = said
            .min_resources
            .as_ref()
            .filter(|_| said.min_member > 0)
            .map(|keys| keys.iter().map(|(key, amount)| (KEYS[*key], *amount)).collect());
        let raw = |keys: &BTreeMap<&str, i64>| keys.iter().map(|(key, amount)| ((*key).to_owned(), RawQuantity::Int(*amount))).collect();
        let phase = over.then(|| "Completed".to_owned());
        self.state.apply_group(GroupFacts {
            min_resources: keys.as_ref().map(|keys| minimum(&raw(keys), "spec.minResources", &mut Vec::new())),
            priority_class: said.class.map(|value| format!("c{value}")),
            created: second(said.created),
            status: PodGroupStatus { phase, ..PodGroupStatus::default() },
            ..group("ns", &format!("g{at}"), said.min_member, &queue)
        });
        let written =
            |keys: BTreeMap<&str, i64>| keys.into_iter().map(|(key, amount)| (key.to_owned(), i128::from(amount) * UNIT)).collect();
        let said = Said {
            queue,
            min_member: usize::try_from(said.min_member).unwrap(),
            min_resources: keys.map(written),
            class: said.class.map(i64::from),
            created,
            over,
        };
        self.story.group(&format!("g{at}"), said);
    }

    /// One thing happens.
    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Pods { group, count, gated, created, priority } => {
                (0..*count).for_each(|_| self.pod_comes(group % self.groups.len(), *gated, *created, *priority));
            }
            Step::Lift(at) => self.changes(*at, |stands| *stands == Stands::Gated, |_, facts| facts.gated = false, |_| Stands::Waits),
            Step::Gone(at) => {
                if let Some(uid) = self.choose(*at, |_| true) {
                    self.state.delete_pod(&key(&uid));
                    self.story.member_gone(&uid);
                }
            }
            Step::Leaves(at) => self.changes(
                *at,
                is_bound,
                |_, facts| facts.deleting = true,
                |place| place.map_or(Stands::Waits, |place| Stands::On(Place { terminating: true, ..place })),
            ),
            Step::Touched(at) => self.changes(
                *at,
                is_bound,
                |_, facts| facts.grace += Duration::from_secs(1),
                |place| place.map_or(Stands::Waits, Stands::On),
            ),
            Step::Ends(at, well) => {
                let phase = if *well { PodPhase::Succeeded } else { PodPhase::Failed };
                let stands = if *well { Stands::Succeeded } else { Stands::Failed };
                self.changes(*at, is_bound, |_, facts| facts.phase = phase, |_| stands.clone());
            }
            Step::Seen(at) => _ = self.seen(*at),
            Step::AllSeen => while self.seen(0) {},
            Step::Refused(at) => {
                if let Some(uid) = self.choose(*at, is_binding) {
                    let wait = |_| Duration::from_millis(BACK_OFF);
                    self.state.refuse_bind(&key(&uid), "test", Duration::from_millis(self.now), wait);
                    self.story.bind_refused(&uid, self.now, self.now + BACK_OFF);
                }
            }
            Step::Elsewhere(at, on) => {
                let Some(uid) = self.choose(*at, |stands| *stands == Stands::Waits) else { return };
                let member = self.story.members()[&uid].clone();
                let number: usize = member.group[1..].parse().unwrap();
                let Some(said) = &self.groups[number] else { return };
                let (node, queue) = (format!("n{}", on % self.nodes), queue_of(&self.queues, said.queue));
                let facts = (*self.state.cache().pods()[&key(&uid)].facts).clone();
                self.state.apply_pod(PodFacts { charged_queue: Some(queue.clone()), ..running(facts, &node) });
                let place = Place { node, queue, bound: true, terminating: false };
                self.story.member(&uid, Member { stands: Stands::On(place), ..member });
            }
            Step::Queue(at, said) => {
                let at = at % self.queues.len();
                // Only now and then it has another place in the tree.
                let parent = if said.priority == 0 { self.queues[at].parent } else { said.parent };
                self.queues[at] = QueueSaid { parent, ..said.clone() };
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
                self.says(*at, |said| (said.min_member, said.min_resources) = (*min_member, min_resources.clone()));
            }
            Step::MinMember(at, min_member) => self.says(*at, |said| said.min_member = *min_member),
            Step::Moves(at, queue) => self.says(*at, |said| said.queue = *queue),
            Step::Over(at) => {
                let at = at % self.groups.len();
                let name = format!("g{at}");
                let lives = |member: &Member| match &member.stands {
                    Stands::Gated | Stands::Waits => true,
                    Stands::On(place) => !place.bound,
                    Stands::Succeeded | Stands::Failed => false,
                };
                if !self.story.members().values().any(|member| member.group == name && lives(member)) {
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
                self.story.group_gone(&name);
                self.groups[at] = None;
            }
            Step::Node(at, offers) => self.node(at % self.nodes, *offers),
            Step::Later(seconds) => self.now += seconds * 1_000,
        }
    }

    fn says(&mut self, at: usize, change: impl FnOnce(&mut GroupSaid)) {
        let at = at % self.groups.len();
        if let Some(said) = &mut self.groups[at] {
            change(said);
            self.group(at);
        }
    }

    fn pod_comes(&mut self, at: usize, gated: bool, created: u8, priority: i32) {
        let Some(said) = self.groups[at].clone().filter(|_| !self.over.contains(&at)) else { return };
        let (name, group) = (format!("p{}", self.came), format!("g{at}"));
        self.came += 1;
        // Nobody goes for one whose priority takes nothing from others (R13).
        self.state.apply_pod(PodFacts {
            request: resources(said.asks),
            gated,
            priority,
            preempts: false,
            created: second(created),
            ..testing::pod("ns", &name, &group, &[])
        });
        let stands = if gated { Stands::Gated } else { Stands::Waits };
        let asks = told(said.asks.map(Some));
        self.story.member(&name, Member { group, asks, priority: i64::from(priority), created: u64::from(created), stands });
    }

    /// One of the pods that stand so.
    fn choose(&self, at: usize, which: impl Fn(&Stands) -> bool) -> Option<String> {
        let which: Vec<&String> = self.story.members().iter().filter(|(_, member)| which(&member.stands)).map(|(uid, _)| uid).collect();
        which.get(at.checked_rem(which.len())?).map(|uid| (*uid).clone())
    }

    fn changes(
        &mut self,
        at: usize,
        which: impl Fn(&Stands) -> bool,
        change: impl FnOnce(&Place, &mut PodFacts),
        then: impl FnOnce(Option<Place>) -> Stands,
    ) {
        let Some(uid) = self.choose(at, which) else { return };
        let member = self.story.members()[&uid].clone();
        let place = if let Stands::On(place) = &member.stands { Some(place.clone()) } else { None };
        let nowhere = Place { node: String::new(), queue: String::new(), bound: false, terminating: false };
        let mut facts = (*self.state.cache().pods()[&key(&uid)].facts).clone();
        change(place.as_ref().unwrap_or(&nowhere), &mut facts);
        self.state.apply_pod(facts);
        self.story.member(&uid, Member { stands: then(place), ..member });
    }

    /// Whether there was such a binding.
    fn seen(&mut self, at: usize) -> bool {
        let Some(uid) = self.choose(at, is_binding) else { return false };
        self.state.confirm(&key(&uid));
        let seen = |place: &Place, facts: &mut PodFacts| {
            *facts = PodFacts { charged_queue: Some(place.queue.clone()), ..running(facts.clone(), &place.node) };
        };
        let then = |place: Option<Place>| place.map_or(Stands::Waits, |place| Stands::On(Place { bound: true, ..place }));
        self.changes(at, is_binding, seen, then);
        true
    }
}

fn is_bound(stands: &Stands) -> bool {
    matches!(stands, Stands::On(place) if place.bound && !place.terminating)
}

fn is_binding(stands: &Stands) -> bool {
    matches!(stands, Stands::On(place) if !place.bound)
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

fn told(bounds: [Option<i64>; 3]) -> Amounts {
    list(bounds).into_iter().map(|(dimension, units)| (dimension.to_owned(), i128::from(units) * UNIT)).collect()
}
