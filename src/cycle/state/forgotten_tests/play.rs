//! Plays a random history: applies each step, runs cycles until nothing is left to do, and checks what must hold then.

use std::collections::BTreeSet;

use super::*;

pub(super) struct Play {
    pub(super) world: World,
    /// How many pods were to be evicted.
    pub(super) evicted: usize,
}

impl Play {
    pub(super) fn new() -> Self {
        Self { world: World::new(), evicted: 0 }
    }

    /// Applies these steps, and checks after each.
    pub(super) fn take_all(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        steps.iter().try_for_each(|step| {
            self.world.took_room = false;
            for part in step.parts() {
                self.world.take(part);
                invariants::check_records(&self.world.state);
            }
            self.settle()?;
            invariants::check_state(&self.world.state);
            self.no_podgroup_is_forgotten()
        })
    }

    fn cycle(&mut self) -> Plan {
        let lacking = invariants::lacking(&self.world.state);
        let plan = run(&mut self.world.state, &POLICY, self.world.now);
        invariants::check_plan(&self.world.state, &plan, &lacking, self.world.foreign.values());
        invariants::check_times(&self.world.state, &mut self.world.until, self.world.now);
        self.what_is_nominated_again_fits(&plan);
        let withdrawn = self.world.state.take_withdrawn();
        self.world.evictions.retain(|eviction| !withdrawn.contains(&eviction.nomination));
        self.world.binds.extend(plan.binds.iter().cloned());
        self.world.evictions.extend(plan.evictions.iter().filter(|eviction| !eviction.victims.is_empty()).cloned());
        self.evicted += plan.evictions.iter().map(|eviction| eviction.victims.len()).sum::<usize>();
        plan
    }

    /// What a new leader nominates again fits beside all pods that stay, and nobody is evicted for it.
    fn what_is_nominated_again_fits(&self, plan: &Plan) {
        let (cache, holds) = (self.world.state.cache(), &self.world.state.holds);
        let gone = holds.terminating_or_victims(cache);
        for key in &plan.nominated_again {
            // Where it is bound at once, a further member may preempt in the same cycle.
            let is_bound = plan.binds.iter().any(|bind| bind.group == *key);
            assert!(is_bound || holds.nomination(key).is_some(), "{key} was nominated again, and could not be");
            assert!(is_bound || plan.evictions.iter().all(|eviction| eviction.group != *key), "pods are evicted for {key}");
            for place in holds.nomination(key).into_iter().flat_map(|hold| &hold.places) {
                let node = cache.accounting().ledger().node(&place.node).unwrap();
                let mut stays = node.used.clone();
                let here = gone.iter().filter_map(|uid| cache.accounting().pod(uid)).filter(|pod| pod.node == Some(&*place.node));
                here.for_each(|pod| stays.sub(pod.resources));
                // Of a lower priority, perhaps.
                cache.nominated_by_others().on(&place.node).into_iter().for_each(|nominated| stays.sub(nominated));
                assert!(node.allocatable.covers(&stays), "{key} is nominated again on {}, which has no room", place.node);
            }
        }
    }

    pub(super) fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..60 {
            match self.world.state.next_attempt() {
                Some(next) if next <= self.world.now + Duration::from_millis(300) => self.world.now = self.world.now.max(next),
                _ => return Ok(()),
            }
            let _plan = self.cycle();
        }
        Err(TestCaseError::fail("it does not come to rest"))
    }

    /// The admission, the reservation and the counts of every PodGroup.
    fn seen(&self) -> Vec<String> {
        let one = |(key, group): (&GroupKey, &Group)| {
            format!("{key}: {} {:?} {:?}", group.is_admitted(), self.world.state.cache().reserved(group), group.counts)
        };
        self.world.state.cache().groups().iter().map(one).collect()
    }

    pub(super) fn no_podgroup_is_forgotten(&mut self) -> Result<(), TestCaseError> {
        let before = self.seen();
        self.world.state.requeue.changed(crate::cycle::cache::Wake::Everything);
        self.world.state.requeue.preemptions.changed();
        // The search for a gang with unlike members is not complete: with less room on a node it may find places by chance (requeue/wake.rs).
        let classes = |group: &Group| group.waiting.iter().map(|uid| self.world.state.cache().pods()[uid].class).collect::<BTreeSet<_>>();
        let groups = self.world.state.cache().groups().iter().filter(|(_, group)| self.world.took_room && classes(group).len() > 1);
        let by_chance: BTreeSet<GroupKey> = groups.map(|(key, _)| key.clone()).collect();
        let plan = self.cycle();
        if plan.binds.iter().any(|bind| by_chance.contains(&bind.group)) {
            return self.settle();
        }
        prop_assert!(plan.binds.is_empty(), "a PodGroup was not tried: {:?}", plan.binds);
        prop_assert!(plan.evictions.is_empty(), "a preemption was not retried: {:?}", plan.evictions);
        prop_assert_eq!(before, self.seen());
        self.settle()
    }
}
