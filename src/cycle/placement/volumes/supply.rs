//! Where would the claims of a pod that have no volume get one, with the pod on this node or on that?
//!
//! The rules of kube-scheduler 1.36 (`plugins/volumebinding`: `findMatchingVolumes`, `checkVolumeProvisions`). The smallest claim chooses first, and takes the smallest
//! free volume of its class that serves it and that the node can mount; of equal ones the first by name. A claim without such a volume gets one made, if its class can make
//! one for the node and its driver has enough storage there. Some claims have no choice left: one that an earlier pod has reserved for, one with a selected node, and one that a volume names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::NodeFacts;
use crate::api::pod::NodeRequirement;
use crate::api::volumes::{ClaimFacts, ClaimKey, ClaimRequest, StorageClassFacts, VolumeFacts};
use crate::cycle::explain::Reason;
use crate::cycle::placement::filter::can_mount;
use crate::resources::Amount;

use super::Volumes;
use super::capacities::Capacities;
use super::reserved::Reservation;

/// How a claim gets its volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is bound to this volume.
    Volume(Arc<str>),
    /// Its provisioner makes one for the node.
    Provisioner,
}

/// Why a node has no volume for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No free volume serves it there, and none is made there.
    Volume,
    /// None is free there, and there is too little storage to make one.
    Storage,
}

impl Missing {
    /// Returns the reason of the node.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Volume => Reason::NoVolume,
            Self::Storage => Reason::NotEnoughStorage,
        }
    }
}

/// The claims of a pod that have no volume, prepared to be asked about many nodes.
#[derive(Debug)]
pub struct Supply<'a> {
    /// Claims with a selected node, and then the smallest first: the first claim without a volume gives the reason. None where one of them is not known, or has a volume by now.
    claims: Option<Vec<Wants<'a>>>,
}

/// A claim, and where it may get its volume.
#[derive(Debug)]
struct Wants<'a> {
    key: &'a ClaimKey,
    from: From<'a>,
}

#[derive(Debug)]
enum From<'a> {
    /// An earlier pod has reserved for it.
    Reserved(&'a Reservation, Option<&'a VolumeFacts>),
    /// Its volume is made for the selected node.
    Node(&'a Arc<str>, Maker<'a>),
    /// This volume names it.
    Named(&'a VolumeFacts),
    /// A free volume, or one that is made.
    Any(Candidates<'a>, Maker<'a>),
}

/// The class that makes the volume of a claim.
#[derive(Debug)]
struct Maker<'a> {
    class: &'a StorageClassFacts,
    size: Amount,
    capacities: &'a Capacities,
}

impl Maker<'_> {
    fn on(&self, node: &NodeFacts) -> Result<Source, Missing> {
        let driver = self.class.provisioner.as_ref().filter(|_| self.class.topologies.allow(&node.labels)).ok_or(Missing::Volume)?;
        let suffices = self.capacities.suffice(driver, &self.class.name, self.size, &node.labels);
        suffices.then_some(Source::Provisioner).ok_or(Missing::Storage)
    }
}

impl Volumes {
    /// Prepares these claims to be asked about nodes.
    #[must_use]
    pub fn supply<'a>(&'a self, claims: &'a BTreeSet<ClaimKey>) -> Supply<'a> {
        let mut wanted = Vec::new();
        for key in claims {
            let known = self.claims.get(key).and_then(|facts| Some((facts, facts.request.as_deref()?)));
            let class = known.and_then(|(facts, _)| self.classes.get(facts.class.as_ref()?));
            let Some(((facts, request), class)) = known.zip(class) else { return Supply { claims: None } };
            let from = self.source(facts, request, class);
            let size = (!matches!(from, From::Node(..))).then_some(request.wanted.size);
            wanted.push((size, Wants { key, from }));
        }
        wanted.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.key.cmp(other.key)));
        Supply { claims: Some(wanted.into_iter().map(|(_, wants)| wants).collect()) }
    }

    fn source<'a>(&'a self, facts: &'a ClaimFacts, request: &'a ClaimRequest, class: &'a StorageClassFacts) -> From<'a> {
        if let Some(reservation) = self.reserved.of(&facts.key) {
            let volume = if let Source::Volume(name) = &reservation.source { self.volumes.get(name) } else { None };
            return From::Reserved(reservation, volume);
        }
        let maker = Maker { class, size: request.wanted.size, capacities: &self.capacities };
        if let Some(node) = &request.selected_node {
            return From::Node(node, maker);
        }
        match self.named_for(&facts.key, request) {
            Some(volume) => From::Named(volume),
            None => From::Any(Candidates::of(self, &class.name, request), maker),
        }
    }

    /// Returns the volume that names the claim and serves it; the first by name where there are several.
    fn named_for(&self, key: &ClaimKey, request: &ClaimRequest) -> Option<&VolumeFacts> {
        self.free.naming(key).filter_map(|name| self.volumes.get(name)).find(|volume| {
            let uid = volume.claim.as_ref().and_then(|of| of.uid.as_ref());
            let serves = || volume.offer.as_ref().is_some_and(|offer| offer.serves_its_claim(&request.wanted));
            // One with the UID is being bound already.
            uid.map_or_else(serves, |uid| *uid == request.uid)
        })
    }
}

