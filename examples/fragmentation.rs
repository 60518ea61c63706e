//! How many whole nodes stay free for large gangs while small ones come and go?
//!
//! 200 nodes with 8 GPUs. Gangs of 1 to 4 members with 1, 2, 4 or 8 GPUs each arrive and end; each gang is placed whole, one member after
//! another, or not at all. At a given use the nodes with 8 free GPUs are counted: that is the largest gang of members with 8 GPUs that
//! fits. The same trace is placed by the rules of this scheduler and by those of kube-scheduler 1.36 with its default configuration,
//! written here from their meaning: `NodeResourcesFit` with `LeastAllocated` and `NodeResourcesBalancedAllocation` for cpu and memory, a
//! random one of the best nodes, and not more than 100 of 200 nodes looked at. The bound is what remains where all used GPUs are on as few
//! nodes as possible.
//!
//! `cargo run --release --example fragmentation` prints the table of docs/scheduling.md. Seeds are fixed, so it prints the same each time.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a program that prints a table, and ends where its own numbers are wrong"
)]

use std::collections::{BTreeMap, BTreeSet};

use podgroup::accounting::Ledger;
use podgroup::api::{NodeFacts, PodFacts, Uid};
use podgroup::cycle::placement::Strategy;
use podgroup::cycle::placement::class::Classes;
use podgroup::cycle::placement::finder::{Asks, NodeFinder};
use podgroup::cycle::placement::nodes::Nodes;
use podgroup::cycle::placement::snapshot::Snapshot;
use podgroup::cycle::placement::topology::placed::PlacedPods;
use serde_json::{from_value, json};

const NODES: u64 = 200;
const GPUS: u64 = 8;
const CPU: u64 = 96;
const MEMORY: u64 = 1_000;
const SEEDS: u64 = 10;
/// How many gangs end before the first sample, and how many samples are taken, one after each further gang.
const WARM_UP: u64 = 200;
const SAMPLES: u64 = 200;
const GPU: &str = "nvidia.com/gpu";

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(bound).unwrap_or(0)
    }
}

/// What each member of a gang requests.
#[derive(Clone, Copy)]
struct Request {
    gpus: u64,
    cpu: u64,
    memory: u64,
}

#[derive(Clone, Copy)]
struct Gang {
    members: u64,
    each: Request,
}

impl Gang {
    fn any(random: &mut Random) -> Self {
        let gpus = [1, 2, 4, 8][usize::try_from(random.below(4)).unwrap_or(0)];
        let (cpu, memory) =
            ([4, 8, 11][usize::try_from(random.below(3)).unwrap_or(0)], [40, 80, 120][usize::try_from(random.below(3)).unwrap_or(0)]);
        Self { members: random.below(4) + 1, each: Request { gpus, cpu: cpu * gpus, memory: memory * gpus } }
    }

    const fn gpus(&self) -> u64 {
        self.members * self.each.gpus
    }
}

/// Chooses a node for one pod more.
trait Scheduler {
    fn place(&mut self, pod: u64, request: Request) -> Option<usize>;
    fn release(&mut self, pod: u64, request: Request, node: usize);
}

/// kube-scheduler with its default scores.
struct KubeScheduler {
    used: Vec<Request>,
    random: Random,
    next: usize,
}

impl KubeScheduler {
    fn new(seed: u64) -> Self {
        let idle = Request { gpus: 0, cpu: 0, memory: 0 };
        Self { used: (0..NODES).map(|_| idle).collect(), random: Random(seed), next: 0 }
    }

    fn score(&self, node: usize, request: Request) -> u64 {
        let used = self.used[node];
        let (cpu, memory) = (used.cpu + request.cpu, used.memory + request.memory);
        let least = ((CPU - cpu) * 100 / CPU + (MEMORY - memory) * 100 / MEMORY) / 2;
        // The standard deviation of two parts is half their difference.
        let balanced = 100 - (cpu * 1_000 / CPU).abs_diff(memory * 1_000 / MEMORY) / 20;
        least + balanced
    }
}

impl Scheduler for KubeScheduler {
    fn place(&mut self, _: u64, request: Request) -> Option<usize> {
        let fits =
            |used: &Request| used.gpus + request.gpus <= GPUS && used.cpu + request.cpu <= CPU && used.memory + request.memory <= MEMORY;
        let all = self.used.len();
        let (mut feasible, mut looked) = (Vec::new(), 0);
        while looked < all && feasible.len() < 100 {
            let node = (self.next + looked) % all;
            looked += 1;
            if fits(&self.used[node]) {
                feasible.push(node);
            }
        }
        self.next = (self.next + looked) % all;
        let most = feasible.iter().map(|node| self.score(*node, request)).max()?;
        feasible.retain(|node| self.score(*node, request) == most);
        let node = feasible[usize::try_from(self.random.below(feasible.len() as u64)).unwrap_or(0)];
        let used = &mut self.used[node];
        (used.gpus, used.cpu, used.memory) = (used.gpus + request.gpus, used.cpu + request.cpu, used.memory + request.memory);
        Some(node)
    }

    fn release(&mut self, _: u64, request: Request, node: usize) {
        let used = &mut self.used[node];
        (used.gpus, used.cpu, used.memory) = (used.gpus - request.gpus, used.cpu - request.cpu, used.memory - request.memory);
    }
}

/// This scheduler: its own code finds the node.
struct Ours {
    strategy: Strategy,
    nodes: Nodes,
    ledger: Ledger,
    placed: PlacedPods,
    classes: Classes,
    finder: NodeFinder,
    names: BTreeMap<String, usize>,
}

