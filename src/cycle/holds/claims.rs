//! Which placed pods wait for volumes, until when, and what has become of their claims?
//!
//! ```text
//!            placed, with claims without a volume              every claim is bound, and the nodes still take the pods
//!  waiting ───────────────────────────────────────▶ held ───────────────────────────────────────────────────────────────▶ bound like any other
//!     ▲                                              │
//!     ╰───────────────── given back ─────────────────╯  as a whole, and the PodGroup backs off
//! ```
//!
//! The pods of one placement (a gang, or one further member) are held together. They are charged to their nodes and their queue as pods
//! that are being bound. For each claim one write goes out: it ties the claim to the volume that the trial has reserved for it, or to the
//! node. The binder of kube-controller-manager and the provisioner do the rest. No pod is bound before all claims are, and no further
//! member before the minimum of its PodGroup.
//!
//! Much may change meanwhile: other schedulers do not see what is held here. So the decision is made again before the pods are bound.
//!
//! Whatever goes wrong, all pods of the binding give their nodes back. What was written stays: a claim that is tied to a volume or to a
//! node gets that volume, or one on that node, also in the next attempt. So nothing is provisioned twice, and a new leader continues from
//! what the claims and volumes say.

mod outlook;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};
use crate::cycle::cache::{Cache, gang};
use crate::cycle::explain::Refusal;
use crate::cycle::placement::volumes::supply::Source;
use crate::cycle::plan::{Tie, VolumeWrite};

use super::hold::{Because, Hold, Kind};
use super::table::Holds;

use outlook::is_bound;

pub(in crate::cycle) use outlook::CHANGED;

/// The claims of held pods that had no volume, and what has become of them.
#[derive(Debug, Default)]
pub(in crate::cycle) struct Claims {
    /// The minMember that the bindings of the pods name; none where nothing depends on it.
    pub(in crate::cycle) minimum: Option<u32>,
    /// For each pod, the claims for which something is reserved.
    pub(in crate::cycle) reserved: Vec<ClaimKey>,
    /// All claims that had no volume.
    pub(super) all: BTreeSet<ClaimKey>,
    /// Those that were seen with the selected node, or with the volume that names them.
    tied: BTreeSet<ClaimKey>,
    /// What failed.
    failed: Option<String>,
    /// The claim for which its provisioner made no volume on the selected node.
    refused: Option<ClaimKey>,
}

impl Hold {
    /// The nodes on which it failed: that of the claim for which no volume was made; where none was refused, all.
    pub(in crate::cycle) fn failed_on(&self, cache: &Cache) -> BTreeSet<Arc<str>> {
        let asks = |place: &&Placement| {
            let volumes = cache.pods().get(&place.uid).and_then(|member| member.facts.constraints.volumes.as_ref());
            self.claims()
                .and_then(|claims| claims.refused.as_ref())
                .is_none_or(|claim| volumes.is_some_and(|volumes| volumes.unbound.contains(claim)))
        };
        self.places.iter().filter(asks).map(|place| Arc::clone(&place.node)).collect()
    }
}

impl Holds {
    /// Holds these placements until these claims are bound.
    pub(in crate::cycle) fn hold_for_claims(
        &mut self,
        cache: &Cache,
        key: &GroupKey,
        places: &[Placement],
        minimum: Option<u32>,
        claims: &[(Uid, BTreeSet<ClaimKey>)],
    ) {
        let (number, volumes) = (self.next_number(), cache.volumes());
        let all: BTreeSet<ClaimKey> = claims.iter().flat_map(|(_, claims)| claims).cloned().collect();
        let reserved = claims.iter().flat_map(|(_, claims)| claims).filter(|claim| volumes.reservation(claim).is_some()).cloned().collect();
        let mut failed = None;
        for claim in &all {
            match write(cache, number, claim) {
                // Another hold has written it.
                Ok(write) => self.writes.extend(write.filter(|_| !self.of_claim.contains_key(claim))),
                Err(why) => _ = failed.get_or_insert(why),
            }
        }
        let claims = Claims { minimum, reserved, all, failed, ..Claims::default() };
        let (group, places) = (key.clone(), places.to_vec());
        self.insert(Hold { number, group, places, until: None, because: Because::Claims(claims) });
    }

