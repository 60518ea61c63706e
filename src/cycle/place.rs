//! How is one PodGroup placed in its turn?
//!
//! A gang is placed whole: all needed members, or none, and then everything is as before. A satisfied PodGroup places one further member
//! in a turn, so that a large Deployment does not take the turns of other PodGroups.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::Uid;
use crate::by_key::ByKey;
use crate::cycle::placement::Strategy;
use crate::resources::Resources;

use super::explain::Refusal;
use super::placement::placer::{self, Placer, Pod, State};
use super::world::{Member, World};

/// The members that a turn tries to place.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    /// The queue that is charged.
    pub(super) queue: &'a str,
    /// The members, in order.
    pub(super) members: &'a [Uid],
    /// The number of members that must be placed: all or none.
    pub(super) needed: u32,
    /// The number of first members that must be among them, because their task needs them.
    pub(super) first: u32,
    /// Whether these pods may be preempted.
    pub(super) preemptable: bool,
    /// The nodes to use only where no other fits.
    pub(super) last: &'a BTreeSet<Arc<str>>,
    /// The name of the reservation of the PodGroup, which is ignored here (A4). It is gone once the PodGroup is placed.
    pub(super) reservation: Option<&'a str>,
}

/// Places the needed number of members, or none.
///
/// # Errors
///
/// Why the first member without a node found none.
pub(super) fn place(world: &mut World, strategy: Strategy, attempt: &Attempt<'_>) -> Result<Vec<Placement>, Refusal> {
    let barred = world.barred_groups(attempt.queue);
    let World { books, nodes, anti_affinity, classes, finder, pods, .. } = world;
    let mut placer = Placer::new(State { books, nodes, anti_affinity, classes, finder, barred }, strategy, attempt.last, u32::MAX);
    if let Some(name) = attempt.reservation {
        placer.trial().reserve(name, attempt.queue, &Resources::new());
    }
    let Attempt { queue, needed, first, preemptable, .. } = *attempt;
    let pods = waiting(pods, attempt.members);
    match placer.place(&placer::Attempt { queue, pods: &pods, needed, first, preemptable }) {
        Ok(_) => Ok(placer.commit()),
        Err(not) => Err(*not.refusal),
    }
}

/// Returns these members in the form of the placer, for any node.
pub(super) fn waiting<'a>(pods: &'a ByKey<Uid, Member>, members: &[Uid]) -> Vec<Pod<'a>> {
    let pod = |uid: &Uid| pods.get(uid).map(|member| Pod { facts: &member.facts, class: member.class, node: None });
    members.iter().filter_map(pod).collect()
}
