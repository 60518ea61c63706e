//! What is the demand of each queue for its waiting PodGroups? (S1)

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::GroupKey;
use crate::resources::Resources;

use super::{Group, World};

impl Group {
    /// Returns the queue and the resources that the PodGroup waits for (S1): the larger of its waiting members' requests and the uncharged
    /// part of its minimum. None where all its members are placed, whatever its minimum says.
    fn waits_for(&self) -> Option<(&str, Resources)> {
        let facts = self.facts.as_ref().filter(|facts| !facts.is_over())?;
        let before_all = self.is_idle() && self.counts.succeeded == 0;
        if self.waiting.is_empty() && !before_all {
            return None;
        }
        let mut asked = facts.min_resources.clone().unwrap_or_default();
        asked.sub(&self.charged);
        let mut asked = asked.without_negative();
        asked.max_each(&self.asked);
        (!asked.is_zero()).then_some((&facts.queue, asked))
    }

    /// Changes the demands to what they are without the reservation of the PodGroup: then it wants its whole request (S1, A4).
    pub(in crate::cycle) fn demand_without_reservation(&self, demands: &mut BTreeMap<Arc<str>, Resources>) {
        let Some(facts) = &self.facts else { return };
        if let Some((queue, asked)) = &self.demand {
            demands.entry(Arc::clone(queue)).or_default().sub(asked);
        }
        let mut asked = facts.min_resources.clone().unwrap_or_default();
        asked.sub(&self.charged);
        let mut asked = asked.without_negative();
        asked.max_each(&self.asked);
        demands.entry(Arc::from(facts.queue.as_str())).or_default().add(&asked);
    }
}

impl World {
    /// Updates the demand of the queue by what the PodGroup waits for beyond its reservation (S1).
    pub(super) fn update_demand(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let reserved = self.reserved(group);
        let mut total_demand = reserved.clone();
        let now = group.waits_for().filter(|_| !self.is_foreign(key)).and_then(|(queue, mut asked)| {
            total_demand.max_each(&asked);
            asked.sub(reserved);
            let asked = asked.without_negative();
            (!asked.is_zero()).then_some((queue, asked))
        });
        let same = group.demand.as_ref().map(|(queue, asked)| (&**queue, asked)) == now.as_ref().map(|(queue, asked)| (*queue, asked));
        if same && group.total_demand == total_demand {
            return;
        }
        let now = now.map(|(queue, asked)| (Arc::<str>::from(queue), asked));
        let Some(group) = self.groups.get_mut(key) else { return };
        let moved = group.demand.as_ref().zip(now.as_ref()).is_some_and(|((was, _), (is, _))| was != is);
        // A part of the demand that is reserved now changes no share.
        if group.total_demand != total_demand || moved {
            self.shares = None;
        }
        group.total_demand = total_demand;
        if same {
            return;
        }
        if let Some((queue, asked)) = std::mem::replace(&mut group.demand, now.clone()) {
            let left = self.demands.entry(Arc::clone(&queue)).or_default();
            left.sub(&asked);
            if left.is_zero() {
                self.demands.remove(&queue);
            }
        }
        if let Some((queue, asked)) = now {
            self.demands.entry(queue).or_default().add(&asked);
        }
    }
}
