//! Applies each event to the accounting and to the facts, and compares the outcome.

use crate::accounting::{Accounting, QueueLimits, QueueShape, Stage};
use crate::api::Uid;
use crate::resources::{Amount, Limits, Resources};

use super::events::{Event, Place};
use super::facts::{Amounts, Bounds, DIMENSIONS, Facts, NAMES, Pod, QueueSpec, ROOT, by_name};

/// One name more than the nodes that ever exist.
pub(super) const NODE_NAMES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const POD_NAMES: [&str; 8] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
const GROUP_NAMES: [&str; 3] = ["g0", "g1", "g2"];

pub(super) fn uid(pod: usize) -> Uid {
    POD_NAMES[pod].into()
}

pub(super) fn resources(amounts: &Amounts) -> Resources {
    let mut resources = Resources::new();
    for (name, amount) in DIMENSIONS.iter().zip(amounts).filter(|(_, amount)| **amount != 0) {
        resources.set(*name, Amount::from_nanos(*amount));
    }
    resources
}

fn limits(bounds: &Bounds) -> Limits {
    let mut limits = Limits::new();
    for (name, bound) in DIMENSIONS.iter().zip(bounds) {
        bound.iter().for_each(|bound| limits.set(*name, Amount::from_nanos(*bound)));
    }
    limits
}

/// The accounting, and the facts that it accounts for.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) accounting: Accounting,
    pub(super) facts: Facts,
}

impl Pair {
    /// Applies an event to both; the error is a wrong answer of the accounting.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), String> {
        let Self { accounting, facts } = self;
        match event {
            Event::Nothing => {}
            Event::Node(node, offers) => {
                match offers {
                    Some(offers) => accounting.node_upsert(NODE_NAMES[*node], resources(offers)),
                    None => accounting.node_delete(NODE_NAMES[*node]),
                }
                facts.nodes[*node] = *offers;
            }
            Event::Queue(queue, spec) => {
                let parent = (spec.parent != ROOT || spec.weight == 0).then(|| NAMES[spec.parent].into());
                accounting.queue_upsert(&QueueShape { name: NAMES[*queue].into(), parent }, terms(spec));
                facts.queues[*queue] = Some(*spec);
            }
            Event::NoQueue(queue) => {
                accounting.queue_remove(NAMES[*queue]);
                facts.delete(*queue);
            }
            Event::Seen(place, on_node, in_queue, path) => self.observe(place, *on_node, *in_queue, *path),
            Event::Terminating(pod) => facts.pods[*pod].iter_mut().for_each(|pod| pod.terminating = true),
            Event::Gone(pod) => {
                let was = facts.pods[*pod].take().is_some();
                same("release", accounting.release(&uid(*pod)), was)?;
            }
            Event::Assume(place) => {
                let may_place = facts.may_place(place);
                let did = accounting.assume(&uid(place.pod), NODE_NAMES[place.node], NAMES[place.queue], &resources(&place.amounts));
                same("assume", did.is_ok(), may_place)?;
                if may_place {
                    facts.place(place);
                }
            }
            Event::Confirm(pod) => {
                same("confirm", accounting.confirm(&uid(*pod)), facts.pods[*pod].is_some())?;
                facts.pods[*pod].iter_mut().for_each(|pod| pod.assumed = false);
            }
            Event::Forget(pod) => {
                let assumed = facts.pods[*pod].is_some_and(|pod| pod.assumed);
                same("forget", accounting.forget(&uid(*pod)), assumed)?;
                if assumed {
                    facts.pods[*pod] = None;
                }
            }
            Event::Reserve(group, queue, amounts) => {
                accounting.reserve(GROUP_NAMES[*group], NAMES[*queue], &resources(amounts));
                facts.reserved[*group] = Some((*queue, *amounts));
            }
            Event::Unreserve(group) => {
                let was = facts.reserved[*group].take().is_some_and(|(_, amounts)| amounts != [0; 3]);
                same("unreserve", accounting.unreserve(GROUP_NAMES[*group]), was)?;
            }
            Event::Waits(group, queue, amounts) => facts.waits[*group] = (*amounts != [0; 3]).then_some((*queue, *amounts)),
            Event::Try(places, back, keep) => self.attempt(places, *back, *keep)?,
        }
        self.accounting.forget_unused_places();
        self.facts.forget_unused_places();
        Ok(())
    }

    fn observe(&mut self, place: &Place, on_node: bool, in_queue: bool, path: Option<[usize; 2]>) {
        let (node, queue) = (on_node.then_some(place.node), in_queue.then_some(place.queue));
        let (node_name, queue_name) = (node.map(|node| NODE_NAMES[node]), queue.map(|queue| NAMES[queue]));
        if let Some([parent, above]) = path.filter(|_| in_queue) {
            let path = [place.queue, parent, above, ROOT];
            let (names, created) = (path.map(|queue| NAMES[queue].into()), i64::try_from(place.pod).unwrap_or(0));
            self.accounting.charge_observed_on_path(&uid(place.pod), node_name, &names, created, &resources(&place.amounts));
            self.facts.tell(place.pod, path);
        } else {
            self.accounting.charge_observed(&uid(place.pod), node_name, queue_name, &resources(&place.amounts));
        }
        let old = &mut self.facts.pods[place.pod];
        // Seen in its state before the bind.
        if node.is_some() || old.is_none_or(|old| old.node.is_none()) {
            *old = Some(Pod { node, queue, amounts: place.amounts, assumed: false, terminating: false });
        }
    }

    /// Places pods as the members of gangs: each takes back the reservation of its PodGroup. The last one has a reservation in its place.
    fn attempt(&mut self, places: &[Place; 3], back: usize, keep: bool) -> Result<(), String> {
        let before = (self.accounting.clone(), self.facts);
        let mut trial = self.accounting.trial();
        let mut to = (trial.savepoint(), self.facts);
        for (at, place) in places.iter().enumerate() {
            let group = at % GROUP_NAMES.len();
            let reserved = if at + 1 == places.len() { place.amounts } else { [0; 3] };
            trial.reserve(GROUP_NAMES[group], NAMES[place.queue], &resources(&reserved));
            self.facts.reserved[group] = (reserved != [0; 3]).then_some((place.queue, reserved));
            let may_place = self.facts.may_place(place);
            let did = trial.place(&uid(place.pod), NODE_NAMES[place.node], NAMES[place.queue], &resources(&place.amounts));
            same("place", did.is_ok(), may_place)?;
            if may_place {
                self.facts.place(place);
            }
            if at < back {
                to = (trial.savepoint(), self.facts);
            }
        }
        trial.rollback_to(to.0);
        self.facts = to.1;
        if keep {
            let _placed = trial.commit();
        } else {
            drop(trial);
            self.facts = before.1;
            // B3, also of what no view shows.
            same("the accounting after a trial that was dropped", &self.accounting, &before.0)?;
        }
        Ok(())
    }
}

