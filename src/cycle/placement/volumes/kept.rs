//! Which claims keep a volume, or a node for their volume, while their pods wait?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::fault::shorten;
use crate::api::pod_terms::PodTerms;
use crate::api::volumes::{ClaimKey, VolumeAffinity};
use crate::cycle::explain::KeptVolumes;

use super::Volumes;

impl Volumes {
    /// Returns which claims of these pods have a volume that not every node may mount, or are tied to a node; none where there are none.
    #[must_use]
    pub fn kept_by<'a>(&self, pods: impl Iterator<Item = &'a PodTerms>) -> Option<KeptVolumes> {
        let key = |pod: &PodTerms, name: &Arc<str>| ClaimKey { namespace: Arc::clone(&pod.namespace), name: Arc::clone(name) };
        let claims: BTreeSet<ClaimKey> = pods.flat_map(|pod| pod.claims.iter().map(move |claim| key(pod, &claim.name))).collect();
        let mut kept = claims.iter().filter_map(|claim| self.kept(claim));
        let first = kept.next()?;
        Some(KeptVolumes { further: u32::try_from(kept.count()).unwrap_or(u32::MAX), ..first })
    }

    fn kept(&self, claim: &ClaimKey) -> Option<KeptVolumes> {
        let facts = self.claims.get(claim)?;
        let (volume, place) = match (&facts.volume, &facts.request) {
            (Some(name), _) => {
                // One that every node may mount is worth a word only where it may have been made for these pods.
                let made = || self.classes.get(facts.class.as_ref()?).filter(|class| class.waits_for_pod).map(|_| "any node".to_owned());
                (Some(Arc::clone(name)), place(&self.volumes.get(name)?.affinity).or_else(made)?)
            }
            (None, Some(request)) => (None, format!("node \"{}\"", shorten(request.selected_node.as_ref()?))),
            (None, None) => return None,
        };
        Some(KeptVolumes { claim: Arc::clone(&claim.name), volume, place, further: 0 })
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
