//! Which choice of a node for each member places them all?
//!
//! Depth first, one member after another, on the placer's trial. A choice that leaves too little for the other members is given up at once.
//! Kinds that the fewest nodes take come first, of these the largest; of the nodes that take a member, those with the least room for its
//! kind. What was tried once is not tried again:
//!
//! * members of one kind are the same, so it is counted how many are on a node, and not which;
//! * nodes that look alike and have the same members on them are the same;
//! * where members are required or kept out by affinity or spread, their order matters, and each kind is tried next; the same members on
//!   the same nodes are one state all the same, in whatever order they came.
//!
//! Within [`MOST_PLACEMENTS`] and [`MOST_READ`] the search is complete: where it finds nothing, there is nothing to find.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::NodeView;
use crate::cycle::placement::capacity::pods_now;
use crate::cycle::placement::parts::Parts;
use crate::cycle::placement::placer::{Attempt, Placer, Places, Pod};
use crate::cycle::placement::topology::domains::KeyDomains;
use crate::cycle::placement::topology::verdict::Verdict;
use crate::cycle::placement::trial::Savepoint;
use crate::resources::Resources;

use super::kinds::{Kind, kinds, owed};
use super::nodes::{Spot, Spots, spots};
use super::{are_all_needed, orders};

/// The most members of a gang that is searched for.
pub(super) const MOST_MEMBERS: usize = 64;
/// The most kinds of members.
const MOST_KINDS: usize = 8;
/// The most members that one search places, those included that it takes back.
const MOST_PLACEMENTS: u32 = 2_000;
/// The part of the attempts' budget that one search may use, so that a search for victims has enough for its other tries.
const PART: u32 = 32;
/// The most nodes that one search reads, a node read for the terms of a pod counted as a quarter.
const MOST_READ: usize = 100_000;

/// Places as many of the pods as are needed, or none and returns none.
pub(super) fn place(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    if attempt.pods.len() > MOST_MEMBERS || placer.is_spent() {
        return None;
    }
    let kinds = kinds(attempt, placer.classes, placer.trial.placed(), MOST_KINDS)?;
    let spots = spots(placer, &kinds, attempt.pods.len())?;
    let mut search = Search::new(placer, attempt, kinds, spots);
    (search.may_fit() && search.descend(0)).then_some(search.places)
}

/// The members on each node that has any, by kind: the state of a search. Nodes are named by their look.
type Seen = (usize, Vec<(usize, Vec<u16>)>);

struct Search<'s, 'w, 'a> {
    placer: &'s mut Placer<'w>,
    attempt: &'s Attempt<'a>,
    /// What is needed, and what is placed.
    parts: Parts,
    kinds: Vec<Kind<'a>>,
    spots: Spots,
    /// The kinds in the order in which they are placed.
    order: Vec<usize>,
    /// Whether any kind may be next.
    any_next: bool,
    /// By kind: the domains in which its pods keep each other away.
    apart: Vec<Option<Arc<KeyDomains>>>,
    /// By node, as a place in `spots`: how many pods of each kind are on it.
    on: BTreeMap<usize, Vec<u16>>,
    /// By kind: how many of its pods have nodes.
    placed: Vec<usize>,
    places: Places,
    seen: BTreeSet<Seen>,
    placements: u32,
    read: usize,
}

/// The nodes to try for a kind.
struct Candidates {
    /// As places in the spots, the best first.
    spots: Vec<usize>,
    /// For how many pods of the kind there is room. An upper bound.
    room: usize,
}

impl<'s, 'w, 'a> Search<'s, 'w, 'a> {
    fn new(placer: &'s mut Placer<'w>, attempt: &'s Attempt<'a>, kinds: Vec<Kind<'a>>, spots: Spots) -> Self {
        let takers = |at: &usize| spots.spots.iter().filter(|spot| spot.takes.get(*at).copied().unwrap_or(false)).count();
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        order.sort_by_cached_key(|at| {
            kinds.get(*at).map(|kind| (kind.least == 0, takers(at), Reverse(kind.pods.first().map(orders::size))))
        });
        let any_next = kinds.iter().any(|kind| kind.class.terms.counted().next().is_some());
        let nodes = placer.trial.snapshot(placer.strategy, &placer.barred).nodes;
        let apart = kinds.iter().map(|kind| kind.apart().map(|key| placer.finder.domains(key, nodes))).collect();
        let parts = Parts::new(attempt.needed, attempt.parts);
        let (on, seen, placed) = (BTreeMap::new(), BTreeSet::new(), vec![0; kinds.len()]);
        let placements = placer.budget.checked_div(PART).unwrap_or(0).min(MOST_PLACEMENTS);
        Self {
            placer,
            attempt,
            parts,
            kinds,
            spots,
            order,
            any_next,
            apart,
            on,
            placed,
            places: Places::new(),
            seen,
            placements,
            read: MOST_READ,
        }
    }

