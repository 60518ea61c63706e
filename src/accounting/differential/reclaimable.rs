//! The fast reference's answer to A3: whether reclaim can free what a queue lacks.

use super::facts::{Amounts, Facts, QUEUES, add};
use super::fast_reference::{After, FastReference};

impl FastReference {
    /// Returns by how much each queue on the way up refuses an amount, by dimension; 0 where it does not (F1, F5).
    fn lacking(&self, facts: &Facts, queue: usize, asked: &Amounts) -> Vec<(usize, Amounts)> {
        let level = |After { queue: above, held, taken, is_limited }: After| {
            let lack = |at: usize| {
                let capability = facts.capability(above, at);
                let limit = if is_limited[at] { capability.min(self.total[at]) } else { capability };
                let over = if held[at] > self.held[above][at] { held[at].saturating_sub(limit) } else { 0 };
                if asked[at] > 0 { over.max(taken[at].saturating_sub(capability)).max(0) } else { 0 }
            };
            (above, std::array::from_fn(lack))
        };
        self.after(queue, asked).into_iter().map(level).collect()
    }

    /// Whether reclaim can free the excess at every queue that refuses. Only asked where F6 refuses by amounts, or not at all.
    pub(super) fn can_reclaim(&self, facts: &Facts, queue: usize, asked: &Amounts, shares: &[Amounts; QUEUES]) -> bool {
        let lacking = self.lacking(facts, queue, asked);
        lacking.iter().enumerate().filter(|(_, (_, lack))| *lack != [0; 3]).all(|(upto, (_, lack))| {
            let way = &self.ways[queue][..upto];
            let within = way.iter().all(|queue| {
                let mut taken = self.taken(*queue);
                add(&mut taken, asked);
                (0..3).all(|at| asked[at] == 0 || taken[at] <= shares[*queue][at])
            });
            let siblings = way.iter().filter_map(|own| facts.parent(*own)).flat_map(|fork| &self.children[fork]);
            let reclaimable = |queue: &&usize| facts.queues[**queue].is_none_or(|spec| spec.reclaimable);
            let lenders: Vec<usize> = siblings.filter(|queue| !way.contains(queue)).filter(reclaimable).copied().collect();
            let borrowed = |at: usize| lenders.iter().map(|queue| (self.used[*queue][at] - shares[*queue][at]).max(0)).sum::<i128>();
            within && (0..3).all(|at| borrowed(at) >= lack[at])
        })
    }
}
