//! May this one go, too, after those who go already? (R2, R3, R6, and budgets)
//!
//! Whatever may go together may also go in part, so a set only grows while it is allowed, and taking somebody out of it needs no question.
//! There must be an order in which each finds its queue over its share with those before it gone. It is found from its end: whoever borrows with all
//! others gone may be the last, and what may go in some order may go without its last.

use std::collections::{BTreeMap, BTreeSet};

use crate::resources::{Amount, ResourceName, Resources};

use super::MOST_STEPS;
use super::answer::Limit;
use super::candidates::{Candidate, Found, Gang};
use super::rules::{Rule, holds};
use super::units::Unit;

/// A queue below the common ancestor, as it is with those gone who go.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) used: Resources,
    pub(super) share: Resources,
    pub(super) floor: Resources,
}

/// Who goes, and what is still owed then.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) candidates: Vec<Candidate>,
    pub(super) gangs: Vec<Gang>,
    slots: Vec<Slot>,
    lacking: Vec<ResourceName>,
    /// What each budget still lets go.
    budgets: Vec<u32>,
    taken: BTreeSet<usize>,
    /// How many of each gang go, and how many of each of its tasks.
    of_gangs: Vec<(u32, Vec<u32>)>,
    /// How often it may still be weighed.
    steps: u32,
}

impl Owed {
    pub(super) fn new(found: Found, budgets: &[u32]) -> Self {
        let of_gangs = found.gangs.iter().map(|gang| (0, vec![0; gang.tasks.len()])).collect();
        Self {
            candidates: found.candidates,
            gangs: found.gangs,
            slots: found.slots,
            lacking: found.lacking,
            budgets: budgets.to_vec(),
            taken: BTreeSet::new(),
            of_gangs,
            steps: MOST_STEPS,
        }
    }

    /// Who goes, by their place among the candidates.
    pub(super) const fn taken(&self) -> &BTreeSet<usize> {
        &self.taken
    }

    /// Whether all that is to be weighed in one call is.
    pub(super) const fn is_spent(&self) -> bool {
        self.steps == 0
    }

    /// Whether all of a gang go.
    pub(super) fn goes_whole(&self, gang: usize) -> bool {
        let live = self.gangs.get(gang).map(|gang| gang.live);
        self.of_gangs.get(gang).map(|(count, _)| *count) == live
    }

    /// Lets the unit go, too. Those of it who did not go before.
    ///
    /// # Errors
    ///
    /// What keeps it; nothing where all of it go already.
    pub(super) fn add(&mut self, unit: &Unit) -> Result<Vec<usize>, Option<Limit>> {
        let new: Vec<usize> = unit.pods.iter().copied().filter(|pod| !self.taken.contains(pod)).collect();
        if new.is_empty() {
            return Err(None);
        }
        if unit.gang.is_none() && holds(Rule::R6) && !new.iter().all(|pod| self.is_surplus(*pod)) {
            return Err(Some(Limit::Gang));
        }
        if holds(Rule::R9) && !self.are_within_budgets(&new) {
            return Err(Some(Limit::Budget));
        }
        // Of a gang of which some went alone before, all go as one now.
        let is_last = new.len() == unit.pods.len() && new.iter().all(|pod| self.borrows(*pod));
        self.take(&new);
        if holds(Rule::R3) && !new.iter().all(|pod| self.leaves_floors(*pod)) {
            self.give_back(&new);
            return Err(Some(Limit::Floor));
        }
        if !is_last && holds(Rule::R2Before) && !self.are_in_some_order() {
            self.give_back(&new);
            return Err(Some(Limit::Share));
        }
        Ok(new)
    }

    /// These go, as they did once before.
    pub(super) fn take(&mut self, pods: &[usize]) {
        self.shift(pods, Resources::sub);
        for pod in pods {
            self.taken.insert(*pod);
            self.count(*pod, |number| *number = number.saturating_add(1), |left| *left = left.saturating_sub(1));
        }
    }

    /// These do not go.
    pub(super) fn give_back(&mut self, pods: &[usize]) {
        self.shift(pods, Resources::add);
        for pod in pods {
            self.taken.remove(pod);
            self.count(*pod, |number| *number = number.saturating_sub(1), |left| *left = left.saturating_add(1));
        }
    }

    /// Nobody goes.
    pub(super) fn clear(&mut self) {
        let all: Vec<usize> = self.taken.iter().copied().collect();
        self.give_back(&all);
    }