    /// Returns whether the room of the kinds is enough, if no other kind took any of it.
    fn may_fit(&mut self) -> bool {
        let (mut all, mut of_parts) = (0_u32, vec![0_u32; self.attempt.parts.len()]);
        for at in 0..self.kinds.len() {
            let possible = self.candidates(at, &Verdict::default()).room.min(self.left(at));
            let Some(kind) = self.kinds.get(at) else { continue };
            if possible < kind.least {
                return false;
            }
            let possible = u32::try_from(possible).unwrap_or(u32::MAX);
            let of_part = kind.part.and_then(|part| of_parts.get_mut(part));
            [Some(&mut all), of_part].into_iter().flatten().for_each(|sum| *sum = sum.saturating_add(possible));
        }
        self.parts.are_enough(all, |part| of_parts.get(part).copied().unwrap_or(0))
    }

    /// Returns whether the members that are left do not request more than is free where one of them fits. True where not all are needed.
    fn is_enough_free(&mut self) -> bool {
        if !are_all_needed(self.attempt) {
            return true;
        }
        let left: Vec<(usize, &Kind<'_>)> = self.kinds.iter().enumerate().filter(|(at, _)| self.left(*at) > 0).collect();
        let mut asked = Resources::new();
        for (at, kind) in &left {
            (0..self.left(*at)).for_each(|_| asked.add(&kind.class.request));
        }
        let snapshot = self.placer.trial.snapshot(self.placer.strategy, &self.placer.barred);
        for look in &self.spots.looks {
            let mut untouched: Option<Resources> = None;
            for place in look {
                let Some(spot) = self.spots.spots.get(*place) else { break };
                self.read = self.read.saturating_sub(1);
                let is_touched = self.on.contains_key(place);
                let known = untouched.as_ref().filter(|_| !is_touched);
                let free = known.cloned().or_else(|| Some(usable(&left, spot, snapshot.accounting(spot.id)?))).unwrap_or_default();
                asked.sub(&free);
                if !is_touched {
                    untouched = Some(free);
                }
            }
        }
        asked.iter().all(|(_, asked)| !asked.is_positive())
    }

    /// Places the members that are left, the kinds before `from` excepted. Returns whether that is enough; if not, nothing has changed.
    fn descend(&mut self, from: usize) -> bool {
        if self.parts.are_placed() {
            return true;
        }
        if self.is_spent() || !self.is_new(from) || !self.is_enough_free() {
            return false;
        }
        for next in from..self.order.len() {
            let Some(at) = self.order.get(next).copied().filter(|at| self.takes(*at)) else {
                continue;
            };
            let owed = if self.any_next { 0 } else { self.owed(next) };
            if owed > self.left(at) {
                return false;
            }
            let verdict = self.verdict(at);
            let candidates = self.candidates(at, &verdict);
            if candidates.room < owed {
                return false;
            }
            for spot in candidates.spots {
                if self.is_spent() {
                    return false;
                }
                let before = self.placer.trial.savepoint();
                if self.put(at, spot) {
                    if self.descend(if self.any_next { 0 } else { next }) {
                        return true;
                    }
                    self.take(at, spot, before);
                }
            }
            if owed > 0 {
                return false;
            }
        }
        false
    }

    const fn is_spent(&self) -> bool {
        self.placements == 0 || self.read == 0
    }

    /// Returns the next pod of the kind.
    fn next_of(&self, at: usize) -> Option<Pod<'a>> {
        let number = self.placed.get(at).copied().unwrap_or(0);
        self.kinds.get(at).and_then(|kind| kind.pods.get(number)).copied()
    }

    /// Whether one more pod of the kind counts.
    fn takes(&self, at: usize) -> bool {
        self.next_of(at).is_some_and(|pod| self.parts.take(&[pod]))
    }

    fn part(&self, at: usize) -> Option<usize> {
        self.kinds.get(at).and_then(|kind| kind.part)
    }

    fn left(&self, at: usize) -> usize {
        let placed = self.placed.get(at).copied().unwrap_or(0);
        self.kinds.get(at).map_or(0, |kind| kind.pods.len().saturating_sub(placed))
    }

    /// Returns how many pods of this kind in order must be placed now, as the kinds after it are not enough.
    fn owed(&self, next: usize) -> usize {
        let part = self.order.get(next).and_then(|at| self.part(*at));
        let (mut others, mut of_part) = (0_usize, 0_usize);
        for at in self.order.get(next.saturating_add(1)..).unwrap_or_default() {
            others = others.saturating_add(self.left(*at));
            if self.part(*at) == part {
                of_part = of_part.saturating_add(self.left(*at));
            }
        }
        owed(&self.parts, part, others, of_part)
    }

