//! Which of those who may go are enough? (R4, R5, R7)
//!
//! First in the order of R7, as many as it takes: whoever may go after those before goes, and the shortest beginning of that order is found by halving
//! with which the gang is placed. That is the cheapest where room is room wherever it is. Where it comes about in pieces ([`by_node`](super::by_node)), or
//! where who goes keeps another from going who would have helped ([`others`](super::others)), it is looked for there.

use std::collections::BTreeSet;

use crate::api::Uid;
use crate::cycle::explain::Refusal;

use super::Claim;
use super::answer::{Limit, NotTaken, Taking};
use super::candidates::Found;
use super::owed::Owed;
use super::stage::{Places, Stage};
use super::units::Unit;

/// A search, at some set of those who go.
pub(super) struct Search<'s, 'w> {
    pub(super) stage: &'s mut Stage<'w>,
    pub(super) claim: &'s Claim<'s>,
    /// Who goes.
    pub(super) owed: Owed,
    /// In the order in which they are tried.
    pub(super) units: Vec<Unit>,
    /// Who is set aside on the stage.
    aside: BTreeSet<usize>,
}

/// Why a try placed nobody: the refusal, or nothing where no more tries are made.
pub(super) type NotPlaced = Option<Refusal>;

impl<'s, 'w> Search<'s, 'w> {
    pub(super) fn new(stage: &'s mut Stage<'w>, claim: &'s Claim<'s>, budgets: &[u32], found: Found, units: Vec<Unit>) -> Self {
        Self { stage, claim, owed: Owed::new(found, budgets), units, aside: BTreeSet::new() }
    }

    /// `without` is why it is not placed while nobody goes.
    pub(super) fn run(mut self, without: Refusal) -> Result<Taking, NotTaken> {
        let all: BTreeSet<usize> = self.units.iter().flat_map(|unit| unit.pods.iter().copied()).collect();
        if let Err(Some(refusal)) = self.try_with(&all) {
            return Err(NotTaken::Unplaceable(Box::new(refusal)));
        }
        let mut limits = BTreeSet::new();
        let mut last = None;
        let found = self.cheapest_first(&mut limits, &mut last).or_else(|| self.by_node()).or_else(|| self.others());
        match found {
            Some(places) => Ok(self.spare(places)),
            None => {
                let every = self.is_small() && !self.is_spent();
                Err(NotTaken::NotEnough { limits, refusal: Box::new(last.unwrap_or(without)), every })
            }
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.stage.is_spent() || self.owed.is_spent()
    }

    /// Whether the gang is placed when those go who go now.
    pub(super) fn try_now(&mut self) -> Result<Places, NotPlaced> {
        let taken = self.owed.taken().clone();
        self.try_with(&taken)
    }

    /// The same for others, whether or not they may go.
    pub(super) fn try_with(&mut self, gone: &BTreeSet<usize>) -> Result<Places, NotPlaced> {
        if self.stage.is_spent() {
            return Err(None);
        }
        let uid = |search: &Self, pod: usize| -> Option<Uid> { Some(search.owed.candidates.get(pod)?.uid.clone()) };
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
        self.stage.place_all(self.claim).map_err(Some)
    }

    /// The shortest beginning of R7's order that is enough; `last` is why all of it is not, and `limits` what kept others from it.
    fn cheapest_first(&mut self, limits: &mut BTreeSet<Limit>, last: &mut NotPlaced) -> Option<Places> {
        let mut gone: Vec<Vec<usize>> = Vec::new();
        for unit in &self.units {
            match self.owed.add(unit) {
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
        // With all of them it is placed, with none of them it was not.
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
        gone.get(*now..to).into_iter().flatten().for_each(|pods| self.owed.take(pods));
        gone.get(to..*now).into_iter().flatten().for_each(|pods| self.owed.give_back(pods));
        *now = to;
    }

    /// Those who go, in R7's order, a gang together.
    pub(super) fn taking(&self, places: Places) -> Taking {
        let mut victims = Vec::new();
        for unit in &self.units {
            let is_part =
                |pod: usize| self.owed.candidates.get(pod).and_then(|pod| pod.gang).is_some_and(|gang| self.owed.goes_whole(gang));
            let goes = |pod: &&usize| self.owed.taken().contains(*pod) && (unit.gang.is_some() == is_part(**pod));
            victims.extend(unit.pods.iter().filter(goes).filter_map(|pod| self.owed.candidates.get(*pod)).map(|pod| pod.uid.clone()));
        }
        Taking { victims, places }
    }
}
