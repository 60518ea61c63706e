//! Who of those who go is not needed? (R7)
//!
//! The dearest first. Of a gang that goes whole it may be enough that those go whom it can do without. When all have been asked once, no part of those
//! who are left would have been enough: who was needed among more is needed among fewer.

use std::collections::BTreeSet;

use crate::api::Uid;

use super::answer::Taking;
use super::rules::{Rule, holds};
use super::search::Search;
use super::stage::Places;

/// So many choices are tried of whom a gang can do without.
const MOST_CHOICES: usize = 100;
/// With more who go than this, those first go free whose nodes nobody is placed on.
const MANY: usize = 64;

impl Search<'_, '_> {
    pub(super) fn spare(mut self, mut places: Places) -> Taking {
        if holds(Rule::R7) {
            if self.owed.taken().len() > MANY {
                self.spare_elsewhere(&mut places);
            }
            for at in (0..self.units.len()).rev() {
                self.spare_unit(at, &mut places);
            }
        }
        self.taking(places)
    }

    /// Those who are on nodes that nobody is placed on, all at once if that does.
    fn spare_elsewhere(&mut self, places: &mut Places) {
        let nodes: BTreeSet<&str> = places.iter().map(|(_, node)| &**node).collect();
        let is_there = |pod: &&usize| {
            self.owed.candidates.get(**pod).is_none_or(|pod| {
                pod.node.as_deref().is_some_and(|node| nodes.contains(node)) || self.stage.keeps_away(&Uid::clone(&pod.uid))
            })
        };
        let mut stay: BTreeSet<usize> = self.owed.taken().iter().filter(is_there).copied().collect();
        // A gang goes whole or not at all.
        let whole = |pod: &usize| self.owed.candidates.get(*pod).and_then(|pod| pod.gang).filter(|gang| self.owed.goes_whole(*gang));
        let gangs: BTreeSet<usize> = stay.iter().filter_map(whole).collect();
        stay.extend(gangs.iter().filter_map(|gang| self.owed.gangs.get(*gang)).flat_map(|gang| &gang.members));
        if let Ok(found) = self.try_with(&stay) {
            let spared: Vec<usize> = self.owed.taken().difference(&stay).copied().collect();
            self.owed.give_back(&spared);
            *places = found;
        }
    }

    fn spare_unit(&mut self, at: usize, places: &mut Places) {
        let Some(unit) = self.units.get(at) else { return };
        let goes = |pod: &usize| self.owed.taken().contains(pod);
        let (pods, gang) = match unit.gang {
            Some(gang) if self.owed.goes_whole(gang) => (unit.pods.clone(), Some(gang)),
            // One of a gang that goes whole is asked with the gang.
            None if unit.pods.iter().all(goes) && !self.is_of_whole(&unit.pods) => (unit.pods.clone(), None),
            Some(_) | None => return,
        };
        self.owed.give_back(&pods);
        if let Ok(found) = self.try_now() {
            *places = found;
            return;
        }
        if let Some(found) = gang.and_then(|gang| self.surplus(gang)) {
            *places = found;
            return;
        }
        self.owed.take(&pods);
    }

    fn is_of_whole(&self, pods: &[usize]) -> bool {
        let whole = |pod: &usize| self.owed.candidates.get(*pod)?.gang.filter(|gang| self.owed.goes_whole(*gang));
        pods.iter().any(|pod| whole(pod).is_some())
    }

    /// Whether some of the gang are enough whom it can do without, in R7's order. If they are, they go.
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
            // As many as may go, from here on.
            while let Some(unit) = singles.get(next).and_then(|at| self.units.get(*at)) {
                if let Ok(pods) = self.owed.add(unit) {
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
            self.owed.give_back(&pods);
            next = at.saturating_add(1);
        }
        for (_, pods) in chosen {
            self.owed.give_back(&pods);
        }
        None
    }

    fn is_in(&self, pod: usize, gang: usize) -> bool {
        self.owed.candidates.get(pod).is_some_and(|pod| pod.gang == Some(gang))
    }
}