    /// Returns whether this state was not tried yet.
    fn is_new(&mut self, from: usize) -> bool {
        let look = |spot: &usize| self.spots.spots.get(*spot).map_or(usize::MAX, |spot| spot.look);
        let mut state: Vec<(usize, Vec<u16>)> = self.on.iter().map(|(spot, on)| (look(spot), on.clone())).collect();
        state.sort_unstable();
        self.seen.insert((from, state))
    }

    /// Works out which nodes refuse the kind for the sake of other pods, at this moment.
    fn verdict(&mut self, at: usize) -> Verdict {
        let Some(kind) = self.kinds.get(at).filter(|kind| !kind.class.terms.is_empty()) else { return Verdict::default() };
        let snapshot = self.placer.trial.snapshot(self.placer.strategy, &self.placer.barred);
        self.read = self.read.saturating_sub(snapshot.nodes.len().div_ceil(4));
        let counting = self.placer.finder.counting(kind.id, &kind.class, snapshot.nodes);
        self.placer.finder.verdict(&kind.class.terms, &counting, snapshot)
    }

    /// Returns the nodes that take a pod of the kind now: one of those that look alike and have the same members on them.
    fn candidates(&mut self, at: usize, verdict: &Verdict) -> Candidates {
        let (mut found, mut room, mut domains) = (Vec::new(), 0_usize, BTreeSet::new());
        let Some(kind) = self.kinds.get(at) else { return Candidates { spots: Vec::new(), room } };
        let apart = self.apart.get(at).and_then(Option::as_ref);
        let has_ports = !kind.class.terms.host_ports.is_empty();
        let snapshot = self.placer.trial.snapshot(self.placer.strategy, &self.placer.barred);
        for look in &self.spots.looks {
            // What nodes without members have room for is the same for all of them.
            let (mut seen, mut untouched) = (BTreeSet::new(), None);
            for spot in look {
                let Some(node) = self.spots.spots.get(*spot).filter(|spot| spot.takes.get(at).copied().unwrap_or(false)) else { break };
                self.read = self.read.saturating_sub(1);
                let on = self.on.get(spot);
                let count = match (on, untouched) {
                    (None, Some(count)) => count,
                    _ if verdict.refuses(node.id) => 0,
                    _ => snapshot.accounting(node.id).map_or(0, |view| pods_now(&kind.class.request, view)),
                };
                if on.is_none() {
                    untouched = Some(count);
                }
                if count == 0 {
                    continue;
                }
                let domain = apart.and_then(|domains| domains.get(node.id));
                if domain.is_none_or(|domain| domains.insert(domain)) {
                    room = room.saturating_add(if has_ports || domain.is_some() { 1 } else { count });
                }
                if seen.insert(on) {
                    found.push((self.placer.last.contains(&node.id), count, *spot));
                }
            }
        }
        found.sort_unstable();
        Candidates { spots: found.into_iter().map(|(_, _, spot)| spot).collect(), room }
    }

    /// Places the next pod of the kind on the node. Returns whether that could be done.
    fn put(&mut self, at: usize, spot: usize) -> bool {
        let Some((pod, node)) = self.next_of(at).zip(self.spots.spots.get(spot).map(|spot| spot.id)) else { return false };
        self.placements = self.placements.saturating_sub(1);
        self.placer.budget = self.placer.budget.saturating_sub(1);
        let Ok(name) = self.placer.place_on(self.attempt, &pod, node) else { return false };
        self.places.push((pod.facts.uid.clone(), name));
        self.parts.add(&[pod]);
        self.count(at, spot, true);
        true
    }

    /// Undoes the last placement, which was that of a pod of the kind on the node.
    fn take(&mut self, at: usize, spot: usize, before: Savepoint) {
        self.placer.trial.rollback_to(before);
        self.places.pop();
        self.count(at, spot, false);
        if let Some(pod) = self.next_of(at) {
            self.parts.remove(&[pod]);
        }
    }

    fn count(&mut self, at: usize, spot: usize, more: bool) {
        if let Some(placed) = self.placed.get_mut(at) {
            *placed = if more { placed.saturating_add(1) } else { placed.saturating_sub(1) };
        }
        let on = self.on.entry(spot).or_insert_with(|| vec![0; self.kinds.len()]);
        if let Some(count) = on.get_mut(at) {
            *count = if more { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
        if on.iter().all(|count| *count == 0) {
            self.on.remove(&spot);
        }
    }
}

/// Returns what is free on the node, if one of these kinds fits there; else nothing.
fn usable(kinds: &[(usize, &Kind<'_>)], spot: &Spot, node: NodeView<'_>) -> Resources {
    let fits = |(at, kind): &(usize, &Kind<'_>)| spot.takes.get(*at).copied().unwrap_or(false) && pods_now(&kind.class.request, node) > 0;
    if !kinds.iter().any(fits) {
        return Resources::new();
    }
    let mut free = node.allocatable.clone();
    free.sub(node.used);
    free.without_negative()
}