impl Ours {
    fn new(strategy: Strategy) -> Self {
        let (mut nodes, mut ledger, mut names) = (Nodes::default(), Ledger::new(), BTreeMap::new());
        for at in 0..usize::try_from(NODES).unwrap_or(0) {
            let offers = json!({ "cpu": CPU.to_string(), "memory": format!("{MEMORY}Gi"), "pods": "110", GPU: GPUS.to_string() });
            let object = json!({ "metadata": { "name": format!("node-{at:03}") }, "status": { "allocatable": offers } });
            let facts = NodeFacts::of(&from_value(object).expect("a node"));
            ledger.node_upsert(&facts.name, facts.allocatable.clone());
            names.insert(facts.name.to_string(), at);
            nodes.upsert(facts);
        }
        let (placed, classes, finder) = (PlacedPods::default(), Classes::default(), NodeFinder::default());
        Self { strategy, nodes, ledger, placed, classes, finder, names }
    }
}

impl Scheduler for Ours {
    fn place(&mut self, pod: u64, request: Request) -> Option<usize> {
        let requests = json!({ "cpu": request.cpu.to_string(), "memory": format!("{}Gi", request.memory), GPU: request.gpus.to_string() });
        let object = json!({
            "metadata": { "namespace": "ns", "name": pod.to_string(), "uid": pod.to_string() },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": requests } }] },
        });
        let facts = PodFacts::of(&from_value(object).expect("a pod"));
        self.placed.learn(&facts);
        let id = self.classes.join(&facts, &mut self.placed);
        let class = std::sync::Arc::clone(self.classes.get(id)?);
        let barred = BTreeSet::new();
        let snapshot =
            Snapshot { nodes: &self.nodes, ledger: &self.ledger, placed: &self.placed, strategy: self.strategy, barred: &barred };
        let found = self.finder.best(
            Asks { id, class: &class, users: 2, replica_of: None, images: None, within: None },
            &BTreeSet::new(),
            snapshot,
        );
        self.classes.leave(id);
        self.placed.forget(&facts.uid);
        let name = self.nodes.get(found.ok()?)?.name.to_string();
        self.ledger.charge(&facts.uid, Some(&name), facts.request.clone(), false);
        self.nodes.touch_name(&name);
        self.names.get(&name).copied()
    }

    fn release(&mut self, pod: u64, _: Request, node: usize) {
        self.ledger.release(&Uid::from(pod.to_string()));
        self.nodes.touch_name(&format!("node-{node:03}"));
    }
}

/// Gangs that run, and what they use.
struct Cluster<S> {
    scheduler: S,
    /// The members of each gang with their nodes.
    gangs: Vec<(Gang, Vec<(u64, usize)>)>,
    /// The used GPUs of each node.
    used: Vec<u64>,
    pods: u64,
}

impl<S: Scheduler> Cluster<S> {
    fn place(&mut self, gang: Gang) -> bool {
        let mut places = Vec::new();
        for _ in 0..gang.members {
            self.pods += 1;
            let Some(node) = self.scheduler.place(self.pods, gang.each) else { break };
            self.used[node] += gang.each.gpus;
            places.push((self.pods, node));
        }
        let whole = places.len() as u64 == gang.members;
        self.gangs.push((gang, places));
        if !whole {
            self.end(self.gangs.len() - 1);
        }
        whole
    }

    fn end(&mut self, gang: usize) {
        let (gang, places) = self.gangs.swap_remove(gang);
        for (pod, node) in places {
            self.used[node] -= gang.each.gpus;
            self.scheduler.release(pod, gang.each, node);
        }
    }
}

/// Returns, on average over the samples, how many nodes are free, how many could be, and how many of 1,000 gangs found no nodes.
fn run(scheduler: impl Scheduler, percent: u64, seed: u64) -> [u64; 3] {
    let mut random = Random(seed);
    let mut cluster = Cluster { scheduler, gangs: Vec::new(), used: (0..NODES).map(|_| 0).collect(), pods: 0 };
    let most = NODES * GPUS * percent / 100;
    let (mut sums, mut tried, mut refused) = ([0, 0], 0, 0);
    for turn in 0..WARM_UP + SAMPLES {
        loop {
            let gang = Gang::any(&mut random);
            if cluster.used.iter().sum::<u64>() + gang.gpus() > most {
                break;
            }
            tried += 1;
            refused += u64::from(!cluster.place(gang));
        }
        if turn >= WARM_UP {
            sums[0] += cluster.used.iter().filter(|used| **used == 0).count() as u64;
            sums[1] += NODES - cluster.used.iter().sum::<u64>().div_ceil(GPUS);
        }
        cluster.end(usize::try_from(random.below(cluster.gangs.len() as u64)).unwrap_or(0));
    }
    [sums[0] / SAMPLES, sums[1] / SAMPLES, refused * 1_000 / tried]
}

fn main() {
    println!("| use of the GPUs | `auto` (the default) | `spread` | `pack` | kube-scheduler | bound |");
    println!("|---|---|---|---|---|---|");
    for percent in [70, 80, 90] {
        let mean = |run: &dyn Fn(u64) -> [u64; 3]| {
            let runs: Vec<[u64; 3]> = (1..=SEEDS).map(run).collect();
            [0, 1, 2].map(|at| runs.iter().map(|run| run[at]).sum::<u64>() / SEEDS)
        };
        let ours = |strategy| mean(&|seed| run(Ours::new(strategy), percent, seed));
        let (auto, spread, pack) = (ours(Strategy::Auto), ours(Strategy::Spread), ours(Strategy::Pack));
        let kube = mean(&|seed| run(KubeScheduler::new(seed), percent, seed));
        let cells = [auto, spread, pack, kube].map(|[free, _, refused]| format!("{free} ({}.{} %)", refused / 10, refused % 10));
        println!("| {percent} % | {} | {} |", cells.join(" | "), auto[1]);
    }
}
