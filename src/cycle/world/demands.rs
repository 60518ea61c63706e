//! What does each queue want for the groups that wait in it? (S1)

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::GroupKey;
use crate::resources::Resources;

use super::{Group, World};

impl Group {
    /// What it waits for (S1): its members that wait, or what its minimum has beyond what its members are charged where that is more (they need
    /// not all be there yet). One that has all its members placed waits for nothing, whatever its minimum says.
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

    /// The demands as they are when the group has reserved nothing: then it wants all that it asks for (S1, A4).
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
    /// The demand of the group's queue follows what the group waits for beyond what it has reserved (S1).
    pub(super) fn demand_again(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.get(key) else { return };
        let reserved = self.reserved(group);
        let mut claim = reserved.clone();
        let now = group.waits_for().filter(|_| !self.is_strangers(key)).and_then(|(queue, mut asked)| {
            claim.max_each(&asked);
            asked.sub(reserved);
            let asked = asked.without_negative();
            (!asked.is_zero()).then_some((queue, asked))
        });
        let same = group.demand.as_ref().map(|(queue, asked)| (&**queue, asked)) == now.as_ref().map(|(queue, asked)| (*queue, asked));
        if same && group.claim == claim {
            return;
        }
        let now = now.map(|(queue, asked)| (Arc::<str>::from(queue), asked));
        let Some(group) = self.groups.get_mut(key) else { return };
        let moved = group.demand.as_ref().zip(now.as_ref()).is_some_and(|((was, _), (is, _))| was != is);
        // What is reserved now of what it waited for before changes no share.
        if group.claim != claim || moved {
            self.shares = None;
        }
        group.claim = claim;
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
