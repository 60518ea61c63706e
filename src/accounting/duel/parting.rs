//! What is every queue's share, by the rules (S1 to S3)?

use super::facts::{Amounts, Facts, QUEUES, ROOT, add};
use super::sheet::Sheet;

/// More than there ever is; sums of it do not wrap.
const UNLIMITED: i128 = i128::MAX >> 16;

struct Part {
    queue: usize,
    gets: i128,
    target: i128,
    weight: i128,
    deserves: bool,
}

impl Sheet {
    /// The shares (S2), or what everybody has a right to (S3).
    pub(super) fn shares(&self, facts: &Facts, rights: bool) -> [Amounts; QUEUES] {
        let demands = self.demands(facts, rights);
        let mut shares = [[0; 3]; QUEUES];
        shares[ROOT] = self.floor[ROOT];
        for queue in self.down.iter().filter(|queue| !self.children[**queue].is_empty()) {
            for at in 0..3 {
                self.part(facts, *queue, at, &demands, &mut shares);
            }
        }
        shares
    }

    fn part(&self, facts: &Facts, queue: usize, at: usize, demands: &[Amounts; QUEUES], shares: &mut [Amounts; QUEUES]) {
        let part = |child: &usize| {
            let said = facts.queues[*child];
            let deserved = said.and_then(|said| Some(said.deserved[at]?.min(said.capability[at].unwrap_or(i128::MAX))));
            let floor = self.floor[*child][at];
            let target = deserved.unwrap_or(demands[*child][at]).max(floor);
            let weight = said.map_or(1, |said| i128::from(said.weight).max(1));
            Part { queue: *child, gets: floor, target, weight, deserves: deserved.is_some() }
        };
        let mut parts: Vec<Part> = self.children[queue].iter().map(part).collect();
        let mut left = shares[queue][at] - parts.iter().map(|part| part.gets).sum::<i128>();
        for deserving in [true, false] {
            while left > 0 {
                let weights: i128 = below_target(&mut parts, deserving).map(|part| part.weight).sum();
                if weights == 0 {
                    break;
                }
                let (divided, mut full) = (left, false);
                for part in below_target(&mut parts, deserving) {
                    let gets = (divided * part.weight / weights).min(part.target - part.gets);
                    part.gets += gets;
                    left -= gets;
                    full |= part.gets == part.target;
                }
                if full {
                    continue;
                }
                for part in below_target(&mut parts, deserving) {
                    let unit = left.min(1);
                    part.gets += unit;
                    left -= unit;
                }
                break;
            }
        }
        parts.iter().for_each(|part| shares[part.queue][at] = part.gets);
    }

    /// S1.
    fn demands(&self, facts: &Facts, unlimited: bool) -> [Amounts; QUEUES] {
        let mut demands = [[0; 3]; QUEUES];
        for queue in self.down.iter().rev() {
            let children = &self.children[*queue];
            let mut demand = self.taken(*queue);
            if !children.is_empty() {
                children.iter().for_each(|child| add(&mut demand, &self.taken(*child).map(|amount| -amount)));
                children.iter().for_each(|child| add(&mut demand, &demands[*child]));
            } else if unlimited {
                demand = [UNLIMITED; 3];
            } else {
                let wants = (0..facts.waits.len()).filter_map(|group| facts.wants(group)).filter(|(at, _)| at == queue);
                wants.for_each(|(_, wants)| add(&mut demand, &wants));
            }
            let capability = facts.queues[*queue].map_or([None; 3], |said| said.capability);
            demands[*queue] = std::array::from_fn(|at| demand[at].min(capability[at].unwrap_or(i128::MAX)));
        }
        demands
    }
}

fn below_target(parts: &mut [Part], deserving: bool) -> impl Iterator<Item = &mut Part> {
    parts.iter_mut().filter(move |part| part.deserves == deserving && part.gets < part.target)
}
