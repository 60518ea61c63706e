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

mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounting::Placement;
use crate::api::volumes::ClaimKey;
use crate::api::{GroupKey, Uid};
use crate::backoff::Backoff;
use crate::resources::Resources;

use super::cache::{Cache, gang};
use super::explain::Refusal;
use super::placement::volumes::supply::Source;
use super::plan::{Tie, VolumeWrite};

use progress::is_bound;

pub(in crate::cycle) use progress::{CHANGED, Progress};

/// The back-off of a PodGroup that has given its nodes back.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The pods of one placement that wait for volumes.
#[derive(Debug)]
pub(super) struct VolumeBinding {
    /// The PodGroup.
    pub(super) key: GroupKey,
    /// The pods with their nodes.
    pub(in crate::cycle) places: Vec<Placement>,
    /// The minMember that their bindings name; none where nothing depends on it.
    pub(in crate::cycle) minimum: Option<u32>,
    /// For each pod, the claims for which something is reserved.
    pub(super) reserved: Vec<ClaimKey>,
    /// All claims that had no volume.
    claims: BTreeSet<ClaimKey>,
    /// Those that were seen with the selected node, or with the volume that names them.
    tied: BTreeSet<ClaimKey>,
    /// When the nodes are given back (monotonic); none before the next cycle.
    until: Option<Duration>,
    /// What failed.
    failed: Option<String>,
    /// The claim for which its provisioner made no volume on the selected node.
    refused: Option<ClaimKey>,
}

/// The bindings that wait for one claim. Pods of several may share it: it is tied once.
#[derive(Debug)]
struct Waiting {
    /// The first binding, with whose number the write goes out. It may be over before the others are.
    writer: u64,
    bindings: BTreeSet<u64>,
}

/// All pods that wait for volumes.
#[derive(Debug, Default)]
pub(super) struct VolumeBindings {
    all: BTreeMap<u64, VolumeBinding>,
    of_pod: BTreeMap<Uid, u64>,
    of_claim: BTreeMap<ClaimKey, Waiting>,
    of_group: BTreeMap<GroupKey, BTreeSet<u64>>,
    deadlines: BTreeSet<(Duration, u64)>,
    /// What is held for them in each queue.
    queues: BTreeMap<Arc<str>, Resources>,
    /// Those for which something changed.
    changed: BTreeSet<u64>,
    /// The writes that no plan has taken.
    writes: Vec<VolumeWrite>,
    /// The number of the last one.
    last: u64,
}

impl VolumeBinding {
    /// The nodes on which it failed: that of the claim for which no volume was made; where none was refused, all.
    pub(super) fn failed_on(&self, cache: &Cache) -> BTreeSet<Arc<str>> {
        let asks = |place: &&Placement| {
            let volumes = cache.pods().get(&place.uid).and_then(|member| member.facts.constraints.volumes.as_ref());
            self.refused.as_ref().is_none_or(|claim| volumes.is_some_and(|volumes| volumes.unbound.contains(claim)))
        };
        self.places.iter().filter(asks).map(|place| Arc::clone(&place.node)).collect()
    }
}

impl VolumeBindings {
    /// Holds these placements until these claims are bound.
    pub(super) fn hold(
        &mut self,
        cache: &Cache,
        key: &GroupKey,
        places: &[Placement],
        minimum: Option<u32>,
        claims: &[(Uid, BTreeSet<ClaimKey>)],
    ) {
        self.last = self.last.saturating_add(1);
        let number = self.last;
        let all: BTreeSet<ClaimKey> = claims.iter().flat_map(|(_, claims)| claims).cloned().collect();
        let volumes = cache.volumes();
        let reserved = claims.iter().flat_map(|(_, claims)| claims).filter(|claim| volumes.reservation(claim).is_some()).cloned().collect();
        let mut failed = None;
        for claim in &all {
            let waiting = self.of_claim.entry(claim.clone()).or_insert_with(|| Waiting { writer: number, bindings: BTreeSet::new() });
            let is_first = waiting.writer == number;
            waiting.bindings.insert(number);
            match write(cache, number, claim) {
                Ok(write) => self.writes.extend(write.filter(|_| is_first)),
                Err(why) => _ = failed.get_or_insert(why),
            }
        }
        for place in places {
            self.of_pod.insert(place.uid.clone(), number);
            self.queues.entry(Arc::clone(&place.queue)).or_default().add(&place.resources);
        }
        self.of_group.entry(key.clone()).or_default().insert(number);
        self.changed.insert(number);
        let places = places.to_vec();
        let binding = VolumeBinding {
            key: key.clone(),
            places,
            minimum,
            reserved,
            claims: all,
            tied: BTreeSet::new(),
            until: None,
            failed,
            refused: None,
        };
        self.all.insert(number, binding);
    }

