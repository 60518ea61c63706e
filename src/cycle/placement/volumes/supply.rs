//! Where would the claims of a pod that have no volume get one, with the pod on this node or on that?
//!
//! The rules of kube-scheduler 1.36 (`plugins/volumebinding`: `findMatchingVolumes`, `checkVolumeProvisions`). The smallest claim chooses
//! first, and takes the smallest free volume of its class that serves it and that the node can mount; of equal ones the first by name. A
//! claim without such a volume gets one made, if its class can make one for the node and its driver has enough storage there. Some claims
//! have no choice left: one that an earlier pod has reserved for, one with a selected node, and one that a volume names.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, btree_set};
use std::sync::Arc;

use crate::api::NodeFacts;
use crate::api::volumes::{ClaimFacts, ClaimKey, ClaimRequest, StorageClassFacts, VolumeFacts};
use crate::cycle::explain::Reason;
use crate::cycle::placement::filter::can_mount;
use crate::resources::Amount;

use super::Volumes;
use super::capacities::Capacities;
use super::free::{OfClass, Sorted};
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
    /// Claims with a selected node, and then the smallest first: the first claim without a volume gives the reason. None where one of them
    /// is not known, or has a volume by now.
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

impl<'a> Supply<'a> {
    /// Returns the claims for which none of these nodes has a volume, whatever the other claims get.
    pub fn unserved(&self, nodes: &[&NodeFacts]) -> impl Iterator<Item = &'a ClaimKey> {
        let served = |wants: &&Wants<'_>| nodes.iter().any(|node| wants.from.on(node, &[]).is_ok());
        self.claims.iter().flatten().filter(move |wants| !served(wants)).map(|wants| wants.key)
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

/// The free volumes that serve a claim, looked for when a node asks: a cluster may have thousands of them, and most nodes ask for few.
#[derive(Debug)]
struct Candidates<'a> {
    known: &'a Volumes,
    request: &'a ClaimRequest,
    /// Those of the class.
    free: Option<&'a OfClass>,
    /// What was found, by list. The lists are borrowed, so each keeps its address.
    found: RefCell<HashMap<*const Sorted, Found<'a>>>,
}

/// What was found in a list: each list is read once, however many nodes ask for it.
#[derive(Debug)]
struct Found<'a> {
    /// Those that serve the claim, the smallest first.
    serving: Vec<&'a VolumeFacts>,
    /// What was not read yet.
    rest: btree_set::Range<'a, (Amount, Arc<str>)>,
}

impl<'a> Candidates<'a> {
    fn of(known: &'a Volumes, class: &str, request: &'a ClaimRequest) -> Self {
        Self { known, request, free: known.free.of_class(class), found: RefCell::default() }
    }

    /// Returns the first volume that the node can mount and that is not chosen for another claim.
    fn first_on(&self, node: &NodeFacts, chosen: &[(ClaimKey, Source)]) -> Option<&'a VolumeFacts> {
        let is_chosen =
            |volume: &VolumeFacts| chosen.iter().any(|(_, source)| matches!(source, Source::Volume(name) if *name == volume.name));
        let fits = |volume: &VolumeFacts| !is_chosen(volume) && can_mount(&volume.affinity, node);
        let lists = self.free.into_iter().flat_map(|free| free.for_labels(&node.labels));
        let size = |volume: &&VolumeFacts| (volume.offer.as_ref().map(|offer| offer.size), Arc::clone(&volume.name));
        lists.filter_map(|list| self.first_of(list, fits)).min_by_key(size)
    }

    /// Returns the first volume of the list that serves the claim and fits.
    fn first_of(&self, list: &'a Sorted, fits: impl Fn(&VolumeFacts) -> bool) -> Option<&'a VolumeFacts> {
        let mut found = self.found.borrow_mut();
        let found = found.entry(std::ptr::from_ref(list)).or_insert_with(|| {
            let least = (self.request.wanted.size, Arc::from(""));
            Found { serving: Vec::new(), rest: list.range(least..) }
        });
        if let Some(volume) = found.serving.iter().find(|volume| fits(volume)) {
            return Some(volume);
        }
        for (_, name) in found.rest.by_ref() {
            let Some(volume) = self.known.volumes.get(name).filter(|volume| self.serves(volume)) else { continue };
            found.serving.push(volume);
            if fits(volume) {
                return Some(volume);
            }
        }
        None
    }

    /// Returns whether the free volume may be the claim's.
    fn serves(&self, volume: &VolumeFacts) -> bool {
        let serves = || volume.offer.as_ref().is_some_and(|offer| offer.serves(&self.request.wanted));
        !self.known.reserved.has_volume(&volume.name) && serves()
    }
}