impl Supply<'_> {
    /// Returns the source of the volume of each claim, with the pod on the node.
    ///
    /// # Errors
    ///
    /// A claim gets no volume there.
    pub fn on(&self, node: &NodeFacts) -> Result<Vec<(ClaimKey, Source)>, Missing> {
        let claims = self.claims.as_ref().ok_or(Missing::Volume)?;
        if claims.iter().any(|wants| matches!(wants.from, From::Node(of, _) if **of != *node.name)) {
            return Err(Missing::Volume);
        }
        let mut chosen = Vec::new();
        for wants in claims {
            let source = wants.from.on(node, &chosen)?;
            chosen.push((wants.key.clone(), source));
        }
        Ok(chosen)
    }
}

impl From<'_> {
    fn on(&self, node: &NodeFacts, chosen: &[(ClaimKey, Source)]) -> Result<Source, Missing> {
        let mounts = |volume: &&VolumeFacts| can_mount(&volume.affinity, node);
        match self {
            Self::Reserved(Reservation { source: source @ Source::Volume(_), .. }, volume) => {
                volume.filter(mounts).map(|_| source.clone()).ok_or(Missing::Volume)
            }
            Self::Reserved(Reservation { source: Source::Provisioner, node: of, .. }, _) => {
                (*of == node.name).then_some(Source::Provisioner).ok_or(Missing::Volume)
            }
            Self::Node(_, maker) => maker.on(node),
            Self::Named(volume) => {
                Some(*volume).filter(mounts).map(|volume| Source::Volume(Arc::clone(&volume.name))).ok_or(Missing::Volume)
            }
            Self::Any(candidates, maker) => match candidates.first_on(node, chosen) {
                Some(volume) => Ok(Source::Volume(Arc::clone(&volume.name))),
                None => maker.on(node),
            },
        }
    }
}

/// The free volumes that serve a claim, the smallest first.
///
/// Most local volumes name one node. So volumes are found by a label that the node must have, where each of their terms requires one.
#[derive(Debug, Default)]
struct Candidates<'a> {
    volumes: Vec<&'a VolumeFacts>,
    /// The places of volumes that are found by no label.
    others: Vec<usize>,
    /// By key and value of a label that the node must have.
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<usize>>>,
}

impl<'a> Candidates<'a> {
    fn of(volumes: &'a Volumes, class: &Arc<str>, request: &ClaimRequest) -> Self {
        let mut all = Self::default();
        for name in volumes.free.of_class(class) {
            let Some(volume) = volumes.volumes.get(name).filter(|_| !volumes.reserved.has_volume(name)) else { continue };
            if volume.offer.as_ref().is_some_and(|offer| offer.serves(&request.wanted)) {
                all.add(volume);
            }
        }
        all
    }

    fn add(&mut self, volume: &'a VolumeFacts) {
        let place = self.volumes.len();
        self.volumes.push(volume);
        let Some(labels) = required_labels(volume) else { return self.others.push(place) };
        for requirement in labels {
            for value in &requirement.values {
                let places = self.by_label.entry(&requirement.key).or_default().entry(value).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
    }

    /// Returns the first volume that the node can mount and that is not chosen for another claim.
    fn first_on(&self, node: &NodeFacts, chosen: &[(ClaimKey, Source)]) -> Option<&'a VolumeFacts> {
        let is_chosen =
            |volume: &VolumeFacts| chosen.iter().any(|(_, source)| matches!(source, Source::Volume(name) if *name == volume.name));
        let fits = |place: &&usize| {
            let volume = self.volumes.get(**place);
            volume.is_some_and(|volume| !is_chosen(volume) && can_mount(&volume.affinity, node))
        };
        let with_label = self.by_label.iter().filter_map(|(key, values)| values.get(node.labels.get(*key)?.as_str()));
        let first = with_label.chain([&self.others]).filter_map(|places| places.iter().find(fits)).min()?;
        self.volumes.get(*first).copied()
    }
}

/// Returns a requirement of each term of the volume that a label has one of some values; none where a term has no such requirement, or where what counts depends on
/// the node's CSI drivers.
fn required_labels(volume: &VolumeFacts) -> Option<Vec<&NodeRequirement>> {
    let terms = volume.affinity.terms.as_ref().filter(|_| volume.affinity.migrated.is_none())?;
    terms.iter().map(|term| term.match_expressions.iter().find(|requirement| requirement.operator == "In")).collect()
}
