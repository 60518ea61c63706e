//! What do the claims of a pod require of its node, and which of them cannot be used now?

use std::sync::Arc;

use crate::api::Uid;
use crate::api::pod_terms::PodTerms;
use crate::api::volumes::{
    ClaimFacts, ClaimKey, LARGEST_SELECTOR, PodClaim, PodVolumes, UnusableClaim, VolumeAffinity, VolumeId, WhyUnusable,
};

use super::Volumes;

impl Volumes {
    /// Returns what the claims of a pod require of its node; none where they require nothing.
    ///
    /// # Errors
    ///
    /// The first claim that cannot be used now. A claim that is not bound, and does not wait for a pod, comes after those that have another fault.
    pub fn resolve(&self, pod: &Uid, terms: &PodTerms) -> Result<Option<Arc<PodVolumes>>, UnusableClaim> {
        if terms.claims.is_empty() || self.ignored {
            return Ok(None);
        }
        let mut claims = Vec::new();
        for claim in &terms.claims {
            claims.push((claim, self.usable(pod, terms, claim)?));
        }
        let mut all = PodVolumes::default();
        let mut size = 0_usize;
        for (claim, facts) in &claims {
            if !facts.is_bound {
                self.waits_for_pod(facts).map_err(|why| unusable(claim, why))?;
                size = size.saturating_add(facts.selector_size());
                if size > LARGEST_SELECTOR {
                    return Err(unusable(claim, WhyUnusable::SelectorTooLarge { size }));
                }
                all.unbound.insert(facts.key.clone());
            }
        }
        for (claim, facts) in claims {
            if facts.is_for_one_pod {
                all.for_one_pod.insert(facts.key.clone());
            }
            all.limited.extend(self.id_of(&facts.key).filter(|id| self.limited.contains_key(&id.driver)));
            let Some(name) = &facts.volume else { continue };
            let Some(volume) = self.volumes.get(name) else {
                return Err(unusable(claim, WhyUnusable::VolumeNotFound { volume: Arc::clone(name) }));
            };
            if volume.affinity.terms.is_some() || volume.affinity.migrated.as_ref().is_some_and(|(_, terms)| terms.is_some()) {
                all.affinity.insert(VolumeAffinity::clone(&volume.affinity));
            }
            // kube-scheduler reads the labels of no volume that was made for a pod.
            if !claim.is_ephemeral {
                all.zones.extend(volume.zones.iter().cloned());
            }
        }
        Ok((all != PodVolumes::default()).then(|| Arc::new(all)))
    }

    /// Returns the facts of a claim that exists, is the pod's own if it has to be, and stays.
    fn usable(&self, pod: &Uid, terms: &PodTerms, claim: &PodClaim) -> Result<&ClaimFacts, UnusableClaim> {
        let key = terms.key_of(claim);
        let Some(facts) = self.claims.get(&key) else {
            return Err(unusable(claim, if claim.is_ephemeral { WhyUnusable::NotMade } else { WhyUnusable::NotFound }));
        };
        if facts.is_lost {
            let volume = facts.volume.clone().unwrap_or_else(|| Arc::from(""));
            return Err(unusable(claim, WhyUnusable::Lost { volume }));
        }
        if facts.is_deleting {
            return Err(unusable(claim, WhyUnusable::Deleting));
        }
        if claim.is_ephemeral && facts.owner.as_ref() != Some(pod) {
            return Err(unusable(claim, WhyUnusable::NotOwned));
        }
        Ok(facts)
    }

    /// Returns whether the claim gets its volume with the node of a pod; else why it is not bound. One that names a volume and is not bound
    /// to it yet is not for the scheduler to bind.
    fn waits_for_pod(&self, facts: &ClaimFacts) -> Result<(), WhyUnusable> {
        if let Some(volume) = &facts.volume {
            return Err(WhyUnusable::NotBoundTo { volume: Arc::clone(volume) });
        }
        let Some(class) = &facts.class else { return Err(WhyUnusable::NotBound { class: None }) };
        match self.classes.get(class) {
            None => Err(WhyUnusable::ClassNotFound { class: Arc::clone(class) }),
            Some(known) if known.waits_for_pod => Ok(()),
            Some(_) => Err(WhyUnusable::NotBound { class: Some(Arc::clone(class)) }),
        }
    }

    /// Returns what the claim counts as on a node; none where no limit counts it. A claim whose volume is not known counts as one of its class.
    pub(super) fn id_of(&self, claim: &ClaimKey) -> Option<VolumeId> {
        let facts = self.claims.get(claim)?;
        if let Some(volume) = facts.volume.as_ref().and_then(|name| self.volumes.get(name)) {
            return volume.id.clone();
        }
        let driver = self.classes.get(facts.class.as_ref()?)?.driver.as_ref()?;
        // No driver names a volume so.
        VolumeId::new(driver, &format!("\0{}/{}", claim.namespace, claim.name))
    }
}

fn unusable(claim: &PodClaim, why: WhyUnusable) -> UnusableClaim {
    UnusableClaim { claim: Arc::clone(&claim.name), why }
}
