//! Searches for the fewest victims, where the gang counts other pods.
//!
//! With affinity or a spread, more victims may be worse: a pod that must be beside the gang would be gone, or a domain would have too few
//! pods. So it says nothing that the gang is not placed without all of the candidates. Where there are few units, every one of them is
//! tried alone, then every two, then every three.

use super::search::Search;
use super::stage::Places;

/// The most units that are chosen.
const MOST: usize = 3;

impl Search<'_, '_> {
    /// Returns the places of the gang without the fewest units, the cheapest of these; none where more are needed, there are too many
    /// units, or the gang counts no other pods.
    pub(super) fn fewest(&mut self) -> Option<Places> {
        if !self.is_small() || !self.stage.others_matter_to(self.preemptor) {
            return None;
        }
        self.victims.clear();
        (1..=MOST).find_map(|size| self.of_size(size, 0))
    }

    /// Adds `size` units, from the one with this index on.
    fn of_size(&mut self, size: usize, from: usize) -> Option<Places> {
        if size == 0 {
            return self.try_now().ok();
        }
        for at in from..self.units.len() {
            if self.is_spent() {
                return None;
            }
            let Some(Ok(pods)) = self.units.get(at).map(|unit| self.victims.add(unit)) else { continue };
            if let Some(places) = self.of_size(size.saturating_sub(1), at.saturating_add(1)) {
                return Some(places);
            }
            self.victims.remove(&pods);
        }
        None
    }
}
