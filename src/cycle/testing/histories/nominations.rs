//! What do victims, nominations and a handover of a random history change?

use std::sync::Arc;
use std::time::Duration;

use super::World;
use crate::accounting::{Placement, Stage};
use crate::api::{PodFacts, Uid};
use crate::cycle::cache::{Group, Member, gang};
use crate::cycle::holds::Kind;
use crate::cycle::plan::EvictionCause;
use crate::cycle::testing::steps::takes_effect;
use crate::cycle::testing::{nominated_node, taken_over};

impl World {
    /// A victim is gone. Returns its facts.
    pub(in crate::cycle) fn goes(&mut self, at: usize) -> Option<PodFacts> {
        let at = at.checked_rem(self.evictions.len())?;
        let eviction = &mut self.evictions[at];
        let victim = eviction.victims.pop();
        if eviction.victims.is_empty() {
            self.evictions.remove(at);
        }
        let victim = victim?;
        let facts = self.state.cache().pods().get(&victim.uid).map(|member| PodFacts::clone(&member.facts));
        self.state.delete_pod(&victim.uid);
        facts
    }

    pub(super) fn hand_over(&mut self, how: u8) {
        for (at, bind) in std::mem::take(&mut self.binds).iter().enumerate() {
            if (usize::from(how) >> (at % 8)) & 1 == 1 {
                takes_effect(&mut self.state, bind);
            } else {
                self.state.refuse_bind(&bind.uid, "test", self.now, |_| Duration::ZERO);
            }
        }
        for (at, eviction) in std::mem::take(&mut self.evictions).iter().enumerate() {
            // Either all of its evictions were sent, or the first one.
            let sent = if (usize::from(how) >> (at % 8)) & 1 == 1 { eviction.victims.len() } else { 1 };
            for victim in eviction.victims.iter().take(sent) {
                let there = self.state.cache().pods().contains_key(&victim.uid);
                self.change(there.then(|| victim.uid.clone()), |facts| facts.deleting = true);
            }
        }
        let any = |member: &Member| Some(Arc::from(format!("n{}", member.facts.name.bytes().map(usize::from).sum::<usize>() % 4)));
        self.state = taken_over(&self.state, |member| match how % 4 {
            0 => any(member),
            1 => None,
            _ => nominated_node(member),
        });
        self.until.clear();
        self.budgets.values().for_each(|budget| self.state.apply_budget(budget.clone()));
        self.foreign.values().for_each(|facts| self.state.apply_pod(facts.clone()));
        self.apply_namespace();
    }

    /// One of the pods of ours that nominations wait for.
    pub(super) fn victim(&self, at: u8) -> Option<Uid> {
        self.one(at, |member| self.state.holds.is_victim(&member.facts.uid))
    }

    /// Nominates what one of the PodGroups needs that have enough waiting members.
    pub(super) fn nominate(&mut self, at: u8, first: u8, seconds: u64) {
        let cache = self.state.cache();
        let needed = |group: &Group| {
            let facts = group.facts.as_ref()?;
            let lacks = gang::missing(group, facts).max(1);
            let lacks = usize::try_from(lacks).unwrap();
            (group.waiting.len() >= lacks).then_some((lacks, facts.queue.clone()))
        };
        let groups: Vec<_> = cache.groups().iter().filter_map(|(key, group)| Some((key, group, needed(group)?))).collect();
        let Some((key, group, (needed, queue))) = usize::from(at).checked_rem(groups.len()).map(|at| groups[at].clone()) else { return };
        let place = |(at, uid): (usize, &Uid)| Placement {
            uid: uid.clone(),
            node: format!("n{}", (usize::from(first) + at) % 3).as_str().into(),
            queue: queue.as_str().into(),
            resources: cache.pods()[uid].facts.request.clone(),
        };
        let places: Vec<Placement> = group.waiting.iter().take(needed).enumerate().map(place).collect();
        let there = |member: &Member| {
            let charge = cache.accounting().pod(&member.facts.uid).filter(|pod| pod.stage == Stage::Observed);
            let at = charge.and_then(|pod| pod.node);
            member.facts.group != *key && places.iter().any(|place| Some(&*place.node) == at)
        };
        let (key, victims, until) = (key.clone(), self.uids(there), self.now + Duration::from_secs(seconds));
        let stood = self.state.nominated(&key).is_some();
        let eviction = self.state.nominate(&key, &places, &victims, EvictionCause::Reclaim, until);
        assert_eq!(eviction.is_some(), !stood, "a waiting PodGroup is nominated once");
        if let Some(eviction) = eviction {
            self.until.insert(eviction.nomination, until);
            self.evictions.extend(Some(eviction).filter(|eviction| !eviction.victims.is_empty()));
        }
    }

    pub(super) fn refuse_eviction(&mut self, at: u8, before: bool) {
        let gangs: Vec<_> = self.state.holds.of_kind(Kind::Victims).map(|hold| (hold.group.clone(), hold.number)).collect();
        let Some((key, id)) = usize::from(at).checked_rem(gangs.len()).map(|at| gangs[at].clone()) else { return };
        self.state.refuse_eviction(&key, id - u64::from(before), "test");
        assert_eq!(self.state.nominated(&key).is_some(), before, "a refused eviction ends its own nomination");
    }
}
