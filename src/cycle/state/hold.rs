//! Updates the state when placed pods are held for volumes, when their claims are bound, and when their nodes are given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::{Change, gang};
use crate::cycle::explain::{Refusal, Step};
use crate::cycle::holds::claims::CHANGED;
use crate::cycle::holds::{BACKOFF, Because, Hold, Kind, Outlook};
use crate::cycle::plan::{Bind, VolumeWrite};
use crate::resources::Resources;

use super::SchedulingState;

impl SchedulingState {
    /// Returns the claims of these pods that have no volume, by pod. Pods without such claims are left out.
    pub(super) fn claims_without_volume(&self, placements: &[Placement]) -> Vec<(Uid, BTreeSet<ClaimKey>)> {
        let claims = |placement: &Placement| {
            let volumes = self.cache.pods().get(&placement.uid)?.facts.constraints.volumes.as_ref()?;
            (!volumes.unbound.is_empty()).then(|| (placement.uid.clone(), volumes.unbound.clone()))
        };
        placements.iter().filter_map(claims).collect()
    }

    /// Binds held pods when all their claims are bound, and gives the nodes of those back that cannot go on. Comes first in a cycle.
    pub(in crate::cycle) fn take_supplied(&mut self, now: Duration, timeout: Duration) -> Vec<Bind> {
        let mut binds = Vec::new();
        self.holds.begin(Kind::Claims, now, Some(timeout));
        self.holds.look_at_due(Kind::Claims, now);
        while let Some(number) = self.holds.take_changed(Kind::Claims) {
            match self.holds.claims_outlook(&self.cache, number, now) {
                Outlook::Waits if self.fits_still(number) => {}
                Outlook::Waits => self.give_back(number, CHANGED, now),
                Outlook::Ready if self.would_bind_all_again(number) => binds.extend(self.end_hold(number)),
                Outlook::Ready => self.give_back(number, CHANGED, now),
                Outlook::Broken(why) => self.give_back(number, &why, now),
            }
        }
        binds
    }

    /// Takes the writes by which claims get volumes.
    pub(in crate::cycle) fn take_volume_writes(&mut self) -> Vec<VolumeWrite> {
        self.holds.take_writes()
    }

    /// Returns why the PodGroup waits while members of it are held for volumes; none where none is.
    #[must_use]
    pub(in crate::cycle) fn waits_for_volumes(&self, key: &GroupKey) -> Option<Arc<Refusal>> {
        self.holds.waits_for_claims(&self.cache, key)
    }

    /// Returns what is charged for pods that are held for volumes, and so not bound yet: in the queue and all below it, and in itself.
    #[must_use]
    pub fn held_in(&self, queue: &str) -> (Resources, Resources) {
        self.holds.in_queue(&self.cache, Kind::Claims, queue)
    }

    /// Records that a write of a claim or its volume failed. `why` is of a bounded set.
    pub fn refuse_volume(&mut self, binding: u64, claim: &ClaimKey, why: &'static str) {
        self.holds.write_failed(binding, claim, why);
    }

    /// Whether these members have to be held because the minimum of their PodGroup is.
    pub(super) fn waits_for_minimum(&self, key: &GroupKey) -> bool {
        self.cache.groups().get(key).is_some_and(|group| group.counts.held > 0) && !self.holds.has_minimum(&self.cache, key, None)
    }

    /// Whether each held pod would be placed on its node again. It may be long ago that it was, and other schedulers did not see it there.
    fn would_bind_all_again(&mut self, number: u64) -> bool {
        let Some(binds) = self.holds.get(number).map(|hold| self.binds_of_hold(hold)) else { return false };
        binds.iter().all(|bind| self.would_bind_again(bind))
    }

    /// Whether the queue and the nodes would take the amounts of the held pods again. What is nominated there is charged beyond the limits, and
    /// left out.
    fn fits_still(&mut self, number: u64) -> bool {
        let Some(hold) = self.holds.get(number) else { return true };
        let nominated = self.holds.of_kind(Kind::Victims).flat_map(|hold| &hold.places);
        let mut trial = self.cache.trial();
        nominated.chain(&hold.places).for_each(|place| _ = trial.set_aside(&place.uid));
        let (mut on_nodes, mut in_queues) = (BTreeMap::<&str, Resources>::new(), BTreeMap::<&str, Resources>::new());
        for place in &hold.places {
            on_nodes.entry(&place.node).or_default().add(&place.resources);
            in_queues.entry(&place.queue).or_default().add(&place.resources);
        }
        let accounting = trial.accounting();
        in_queues.iter().all(|(queue, asked)| accounting.fits_queue(queue, asked).is_ok())
            && on_nodes.iter().all(|(node, asked)| accounting.ledger().fits(node, asked).is_ok())
    }

    /// Returns the bindings of held pods.
    fn binds_of_hold(&self, hold: &Hold) -> Vec<Bind> {
        let Because::Claims(claims) = &hold.because else { return Vec::new() };
        self.binds_of(&hold.group, &hold.places, claims.minimum)
    }

    fn end_hold(&mut self, number: u64) -> Vec<Bind> {
        let Some(hold) = self.holds.remove(number) else { return Vec::new() };
        self.let_go(&hold);
        hold.places.iter().for_each(|place| self.cache.end_hold(&place.uid));
        self.follow();
        self.binds_of_hold(&hold)
    }

    fn give_back(&mut self, number: u64, why: &str, now: Duration) {
        let Some(hold) = self.holds.remove(number) else { return };
        let mut last = self.cache.groups().get(&hold.group).map(|group| group.retry.last.clone()).unwrap_or_default();
        last.extend(hold.failed_on(&self.cache));
        self.let_go(&hold);
        for place in &hold.places {
            self.take_back(&place.uid, (Step::Volumes, why), now, |failures| BACKOFF.delay(failures));
        }
        // The nodes of the other members may still be good for this one.
        if let Some(group) = self.cache.group_mut(&hold.group) {
            group.retry.last = last;
        }
        let group = self.cache.groups().get(&hold.group);
        if !group.is_some_and(|group| group.facts.as_deref().is_some_and(|facts| gang::is_satisfied(group, facts))) {
            self.holds.group_failed(&hold.group, why);
        }
        self.cache.changed(Change::Group(hold.group));
        self.follow();
    }

    /// Lets the reservations of claims go. The PodGroups that may use what becomes free are tried.
    fn let_go(&mut self, hold: &Hold) {
        let Because::Claims(claims) = &hold.because else { return };
        let served: BTreeSet<Uid> = claims.reserved.iter().flat_map(|claim| self.cache.let_go_of_claim(claim)).collect();
        self.cache.volumes_supplied(served);
    }
}
