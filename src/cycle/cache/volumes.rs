//! Which pods and nodes does a change of a claim, a volume or a CSI driver concern?

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriverFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts,
};
use crate::api::{GroupKey, NodeFacts, PodFacts, Uid};
use crate::cycle::explain::{Code, Refusal};
use crate::cycle::placement::volumes::{Affected, Volumes};

use super::{Cache, Change, Group, Member, State, Wake};

impl Cache {
    /// The storage objects, and what pods use of them.
    #[must_use]
    pub const fn volumes(&self) -> &Volumes {
        self.on_nodes.volumes()
    }

    /// Returns the nodes with a known CSINode.
    pub fn csi_nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.csi_nodes.keys()
    }

    /// Sets that the storage objects are not known: claims require nothing of nodes.
    pub(in crate::cycle) const fn ignore_volumes(&mut self) {
        self.on_nodes.volumes_mut().ignore();
    }

    /// Finds what the claims of a waiting pod require, or which of them cannot be used.
    pub(in crate::cycle) fn resolve_claims(&self, facts: &mut PodFacts) {
        let waits = facts.node.is_none() && self.serves(&facts.scheduler);
        let resolved = if waits { self.volumes().resolve(&facts.uid, &facts.terms) } else { Ok(None) };
        (facts.constraints.volumes, facts.unusable_claim) = match resolved {
            Ok(volumes) => (volumes, None),
            Err(unusable) => (None, Some(Arc::new(unusable))),
        };
    }

    /// Records a claim; none where it is gone. Returns our waiting pods that it may concern.
    pub(in crate::cycle) fn set_claim(&mut self, key: &ClaimKey, facts: Option<ClaimFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_claim(key, facts);
        self.affected(affected)
    }

    /// Records a volume; none where it is gone. Returns our waiting pods that it may concern.
    pub(in crate::cycle) fn set_volume(&mut self, name: &Arc<str>, facts: Option<VolumeFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_volume(name, facts);
        self.affected(affected)
    }

    /// Records a class; none where it is gone. Returns our waiting pods that it may concern.
    pub(in crate::cycle) fn set_storage_class(&mut self, name: &Arc<str>, facts: Option<StorageClassFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_class(name, facts);
        self.affected(affected)
    }

    /// Records an attachment; none where it is gone.
    pub(in crate::cycle) fn set_attachment(&mut self, name: &Arc<str>, facts: Option<AttachmentFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_attachment(name, facts);
        self.affected(affected)
    }

    /// Records whether a driver publishes its capacity; none where the driver is gone.
    pub(in crate::cycle) fn set_csi_driver(&mut self, name: &Arc<str>, facts: Option<CsiDriverFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_driver(name, facts);
        self.affected(affected)
    }

    /// Records a capacity; none where it is gone.
    pub(in crate::cycle) fn set_capacity(&mut self, key: &CapacityKey, facts: Option<CapacityFacts>) -> Vec<Uid> {
        let affected = self.on_nodes.volumes_mut().set_capacity(key, facts);
        self.affected(affected)
    }

    /// Records what a kubelet says about CSI drivers; none where that is gone. Returns our waiting pods that it may concern.
    pub(in crate::cycle) fn set_csi_node(&mut self, name: &Arc<str>, facts: Option<CsiNodeFacts>) -> Vec<Uid> {
        let now = facts.map(Arc::new);
        let before = match &now {
            Some(now) => self.csi_nodes.insert(Arc::clone(name), Arc::clone(now)),
            None => self.csi_nodes.remove(name),
        };
        if before == now {
            return Vec::new();
        }
        fn drivers(facts: &Option<Arc<CsiNodeFacts>>) -> impl Iterator<Item = &Arc<str>> {
            facts.iter().flat_map(|facts| facts.limits.keys())
        }
        let affected = self.on_nodes.volumes_mut().set_limits(drivers(&before), drivers(&now));
        if let Some(node) = self.nodes.id(name).and_then(|id| self.nodes.get(id)).cloned() {
            self.apply_node_but_images(NodeFacts::clone(&node));
        }
        self.affected(affected)
    }

    /// Notes that nodes count other volumes. Returns those of the pods that are ours and wait; their PodGroups are tried.
    fn affected(&mut self, affected: Affected) -> Vec<Uid> {
        let Affected { pods, supplied, nodes } = affected;
        self.volumes_supplied(supplied);
        for node in nodes {
            self.nodes.touch_name(&node);
            self.changed(Wake::Node(node));
        }
        let waiting: Vec<Uid> =
            pods.into_iter().filter(|uid| self.pods.get(uid).is_some_and(|member| member.facts.node.is_none())).collect();
        // What their claims keep is said of them and of their PodGroups, also where the claims mean the same to nodes.
        self.dirty.pods.extend(waiting.iter().cloned());
        self.change_groups_of(&waiting, |_| true);
        waiting
    }

    /// Lets one pod's part of the reservation of a claim go. Returns the pods with claims that may get a volume now.
    pub(in crate::cycle) fn let_go_of_claim(&mut self, claim: &ClaimKey) -> BTreeSet<Uid> {
        self.on_nodes.volumes_mut().let_go(claim)
    }

    /// The claims of these pods may get volumes now: their PodGroups are tried.
    pub(in crate::cycle) fn volumes_supplied(&mut self, pods: BTreeSet<Uid>) {
        self.change_groups_of(&pods, |member| member.class.is_some());
    }

    /// Notes a change of the PodGroups of those of these pods that are ours and for which this holds, each PodGroup once.
    fn change_groups_of<'a>(&mut self, pods: impl IntoIterator<Item = &'a Uid>, which: impl Fn(&Member) -> bool) {
        let group = |uid: &Uid| self.pods.get(uid).filter(|member| which(member)).map(|member| member.facts.group.clone());
        let groups: BTreeSet<GroupKey> = pods.into_iter().filter_map(group).collect();
        groups.into_iter().for_each(|group| self.changed(Change::Group(group)));
    }

    /// Returns why the PodGroup waits, and which claims of its pods without a node keep a volume or a node meanwhile.
    #[must_use]
    pub fn group_message(&self, group: &Group, refusal: &Refusal) -> String {
        let members = group.members.iter().filter_map(|uid| self.pods.get(uid));
        self.with_kept_volumes(
            group.facts.as_ref().map(|facts| &facts.key),
            refusal,
            members.filter(|member| matches!(member.state(), State::Waiting | State::Blocked | State::Nominated)),
        )
    }

    /// Returns the same for one pod.
    #[must_use]
    pub fn pod_message(&self, member: &Member, refusal: &Refusal) -> String {
        self.with_kept_volumes(Some(&member.facts.group), refusal, [member].into_iter())
    }

    fn with_kept_volumes<'a>(&self, own: Option<&GroupKey>, refusal: &Refusal, members: impl Iterator<Item = &'a Member>) -> String {
        let message = refusal.message();
        // Those are placed, and their claims are named where they get no volume in time.
        if matches!(refusal, Refusal::Volumes { .. } | Refusal::Unanswered { .. }) {
            return message;
        }
        let message = message + &self.who_holds(own, refusal);
        let members: Vec<&Member> = members.collect();
        let unserved = members.first().filter(|_| matches!(refusal.code(), Code::NoVolume | Code::NotEnoughStorage));
        let message = match unserved.and_then(|member| self.unserved_claim(member)) {
            Some(claim) => format!("{message}; no node has a volume for claim \"{claim}\""),
            None => message,
        };
        match self.volumes().kept_by(members.iter().map(|member| (&member.facts.uid, &*member.facts.terms))) {
            Some(kept) => format!("{message}; {kept}"),
            None => message,
        }
    }

    /// Returns the first claim of the pod that gets no volume on any node.
    fn unserved_claim(&self, member: &Member) -> Option<Arc<str>> {
        let claims = &member.facts.constraints.volumes.as_ref()?.unbound;
        let supply = self.volumes().supply(claims);
        let nodes: Vec<&NodeFacts> = self.nodes.iter().map(|node| &**node).collect();
        supply.unserved(&nodes).next().map(|claim| Arc::clone(&claim.name))
    }

    /// Returns the pods that cannot use a claim because this pod uses it on its node.
    pub(super) fn rivals_of(&self, uid: &Uid) -> BTreeSet<Uid> {
        if self.on_nodes.place_of(uid).is_some() { self.on_nodes.rivals(uid) } else { BTreeSet::new() }
    }

    /// The pod left its node, or moved to another: its rivals may use the claims, on any node.
    pub(super) fn claims_left(&mut self, uid: &Uid, rivals: &BTreeSet<Uid>) {
        self.change_groups_of(rivals.iter().filter(|rival| *rival != uid), |member| member.class.is_some());
    }
}
