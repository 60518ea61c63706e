//! Which claims, volumes and attachments are known, what do they require of a pod's node, and which of them are used where?
//!
//! ```text
//!  claims, volumes, classes ──▶ resolve: what the claims of one pod require (PodVolumes), or which of them cannot be used
//!  pods on nodes, attachments ─▶ in_use: which claims pods use, and which volumes each node counts ──▶ verdict: claim in use, limit reached
//!  free volumes, reservations, capacities ─▶ supply: where claims without a volume would get one ─────▶ verdict: no volume there
//! ```
//!
//! The rules are those of kube-scheduler 1.36 (`plugins/volumebinding`, `volumezone`, `volumerestrictions`, `nodevolumelimits`). Every
//! change of a fact says which pods and which nodes it may matter to ([`Affected`]). The claims that a pod uses on its node are part of
//! [`PlacedPods`](super::topology::placed::PlacedPods), so that a trial changes and undoes them with the pod. What a placement reserves for
//! claims without a volume is in the undo log of the trial.

mod capacities;
mod free;
mod in_use;
mod kept;
pub mod reserved;
mod resolve;
pub mod supply;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::Uid;
use crate::api::pod_terms::PodTerms;
use crate::api::volumes::{AttachmentFacts, ClaimFacts, ClaimKey, StorageClassFacts, VolumeFacts, VolumeId};

use capacities::Capacities;
use free::FreeVolumes;
use in_use::InUse;
use reserved::Reserved;

/// What a change of a fact may matter to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The pods with claims that may mean something else now.
    pub pods: BTreeSet<Uid>,
    /// The pods with claims that mean the same and may get a volume now.
    pub supplied: BTreeSet<Uid>,
    /// The nodes that count other volumes than before, and may take pods that they refused.
    pub nodes: BTreeSet<Arc<str>>,
}

/// The storage objects, and what is used of them.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<ClaimKey, ClaimFacts>,
    volumes: BTreeMap<Arc<str>, VolumeFacts>,
    classes: BTreeMap<Arc<str>, StorageClassFacts>,
    attachments: BTreeMap<Arc<str>, AttachmentFacts>,
    /// By volume: the claims that name it.
    claims_of_volume: BTreeMap<Arc<str>, BTreeSet<ClaimKey>>,
    /// By volume: its attachments.
    attachments_of_volume: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// By claim: the known pods that name it.
    pods_of_claim: BTreeMap<ClaimKey, BTreeSet<Uid>>,
    /// By class: the claims that have no volume.
    unbound: BTreeMap<Arc<str>, BTreeSet<ClaimKey>>,
    /// By driver: on how many nodes it has a limit.
    limited: BTreeMap<Arc<str>, usize>,
    free: FreeVolumes,
    capacities: Capacities,
    reserved: Reserved,
    in_use: InUse,
    /// Whether the storage objects are not known, so that claims require nothing.
    ignored: bool,
}

impl Volumes {
    /// Sets that the storage objects are not known: claims require nothing of nodes.
    pub const fn ignore(&mut self) {
        self.ignored = true;
    }