    /// Ends a binding, and returns it.
    pub(super) fn remove(&mut self, number: u64) -> Option<VolumeBinding> {
        let binding = self.all.remove(&number)?;
        self.changed.remove(&number);
        binding.until.into_iter().for_each(|until| _ = self.deadlines.remove(&(until, number)));
        self.writes.retain(|write| write.binding != number);
        for claim in &binding.claims {
            if let Some(waiting) = self.of_claim.get_mut(claim) {
                waiting.bindings.remove(&number);
                if waiting.bindings.is_empty() {
                    self.of_claim.remove(claim);
                }
            }
        }
        if let Some(bindings) = self.of_group.get_mut(&binding.key) {
            bindings.remove(&number);
            // They may have waited for this one.
            self.changed.extend(bindings.iter());
            if bindings.is_empty() {
                self.of_group.remove(&binding.key);
            }
        }
        for place in &binding.places {
            self.of_pod.remove(&place.uid);
            if let Some(held) = self.queues.get_mut(&place.queue) {
                held.sub(&place.resources);
                if held.is_zero() {
                    self.queues.remove(&place.queue);
                }
            }
        }
        Some(binding)
    }

    /// Takes the writes for the plan.
    pub(super) fn take_writes(&mut self) -> Vec<VolumeWrite> {
        std::mem::take(&mut self.writes)
    }

    /// A pod changed or is gone.
    pub(in crate::cycle) fn pod_changed(&mut self, uid: &Uid) {
        self.changed.extend(self.of_pod.get(uid));
    }

    /// A claim changed or is gone.
    pub(super) fn claim_changed(&mut self, claim: &ClaimKey) {
        self.changed.extend(self.of_claim.get(claim).into_iter().flat_map(|waiting| &waiting.bindings));
    }

    /// A PodGroup changed or is gone.
    pub(super) fn group_changed(&mut self, key: &GroupKey) {
        self.changed.extend(self.of_group.get(key).into_iter().flatten());
    }

    /// A node, a volume or a queue changed, which may matter to any of them.
    pub(super) fn surroundings_changed(&mut self) {
        self.changed.extend(self.all.keys());
    }

    /// The write with the number of this binding failed, and with it every binding that relies on it.
    pub(in crate::cycle) fn write_failed(&mut self, number: u64, claim: &ClaimKey, why: &str) {
        let why = format!("persistentvolumeclaim \"{}\" could not be tied to its volume or node: {why}", claim.name);
        let waiting = self.of_claim.get(claim).filter(|waiting| waiting.writer == number);
        let bindings = waiting.map(|waiting| waiting.bindings.clone()).unwrap_or_default();
        bindings.iter().for_each(|number| self.fail(*number, &why));
    }

    /// The other bindings of the PodGroup cannot go on either.
    pub(in crate::cycle) fn group_failed(&mut self, key: &GroupKey, why: &str) {
        let bindings = self.of_group.get(key).cloned().unwrap_or_default();
        bindings.iter().for_each(|number| self.fail(*number, why));
    }

