//! Which claims keep a volume, or a node for their volume, while their pods wait?

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::Uid;
use crate::api::fault::shorten;
use crate::api::pod_terms::PodTerms;
use crate::api::volumes::{ClaimFacts, ClaimKey, PodClaim, VolumeAffinity};
use crate::cycle::explain::KeptVolumes;

use super::Volumes;

/// How many claims of a PodGroup are looked at, so that a large gang with many claims costs no more.
const LOOKED_AT: usize = 1_000;

impl Volumes {
    /// Returns which claims of these pods are tied to a node, or have a volume that not every node may mount, or one that was made for a
    /// pod; none where there are none. Only claims that the pods may use count, and only the first thousand.
    #[must_use]
    pub fn kept_by<'a>(&self, pods: impl Iterator<Item = (&'a Uid, &'a PodTerms)>) -> Option<KeptVolumes> {
        let of_pod = |(uid, pod): (&'a Uid, &'a PodTerms)| pod.claims.iter().map(move |claim| (uid, pod, claim));
        let kept = |(uid, pod, claim): (&'a Uid, &'a PodTerms, &'a PodClaim)| {
            let key = pod.key_of(claim);
            let facts = self.claims.get(&key).filter(|facts| !claim.is_ephemeral || facts.owner.as_ref() == Some(uid))?;
            Some((key, self.kept(facts)?))
        };
        let mut all: BTreeMap<ClaimKey, KeptVolumes> = pods.flat_map(of_pod).take(LOOKED_AT).filter_map(kept).collect();
        let (_, first) = all.pop_first()?;
        Some(KeptVolumes { further: u32::try_from(all.len()).unwrap_or(u32::MAX), ..first })
    }

    fn kept(&self, facts: &ClaimFacts) -> Option<KeptVolumes> {
        if facts.is_deleting || facts.is_lost {
            return None;
        }
        let (volume, place) = match (&facts.volume, &facts.request) {
            (Some(name), _) if facts.is_bound => {
                let made = || self.may_be_made_for_a_pod(facts).then(|| "any node".to_owned());
                (Some(Arc::clone(name)), place(&self.volumes.get(name)?.affinity).or_else(made)?)
            }
            (None, Some(request)) => (None, format!("node \"{}\"", shorten(request.selected_node.as_ref()?))),
            (Some(_) | None, _) => return None,
        };
        Some(KeptVolumes { claim: Arc::clone(&facts.key.name), volume, place, further: 0 })
    }

    /// Whether the volume was made for a pod that then was not placed, as far as that can be seen: its class waits for pods, and no pod on
    /// a node uses it.
    fn may_be_made_for_a_pod(&self, facts: &ClaimFacts) -> bool {
        let class = facts.class.as_ref().and_then(|class| self.classes.get(class));
        class.is_some_and(|class| class.waits_for_pod) && !self.is_used(&facts.key)
    }
}

/// The first requirement of the volume on its nodes, as `zone=a`; none where every node may mount it.
fn place(affinity: &VolumeAffinity) -> Option<String> {
    let term = affinity.terms.as_ref()?.first()?;
    let required = term.match_expressions.first().or(term.match_fields.first())?;
    let text = match (required.operator.as_str(), required.values.as_slice()) {
        ("In", [value]) => format!("{}={value}", required.key),
        (operator, values) => format!("{} {operator} {}", required.key, values.join(", ")),
    };
    Some(shorten(text.trim_end()))
}