    /// Returns the keys of the known claims.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimKey> {
        self.claims.keys()
    }

    /// Returns the names of the known volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.volumes.keys()
    }

    /// Returns the names of the known classes.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.classes.keys()
    }

    /// Returns the names of the known attachments.
    pub fn attachments(&self) -> impl Iterator<Item = &Arc<str>> {
        self.attachments.keys()
    }

    /// Records a claim; none where it is gone.
    pub fn set_claim(&mut self, key: &ClaimKey, facts: Option<ClaimFacts>) -> Affected {
        if self.claims.get(key) == facts.as_ref() {
            return Affected::default();
        }
        if let Some((before, now)) = self.claims.get_mut(key).zip(facts.as_ref()).filter(|(before, now)| before.means_the_same(now)) {
            before.clone_from(now);
            return Affected::default();
        }
        let before = self.claims.remove(key);
        if let Some(before) = &before {
            before.volume.iter().for_each(|volume| leave(&mut self.claims_of_volume, volume, key));
            before.class.iter().for_each(|class| leave(&mut self.unbound, class, key));
        }
        if let Some(facts) = &facts {
            if let Some(volume) = &facts.volume {
                self.claims_of_volume.entry(Arc::clone(volume)).or_default().insert(key.clone());
            } else if let Some(class) = &facts.class {
                self.unbound.entry(Arc::clone(class)).or_default().insert(key.clone());
            }
        }
        let request = |facts: &Option<ClaimFacts>| facts.as_ref().and_then(|facts| facts.request.clone());
        let asks_otherwise = request(&before).zip(request(&facts)).is_some_and(|(before, now)| !before.asks_the_same(&now));
        facts.into_iter().for_each(|facts| _ = self.claims.insert(key.clone(), facts));
        let mut affected = self.claims_changed([key.clone()].into());
        if asks_otherwise {
            affected.supplied.extend(affected.pods.iter().cloned());
        }
        affected
    }

    /// Records a volume; none where it is gone.
    pub fn set_volume(&mut self, name: &Arc<str>, facts: Option<VolumeFacts>) -> Affected {
        if self.volumes.get(name) == facts.as_ref() {
            return Affected::default();
        }
        let attachments: Vec<AttachmentFacts> =
            self.attachments_of_volume.get(name).into_iter().flatten().filter_map(|at| self.attachments.get(at)).cloned().collect();
        let mut nodes: BTreeSet<Arc<str>> = attachments.iter().filter_map(|attachment| self.count_attachment(attachment, false)).collect();
        let mut supplied = BTreeSet::new();
        if let Some(before) = self.volumes.remove(name) {
            self.free.remove(&before);
            // One volume fewer helps nobody. But the claim that it was kept for may get another one.
            if before.claim.is_some() {
                supplied.extend(self.served_by(&before));
            }
        }
        if let Some(facts) = facts {
            self.free.add(&facts);
            supplied.extend(self.served_by(&facts));
            self.volumes.insert(Arc::clone(name), facts);
        }
        nodes.extend(attachments.iter().filter_map(|attachment| self.count_attachment(attachment, true)));
        let mut affected = self.claims_changed(self.claims_of_volume.get(name).cloned().unwrap_or_default());
        affected.nodes.append(&mut nodes);
        affected.supplied.append(&mut supplied);
        affected
    }

    /// Records a class; none where it is gone.
    pub fn set_class(&mut self, name: &Arc<str>, facts: Option<StorageClassFacts>) -> Affected {
        if self.classes.get(name) == facts.as_ref() {
            return Affected::default();
        }
        match facts {
            Some(facts) => _ = self.classes.insert(Arc::clone(name), facts),
            None => _ = self.classes.remove(name),
        }
        let of_class = self.claims.values().filter(|claim| claim.class.as_ref() == Some(name)).map(|claim| claim.key.clone()).collect();
        let mut affected = self.claims_changed(of_class);
        affected.supplied.extend(self.waiting_for(name));
        affected
    }

    /// Records an attachment; none where it is gone.
    pub fn set_attachment(&mut self, name: &Arc<str>, facts: Option<AttachmentFacts>) -> Affected {
        let mut affected = Affected::default();
        if self.attachments.get(name) == facts.as_ref() {
            return affected;
        }
        if let Some(before) = self.attachments.remove(name) {
            before.volume.iter().for_each(|volume| leave(&mut self.attachments_of_volume, volume, name));
            affected.nodes.extend(self.count_attachment(&before, false));
        }
        if let Some(facts) = facts {
            if let Some(volume) = &facts.volume {
                self.attachments_of_volume.entry(Arc::clone(volume)).or_default().insert(Arc::clone(name));
            }
            // A node that counts one more takes no pod that it refused before.
            self.count_attachment(&facts, true);
            self.attachments.insert(Arc::clone(name), facts);
        }
        affected
    }

    /// Records that a node limits other drivers than before.
    pub fn set_limits<'a>(&mut self, before: impl Iterator<Item = &'a Arc<str>>, now: impl Iterator<Item = &'a Arc<str>>) -> Affected {
        let limited: BTreeSet<Arc<str>> = self.limited.keys().cloned().collect();
        for driver in now {
            let nodes = self.limited.entry(Arc::clone(driver)).or_default();
            *nodes = nodes.saturating_add(1);
        }
        for driver in before {
            if let Some(nodes) = self.limited.get_mut(driver) {
                *nodes = nodes.saturating_sub(1);
                if *nodes == 0 {
                    self.limited.remove(driver);
                }
            }
        }
        if limited.iter().eq(self.limited.keys()) {
            return Affected::default();
        }
        // That happens when the first or the last node of a driver comes or goes.
        Affected { pods: self.pods_of_claim.values().flatten().cloned().collect(), ..Affected::default() }
    }

    /// Records a pod that names these claims.
    pub(in crate::cycle::placement) fn join(&mut self, uid: &Uid, terms: &PodTerms) {
        for claim in keys(terms) {
            self.pods_of_claim.entry(claim).or_default().insert(uid.clone());
        }
    }

    /// Forgets the pod.
    pub(in crate::cycle::placement) fn leave(&mut self, uid: &Uid, terms: &PodTerms) {
        for claim in keys(terms) {
            leave(&mut self.pods_of_claim, &claim, uid);
        }
    }

    /// Counts a pod with these claims on the node, or counts it no more.
    pub(in crate::cycle::placement) fn count(&mut self, terms: &PodTerms, node: &Arc<str>, is_nominated: bool, more: bool) {
        for claim in keys(terms) {
            let id = self.id_of(&claim);
            self.in_use.count_pod(&claim, id.as_ref(), node, is_nominated, more);
        }
    }

    /// Returns the facts of the claim.
    #[must_use]
    pub fn claim(&self, key: &ClaimKey) -> Option<&ClaimFacts> {
        self.claims.get(key)
    }

    /// Returns the facts of the volume.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&VolumeFacts> {
        self.volumes.get(name)
    }

    /// Returns the known pods that name a claim of these terms which one pod at a time may use.
    pub fn rivals(&self, terms: &PodTerms) -> BTreeSet<Uid> {
        let for_one_pod = |claim: &ClaimKey| self.claims.get(claim).is_some_and(|facts| facts.is_for_one_pod);
        keys(terms).filter(for_one_pod).filter_map(|claim| self.pods_of_claim.get(&claim)).flatten().cloned().collect()
    }

    /// Returns whether a pod with these claims may keep another pod from a node by what it uses.
    #[must_use]
    pub fn may_keep_away(&self, terms: &PodTerms) -> bool {
        keys(terms).any(|claim| {
            self.claims.get(&claim).is_some_and(|facts| facts.is_for_one_pod)
                || self.id_of(&claim).is_some_and(|id| self.limited.contains_key(&id.driver))
        })
    }

    /// Returns whether a pod on a node uses the claim.
    #[must_use]
    pub fn is_used(&self, claim: &ClaimKey) -> bool {
        self.in_use.is_used(claim)
    }

    /// Returns whether the node would have more volumes of a driver than its limit with these.
    #[must_use]
    pub fn exceeds_limit(&self, node: &str, limits: &BTreeMap<Arc<str>, i64>, volumes: &BTreeSet<VolumeId>) -> bool {
        self.in_use.exceeds_limit(node, limits, volumes)
    }

    /// Counts an attachment on its node, or counts it no more. Only those of volumes of a CSI driver itself are counted; returns the node
    /// of such a one.
    fn count_attachment(&mut self, attachment: &AttachmentFacts, more: bool) -> Option<Arc<str>> {
        let volume = self.volumes.get(attachment.volume.as_ref()?)?;
        let id = VolumeId::new(&attachment.driver, volume.csi_handle.as_deref()?)?;
        self.in_use.count_attachment(&id, &attachment.node, more);
        Some(Arc::clone(&attachment.node))
    }

    /// The claims may mean something else: the nodes with pods that use them count what they are now.
    fn claims_changed(&mut self, claims: BTreeSet<ClaimKey>) -> Affected {
        let mut affected = Affected::default();
        for claim in claims {
            let id = self.id_of(&claim);
            self.in_use.set_id(&claim, id.as_ref(), &mut affected.nodes);
            affected.pods.extend(self.pods_of_claim.get(&claim).into_iter().flatten().cloned());
        }
        affected
    }

    #[cfg(test)]
    pub(in crate::cycle::placement) fn has_no_pods(&self) -> bool {
        self.pods_of_claim.is_empty() && self.in_use.is_empty() && self.reserved.is_empty()
    }
}