    fn fail(&mut self, number: u64, why: &str) {
        if let Some(binding) = self.all.get_mut(&number) {
            binding.failed.get_or_insert_with(|| why.to_owned());
            self.changed.insert(number);
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&VolumeBinding> {
        self.all.get(&number)
    }

    /// Returns whether the PodGroup has its minimum without the members that are held, but for those of this binding. Until then no other
    /// member of it is bound.
    pub(super) fn has_minimum(&self, cache: &Cache, key: &GroupKey, but: Option<u64>) -> bool {
        let Some((group, facts)) = cache.groups().get(key).and_then(|group| Some((group, group.facts.as_deref()?))) else { return true };
        let others = self.of_group.get(key).into_iter().flatten().filter(|number| Some(**number) != but);
        let held =
            others.filter_map(|number| self.all.get(number)).flat_map(|binding| &binding.places).map(|place| place.uid.clone()).collect();
        gang::resolve_without(cache, group, facts, &held).is_ok_and(|gang| gang == gang::Gang::default())
    }

    /// Takes the next binding for which something changed. Its time begins, if it has not yet.
    pub(in crate::cycle) fn take_changed(&mut self, now: Duration, timeout: Duration) -> Option<u64> {
        while let Some((_, number)) = self.deadlines.first().filter(|(until, _)| *until <= now).copied() {
            self.deadlines.pop_first();
            self.changed.insert(number);
        }
        let number = self.changed.pop_first()?;
        let binding = self.all.get_mut(&number)?;
        if binding.until.is_none() {
            let until = now.saturating_add(timeout);
            binding.until = Some(until);
            self.deadlines.insert((until, number));
        }
        Some(number)
    }

    /// Returns when a cycle has something to do here; none where there is no such time.
    pub(super) fn next(&self) -> Option<Duration> {
        if self.changed.is_empty() { self.deadlines.first().map(|(until, _)| *until) } else { Some(Duration::ZERO) }
    }

    /// Returns why the PodGroup waits while members of it are held; none where none is.
    pub(in crate::cycle) fn refusal(&self, cache: &Cache, key: &GroupKey) -> Option<Arc<Refusal>> {
        let bindings = self.of_group.get(key)?.iter().filter_map(|number| self.all.get(number));
        let open: BTreeSet<&ClaimKey> = bindings.flat_map(|binding| &binding.claims).filter(|claim| !is_bound(cache, claim)).collect();
        let first = open.first()?;
        Some(Arc::new(Refusal::Volumes { claims: u32::try_from(open.len()).unwrap_or(u32::MAX), first: Arc::clone(&first.name) }))
    }

    /// Returns what is held: in the queue and all below it, and in the queue itself.
    pub(super) fn in_queue(&self, cache: &Cache, queue: &str) -> (Resources, Resources) {
        let tree = cache.accounting().quota().tree();
        let below = self.queues.iter().filter(|(leaf, _)| tree.way(leaf).iter().any(|above| **above == *queue));
        let all = below.fold(Resources::new(), |mut all, (_, held)| {
            all.add(held);
            all
        });
        (all, self.queues.get(queue).cloned().unwrap_or_default())
    }

    /// Returns what has become of the binding.
    pub(in crate::cycle) fn progress(&mut self, cache: &Cache, number: u64, now: Duration) -> Progress {
        let Some(mut progress) = self.all.get_mut(&number).map(|binding| binding.progress(cache, now)) else { return Progress::Waits };
        if let (Progress::Ready, Some(binding)) = (&progress, self.all.get(&number))
            && !self.has_minimum(cache, &binding.key, Some(number))
        {
            let is_late = binding.until.is_some_and(|until| until <= now);
            progress = if is_late { Progress::Broken("the minimum was not bound in time".to_owned()) } else { Progress::Waits };
        }
        progress
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self { all, of_pod, of_claim, of_group, deadlines, queues, changed, writes, last: _ } = self;
        all.is_empty()
            && of_pod.is_empty()
            && of_claim.is_empty()
            && of_group.is_empty()
            && deadlines.is_empty()
            && queues.is_empty()
            && changed.is_empty()
            && writes.is_empty()
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