    fn count(&mut self, pod: usize, gang: impl Fn(&mut u32), budget: impl Fn(&mut u32)) {
        let Some(pod) = self.candidates.get(pod) else { return };
        if let Some((count, tasks)) = pod.gang.and_then(|at| self.of_gangs.get_mut(at)) {
            gang(count);
            pod.task.and_then(|task| tasks.get_mut(task)).into_iter().for_each(gang);
        }
        for at in pod.budgets.iter().filter(|_| holds(Rule::R9Together)) {
            self.budgets.get_mut(*at).into_iter().for_each(&budget);
        }
    }

    fn shift(&mut self, pods: &[usize], by: fn(&mut Resources, &Resources)) {
        for pod in pods.iter().filter_map(|pod| self.candidates.get(*pod)) {
            for slot in pod.way.iter() {
                if let Some(slot) = self.slots.get_mut(*slot) {
                    by(&mut slot.used, &pod.amounts);
                }
            }
        }
    }

    /// R6: whether enough stay when it goes alone.
    fn is_surplus(&self, pod: usize) -> bool {
        let Some(pod) = self.candidates.get(pod) else { return false };
        let Some((gang, (gone, tasks))) = pod.gang.and_then(|at| Some((self.gangs.get(at)?, self.of_gangs.get(at)?))) else {
            return true;
        };
        let stays = |live: u32, gone: u32, min: u32| live > min.saturating_add(gone);
        let of_task = pod.task.and_then(|at| Some((gang.tasks.get(at)?, tasks.get(at)?)));
        stays(gang.live, *gone, gang.min) && of_task.is_none_or(|((live, min), gone)| stays(*live, *gone, *min))
    }

    fn are_within_budgets(&self, pods: &[usize]) -> bool {
        let mut asked = BTreeMap::<usize, u32>::new();
        for budget in pods.iter().filter_map(|pod| self.candidates.get(*pod)).flat_map(|pod| &pod.budgets) {
            let count = asked.entry(*budget).or_default();
            *count = count.saturating_add(1);
        }
        asked.iter().all(|(budget, count)| self.budgets.get(*budget).is_some_and(|left| left >= count))
    }

    /// R2: whether its queue and all above it are over their shares in one dimension that is lacking.
    fn borrows(&mut self, pod: usize) -> bool {
        self.steps = self.steps.saturating_sub(1);
        let Some(pod) = self.candidates.get(pod) else { return false };
        let levels = if holds(Rule::R2Above) { pod.way.len() } else { 1 };
        let over = |slot: &Slot, name: &ResourceName| slot.used.get(name) > slot.share.get(name);
        let owes = |name: &ResourceName| pod.way.iter().take(levels).all(|slot| self.slots.get(*slot).is_some_and(|slot| over(slot, name)));
        pod.way.is_empty() || !holds(Rule::R2) || self.lacking.iter().any(owes)
    }

    /// R3, with the pod gone.
    fn leaves_floors(&self, pod: usize) -> bool {
        let Some(pod) = self.candidates.get(pod) else { return false };
        let mut slots = pod.way.iter().filter_map(|slot| self.slots.get(*slot));
        slots.all(|slot| {
            let of_pod = pod.amounts.iter().filter(|(_, amount)| *amount > Amount::ZERO);
            of_pod.into_iter().all(|(name, _)| slot.used.get(name) >= slot.floor.get(name))
        })
    }

    /// R2: whether all who go could go one after the other.
    fn are_in_some_order(&mut self) -> bool {
        let mut whole = BTreeMap::<usize, Vec<usize>>::new();
        let mut left: Vec<Vec<usize>> = Vec::new();
        for pod in &self.taken {
            match self.candidates.get(*pod).and_then(|pod| pod.gang).filter(|gang| self.goes_whole(*gang)) {
                Some(gang) => whole.entry(gang).or_default().push(*pod),
                None => left.push(vec![*pod]),
            }
        }
        left.extend(whole.into_values());
        let mut last: Vec<usize> = Vec::new();
        loop {
            let before = left.len();
            left.retain(|unit| {
                self.shift(unit, Resources::add);
                // The last of those that are left: all others of them are gone.
                let may = !self.is_spent() && self.is_last(unit);
                if may {
                    last.extend(unit);
                } else {
                    self.shift(unit, Resources::sub);
                }
                !may
            });
            if left.is_empty() || left.len() == before {
                break;
            }
        }
        self.shift(&last, Resources::sub);
        left.is_empty()
    }

    fn is_last(&mut self, unit: &[usize]) -> bool {
        unit.iter().all(|pod| self.borrows(*pod))
    }
}