/// Returns the keys of the claims.
fn keys(terms: &PodTerms) -> impl Iterator<Item = ClaimKey> + '_ {
    terms.claims.iter().map(|claim| terms.key_of(claim))
}

/// Takes the member from the set of the key, and the set if it is empty.
fn leave<K: Ord, M: Ord>(sets: &mut BTreeMap<K, BTreeSet<M>>, key: &K, member: &M) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::volumes::PodClaim;

    /// Any client with the right to write a claim may do so often, and many pods may name it.
    #[test]
    fn a_new_version_of_a_claim_without_a_volume_concerns_no_pod() {
        let mut volumes = Volumes::default();
        let pod_claim = PodClaim { name: "c".into(), is_ephemeral: false };
        volumes.join(&Uid::from("p"), &PodTerms { namespace: "ns".into(), claims: vec![pod_claim], ..PodTerms::default() });
        let key = ClaimKey::new("ns", "c");
        let mut set = |version: &str, node: Option<&str>| {
            let annotations = node.map(|node| json!({ "volume.kubernetes.io/selected-node": node }));
            let meta = json!({ "namespace": "ns", "name": "c", "uid": "u", "resourceVersion": version, "annotations": annotations });
            let facts = ClaimFacts::of(&serde_json::from_value(json!({ "metadata": meta })).unwrap());
            let affected = volumes.set_claim(&key, Some(facts.clone()));
            assert_eq!(volumes.claim(&key), Some(&facts));
            affected.pods.len()
        };
        assert_eq!([set("1", None), set("2", None), set("3", Some("n")), set("4", Some("n"))], [1, 0, 1, 0]);
    }
}
