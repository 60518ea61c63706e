//! Spares the victims that are not needed (R5).
//!
//! The most expensive units are checked first. Of a gang that is evicted whole, the members beyond its minimum may be enough. After one
//! check of each unit, no part of the remaining victims would be enough: a unit that is needed in a larger set is needed in a smaller one.
//! For affinity and spread that does not hold, so there the units are checked again until none is spared.

use std::collections::BTreeSet;

use crate::api::Uid;

use super::Preemption;
use super::search::Search;
use super::stage::Places;

/// The most choices of the members that a gang can spare.
const MOST_CHOICES: usize = 100;
/// With more victims than this, victims on nodes without a placed member are spared first.
const MANY: usize = 64;

impl Search<'_, '_> {
    pub(super) fn spare_unneeded(mut self, mut places: Places) -> Preemption {
        if self.victims.chosen().len() > MANY {
            self.spare_elsewhere(&mut places);
        }
        loop {
            let before = self.victims.chosen().len();
            for at in (0..self.units.len()).rev() {
                self.spare_unit(at, &mut places);
            }
            // A pod that stays may make another one needless, where the gang requires it beside it or counts it in a spread.
            if self.victims.chosen().len() == before || !self.stage.others_matter_to(self.preemptor) {
                break;
            }
        }
        self.preemption(places)
    }

    /// Spares the victims on nodes without a placed member, all at once if that works.
    fn spare_elsewhere(&mut self, places: &mut Places) {
        let nodes: BTreeSet<&str> = places.iter().map(|(_, node)| &**node).collect();
        let is_there = |pod: &&usize| {
            self.victims.candidates.get(**pod).is_none_or(|pod| {
                pod.node.as_deref().is_some_and(|node| nodes.contains(node)) || self.stage.keeps_away(&Uid::clone(&pod.uid))
            })
        };
        let mut stay: BTreeSet<usize> = self.victims.chosen().iter().filter(is_there).copied().collect();
        // A gang is evicted whole or not at all.
        let whole =
            |pod: &usize| self.victims.candidates.get(*pod).and_then(|pod| pod.gang).filter(|gang| self.victims.is_whole_gang(*gang));
        let gangs: BTreeSet<usize> = stay.iter().filter_map(whole).collect();
        stay.extend(gangs.iter().filter_map(|gang| self.victims.gangs.get(*gang)).flat_map(|gang| &gang.members));
        // So is a subgroup.
        let subgroups: BTreeSet<_> = stay.iter().filter_map(|pod| self.victims.whole_subgroup(*pod)).collect();
        let is_of_one = |pod: &&usize| self.victims.whole_subgroup(**pod).is_some_and(|of| subgroups.contains(&of));
        stay.extend(self.victims.chosen().iter().filter(is_of_one).copied().collect::<Vec<_>>());
        if let Ok(found) = self.try_with(&stay) {
            let spared: Vec<usize> = self.victims.chosen().difference(&stay).copied().collect();
            self.victims.remove(&spared);
            *places = found;
        }
    }

    fn spare_unit(&mut self, at: usize, places: &mut Places) {
        let Some(unit) = self.units.get(at) else { return };
        let is_chosen = |pod: &usize| self.victims.chosen().contains(pod);
        let (pods, gang) = match unit.gang {
            Some(gang) if self.victims.is_whole_gang(gang) => (unit.pods.clone(), Some(gang)),
            // A member of a gang that is evicted whole is checked with the gang, and one of a subgroup with the subgroup.
            None if unit.pods.iter().all(is_chosen) && !self.is_in_whole_gang(&unit.pods) && self.is_all_that_goes(&unit.pods) => {
                (unit.pods.clone(), None)
            }
            Some(_) | None => return,
        };
        self.victims.remove(&pods);
        if let Ok(found) = self.try_now() {
            *places = found;
            return;
        }
        if let Some(found) = gang.and_then(|gang| self.surplus(gang)) {
            *places = found;
            return;
        }
        self.victims.add_again(&pods);
    }

    fn is_in_whole_gang(&self, pods: &[usize]) -> bool {
        let whole = |pod: &usize| self.victims.candidates.get(*pod)?.gang.filter(|gang| self.victims.is_whole_gang(*gang));
        pods.iter().any(|pod| whole(pod).is_some())
    }

    /// Whether these pods are all of their subgroup, if that goes whole.
    fn is_all_that_goes(&self, pods: &[usize]) -> bool {
        let Some(subgroup) = pods.first().and_then(|pod| self.victims.whole_subgroup(*pod)) else { return true };
        let of_it = self.victims.chosen().iter().filter(|pod| self.victims.whole_subgroup(**pod) == Some(subgroup));
        of_it.count() == pods.len()
    }

    /// Chooses members that the gang can spare, in R5's order, where they are enough.
    fn surplus(&mut self, gang: usize) -> Option<Places> {
        let singles: Vec<usize> = self
            .units
            .iter()
            .enumerate()
            .filter(|(_, unit)| unit.gang.is_none() && unit.pods.iter().any(|pod| self.is_in(*pod, gang)))
            .map(|(at, _)| at)
            .collect();
        let mut chosen: Vec<(usize, Vec<usize>)> = Vec::new();
        let (mut next, mut tries) = (0, 0);
        loop {
            // As many as the rules allow, from here on.
            while let Some(unit) = singles.get(next).and_then(|at| self.units.get(*at)) {
                if let Ok(pods) = self.victims.add(unit) {
                    chosen.push((next, pods));
                }
                next = next.saturating_add(1);
            }
            if chosen.is_empty() || tries >= MOST_CHOICES {
                break;
            }
            tries = tries.saturating_add(1);
            if let Ok(found) = self.try_now() {
                return Some(found);
            }
            let Some((at, pods)) = chosen.pop() else { break };
            self.victims.remove(&pods);
            next = at.saturating_add(1);
        }
        for (_, pods) in chosen {
            self.victims.remove(&pods);
        }
        None
    }

    fn is_in(&self, pod: usize, gang: usize) -> bool {
        self.victims.candidates.get(pod).is_some_and(|pod| pod.gang == Some(gang))
    }
}
