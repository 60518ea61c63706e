//! Is there another choice where the first in order are not enough?
//!
//! Who goes may keep another from going: its queue is not over its share any more, or would fall below its floor, or its gang needs who is left. Where there are
//! few units, every set is found that cannot grow, the cheapest first; only those are tried, as who helps with fewer helps with more.

use std::collections::BTreeSet;

use super::rules::{Rule, holds};
use super::search::Search;
use super::stage::Places;

/// With more units than this it is not looked for: their sets are more than can be tried.
const FEW: usize = 24;

impl Search<'_, '_> {
    /// Whether every choice is tried before it is said that there is none.
    pub(super) fn is_small(&self) -> bool {
        self.units.len() <= FEW
    }

    pub(super) fn others(&mut self) -> Option<Places> {
        if !self.is_small() || !holds(Rule::Others) {
            return None;
        }
        self.owed.clear();
        // For each unit so far who goes with it; nobody where it stays.
        let mut chosen: Vec<Vec<usize>> = Vec::new();
        loop {
            if self.is_spent() {
                return None;
            }
            if let Some(unit) = self.units.get(chosen.len()) {
                chosen.push(self.owed.add(unit).unwrap_or_default());
                continue;
            }
            if self.cannot_grow(&chosen)
                && let Ok(places) = self.try_now()
            {
                return Some(places);
            }
            // The last that goes stays instead, if that leaves any hope.
            loop {
                let pods = chosen.pop()?;
                if pods.is_empty() {
                    continue;
                }
                self.owed.give_back(&pods);
                let rest = self.units.get(chosen.len().saturating_add(1)..).unwrap_or_default();
                let most: BTreeSet<usize> = rest.iter().flat_map(|unit| unit.pods.iter()).chain(self.owed.taken()).copied().collect();
                if self.try_with(&most).is_ok() {
                    chosen.push(Vec::new());
                    break;
                }
            }
        }
    }

    fn cannot_grow(&mut self, chosen: &[Vec<usize>]) -> bool {
        for (unit, pods) in self.units.iter().zip(chosen) {
            if pods.is_empty()
                && let Ok(more) = self.owed.add(unit)
            {
                self.owed.give_back(&more);
                return false;
            }
        }
        true
    }
}
