//! The present victims, and the check whether a further pod may be a victim (R2, R2b, R4, and budgets).
//!
//! A part of an allowed set is allowed, too. So a set only grows while it is allowed, and removing a victim needs no check.
//!
//! There must be an order in which the queue of each victim is over its share without the victims before it. The order is found from its
//! end: a pod with a queue over its share without all others may be the last. A set with an order has one without its last pod, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::cycle::explain::Limit;
use crate::resources::{Amount, ResourceName, Resources};

use super::MOST_STEPS;
use super::candidates::{Candidate, Found, Gang, LiveSubgroup};

use super::eviction_units::Unit;

/// A queue below the common ancestor, without the victims.
#[derive(Debug)]
pub(super) struct QueueSlot {
    pub(super) used: Resources,
    pub(super) share: Resources,
    pub(super) floor: Resources,
}

/// The number of victims of one gang: in all, of each of its tasks, and of each of its subgroups.
#[derive(Clone, Debug)]
struct Gone {
    all: u32,
    tasks: Vec<u32>,
    subgroups: Vec<u32>,
}

/// The victims, and the use of the queues without them.
#[derive(Debug)]
pub(super) struct Victims {
    pub(super) candidates: Vec<Candidate>,
    pub(super) gangs: Vec<Gang>,
    slots: Vec<QueueSlot>,
    lacking: Vec<ResourceName>,
    /// The evictions that each budget still allows.
    budgets: Vec<u32>,
    chosen: BTreeSet<usize>,
    /// The victims of each gang.
    of_gangs: Vec<Gone>,
    /// The number of checks that are left.
    steps: u32,
}

impl Victims {
    pub(super) fn new(found: Found, budgets: &[u32]) -> Self {
        let none = |gang: &Gang| Gone { all: 0, tasks: vec![0; gang.tasks.len()], subgroups: vec![0; gang.subgroups.len()] };
        let of_gangs = found.gangs.iter().map(none).collect();
        Self {
            candidates: found.candidates,
            gangs: found.gangs,
            slots: found.slots,
            lacking: found.lacking,
            budgets: budgets.to_vec(),
            chosen: BTreeSet::new(),
            of_gangs,
            steps: MOST_STEPS,
        }
    }

    /// The victims, as indices into the candidates.
    pub(super) const fn chosen(&self) -> &BTreeSet<usize> {
        &self.chosen
    }

    /// Whether all checks of the call are used up.
    pub(super) const fn is_spent(&self) -> bool {
        self.steps == 0
    }

    /// Whether all live members of the gang are victims.
    pub(super) fn is_whole_gang(&self, gang: usize) -> bool {
        let live = self.gangs.get(gang).map(|gang| gang.live);
        self.of_gangs.get(gang).map(|gone| gone.all) == live
    }

    /// Returns the subgroup of the pod, as an index of its gang and one of the gang's subgroups, if all live members of it are victims.
    pub(super) fn whole_subgroup(&self, pod: usize) -> Option<(usize, usize)> {
        let pod = self.candidates.get(pod)?;
        let (gang, subgroup) = (pod.gang?, pod.subgroup?);
        let live = self.gangs.get(gang)?.subgroups.get(subgroup)?.live;
        (self.of_gangs.get(gang)?.subgroups.get(subgroup) == Some(&live)).then_some((gang, subgroup))
    }

    /// Adds the unit to the victims. Returns its pods that were no victims before.
    ///
    /// # Errors
    ///
    /// The limit that forbids it; none where all its pods are victims already.
    pub(super) fn add(&mut self, unit: &Unit) -> Result<Vec<usize>, Option<Limit>> {
        let new: Vec<usize> = unit.pods.iter().copied().filter(|pod| !self.chosen.contains(pod)).collect();
        if new.is_empty() {
            return Err(None);
        }
        if unit.gang.is_none() && !self.are_surplus(&new) {
            return Err(Some(Limit::Gang));
        }
        if !self.are_within_budgets(&new) {
            return Err(Some(Limit::Budget));
        }
        // Of a gang with single victims before, all members are victims together now.
        let is_last = new.len() == unit.pods.len() && new.iter().all(|pod| self.is_over_share(*pod));
        self.add_again(&new);
        if !new.iter().all(|pod| self.keeps_floors(*pod)) {
            self.remove(&new);
            return Err(Some(Limit::Floor));
        }
        if !is_last && !self.are_in_some_order() {
            self.remove(&new);
            return Err(Some(Limit::Share));
        }
        Ok(new)
    }

    /// Adds pods that were victims before, without any check.
    pub(super) fn add_again(&mut self, pods: &[usize]) {
        self.shift(pods, Resources::sub);
        for pod in pods {
            self.chosen.insert(*pod);
            self.count(*pod, |number| *number = number.saturating_add(1), |left| *left = left.saturating_sub(1));
        }
    }

    /// Removes these victims.
    pub(super) fn remove(&mut self, pods: &[usize]) {
        self.shift(pods, Resources::add);
        for pod in pods {
            self.chosen.remove(pod);
            self.count(*pod, |number| *number = number.saturating_sub(1), |left| *left = left.saturating_add(1));
        }
    }

