//! What has become of the pods of one placement that wait for volumes?

use std::time::Duration;

use crate::api::volumes::{ClaimKey, WhyUnusable};
use crate::cycle::cache::{Cache, Member, State, gang};
use crate::cycle::placement::filter::lasting_refusal;
use crate::cycle::placement::volumes::supply::Source;

use super::VolumeBinding;

/// Why pods are not bound where a cycle would not decide on it any more.
pub(in crate::cycle) const CHANGED: &str = "a node, a queue or a volume is not as it was chosen";

/// What has become of a binding.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cycle) enum Progress {
    /// Claims are not bound yet.
    Waits,
    /// Its pods can be bound.
    Ready,
    /// It cannot go on, for this reason.
    Broken(String),
}

impl VolumeBinding {
    /// Returns what has become of it.
    pub(super) fn progress(&mut self, cache: &Cache, now: Duration) -> Progress {
        if let Some(why) = self.fault(cache).or_else(|| self.given_back(cache)) {
            return Progress::Broken(why);
        }
        if !self.may_bind(cache) {
            return Progress::Broken(CHANGED.to_owned());
        }
        match self.claims.iter().find(|claim| !is_bound(cache, claim)) {
            None if self.is_resolved(cache) => Progress::Ready,
            Some(open) if self.until.is_some_and(|until| until <= now) => {
                Progress::Broken(format!("persistentvolumeclaim \"{0}\" was not bound in time (see kubectl describe pvc {0})", open.name))
            }
            None if self.until.is_some_and(|until| until <= now) => Progress::Broken("a volume did not appear in time".to_owned()),
            None | Some(_) => Progress::Waits,
        }
    }

    /// Returns why the binding cannot go on.
    fn fault(&self, cache: &Cache) -> Option<String> {
        if let Some(why) = &self.failed {
            return Some(why.clone());
        }
        let known = cache.groups().get(&self.key).and_then(|group| Some((group, group.facts.as_deref()?)));
        if !known.is_some_and(|(group, facts)| gang::is_satisfied(group, facts)) {
            return Some("the PodGroup changed".to_owned());
        }
        for place in &self.places {
            let member = cache.pods().get(&place.uid);
            let stands = |member: &&Member| {
                member.state() == State::Placed
                    && member.facts.group == self.key
                    && member.facts.request == place.resources
                    && member.assumed.as_ref().is_some_and(|assumed| assumed.is_held && assumed.node == place.node)
            };
            let Some(member) = member.filter(stands) else { return Some("a pod changed".to_owned()) };
            if let Some(claim) = member.facts.unusable_claim.as_ref().filter(|claim| !may_pass(&claim.why)) {
                return Some(claim.to_string());
            }
            let unbound = member.facts.constraints.volumes.iter().flat_map(|volumes| &volumes.unbound);
            if let Some(claim) = unbound.into_iter().find(|claim| !self.claims.contains(claim)) {
                return Some(format!("persistentvolumeclaim \"{}\" has no volume any more", claim.name));
            }
        }
        None
    }

    /// Returns which claim has lost its volume, or has its selected node no more: its provisioner cannot make the volume there.
    fn given_back(&mut self, cache: &Cache) -> Option<String> {
        let volumes = cache.volumes();
        for key in &self.claims {
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

/// Returns whether this is only what is seen of a claim between two events: it and its volume come by two watches.
const fn may_pass(why: &WhyUnusable) -> bool {
    matches!(why, WhyUnusable::VolumeNotFound { .. } | WhyUnusable::NotBoundTo { .. } | WhyUnusable::NotBound { .. })
}

pub(super) fn is_bound(cache: &Cache, claim: &ClaimKey) -> bool {
    cache.volumes().claim(claim).is_some_and(|facts| facts.is_bound)
}