    /// Takes the writes for the plan.
    pub(in crate::cycle) fn take_writes(&mut self) -> Vec<VolumeWrite> {
        std::mem::take(&mut self.writes)
    }

    /// The write with this number failed, and with it every hold that relies on it.
    pub(in crate::cycle) fn write_failed(&mut self, number: u64, claim: &ClaimKey, why: &str) {
        let why = format!("persistentvolumeclaim \"{}\" could not be tied to its volume or node: {why}", claim.name);
        let waiting = self.of_claim.get(claim).filter(|waiting| waiting.writer == number);
        let holds = waiting.map(|waiting| waiting.holds.clone()).unwrap_or_default();
        holds.iter().for_each(|number| self.fail(*number, &why));
    }

    /// The other holds of the PodGroup cannot go on either.
    pub(in crate::cycle) fn group_failed(&mut self, key: &GroupKey, why: &str) {
        let holds: Vec<u64> = self.held_for(key, Kind::Claims).map(|hold| hold.number).collect();
        holds.iter().for_each(|number| self.fail(*number, why));
    }

    fn fail(&mut self, number: u64, why: &str) {
        if let Some(Because::Claims(claims)) = self.get_mut(number).map(|hold| &mut hold.because) {
            claims.failed.get_or_insert_with(|| why.to_owned());
            self.look_at([number]);
        }
    }

    /// Returns whether the PodGroup has its minimum without the members that are held, but for those of this binding. Until then no other
    /// member of it is bound.
    pub(in crate::cycle) fn has_minimum(&self, cache: &Cache, key: &GroupKey, but: Option<u64>) -> bool {
        let Some((group, facts)) = cache.groups().get(key).and_then(|group| Some((group, group.facts.as_deref()?))) else { return true };
        let others = self.held_for(key, Kind::Claims).filter(|hold| Some(hold.number) != but);
        let held = others.flat_map(|hold| &hold.places).map(|place| place.uid.clone()).collect();
        gang::resolve_without(cache, group, facts, &held).is_ok_and(|gang| gang.is_satisfied())
    }

    /// Returns why the PodGroup waits while members of it are held for claims; none where none is.
    pub(in crate::cycle) fn waits_for_claims(&self, cache: &Cache, key: &GroupKey) -> Option<Arc<Refusal>> {
        let holds = self.held_for(key, Kind::Claims);
        let open: BTreeSet<&ClaimKey> =
            holds.filter_map(Hold::claims).flat_map(|claims| &claims.all).filter(|claim| !is_bound(cache, claim)).collect();
        let first = open.first()?;
        Some(Arc::new(Refusal::Volumes { claims: u32::try_from(open.len()).unwrap_or(u32::MAX), first: Arc::clone(&first.name) }))
    }
}

/// Returns the write that ties the claim to what is reserved for it; none where it is tied already.
fn write(cache: &Cache, binding: u64, key: &ClaimKey) -> Result<Option<VolumeWrite>, String> {
    let volumes = cache.volumes();
    let known = volumes.claim(key).and_then(|facts| facts.request.as_ref()).zip(volumes.reservation(key));
    let Some((request, reservation)) = known else {
        return Err(format!("nothing could be reserved for persistentvolumeclaim \"{}\"", key.name));
    };
    let tie = match &reservation.source {
        Source::Volume(name) => {
            let volume = volumes.volume(name);
            if volume.and_then(|volume| volume.claim.as_ref()).is_some_and(|of| of.uid.as_ref() == Some(&request.uid)) {
                return Ok(None);
            }
            let offer = volume.and_then(|volume| volume.offer.as_ref());
            let Some(offer) = offer else { return Err(format!("persistentvolume \"{name}\" is not available any more")) };
            let is_named = volume.is_some_and(|volume| volume.claim.is_some());
            Tie::Volume { name: Arc::clone(name), resource_version: offer.resource_version, is_named }
        }
        Source::Provisioner if request.selected_node.as_ref() == Some(&reservation.node) => return Ok(None),
        Source::Provisioner => Tie::Node { name: Arc::clone(&reservation.node), resource_version: request.resource_version },
    };
    Ok(Some(VolumeWrite { binding, claim: key.clone(), claim_uid: request.uid.clone(), tie }))
}

#[cfg(test)]
mod storage_capacity_tests;
#[cfg(test)]
mod tests;
