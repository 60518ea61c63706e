//! How is one group placed in its turn?
//!
//! A gang is placed whole: all members that are needed, or none, and then everything is as before. A group that is satisfied places one further
//! member in a turn, so that a large Deployment does not take its queue's neighbours' turns.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::Placement;
use crate::api::Uid;
use crate::by_key::ByKey;
use crate::cycle::placement::Strategy;
use crate::resources::Resources;
use crate::rules::{Rule, holds};

use super::explain::Refusal;
use super::placement::placer::{self, Placer, Pod, State};
use super::world::{Member, World};

/// What a turn tries.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    /// The queue that is charged.
    pub(super) queue: &'a str,
    /// The members, in order.
    pub(super) members: &'a [Uid],
    /// How many of them must find a place: all or none.
    pub(super) needed: u32,
    /// How many of the first of them must be among those, because their task needs them.
    pub(super) first: u32,
    /// Whether these pods may be preempted.
    pub(super) preemptable: bool,
    /// Nodes to take only where no other fits.
    pub(super) last: &'a BTreeSet<Arc<str>>,
    /// The name of the group's reservation, which must not be in its own way (A4). It is gone once the group is placed.
    pub(super) holds: Option<&'a str>,
}

/// Places the needed number of members, or none.
///
/// # Errors
///
/// Why the first member that found no place did not.
pub(super) fn place(world: &mut World, strategy: Strategy, attempt: &Attempt<'_>) -> Result<Vec<Placement>, Refusal> {
    let barred = world.barred_groups(attempt.queue);
    let World { books, nodes, anti_affinity, classes, finder, pods, .. } = world;
    let mut placer = Placer::new(State { books, nodes, anti_affinity, classes, finder, barred }, strategy, attempt.last, u32::MAX);
    if let Some(name) = attempt.holds.filter(|_| holds(Rule::A4Own)) {
        placer.trial().reserve(name, attempt.queue, &Resources::new());
    }
    let Attempt { queue, needed, first, preemptable, .. } = *attempt;
    let pods = waiting(pods, attempt.members);
    match placer.place(&placer::Attempt { queue, pods: &pods, needed, first, preemptable }) {
        Ok(_) => Ok(placer.commit()),
        Err(not) => Err(*not.refusal),
    }
}

/// These members as the placer takes them, for any node.
pub(super) fn waiting<'a>(pods: &'a ByKey<Uid, Member>, members: &[Uid]) -> Vec<Pod<'a>> {
    let pod = |uid: &Uid| pods.get(uid).map(|member| Pod { facts: &member.facts, class: member.class, node: None });
    members.iter().filter_map(pod).collect()
}
