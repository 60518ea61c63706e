//! Searches for another set of victims where the first units in order are not enough.
//!
//! One victim may forbid another: its queue is not over its share any more, or would fall below its floor, or its gang needs its other members.
//! Where there are few units, every set that cannot grow is found, the cheapest first. Only these are tried, because more victims never
//! free less.

use std::collections::BTreeSet;

use super::search::Search;
use super::stage::Places;

/// With more units than this no other set is searched: there are too many.
const FEW: usize = 24;

impl Search<'_, '_> {
    /// Whether every set is tried before the search fails.
    pub(super) fn is_small(&self) -> bool {
        self.units.len() <= FEW
    }

    pub(super) fn alternatives(&mut self) -> Option<Places> {
        if !self.is_small() {
            return None;
        }
        self.victims.clear();
        // For each unit so far the pods that it adds; none where it is not chosen.
        let mut chosen: Vec<Vec<usize>> = Vec::new();
        loop {
            if self.is_spent() {
                return None;
            }
            if let Some(unit) = self.units.get(chosen.len()) {
                chosen.push(self.victims.add(unit).unwrap_or_default());
                continue;
            }
            if self.cannot_grow(&chosen)
                && let Ok(places) = self.try_now()
            {
                return Some(places);
            }
            // Without the last chosen unit, if the remaining units could be enough.
            loop {
                let pods = chosen.pop()?;
                if pods.is_empty() {
                    continue;
                }
                self.victims.remove(&pods);
                let rest = self.units.get(chosen.len().saturating_add(1)..).unwrap_or_default();
                let most: BTreeSet<usize> = rest.iter().flat_map(|unit| unit.pods.iter()).chain(self.victims.chosen()).copied().collect();
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
                && let Ok(more) = self.victims.add(unit)
            {
                self.victims.remove(&more);
                return false;
            }
        }
        true
    }
}
