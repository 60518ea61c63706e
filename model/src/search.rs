//! Searches every state of a world breadth first and stores the graph, for two properties that stateright cannot check.
//!
//! * **Liveness** (AG EF; L2 in a PodGroup's life): the search goes backwards from the goals, over steps that are neither faults nor new
//!   actions of others. (`Property::eventually` follows paths, and treats a cycle as an end.)
//! * **No endless writes**: after others have stopped and the programs have seen it, no cycle of the programs' own steps changes what they write.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use stateright::Model;

/// A world that can be searched: a model, and what the two properties need.
pub(crate) trait Space: Model<State: Clone + Hash, Action: Copy> {
    /// The name of the promise that a goal can be reached from every state.
    const LIVENESS: &'static str;

    /// Returns whether the state is a goal: every state must reach one by steps of the system.
    fn is_goal(&self, state: &Self::State) -> bool;

    /// Returns whether others have stopped: from then on, no cycle of the programs' own steps may write for ever.
    fn is_settled(&self, state: &Self::State) -> bool;

    /// Returns what a step is.
    fn kind(&self, before: &Self::State, action: Self::Action, after: &Self::State) -> Kind;
}

/// What a step is.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// The step is neither a fault nor a new action of others.
    pub(crate) system: bool,
    /// The step is one of the programs under test.
    pub(crate) own: bool,
    /// The step changed the object that they write.
    pub(crate) wrote: bool,
}

/// The result of a search.
pub(crate) struct Found<A> {
    /// The number of different states.
    pub(crate) states: usize,
    /// The number of steps between them.
    pub(crate) steps: usize,
    /// The largest distance of a state from the start.
    pub(crate) depth: usize,
    pub(crate) time: Duration,
    /// The first broken promise, and the shortest trace to it.
    pub(crate) broken: Option<(&'static str, Vec<A>)>,
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
    kind: Kind,
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
pub(crate) fn search<S: Space>(world: &S, most: usize) -> Found<S::Action> {
    visit(world, most, None, |_| {})
}

/// Searches a world and calls `visitor` once for every state. With `only`, checks only this promise.
#[expect(clippy::disallowed_methods, reason = "the duration is printed, and nothing depends on it")]
pub(crate) fn visit<S: Space>(world: &S, most: usize, only: Option<&str>, mut visitor: impl FnMut(&S::State)) -> Found<S::Action> {
    let began = Instant::now();
    let mut graph = Graph { ids: HashMap::default(), came: Vec::new(), edges: Vec::new(), right: Vec::new(), settled: Vec::new() };
    let mut queue = VecDeque::new();
    for state in world.init_states() {
        graph.add(world, &state, (u32::MAX, 0, 0));
        queue.push_back(state);
    }
    let (mut next, mut actions, properties) = (0_u32, Vec::new(), world.properties());
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
            graph.edges.push(Edge { from, to, kind: world.kind(&state, action, &after) });
            if new {
                queue.push_back(after);
            }
        }
    }
    if broken.is_none() && exhausted && only.is_none_or(|only| only == S::LIVENESS) {
        broken = graph.stuck().map(|at| (S::LIVENESS, at)).or_else(|| graph.restless().map(|at| ("writes for ever", at)));
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
    fn add<S: Space>(&mut self, world: &S, state: &S::State, came: (u32, u16, u16)) -> (u32, bool) {
        let mut hasher = ahash_like();
        state.hash(&mut hasher);
        let id = u32::try_from(self.came.len()).expect("fewer states than 2^32");
        match self.ids.entry(hasher.finish()) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(free) => {
                free.insert(id);
                self.came.push(came);
                self.right.push(world.is_goal(state));
                self.settled.push(world.is_settled(state));
                (id, true)
            }
        }
    }

    /// Returns the first state from which no goal can be reached without a fault.
    fn stuck(&self) -> Option<u32> {
        let (starts, into) = self.sorted(|edge| edge.kind.system, |edge| (edge.to, edge.from));
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

    /// Returns the first state on a cycle of the programs' own steps that changes what they write.
    fn restless(&self) -> Option<u32> {
        let within = |edge: &Edge| edge.kind.own && self.settled[edge.from as usize] && self.settled[edge.to as usize];
        let (starts, out) = self.sorted(within, |edge| (edge.from, edge.to));
        let component = components(&starts, &out);
        let same = |edge: &&Edge| within(edge) && edge.kind.wrote && component[edge.from as usize] == component[edge.to as usize];
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
    fn way<S: Space>(&self, world: &S, at: u32) -> Vec<S::Action> {
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
