//! Searches every state of a world breadth first and stores the graph, for two properties that stateright cannot check.
//!
//! * **L2** (AG EF): the search goes backwards from the right and quiet states, over steps that are neither faults nor new actions of others.
//!   (`Property::eventually` follows paths, and treats a cycle as an end.)
//! * **No endless writes**: after owners and pods have stopped changing and every controller has seen that, no cycle of requests, answers and events
//!   changes a PodGroup.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use stateright::Model;

use crate::promises::{is_right, properties};
use crate::values::State;
use crate::world::{Action, World};

/// The result of a search.
pub(crate) struct Found {
    /// The number of different states.
    pub(crate) states: usize,
    /// The number of steps between them.
    pub(crate) steps: usize,
    /// The largest distance of a state from the start.
    pub(crate) depth: usize,
    pub(crate) time: Duration,
    /// The first broken promise, and the shortest trace to it.
    pub(crate) broken: Option<(&'static str, Vec<Action>)>,
    /// Whether every state was visited.
    pub(crate) exhausted: bool,
}

/// A hasher for keys that are already hashes.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    system: bool,
    /// Whether the step is one of a controller itself; `wrote`: whether it changed a PodGroup.
    own: bool,
    wrote: bool,
}

struct Graph {
    ids: HashMap<u64, u32, BuildHasherDefault<Same>>,
    /// For each state: its predecessor, the index of the action there, and the distance from the start.
    came: Vec<(u32, u16, u16)>,
    edges: Vec<Edge>,
    right: Vec<bool>,
    settled: Vec<bool>,
}

/// Searches every state of the world, or stops after `most` states.
pub(crate) fn search(world: &World, most: usize) -> Found {
    visit(world, most, None, |_| {})
}

/// Searches a world and calls `visitor` once for every state. With `only`, checks only this promise.
#[expect(clippy::disallowed_methods, reason = "the duration is printed, and nothing depends on it")]
pub(crate) fn visit(world: &World, most: usize, only: Option<&str>, mut visitor: impl FnMut(&State)) -> Found {
    let began = Instant::now();
    let mut graph = Graph { ids: HashMap::default(), came: Vec::new(), edges: Vec::new(), right: Vec::new(), settled: Vec::new() };
    let mut queue = VecDeque::new();
    for state in world.init_states() {
        graph.add(world, &state, (u32::MAX, 0, 0));
        queue.push_back(state);
    }
    let (mut next, mut actions, properties) = (0_u32, Vec::new(), properties());
    let mut broken = None;
    let mut exhausted = true;
    while let Some(state) = queue.pop_front() {
        let from = next;
        next += 1;
        visitor(&state);
        if let Some(property) =
            properties.iter().find(|property| only.is_none_or(|only| only == property.name) && !(property.condition)(world, &state))
        {
            broken = Some((property.name, from));
            break;
        }
        if graph.came.len() > most {
            exhausted = false;
            break;
        }
        world.actions(&state, &mut actions);
        let depth = graph.came[from as usize].2 + 1;
        for (number, action) in actions.drain(..).enumerate() {
            let Some(after) = world.next_state(&state, action) else { continue };
            let came = (from, u16::try_from(number).expect("few actions"), depth);
            let (to, new) = graph.add(world, &after, came);
            let own = matches!(action, Action::Send { .. } | Action::Land { .. } | Action::Answer { .. } | Action::Event { kind: 2, .. });
            let wrote = matches!(action, Action::Land { .. }) && after.groups != state.groups;
            graph.edges.push(Edge { from, to, system: action.is_system(), own, wrote });
            if new {
                queue.push_back(after);
            }
        }
    }
    if broken.is_none() && exhausted && only.is_none_or(|only| only == "L2") {
        broken = graph.stuck().map(|at| ("L2", at)).or_else(|| graph.restless().map(|at| ("writes for ever", at)));
    }
    Found {
        states: graph.came.len(),
        steps: graph.edges.len(),
        depth: graph.came.iter().map(|came| usize::from(came.2)).max().unwrap_or(0),
        broken: broken.map(|(what, at)| (what, graph.way(world, at))),
        time: began.elapsed(),
        exhausted,
    }
}

