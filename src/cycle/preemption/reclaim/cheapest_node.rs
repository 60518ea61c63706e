//! Searches for victims by node: the node on which room for one member costs least.
//!
//! The cheapest victims of all are spread over all nodes, and their eviction frees a small piece on each. So for each unplaced member the
//! node with the cheapest victims is used. The victims on a node are found in R5's order. A cost is computed again when its node is next,
//! because victims chosen meanwhile make nothing cheaper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::explain::Refusal;
use crate::cycle::placement::class::ClassId;
use crate::resources::Resources;

use super::eviction_units::Rank;
use super::search::Search;
use super::stage::Places;

/// The most rounds, each with more victims.
const ROUNDS: u32 = 16;

/// The highest rank among the victims, and their number; none is the cheapest.
type Cost = (Option<Rank>, usize);

/// The idle resources and the possible victims of each node.
struct Room {
    units: BTreeMap<Arc<str>, Vec<usize>>,
    /// The idle resources without the members that are placed.
    idle: BTreeMap<Arc<str>, Resources>,
}

impl Search<'_, '_> {
    pub(super) fn by_cheapest_node(&mut self) -> Option<Places> {
        self.victims.clear();
        let mut units = BTreeMap::<Arc<str>, Vec<usize>>::new();
        for (at, unit) in self.units.iter().enumerate() {
            let nodes: BTreeSet<&Arc<str>> = unit.pods.iter().filter_map(|pod| self.victims.candidates.get(*pod)?.node.as_ref()).collect();
            nodes.into_iter().for_each(|node| units.entry(Arc::clone(node)).or_default().push(at));
        }
        let mut room = Room { units, idle: BTreeMap::new() };
        let mut more = 1_usize;
        for _ in 0..ROUNDS {
            let goes_on = match self.try_now() {
                Ok(places) => return Some(places),
                Err(None) => false,
                Err(Some(Refusal::Nodes { .. })) => self.free_nodes(&mut room),
                // A queue refuses, so victims are needed elsewhere, too.
                Err(Some(_)) => self.free_anywhere(more),
            };
            if !goes_on || self.is_spent() {
                return None;
            }
            more = more.saturating_mul(2);
        }
        None
    }

    /// Adds the next `most` units in order. Returns whether one was added.
    fn free_anywhere(&mut self, most: usize) -> bool {
        let mut went = 0_usize;
        for unit in &self.units {
            if went >= most {
                break;
            }
            went = went.saturating_add(usize::from(self.victims.add(unit).is_ok()));
        }
        went > 0
    }

    /// Frees room for each unplaced member. Returns whether each has room.
    fn free_nodes(&mut self, room: &mut Room) -> bool {
        let placed = self.stage.placed_before();
        let mut taken = BTreeMap::<Arc<str>, Resources>::new();
        for (uid, node) in &placed {
            let Some(member) = self.stage.member(uid) else { continue };
            taken.entry(Arc::clone(node)).or_default().add(&member.facts.request);
        }
        room.idle.clear();
        for name in room.units.keys() {
            let Some(node) = self.stage.accounting().ledger().node(name) else { continue };
            let mut idle = node.allocatable.clone();
            idle.sub(node.used);
            taken.get(name).into_iter().for_each(|taken| idle.sub(taken));
            room.idle.insert(Arc::clone(name), idle);
        }
        let mut by_class = BTreeMap::<ClassId, BTreeSet<(Cost, Arc<str>)>>::new();
        for uid in self.preemptor.members.get(placed.len()..).unwrap_or_default() {
            let Some((id, asked)) = self.stage.member(uid).and_then(|member| Some((member.class?, &member.facts.request))) else {
                return false;
            };
            let mut nodes = match by_class.remove(&id) {
                Some(nodes) => nodes,
                None => self.priced(room, id, asked),
            };
            let found = self.cheapest(room, &mut nodes, asked);
            by_class.insert(id, nodes);
            if !found {
                return false;
            }
        }
        true
    }

    /// Returns the cost of each node that could take such a member.
    fn priced(&mut self, room: &Room, id: ClassId, asked: &Resources) -> BTreeSet<(Cost, Arc<str>)> {
        let names: Vec<Arc<str>> = room.idle.keys().filter(|name| self.stage.could_take(id, name)).map(Arc::clone).collect();
        let mut priced = BTreeSet::new();
        for name in names {
            if let Some((cost, gone)) = self.free(room, &name, asked) {
                gone.iter().for_each(|pods| self.victims.remove(pods));
                priced.insert((cost, name));
            }
        }
        priced
    }

    /// Frees the cheapest node for one member.
    fn cheapest(&mut self, room: &mut Room, nodes: &mut BTreeSet<(Cost, Arc<str>)>, asked: &Resources) -> bool {
        while let Some((before, name)) = nodes.pop_first() {
            let Some((cost, gone)) = self.free(room, &name, asked) else { continue };
            if cost > before && nodes.first().is_some_and(|(next, _)| *next < cost) {
                gone.iter().for_each(|pods| self.victims.remove(pods));
                nodes.insert((cost, name));
                continue;
            }
            for pod in gone.iter().flatten().filter_map(|pod| self.victims.candidates.get(*pod)) {
                if let Some(idle) = pod.node.as_ref().and_then(|node| room.idle.get_mut(node)) {
                    idle.add(&pod.amounts);
                }
            }
            if let Some(idle) = room.idle.get_mut(&name) {
                idle.sub(asked);
            }
            // It may have room for another member, even without a further victim.
            nodes.insert(((None, 0), name));
            return true;
        }
        false
    }

    /// Adds the cheapest victims on a node until the request fits there. Adds none where it cannot fit.
    fn free(&mut self, room: &Room, name: &Arc<str>, asked: &Resources) -> Option<(Cost, Vec<Vec<usize>>)> {
        let mut idle = room.idle.get(name)?.clone();
        let fits = |idle: &Resources| asked.iter().all(|(dimension, asked)| !asked.is_positive() || idle.get(dimension) >= asked);
        let (mut gone, mut cost): (Vec<Vec<usize>>, Cost) = (Vec::new(), (None, 0));
        for at in room.units.get(name)? {
            if fits(&idle) {
                break;
            }
            let Some(unit) = self.units.get(*at) else { continue };
            let Ok(pods) = self.victims.add(unit) else { continue };
            for pod in pods.iter().filter_map(|pod| self.victims.candidates.get(*pod)).filter(|pod| pod.node.as_ref() == Some(name)) {
                idle.add(&pod.amounts);
            }
            let dearest = cost.0.take().max(Some(unit.rank.clone()));
            cost = (dearest, cost.1.saturating_add(pods.len()));
            gone.push(pods);
        }
        if fits(&idle) {
            return Some((cost, gone));
        }
        gone.iter().for_each(|pods| self.victims.remove(pods));
        None
    }
}
