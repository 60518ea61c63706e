//! What has become of pods that are held for claims?

use std::time::Duration;

use crate::api::volumes::{ClaimKey, WhyUnusable};
use crate::cycle::cache::{Cache, Member, State, gang};
use crate::cycle::holds::Outlook;
use crate::cycle::holds::hold::{Because, Hold};
use crate::cycle::holds::table::Holds;
use crate::cycle::placement::filter::lasting_refusal;
use crate::cycle::placement::volumes::supply::Source;

use super::Claims;

/// Why pods are not bound where a cycle would not decide on it any more.
pub(in crate::cycle) const CHANGED: &str = "a node, a queue or a volume is not as it was chosen";

impl Holds {
    /// Returns what has become of the hold with this number. No further member goes before the minimum of its PodGroup.
    pub(in crate::cycle) fn claims_outlook(&mut self, cache: &Cache, number: u64, now: Duration) -> Outlook {
        let Some(outlook) = self.get_mut(number).map(|hold| hold.claims_outlook(cache, now)) else { return Outlook::Waits };
        let Some(hold) = self.get(number).filter(|_| outlook == Outlook::Ready) else { return outlook };
        match self.has_minimum(cache, &hold.group, Some(number)) {
            true => Outlook::Ready,
            false if hold.is_over(now) => Outlook::broken("the minimum was not bound in time"),
            false => Outlook::Waits,
        }
    }
}

impl Hold {
    fn claims_outlook(&mut self, cache: &Cache, now: Duration) -> Outlook {
        let fault = self.fault(cache);
        let Because::Claims(claims) = &mut self.because else { return Outlook::Waits };
        if let Some(why) = fault.or_else(|| claims.given_back(cache)) {
            return Outlook::Broken(why.into());
        }
        let open = claims.all.iter().find(|claim| !is_bound(cache, claim)).cloned();
        if !self.may_bind(cache) {
            return Outlook::broken(CHANGED);
        }
        match open {
            None if self.is_resolved(cache) => Outlook::Ready,
            Some(open) if self.is_over(now) => {
                let why = format!("persistentvolumeclaim \"{0}\" was not bound in time (see kubectl describe pvc {0})", open.name);
                Outlook::Broken(why.into())
            }
            None if self.is_over(now) => Outlook::broken("a volume did not appear in time"),
            None | Some(_) => Outlook::Waits,
        }
    }

    /// Returns why it cannot go on.
    fn fault(&self, cache: &Cache) -> Option<String> {
        let claims = self.claims()?;
        if let Some(why) = &claims.failed {
            return Some(why.clone());
        }
        let known = cache.groups().get(&self.group).and_then(|group| Some((group, group.facts.as_deref()?)));
        if !known.is_some_and(|(group, facts)| gang::is_satisfied(group, facts)) {
            return Some("the PodGroup changed".to_owned());
        }
        for place in &self.places {
            let member = cache.pods().get(&place.uid);
            let stands = |member: &&Member| {
                member.state() == State::Placed
                    && member.facts.group == self.group
                    && member.facts.request == place.resources
                    && member.assumed.as_ref().is_some_and(|assumed| assumed.is_held && assumed.node == place.node)
            };
            let Some(member) = member.filter(stands) else { return Some("a pod changed".to_owned()) };
            if let Some(claim) = member.facts.unusable_claim.as_ref().filter(|claim| !may_pass(&claim.why)) {
                return Some(claim.to_string());
            }
            let unbound = member.facts.constraints.volumes.iter().flat_map(|volumes| &volumes.unbound);
            if let Some(claim) = unbound.into_iter().find(|claim| !claims.all.contains(claim)) {
                return Some(format!("persistentvolumeclaim \"{}\" has no volume any more", claim.name));
            }
        }
        None
    }

    /// Returns whether all volumes of the pods are known.
    fn is_resolved(&self, cache: &Cache) -> bool {
        self.places.iter().all(|place| cache.pods().get(&place.uid).is_some_and(|member| member.facts.unusable_claim.is_none()))
    }

    /// Returns whether the queue and the nodes take the pods with the volumes that their claims are bound to.
    fn may_bind(&self, cache: &Cache) -> bool {
        let quota = cache.accounting().quota();
        self.places.iter().all(|place| {
            let node = cache.nodes().id(&place.node).and_then(|id| cache.node(id));
            let Some((node, member)) = node.zip(cache.pods().get(&place.uid)) else { return false };
            quota.closed_by(&place.queue).is_none()
                && lasting_refusal(&member.facts.constraints, &cache.barred_groups(&place.queue), &node).is_none()
        })
    }
}

impl Claims {
    /// Returns which claim has lost its volume, or has its selected node no more: its provisioner cannot make the volume there.
    fn given_back(&mut self, cache: &Cache) -> Option<String> {
        let volumes = cache.volumes();
        for key in &self.all {
            let request = volumes.claim(key).and_then(|facts| facts.request.as_ref());
            let Some((request, reservation)) = request.zip(volumes.reservation(key)) else { continue };
            let is_tied = match &reservation.source {
                Source::Provisioner => request.selected_node.as_ref() == Some(&reservation.node),
                Source::Volume(name) => {
                    let Some(volume) = volumes.volume(name) else { return Some(format!("persistentvolume \"{name}\" is gone")) };
                    let uid = volume.claim.as_ref().and_then(|of| of.uid.as_ref());
                    if uid.is_some_and(|uid| *uid != request.uid) {
                        return Some(format!("persistentvolume \"{name}\" is given to another claim"));
                    }
                    uid.is_some()
                }
            };
            if is_tied {
                self.tied.insert(key.clone());
            } else if self.tied.contains(key) {
                self.refused = matches!(reservation.source, Source::Provisioner).then(|| key.clone());
                return Some(match &reservation.source {
                    Source::Provisioner => {
                        format!(
                            "the provisioner made no volume for persistentvolumeclaim \"{0}\" on its selected node (see kubectl describe pvc {0})",
                            key.name
                        )
                    }
                    Source::Volume(name) => {
                        format!("persistentvolume \"{name}\" is not reserved for persistentvolumeclaim \"{}\" any more", key.name)
                    }
                });
            }
        }
        None
    }
}

/// Returns whether this is only what is seen of a claim between two events: it and its volume come by two watches.
const fn may_pass(why: &WhyUnusable) -> bool {
    matches!(why, WhyUnusable::VolumeNotFound { .. } | WhyUnusable::NotBoundTo { .. } | WhyUnusable::NotBound { .. })
}

pub(super) fn is_bound(cache: &Cache, claim: &ClaimKey) -> bool {
    cache.volumes().claim(claim).is_some_and(|facts| facts.is_bound)
}
