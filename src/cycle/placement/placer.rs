//! Places as many of the given pods as are needed, or none of them.
//!
//! All placements use this loop. A turn, a preemption attempt and the settling of a nomination pass different values:
//!
//! | | turn | preemption | nomination |
//! |---|---|---|---|
//! | pods | the gang, or one further member | the same | the members with places |
//! | needed | what is missing of the gang and of its parts | all | all |
//! | fixed nodes | none | none | the node of each place |
//! | before | the own reservation is taken back | the same; victims are set aside | all nominations are set aside |
//! | afterwards | commit | roll back, keep the answer | commit |
//!
//! A pod without a node is skipped while the other pods are enough. Where the pods find no nodes in their order, [`search`](super::search)
//! looks further.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{self, Accounting, Placement};
use crate::api::pod_facts::Constraints;
use crate::api::{PodFacts, Uid};
use crate::cycle::explain::{Count, NextMember, Reason, Refusal, Step, Tally};
use crate::cycle::placement::Strategy;

use super::class::{Class, ClassId, Classes};
use super::filter::{Query, lasting_refusal, refusal};
use super::finder::{Asks, NodeFinder};
use super::node_set::NodeSet;
use super::nodes::{NodeId, Nodes};
use super::nominated_by_others::NominatedByOthers;
use super::parts::{Part, Parts, parts_of};
use super::search;
use super::topology::class_terms::ClassTerms;
use super::topology::counting::counting;
use super::topology::placed::PlacedPods;
use super::topology::selection::SelectorId;
use super::topology::verdict::Verdict;
use super::trial::{Savepoint, Trial};

/// The most nominations of other schedulers that are set aside for one attempt. Those beyond that are respected, whatever their priority.
const MOST_SET_ASIDE: usize = 128;

/// The state that the placer reads and changes.
#[derive(Debug)]
pub struct State<'w> {
    /// The use of the nodes and the queues.
    pub accounting: &'w mut Accounting,
    /// The nodes.
    pub nodes: &'w mut Nodes,
    /// The pods on the nodes.
    pub placed: &'w mut PlacedPods,
    /// The scheduling classes.
    pub classes: &'w Classes,
    /// The node finder with its shortlists.
    pub finder: &'w mut NodeFinder,
    /// The node groups that are labelled for other queues than that of the pods.
    pub barred: BTreeSet<String>,
    /// The nodes that other schedulers have nominated for their pods.
    pub nominated: &'w NominatedByOthers,
}

/// A pod to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    /// The facts of the pod.
    pub facts: &'a PodFacts,
    /// Its class, if it has one. A pod without a class is placed only if `node` is set.
    pub class: Option<ClassId>,
    /// The node that it must go to; none where any node will do.
    pub node: Option<&'a str>,
    /// The set of nodes to which it is restricted; none where any node will do.
    pub within: Option<&'a NodeSet>,
    /// Its task, a position in [`Attempt::parts`]; none where nothing is needed of it.
    pub task: Option<usize>,
    /// The subgroup with which it is placed; none where it is placed by itself.
    pub subgroup: Option<Subgroup>,
}

/// A subgroup: pods that stand together in an attempt, and are placed together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subgroup {
    /// What tells it from the others of the attempt.
    pub number: u32,
    /// Its policy, a position in [`Attempt::parts`]; none where nothing is needed of it.
    pub part: Option<usize>,
}

/// Pods that are placed together.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The queue that is charged.
    pub queue: &'a str,
    /// The pods, in the order in which they are placed.
    pub pods: &'a [Pod<'a>],
    /// The number of pods that must be placed. If fewer can be placed, none is.
    pub needed: u32,
    /// What of each part must be among them, because no pods of other parts can stand in for it.
    pub parts: &'a [Part],
    /// Whether these pods may be preempted, as far as their group decides that. If not, its queue must not borrow for them (S3). Where one of
    /// several pods says so itself, it is said of all.
    pub preemptable: bool,
    /// Whether it was asked before whether their queue must borrow for these pods (S3).
    pub is_due: bool,
}

/// Each pod with its node.
pub type Places = Vec<(Uid, Arc<str>)>;

