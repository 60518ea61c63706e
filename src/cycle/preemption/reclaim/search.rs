//! Searches for the candidates that are enough (R3, R3b, R5).
//!
//! First the shortest enough beginning of R5's order is found by halving, with a placement of the gang at each step. A candidate that the
//! rules forbid after the earlier ones is skipped. That is the cheapest set where room is equal everywhere. Other searches follow: by node
//! ([`cheapest_node`](super::cheapest_node)) where room is in pieces, and over alternative sets ([`alternatives`](super::alternatives)) where one
//! victim forbids another that would help.

use std::collections::BTreeSet;

use crate::api::Uid;
use crate::cycle::explain::{Limit, NotPreempted, Refusal};

use super::Preemption;
use super::Preemptor;
use super::candidates::Found;
use super::eviction_units::Unit;
use super::stage::{Places, Stage};
use super::victims::Victims;

/// A search with its present victims.
pub(super) struct Search<'s, 'w> {
    pub(super) stage: &'s mut Stage<'w>,
    pub(super) preemptor: &'s Preemptor<'s>,
    /// The present victims.
    pub(super) victims: Victims,
    /// The units, in the order in which they are tried.
    pub(super) units: Vec<Unit>,
    /// The candidates that are set aside on the stage.
    aside: BTreeSet<usize>,
}

/// Why a try placed no gang: the refusal, or none where no more tries are made.
pub(super) type NotPlaced = Option<Refusal>;

impl<'s, 'w> Search<'s, 'w> {
    pub(super) fn new(stage: &'s mut Stage<'w>, preemptor: &'s Preemptor<'s>, budgets: &[u32], found: Found, units: Vec<Unit>) -> Self {
        Self { stage, preemptor, victims: Victims::new(found, budgets), units, aside: BTreeSet::new() }
    }

    /// Runs the search. `without` is why the gang is not placed without any victim.
    pub(super) fn run(mut self, without: Refusal) -> Result<Preemption, NotPreempted> {
        let mut limits = BTreeSet::new();
        let mut last = None;
        if let Err(Some(refusal)) = self.try_with(&self.all())
            && !self.helps_to_keep_required()
        {
            return match self.fewest() {
                Some(places) => Ok(self.spare_unneeded(places)),
                None => Err(NotPreempted::Unplaceable(Box::new(refusal))),
            };
        }
        let found = self.cheapest_first(&mut limits, &mut last).or_else(|| self.by_cheapest_node()).or_else(|| self.alternatives());
        match found.or_else(|| self.fewest()) {
            Some(places) => Ok(self.spare_unneeded(places)),
            None => {
                let every = self.is_small() && !self.is_spent() && !self.stage.others_matter_to(self.preemptor);
                Err(NotPreempted::NotEnough { limits, refusal: Box::new(last.unwrap_or(without)), every })
            }
        }
    }

    /// Returns the pods of all units.
    fn all(&self) -> BTreeSet<usize> {
        self.units.iter().flat_map(|unit| unit.pods.iter().copied()).collect()
    }

    /// Leaves out the units with a pod that the affinity of the gang selects, because the gang may have to be beside it. Returns whether
    /// the gang is placed without all others.
    fn helps_to_keep_required(&mut self) -> bool {
        let required = self.stage.required_by(self.preemptor);
        let is_required = |pod: &usize| {
            self.victims.candidates.get(*pod).is_some_and(|pod| self.stage.interests(&pod.uid).iter().any(|by| required.contains(by)))
        };
        let (required, others): (Vec<Unit>, Vec<Unit>) = self.units.iter().cloned().partition(|unit| unit.pods.iter().any(is_required));
        if required.is_empty() {
            return false;
        }
        let all = std::mem::replace(&mut self.units, others);
        let helps = self.try_with(&self.all()).is_ok();
        if !helps {
            self.units = all;
        }
        helps
    }

    pub(super) fn is_spent(&self) -> bool {
        self.stage.is_spent() || self.victims.is_spent()
    }

    /// Tries to place the gang without the present victims.
    pub(super) fn try_now(&mut self) -> Result<Places, NotPlaced> {
        let taken = self.victims.chosen().clone();
        self.try_with(&taken)
    }

    /// Tries to place the gang without these pods, whether or not the rules allow them as victims.
    pub(super) fn try_with(&mut self, gone: &BTreeSet<usize>) -> Result<Places, NotPlaced> {
        if self.stage.is_spent() {
            return Err(None);
        }
        let uid = |search: &Self, pod: usize| -> Option<Uid> { Some(search.victims.candidates.get(pod)?.uid.clone()) };
        let (back, go): (Vec<usize>, Vec<usize>) =
            (self.aside.difference(gone).copied().collect(), gone.difference(&self.aside).copied().collect());
        for pod in back {
            uid(self, pod).iter().for_each(|uid| self.stage.put_back(uid));
            self.aside.remove(&pod);
        }
        for pod in go {
            uid(self, pod).iter().for_each(|uid| self.stage.set_aside(uid));
            self.aside.insert(pod);
        }
        self.stage.place_all(self.preemptor).map_err(Some)
    }

    /// Finds the shortest beginning of R5's order that is enough. `last` is why all of it is not, and `limits` are the rules that excluded
    /// units.
    fn cheapest_first(&mut self, limits: &mut BTreeSet<Limit>, last: &mut NotPlaced) -> Option<Places> {
        let mut gone: Vec<Vec<usize>> = Vec::new();
        for unit in &self.units {
            match self.victims.add(unit) {
                Ok(pods) => gone.push(pods),
                Err(limit) => limits.extend(limit),
            }
        }
        let mut places = match self.try_now() {
            Ok(places) => places,
            Err(refusal) => {
                *last = refusal;
                return None;
            }
        };
        // Without all of them the gang is placed, with all of them it was not.
        let (mut too_few, mut enough, mut now) = (0, gone.len(), gone.len());
        while enough.saturating_sub(too_few) > 1 {
            let half = too_few.midpoint(enough);
            self.move_to(&gone, &mut now, half);
            match self.try_now() {
                Ok(found) => (enough, places) = (half, found),
                Err(_) => too_few = half,
            }
        }
        self.move_to(&gone, &mut now, enough);
        Some(places)
    }

    fn move_to(&mut self, gone: &[Vec<usize>], now: &mut usize, to: usize) {
        gone.get(*now..to).into_iter().flatten().for_each(|pods| self.victims.add_again(pods));
        gone.get(to..*now).into_iter().flatten().for_each(|pods| self.victims.remove(pods));
        *now = to;
    }

    /// Returns the victims in R5's order, a gang together.
    pub(super) fn preemption(&self, places: Places) -> Preemption {
        let (mut victims, mut known) = (Vec::new(), BTreeSet::new());
        for unit in &self.units {
            let is_part =
                |pod: usize| self.victims.candidates.get(pod).and_then(|pod| pod.gang).is_some_and(|gang| self.victims.is_whole_gang(gang));
            // What a subgroup has beyond its size is a unit by itself, too.
            let is_chosen =
                |pod: &&usize| self.victims.chosen().contains(*pod) && (unit.gang.is_some() == is_part(**pod)) && known.insert(**pod);
            victims
                .extend(unit.pods.iter().filter(is_chosen).filter_map(|pod| self.victims.candidates.get(*pod)).map(|pod| pod.uid.clone()));
        }
        Preemption { victims, places }
    }
}