fn terms(spec: &QueueSpec) -> QueueLimits {
    QueueLimits {
        capability: limits(&spec.capability),
        deserved: limits(&spec.deserved),
        guarantee: limits(&spec.guarantee),
        weight: spec.weight,
        priority: spec.priority,
        reclaimable: spec.reclaimable,
        closed_by_hand: spec.closed,
    }
}

impl Facts {
    /// Whether a pod may be placed: it has no charge, and it fits on the node and in the queue (N2 and F4).
    fn may_place(&self, place: &Place) -> bool {
        let Some(offers) = self.nodes.get(place.node).copied().flatten() else { return false };
        let used = self.on_node(place.node);
        let on_node = (0..3).all(|at| place.amounts[at] == 0 || used[at] + place.amounts[at] <= offers[at]);
        self.pods[place.pod].is_none() && on_node && self.rules().fits(NAMES[place.queue], &by_name(&place.amounts)).is_ok()
    }

    fn place(&mut self, place: &Place) {
        let (node, queue) = (Some(place.node), Some(place.queue));
        self.pods[place.pod] = Some(Pod { node, queue, amounts: place.amounts, assumed: true, terminating: false });
    }
}

/// Compares which pods are charged where, and in which stage.
pub(super) fn compare_pods(accounting: &Accounting, facts: &Facts) -> Result<(), String> {
    for (at, pod) in facts.pods.iter().enumerate() {
        let uid = uid(at);
        let is = accounting.pod(&uid);
        let same = match (is, pod) {
            (None, None) => true,
            (Some(is), Some(pod)) => {
                let stage = if pod.assumed { Stage::Assumed } else { Stage::Observed };
                let place = (is.node, is.queue, is.stage);
                place == (pod.node.map(|node| NODE_NAMES[node]), pod.queue.map(|queue| NAMES[queue]), stage)
                    && *is.resources == resources(&pod.amounts)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !same {
            return Err(format!("pod p{at}: the accounting has {is:?}, the facts {pod:?}"));
        }
    }
    for (at, offers) in facts.nodes.iter().enumerate() {
        let is = accounting.ledger().node(NODE_NAMES[at]).map(|node| (node.allocatable.clone(), node.used.clone()));
        let ought = offers.map(|offers| (resources(&offers), resources(&facts.on_node(at))));
        same(NODE_NAMES[at], is, ought)?;
    }
    Ok(())
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: impl std::fmt::Display, is: T, ought: T) -> Result<(), String> {
    if is == ought { Ok(()) } else { Err(format!("{what}: the accounting has {is:?}, the rules {ought:?}")) }
}
