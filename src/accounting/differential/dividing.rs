//! The fast reference's shares of every queue (S1 to S3).

use super::facts::{Amounts, Facts, QUEUES, ROOT, add};
use super::fast_reference::FastReference;

/// More than there ever is; sums of it do not overflow.
const UNLIMITED: i128 = i128::MAX >> 16;

struct Part {
    queue: usize,
    gets: i128,
    target: i128,
    weight: i128,
    deserves: bool,
}

impl FastReference {
    /// Returns the shares (S2), or the entitlements (S3).
    pub(super) fn shares(&self, facts: &Facts, entitlements: bool) -> [Amounts; QUEUES] {
        let demands = self.demands(facts, entitlements);
        let mut shares = [[0; 3]; QUEUES];
        shares[ROOT] = self.floor[ROOT];
        for queue in self.down.iter().filter(|queue| !self.children[**queue].is_empty()) {
            for at in 0..3 {
                self.divide(facts, *queue, at, &demands, &mut shares);
            }
        }
        shares
    }

    fn divide(&self, facts: &Facts, queue: usize, at: usize, demands: &[Amounts; QUEUES], shares: &mut [Amounts; QUEUES]) {
        let divide = |child: &usize| {
            let spec = facts.queues[*child];
            let deserved = spec.and_then(|spec| Some(spec.deserved[at]?.min(spec.capability[at].unwrap_or(i128::MAX))));
            let floor = self.floor[*child][at];
            let target = deserved.unwrap_or(demands[*child][at]).max(floor);
            let weight = spec.map_or(1, |spec| i128::from(spec.weight).max(1));
            Part { queue: *child, gets: floor, target, weight, deserves: deserved.is_some() }
        };
        let mut parts: Vec<Part> = self.children[queue].iter().map(divide).collect();
        let mut left = shares[queue][at] - parts.iter().map(|divide| divide.gets).sum::<i128>();
        for deserving in [true, false] {
            while left > 0 {
                let weights: i128 = below_target(&mut parts, deserving).map(|divide| divide.weight).sum();
                if weights == 0 {
                    break;
                }
                let (divided, mut full) = (left, false);
                for divide in below_target(&mut parts, deserving) {
                    let gets = (divided * divide.weight / weights).min(divide.target - divide.gets);
                    divide.gets += gets;
                    left -= gets;
                    full |= divide.gets == divide.target;
                }
                if full {
                    continue;
                }
                for divide in below_target(&mut parts, deserving) {
                    let unit = left.min(1);
                    divide.gets += unit;
                    left -= unit;
                }
                break;
            }
        }
        parts.iter().for_each(|divide| shares[divide.queue][at] = divide.gets);
    }

    /// Returns the demands (S1).
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
            let capability = facts.queues[*queue].map_or([None; 3], |spec| spec.capability);
            demands[*queue] = std::array::from_fn(|at| demand[at].min(capability[at].unwrap_or(i128::MAX)));
        }
        demands
    }
}

fn below_target(parts: &mut [Part], deserving: bool) -> impl Iterator<Item = &mut Part> {
    parts.iter_mut().filter(move |divide| divide.deserves == deserving && divide.gets < divide.target)
}