/// Why an attempt failed.
#[derive(Debug)]
pub struct NotPlaced {
    /// The refusal of the first pod that was not placed.
    pub refusal: Box<Refusal>,
    /// That pod; none where no pod was refused.
    refused: Option<Uid>,
    /// The pods that were placed before the attempt failed. They are not placed any more.
    pub placed: Places,
}

/// Why one pod was not placed.
pub(super) struct Missed {
    refusal: Box<Refusal>,
    /// Whether every other pod of its class would be refused, too.
    of_class: bool,
}

/// Places pods on one trial.
#[derive(Debug)]
pub struct Placer<'w> {
    pub(super) trial: Trial<'w>,
    pub(super) classes: &'w Classes,
    pub(super) finder: &'w mut NodeFinder,
    pub(super) strategy: Strategy,
    pub(super) last: BTreeSet<NodeId>,
    pub(super) barred: BTreeSet<String>,
    pub(super) budget: u32,
    nominated: &'w NominatedByOthers,
}

impl<'w> Placer<'w> {
    /// Opens a trial. `last` are nodes to use only where no other fits.
    pub fn new(state: State<'w>, strategy: Strategy, last: &BTreeSet<Arc<str>>) -> Self {
        let State { accounting, nodes, placed, classes, finder, barred, nominated } = state;
        let last = last.iter().filter_map(|name| nodes.id(name)).collect();
        Self { trial: Trial::new(accounting, nodes, placed), classes, finder, strategy, last, barred, budget: u32::MAX, nominated }
    }

    /// Limits the number of pods that are tried in all attempts together.
    pub const fn limit(&mut self, tries: u32) {
        self.budget = tries;
    }