impl Graph {
    fn add(&mut self, world: &World, state: &State, came: (u32, u16, u16)) -> (u32, bool) {
        let mut hasher = ahash_like();
        state.hash(&mut hasher);
        let id = u32::try_from(self.came.len()).expect("fewer states than 2^32");
        match self.ids.entry(hasher.finish()) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                free.insert(id);
                self.came.push(came);
                self.right.push(is_right(state) && world.is_quiet(state));
                self.settled.push(is_settled(state));
                (id, true)
            }
        }
    }

    /// Returns the first state from which no right state can be reached without a fault. L2
    fn stuck(&self) -> Option<u32> {
        let (starts, into) = self.sorted(|edge| edge.system, |edge| (edge.to, edge.from));
        let mut reached = self.right.clone();
        let mut stack: Vec<usize> = (0..reached.len()).filter(|id| reached[*id]).collect();
        while let Some(id) = stack.pop() {
            for from in &into[starts[id]..starts[id + 1]] {
                let from = *from as usize;
                if !std::mem::replace(&mut reached[from], true) {
                    stack.push(from);
                }
            }
        }
        reached.iter().position(|reached| !reached).and_then(|id| u32::try_from(id).ok())
    }

    /// Returns the first state on a cycle of steps of the controllers themselves that changes a PodGroup.
    fn restless(&self) -> Option<u32> {
        let within = |edge: &Edge| edge.own && self.settled[edge.from as usize] && self.settled[edge.to as usize];
        let (starts, out) = self.sorted(within, |edge| (edge.from, edge.to));
        let component = components(&starts, &out);
        let same = |edge: &&Edge| within(edge) && edge.wrote && component[edge.from as usize] == component[edge.to as usize];
        self.edges.iter().filter(same).map(|edge| edge.from).min()
    }

    /// Returns the selected edges in the order of their first end, with the position where the edges of each state begin.
    fn sorted(&self, which: impl Fn(&Edge) -> bool, ends: impl Fn(&Edge) -> (u32, u32)) -> (Vec<usize>, Vec<u32>) {
        let mut starts = vec![0_usize; self.came.len() + 2];
        self.edges.iter().filter(|edge| which(edge)).for_each(|edge| starts[ends(edge).0 as usize + 2] += 1);
        for at in 2..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut others = vec![0; starts[starts.len() - 1]];
        for edge in self.edges.iter().filter(|edge| which(edge)) {
            let (one, other) = ends(edge);
            let place = &mut starts[one as usize + 1];
            others[*place] = other;
            *place += 1;
        }
        (starts, others)
    }

    /// Returns the shortest trace to a state.
    fn way(&self, world: &World, at: u32) -> Vec<Action> {
        let mut numbers = Vec::new();
        let mut at = at;
        while self.came[at as usize].0 != u32::MAX {
            numbers.push(self.came[at as usize].1);
            at = self.came[at as usize].0;
        }
        let mut state = world.init_states().swap_remove(0);
        let mut way = Vec::new();
        for number in numbers.iter().rev() {
            let mut actions = Vec::new();
            world.actions(&state, &mut actions);
            let action = actions[usize::from(*number)];
            state = world.next_state(&state, action).expect("it was a step before");
            way.push(action);
        }
        way
    }
}

/// Returns whether owners and pods have stopped changing, every controller has seen that, and no late request is under way.
fn is_settled(state: &State) -> bool {
    state.ctrls.iter().all(|ctrl| ctrl.late.is_empty() && (0..2).all(|kind| usize::from(ctrl.at[kind]) + 1 == state.length(kind)))
        && state.pods.iter().all(|pod| !pod.terminating)
}

/// Returns the strongly connected component of each state (Tarjan, without recursion).
fn components(starts: &[usize], out: &[u32]) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let count = starts.len() - 2;
    let (mut order, mut low, mut component) = (vec![NEW; count], vec![0_u32; count], vec![NEW; count]);
    let (mut open, mut work, mut next, mut number) = (Vec::new(), Vec::new(), 0_u32, 0_u32);
    for root in 0..count {
        if order[root] != NEW {
            continue;
        }
        work.push((root, starts[root]));
        while let Some((at, edge)) = work.pop() {
            if edge == starts[at] && order[at] == NEW {
                order[at] = next;
                low[at] = next;
                next += 1;
                open.push(at);
            }
            if edge < starts[at + 1] {
                work.push((at, edge + 1));
                let to = out[edge] as usize;
                if order[to] == NEW {
                    work.push((to, starts[to]));
                } else if component[to] == NEW {
                    low[at] = low[at].min(order[to]);
                }
                continue;
            }
            if low[at] == order[at] {
                while let Some(member) = open.pop() {
                    component[member] = number;
                    if member == at {
                        break;
                    }
                }
                number += 1;
            }
            if let Some((parent, _)) = work.last() {
                low[*parent] = low[*parent].min(low[at]);
            }
        }
    }
    component
}

/// Returns a fast 64-bit hasher for small fields: multiply and fold.
fn ahash_like() -> Folded {
    Folded(0x243f_6a88_85a3_08d3)
}

/// See [`ahash_like`].
struct Folded(u64);

impl Folded {
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.fold(u64::from(*byte) + 1));
    }

    fn write_u8(&mut self, byte: u8) {
        self.fold(u64::from(byte) + 1);
    }

    fn write_usize(&mut self, word: usize) {
        self.fold(word as u64 + 1);
    }

    fn write_isize(&mut self, word: isize) {
        self.fold(word as u64 + 1);
    }
}