    pub(super) fn clear(&mut self) {
        let all: Vec<usize> = self.chosen.iter().copied().collect();
        self.remove(&all);
    }

    fn count(&mut self, pod: usize, gang: impl Fn(&mut u32), budget: impl Fn(&mut u32)) {
        let Some(pod) = self.candidates.get(pod) else { return };
        if let Some(gone) = pod.gang.and_then(|at| self.of_gangs.get_mut(at)) {
            gang(&mut gone.all);
            pod.task.and_then(|task| gone.tasks.get_mut(task)).into_iter().for_each(&gang);
            pod.subgroup.and_then(|at| gone.subgroups.get_mut(at)).into_iter().for_each(&gang);
        }
        for at in &pod.budgets {
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

    /// R4: whether their gang keeps its minimum without these pods, that of each task and the whole subgroups included. A subgroup that is
    /// whole stays so, or all of it goes.
    fn are_surplus(&self, pods: &[usize]) -> bool {
        let of = |pod: &usize| self.candidates.get(*pod);
        let Some(at) = pods.first().and_then(of).and_then(|pod| pod.gang) else { return true };
        let Some((gang, before)) = self.gangs.get(at).zip(self.of_gangs.get(at)) else { return false };
        let mut gone = before.clone();
        for pod in pods.iter().filter_map(of) {
            let (task, subgroup) = (pod.task.and_then(|at| gone.tasks.get_mut(at)), pod.subgroup.and_then(|at| gone.subgroups.get_mut(at)));
            for number in [Some(&mut gone.all), task, subgroup].into_iter().flatten() {
                *number = number.saturating_add(1);
            }
        }
        let keeps_minimum = |((live, min), gone): (&(u32, u32), &u32)| *live >= min.saturating_add(*gone);
        let whole = |gone: &Gone, policy: usize| {
            let of_policy = gang.subgroups.iter().zip(&gone.subgroups).filter(|(subgroup, _)| subgroup.policy == policy);
            of_policy.filter(|(subgroup, gone)| subgroup.is_whole(**gone)).count()
        };
        let keeps_policy = |(policy, needed): (usize, &u32)| {
            let left = whole(&gone, policy);
            usize::try_from(*needed).is_ok_and(|needed| left >= needed) || left == whole(before, policy)
        };
        let subgroups = gang.subgroups.iter().zip(before.subgroups.iter().zip(&gone.subgroups));
        let is_half = |(subgroup, (before, gone)): (&LiveSubgroup, (&u32, &u32))| {
            subgroup.is_whole(*before) && !subgroup.is_whole(*gone) && *gone < subgroup.live
        };
        keeps_minimum((&(gang.live, gang.min), &gone.all))
            && gang.tasks.iter().zip(&gone.tasks).filter(|(_, gone)| **gone > 0).all(keeps_minimum)
            && gang.policies.iter().enumerate().all(keeps_policy)
            && !subgroups.into_iter().any(is_half)
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
    fn is_over_share(&mut self, pod: usize) -> bool {
        self.steps = self.steps.saturating_sub(1);
        let Some(pod) = self.candidates.get(pod) else { return false };
        let over = |slot: &QueueSlot, name: &ResourceName| slot.used.get(name) > slot.share.get(name);
        let over_at_all_levels =
            |name: &ResourceName| pod.way.iter().all(|slot| self.slots.get(*slot).is_some_and(|slot| over(slot, name)));
        pod.way.is_empty() || self.lacking.iter().any(over_at_all_levels)
    }

    /// R2b, with the pod gone.
    fn keeps_floors(&self, pod: usize) -> bool {
        let Some(pod) = self.candidates.get(pod) else { return false };
        let mut slots = pod.way.iter().filter_map(|slot| self.slots.get(*slot));
        slots.all(|slot| {
            let of_pod = pod.amounts.iter().filter(|(_, amount)| *amount > Amount::ZERO);
            of_pod.into_iter().all(|(name, _)| slot.used.get(name) >= slot.floor.get(name))
        })
    }

    /// R2: whether all victims could be evicted one after the other.
    fn are_in_some_order(&mut self) -> bool {
        let mut whole = BTreeMap::<(usize, Option<usize>), Vec<usize>>::new();
        let mut left: Vec<Vec<usize>> = Vec::new();
        for pod in &self.chosen {
            let Some(facts) = self.candidates.get(*pod) else { continue };
            let gang = facts.gang.filter(|gang| self.is_whole_gang(*gang)).map(|gang| (gang, None));
            match gang.or_else(|| self.whole_subgroup(*pod).map(|(gang, subgroup)| (gang, Some(subgroup)))) {
                Some(together) => whole.entry(together).or_default().push(*pod),
                None => left.push(vec![*pod]),
            }
        }
        left.extend(whole.into_values());
        let mut last: Vec<usize> = Vec::new();
        loop {
            let before = left.len();
            left.retain(|unit| {
                self.shift(unit, Resources::add);
                // As the last of the units that are left: all others are evicted.
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
        unit.iter().all(|pod| self.is_over_share(*pod))
    }
}