    /// Returns the scheduling classes.
    #[must_use]
    pub const fn classes(&self) -> &'w Classes {
        self.classes
    }

    /// Returns the trial, which has the placed pods and the pods that are set aside.
    pub const fn trial(&mut self) -> &mut Trial<'w> {
        &mut self.trial
    }

    /// Returns the accounting with everything that the trial changed.
    #[must_use]
    pub fn accounting(&self) -> &Accounting {
        self.trial.accounting()
    }

    /// Returns whether the pod has anti-affinity terms that keep other pods away, also while it is set aside.
    #[must_use]
    pub fn keeps_others_away(&self, uid: &Uid) -> bool {
        self.trial.keeps_others_away(uid)
    }

    /// Returns the selectors that match the pod, and those of its anti-affinity, also while it is set aside.
    #[must_use]
    pub fn interests(&self, uid: &Uid) -> Vec<SelectorId> {
        self.trial.snapshot(self.strategy, &self.barred).placed.interested(uid)
    }

    /// Returns whether the budget of tries is used up.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// Places as many of the pods as are needed, in their order, or none. They are placed until the trial is rolled back or ends.
    ///
    /// # Errors
    ///
    /// The refusal of the first pod that was not placed. Then nothing has changed.
    pub fn place(&mut self, attempt: &Attempt<'_>) -> Result<Places, NotPlaced> {
        self.respect_nominations(attempt);
        let start = self.trial.savepoint();
        let places = self.place_as(attempt)?;
        let keeps = |pod: &Pod<'_>| !pod.facts.preemptable && places.iter().any(|(uid, _)| *uid == pod.facts.uid);
        if !attempt.preemptable || places.len() < 2 || !attempt.pods.iter().any(keeps) {
            return Ok(places);
        }
        // One of them keeps its place, and the others with it (S3): none may borrow.
        self.trial.rollback_to(start);
        self.place_as(&Attempt { preemptable: false, ..*attempt })
    }

    /// Sets aside the nominations of other schedulers that the pods need not respect. A gang respects those that its member with the lowest
    /// priority has to respect.
    pub(super) fn respect_nominations(&mut self, attempt: &Attempt<'_>) {
        if let Some(priority) = attempt.pods.iter().map(|pod| pod.facts.priority).min() {
            self.nominated.below(priority).take(MOST_SET_ASIDE).for_each(|uid| self.trial.set_aside(uid));
        }
    }

    pub(super) fn place_as(&mut self, attempt: &Attempt<'_>) -> Result<Places, NotPlaced> {
        let not = match self.place_in_order(attempt) {
            Ok(places) => return Ok(places),
            Err(not) => not,
        };
        if !matches!(*not.refusal, Refusal::Nodes { .. }) {
            return Err(not);
        }
        search::place(self, attempt).ok_or_else(|| not.naming_the_member(attempt))
    }

    /// Places the pods in their order. A pod that others may make room for by their coming (affinity, spread) is tried again after them.
    pub(super) fn place_in_order(&mut self, attempt: &Attempt<'_>) -> Result<Places, NotPlaced> {
        let start = self.trial.savepoint();
        let (mut places, mut parts) = (Places::new(), Parts::new(attempt.needed, attempt.parts));
        let mut first_refused = None;
        let mut left: Vec<&[Pod<'_>]> = attempt.together().collect();
        loop {
            self.budget = self.budget.saturating_sub(left.iter().fold(0_u32, |sum, pods| sum.saturating_add(count(pods.len()))).max(1));
            let (before, mut again) = (places.len(), Vec::new());
            let mut refused: BTreeSet<(ClassId, Option<&Reason>)> = BTreeSet::new();
            let mut untried = Untried::new(&left, attempt.parts.len());
            for pods in left {
                if parts.are_placed() || (again.is_empty() && !untried.are_enough(&parts)) {
                    break;
                }
                untried.remove(pods);
                if !parts.take(pods) {
                    continue;
                }
                if !pods.iter().any(|pod| pod.kind().is_some_and(|kind| refused.contains(&kind))) {
                    match self.place_together(attempt, pods, &mut places) {
                        Ok(()) => {
                            parts.add(pods);
                            continue;
                        }
                        Err((pod, missed)) => {
                            refused.extend(pod.kind().filter(|_| missed.of_class));
                            first_refused.get_or_insert((missed.refusal, pod.facts.uid.clone()));
                        }
                    }
                }
                if pods.iter().any(|pod| self.may_take_later(pod)) {
                    again.push(pods);
                }
            }
            if again.is_empty() || places.len() == before || self.is_spent() || parts.are_placed() {
                break;
            }
            left = again;
        }
        if parts.are_placed() {
            return Ok(places);
        }
        self.trial.rollback_to(start);
        let too_few = || Box::new(Refusal::NotEnoughTasks { wanted: attempt.needed, there: count(places.len()), gated: 0 });
        let (refusal, refused) = first_refused.unzip();
        Err(NotPlaced { refusal: refusal.unwrap_or_else(too_few), refused, placed: places })
    }

    /// Places these pods one after the other, or none of them. Returns the pod that was not placed, and why.
    fn place_together<'p>(&mut self, attempt: &Attempt<'_>, pods: &'p [Pod<'p>], places: &mut Places) -> Result<(), (&'p Pod<'p>, Missed)> {
        let (start, before) = (self.trial.savepoint(), places.len());
        for pod in pods {
            match self.place_one(attempt, pod, count(places.len())) {
                Ok(node) => places.push((pod.facts.uid.clone(), node)),
                Err(mut missed) => {
                    // Without the pods before it, another one of its class may find a node.
                    missed.of_class &= places.len() == before;
                    self.trial.rollback_to(start);
                    places.truncate(before);
                    return Err((pod, missed));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the coming of other pods may open a node for the pod.
    fn may_take_later(&self, pod: &Pod<'_>) -> bool {
        pod.class.and_then(|id| self.classes.get(id)).is_some_and(|class| class.terms.counted().next().is_some())
    }

    /// Does the same as [`place`](Self::place), and undoes it. Returns the nodes of the pods.
    ///
    /// # Errors
    ///
    /// As [`place`](Self::place).
    pub fn try_place(&mut self, attempt: &Attempt<'_>) -> Result<Places, NotPlaced> {
        let start: Savepoint = self.trial.savepoint();
        let places = self.place(attempt)?;
        self.trial.rollback_to(start);
        Ok(places)
    }

    /// Keeps all placements, and returns them.
    pub fn commit(self) -> Vec<Placement> {
        self.trial.commit()
    }

    /// Places the pod on its given node or on the best one. Where it has none yet the queue is asked first: a node does not help a pod that its
    /// queue refuses. A nomination is about its node: whether that takes the pod decides what it waits for.
    pub(super) fn place_one(&mut self, attempt: &Attempt<'_>, pod: &Pod<'_>, placed: u32) -> Result<Arc<str>, Missed> {
        if pod.node.is_none() {
            let queue = self.accounting().fits_queue(attempt.queue, &pod.facts.request);
            queue.map_err(|refusal| Missed::every(refusal.into()))?;
        }
        let found = match pod.node {
            Some(name) => self.fixed_node(pod.facts, name),
            None => self.best_node(pod),
        };
        let node =
            found.map_err(|tally| Missed::every(Refusal::Nodes { needed: attempt.needed, placed, member: None, tally, exceeds: None }))?;
        self.place_on(attempt, pod, node)
    }

    /// Places the pod on a node that takes it, if the queue lets it.
    pub(super) fn place_on(&mut self, attempt: &Attempt<'_>, pod: &Pod<'_>, node: NodeId) -> Result<Arc<str>, Missed> {
        if !attempt.is_due && (!attempt.preemptable || !pod.facts.preemptable) {
            let by_right = self.accounting().quota().within_entitlement(attempt.queue, &pod.facts.request);
            // Another pod of the class may be preemptable.
            by_right.map_err(|refusal| Missed { refusal: Box::new(refusal.into()), of_class: false })?;
        }
        self.trial.place(pod.facts, node, attempt.queue).map_err(|refusal| Missed::every(of_accounting(refusal)))
    }

    /// Returns the best node for the pod, or why the nodes refuse it.
    fn best_node(&mut self, pod: &Pod<'_>) -> Result<NodeId, Arc<Tally>> {
        let class = pod.class.and_then(|id| Some((id, self.classes.get(id)?)));
        // A pod that waits has a class.
        let Some((id, class)) = class else { return Err(Arc::default()) };
        let asks = Asks {
            id,
            class,
            users: self.classes.users_of(id),
            replica_of: spread_with(pod.facts, self.strategy),
            images: pod.facts.images.as_ref(),
            within: pod.within,
        };
        self.finder.best(asks, &self.last, self.trial.snapshot(self.strategy, &self.barred))
    }

    /// Returns the node with this name if it takes the pod, or why it refuses the pod.
    pub(super) fn fixed_node(&mut self, pod: &PodFacts, name: &str) -> Result<NodeId, Arc<Tally>> {
        let verdict = self.verdict_on(pod);
        let snapshot = self.trial.snapshot(self.strategy, &self.barred);
        let Some((id, node)) = snapshot.nodes.id(name).and_then(|id| Some((id, snapshot.node(id)?))) else { return Err(Arc::default()) };
        let query = Query { request: &pod.request, constraints: &pod.constraints, verdict: &verdict, barred: &self.barred, images: None };
        let Some(no) = refusal(&query, &node) else { return Ok(id) };
        let reasons = [(no.reason, Count { nodes: 1, asked: no.asked, most_free: no.free })].into();
        Err(Arc::new(Tally { nodes: 1, reasons }))
    }

    /// Works out which nodes refuse a pod without a class for the sake of other pods.
    fn verdict_on(&mut self, pod: &PodFacts) -> Verdict {
        let placed = self.trial.placed();
        let Some(set) = placed.set_of(&pod.uid) else { return Verdict::default() };
        let terms = ClassTerms::join(&pod.terms, pod.constraints.volumes.as_ref(), set, placed);
        let class = Class { request: pod.request.clone(), constraints: pod.constraints.clone(), terms };
        let snapshot = self.trial.snapshot(self.strategy, &self.barred);
        let verdict = self.finder.verdict(&class.terms, &counting(&class, snapshot.nodes), snapshot);
        class.terms.leave(self.trial.placed());
        verdict
    }

    /// Returns whether the node could take pods with these constraints if no other pod were there.
    #[must_use]
    pub fn could_take(&self, constraints: &Constraints, node: &str) -> bool {
        let snapshot = self.trial.snapshot(self.strategy, &self.barred);
        let node = snapshot.nodes.id(node).and_then(|id| snapshot.node(id));
        node.is_some_and(|node| lasting_refusal(constraints, &self.barred, &node).is_none())
    }
}

impl<'a> Pod<'a> {
    /// Creates a pod that may go to any node, and belongs to no part.
    #[must_use]
    pub const fn new(facts: &'a PodFacts, class: Option<ClassId>) -> Self {
        Self { facts, class, node: None, within: None, task: None, subgroup: None }
    }

    /// Returns what makes pods the same to every node: their class and their set of nodes.
    pub(super) fn kind(&self) -> Option<(ClassId, Option<&'a Reason>)> {
        Some((self.class?, self.within.map(NodeSet::outside)))
    }
}

impl<'a> Attempt<'a> {
    /// Returns the pods that are placed together, one slice for each: a subgroup, or one pod.
    pub(super) fn together(&self) -> impl Iterator<Item = &'a [Pod<'a>]> {
        self.pods.chunk_by(|one, other| one.subgroup.is_some_and(|of| other.subgroup.is_some_and(|is| is.number == of.number)))
    }
}

/// The pods that were not tried yet in one pass.
struct Untried {
    all: u32,
    of_parts: Vec<u32>,
}

impl Untried {
    fn new(left: &[&[Pod<'_>]], parts: usize) -> Self {
        let mut untried = Self { all: 0, of_parts: vec![0; parts] };
        left.iter().for_each(|pods| untried.shift(pods, u32::saturating_add));
        untried
    }

    fn remove(&mut self, pods: &[Pod<'_>]) {
        self.shift(pods, u32::saturating_sub);
    }

    fn shift(&mut self, pods: &[Pod<'_>], by: fn(u32, u32) -> u32) {
        self.all = by(self.all, count(pods.len()));
        for part in parts_of(pods) {
            self.of_parts.get_mut(part).into_iter().for_each(|number| *number = by(*number, 1));
        }
    }

    /// Whether the attempt may still succeed with them.
    fn are_enough(&self, parts: &Parts) -> bool {
        parts.are_enough(self.all, |part| self.of_parts.get(part).copied().unwrap_or(0))
    }
}

impl NotPlaced {
    /// Names the first pod that was not placed in the refusal of a gang.
    fn naming_the_member(mut self, attempt: &Attempt<'_>) -> Self {
        let pod = self
            .refused
            .as_ref()
            .and_then(|uid| attempt.pods.iter().find(|pod| pod.facts.uid == *uid))
            .filter(|_| attempt.needed > 1 || !attempt.parts.is_empty());
        if let (Refusal::Nodes { member, .. }, Some(pod)) = (&mut *self.refusal, pod) {
            let placed: BTreeSet<&Uid> = self.placed.iter().map(|(uid, _)| uid).collect();
            let is_alike = |other: &&Pod<'_>| {
                pod.class.is_some()
                    && other.class == pod.class
                    && other.facts.task == pod.facts.task
                    && other.facts.uid != pod.facts.uid
                    && !placed.contains(&other.facts.uid)
            };
            let alike = count(attempt.pods.iter().filter(is_alike).count());
            let task = pod.facts.task.clone().filter(|task| !task.is_empty());
            *member = Some(Arc::new(NextMember { name: Arc::clone(&pod.facts.name), task, alike }));
        }
        self
    }
}

impl Missed {
    fn every(refusal: Refusal) -> Self {
        Self { refusal: Box::new(refusal), of_class: true }
    }
}

/// Returns the controller with whose pods the pod is spread by default, where pods like it go to the emptiest nodes.
fn spread_with(pod: &PodFacts, strategy: Strategy) -> Option<&Uid> {
    let is_spread = match strategy {
        Strategy::Spread => true,
        Strategy::Auto => !pod.request.iter().any(|(name, _)| name.is_device()),
        Strategy::Pack => false,
    };
    pod.terms.replica_of.as_ref().filter(|_| is_spread)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Converts a refusal of the accounting to a refusal of the PodGroup.
fn of_accounting(refusal: accounting::Refusal) -> Refusal {
    match refusal {
        accounting::Refusal::Queue(refusal) => refusal.into(),
        // Neither should happen: the pods wait, and the predicates accepted the node. If it does happen, a retry is right.
        accounting::Refusal::AlreadyCharged | accounting::Refusal::Node(_) => {
            Refusal::Backoff { step: Step::Bind, why: "the accounting changed".to_owned(), failures: 0, lack: None }
        }
    }
}
