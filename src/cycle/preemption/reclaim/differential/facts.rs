//! Draws small clusters, and writes them for the scheduler and for the reference.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::placement::Strategy as NodeStrategy;
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};

/// An amount of cpu and memory, in whole units.
pub(super) type Pair = [i64; 2];
type Bounds = [Option<i64>; 2];

const DIMENSIONS: [&str; 2] = ["cpu", "memory"];
/// The queues with their parents. Pods are in leaves only.
const SHAPE: [(&str, Option<&str>); 6] = [("a", None), ("b", None), ("p", None), ("pa", Some("p")), ("pb", Some("p")), ("pc", Some("p"))];
const LEAVES: [&str; 5] = ["a", "b", "pa", "pb", "pc"];

/// The fields of a queue's object.
#[derive(Clone, Debug)]
pub(super) struct QueueFields {
    pub(super) capability: Bounds,
    pub(super) deserved: Bounds,
    pub(super) guarantee: Bounds,
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) reclaimable: bool,
    pub(super) closed: bool,
}

/// A running pod.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) node: usize,
    /// One of two PodGroups of its queue; `None` for a pod without a PodGroup.
    pub(super) gang: Option<usize>,
    pub(super) priority: i32,
    pub(super) created: u8,
    pub(super) not_preemptable: bool,
    pub(super) terminating: bool,
    /// Its disruption budgets (R9).
    pub(super) guards: Guards,
}

/// The disruption budgets of a pod: none, one of two, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guards {
    None,
    One(usize),
    Both,
}

/// The preempting PodGroup. All its members are alike.
#[derive(Clone, Debug)]
pub(super) struct PreemptingGroup {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) members: usize,
    pub(super) priority: i32,
    pub(super) preemptable: bool,
    /// Whether its first waiting member is not preemptable.
    pub(super) member_keeps: bool,
    pub(super) reserved: bool,
    /// Whether one member runs already. Its priority is 0.
    pub(super) runs: bool,
}

/// The facts of a small cluster.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) queues: Vec<QueueFields>,
    pub(super) pods: Vec<Running>,
    /// The amount that each node has beyond the use of its pods.
    pub(super) slack: Vec<Pair>,
    pub(super) mins: [u32; 2],
    /// The number of evictions that each budget allows.
    pub(super) budgets: [u32; 2],
    pub(super) preemptor: PreemptingGroup,
    /// The queue and the request of another waiting PodGroup.
    pub(super) waits: Option<(usize, Pair)>,
    /// Which of the nodes with room a pod gets.
    pub(super) strategy: NodeStrategy,
}

fn queue_fields() -> impl Strategy<Value = QueueFields> {
    let bound = |most: i64, set: f64| prop::option::weighted(set, 0..=most);
    let bounds = move |most: Pair, set: f64| most.map(|most| bound(most, set));
    let amounts = (bounds([12, 6], 0.08), bounds([7, 2], 0.6), bounds([3, 1], 0.2));
    (amounts, 0..3_u32, 0..2_i32, prop::bool::weighted(0.9), prop::bool::weighted(0.03)).prop_map(
        |((capability, deserved, guarantee), weight, priority, reclaimable, closed)| QueueFields {
            capability,
            deserved,
            guarantee,
            weight,
            priority,
            reclaimable,
            closed,
        },
    )
}

fn one() -> impl Strategy<Value = Running> {
    let guards = prop_oneof![14 => Just(Guards::None), 5 => (0..2_usize).prop_map(Guards::One), 1 => Just(Guards::Both)];
    let flags = (prop::bool::weighted(0.08), prop::bool::weighted(0.08), guards);
    let memory = prop_oneof![1 => Just(0_i64), 1 => 0..3_i64];
    let asks = (1..5_i64, memory).prop_map(|(cpu, memory)| [cpu, memory]);
    (0..LEAVES.len(), asks, 0..3_usize, prop::option::weighted(0.5, 0..2_usize), 0..3_i32, any::<u8>(), flags).prop_map(
        |(queue, asks, node, gang, priority, created, (not_preemptable, terminating, guards))| Running {
            queue,
            asks,
            node,
            gang,
            priority,
            created,
            not_preemptable,
            terminating,
            guards,
        },
    )
}

fn preempting_group() -> impl Strategy<Value = PreemptingGroup> {
    let flags = (prop::bool::weighted(0.9), prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (
        0..LEAVES.len(),
        prop_oneof![3 => 1..3_i64, 1 => 3..5_i64],
        prop::bool::weighted(0.3),
        prop_oneof![3 => 1..3_usize, 1 => Just(3)],
        1..4_i32,
        flags,
    )
        .prop_map(|(queue, cpu, memory, members, priority, (preemptable, member_keeps, reserved, runs))| PreemptingGroup {
            queue,
            asks: [cpu, i64::from(memory)],
            members,
            priority,
            preemptable,
            member_keeps,
            reserved,
            runs,
        })
}

/// Draws any cluster, or one in which only shares decide and the preemptor has a share, or such a cluster with a budget.
pub(super) fn facts() -> impl Strategy<Value = Facts> {
    (any_facts(), prop_oneof![10 => Just(0), 7 => Just(1), 1 => Just(2)]).prop_map(|(facts, which)| match which {
        0 => facts,
        1 => lending(facts),
        _ => guarded(lending(facts)),
    })
}

/// Gives all pods the same budget, which allows one eviction.
fn guarded(mut facts: Facts) -> Facts {
    facts.pods.iter_mut().for_each(|pod| pod.guards = Guards::One(0));
    facts.budgets = [1, 1];
    facts
}

/// Makes a cluster in which all cpu is borrowed and some memory is idle. A queue that borrows only memory cannot give what is lacking, and some queues borrow so little that not all of
/// their pods can be evicted.
fn lending(mut facts: Facts) -> Facts {
    let preemptor = facts.preemptor.queue;
    for ((name, _), fields) in SHAPE.iter().zip(&mut facts.queues) {
        let own = *name == LEAVES[preemptor] || *name == "p";
        let [cpu, memory] = fields.deserved.map(|deserved| deserved.unwrap_or(1));
        let deserved = if own { [Some(6), Some(4)] } else { [Some(cpu), Some(memory)] };
        *fields = QueueFields {
            capability: [None; 2],
            guarantee: [None; 2],
            deserved,
            priority: i32::from(own),
            reclaimable: true,
            closed: false,
            ..fields.clone()
        };
    }
    for pod in &mut facts.pods {
        *pod = Running { gang: None, not_preemptable: false, terminating: false, guards: Guards::None, ..pod.clone() };
    }
    facts.slack.iter_mut().for_each(|slack| *slack = [0, 2]);
    facts.waits = None;
    let [cpu, _] = facts.preemptor.asks;
    facts.preemptor = PreemptingGroup {
        asks: [cpu, 1],
        priority: 3,
        preemptable: true,
        member_keeps: false,
        reserved: false,
        runs: false,
        ..facts.preemptor.clone()
    };
    facts
}

/// Draws a small cluster. Most have up to 7 running pods: the reference tries every choice of them, so each further pod doubles its work.
fn any_facts() -> impl Strategy<Value = Facts> {
    let slack = prop::collection::vec([-1..3_i64, -1..4_i64], 1..4);
    let queues = prop::collection::vec(queue_fields(), SHAPE.len());
    let waits = prop::option::weighted(0.2, (0..LEAVES.len(), [0..4_i64, 0..2_i64]));
    let lets = [0..3_u32, 1..3_u32];
    let strategy = prop_oneof![Just(NodeStrategy::Spread), Just(NodeStrategy::Pack)];
    let pods = prop_oneof![12 => prop::collection::vec(one(), 1..8), 1 => prop::collection::vec(one(), 8..11)];
    (queues, pods, slack, [0..4_u32, 1..3_u32], lets, preempting_group(), waits, strategy).prop_map(
        |(queues, pods, slack, mins, budgets, preemptor, waits, strategy)| Facts {
            queues,
            pods,
            slack,
            mins,
            budgets,
            preemptor,
            waits,
            strategy,
        },
    )
}

impl Facts {
    fn node_of(&self, running: &Running) -> usize {
        running.node % self.slack.len()
    }

    /// Returns the amount that a node offers.
    fn offers(&self, node: usize) -> Pair {
        let mut offers = self.slack[node];
        for pod in self.all_pods().iter().filter(|(_, pod)| self.node_of(pod) == node) {
            offers.iter_mut().zip(pod.1.asks).for_each(|(offers, asks)| *offers += asks);
        }
        offers.map(|amount| amount.max(0))
    }

    /// Returns each running pod with its PodGroup.
    fn all_pods(&self) -> Vec<(Option<String>, Running)> {
        let gang = |pod: &Running| pod.gang.map(|gang| format!("gang-{gang}-{}", LEAVES[pod.queue]));
        let mut all: Vec<_> = self.pods.iter().map(|pod| (gang(pod), pod.clone())).collect();
        if self.preemptor.runs {
            let own = Running {
                queue: self.preemptor.queue,
                asks: self.preemptor.asks,
                node: 0,
                gang: None,
                priority: 0,
                created: 0,
                not_preemptable: false,
                terminating: false,
                guards: Guards::None,
            };
            all.push((Some("asking".to_owned()), own));
        }
        all
    }

    fn gangs(&self) -> BTreeSet<(usize, usize)> {
        self.pods.iter().filter_map(|pod| Some((pod.gang?, pod.queue))).collect()
    }

    fn reserves(&self) -> Option<Pair> {
        let members = i64::try_from(self.preemptor.members).unwrap();
        self.preemptor.reserved.then(|| self.preemptor.asks.map(|asks| asks * members))
    }

    pub(super) fn members(&self) -> Vec<Uid> {
        (0..self.preemptor.members).map(|at| Uid::from(format!("ns/m{at}").as_str())).collect()
    }

    /// Returns the budgets of a pod, by number. A pod with two budgets cannot be evicted: it gets the number after the last, which allows nothing.
    pub(super) fn budgets_of(&self, uid: &str) -> Vec<usize> {
        let pod = (0..self.pods.len()).find(|at| format!("p{at}") == uid).and_then(|at| self.pods.get(at));
        match pod.map_or(Guards::None, |pod| pod.guards) {
            Guards::None => Vec::new(),
            Guards::One(at) => vec![at],
            Guards::Both => vec![self.budgets.len()],
        }
    }

    /// R9: whether the budgets allow these evictions together.
    pub(super) fn budgets_allow(&self, victims: &[String]) -> bool {
        let all: Vec<usize> = victims.iter().flat_map(|uid| self.budgets_of(uid)).collect();
        let asked = |budget: usize| u32::try_from(all.iter().filter(|at| **at == budget).count()).unwrap();
        all.iter().all(|at| self.budgets.get(*at).is_some_and(|lets| asked(*at) <= *lets))
    }

    /// Writes the facts as a scenario. The reference has no budgets: a pod that its budgets never allow to evict is written as not preemptable.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for node in 0..self.slack.len() {
            let _ = writeln!(text, "node n{node} {}", pair(self.offers(node)));
        }
        for ((name, parent), fields) in SHAPE.iter().zip(&self.queues) {
            let _ = write!(text, "queue {name}");
            parent.iter().for_each(|parent| _ = write!(text, " parent={parent}"));
            for (key, bounds) in [("capability", fields.capability), ("deserved", fields.deserved), ("guarantee", fields.guarantee)] {
                if bounds.iter().any(Option::is_some) {
                    let set: Vec<_> =
                        DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some(format!("{name}:{}", bound?))).collect();
                    let _ = write!(text, " {key}={}", set.join(","));
                }
            }
            let _ = write!(text, " weight={} priority={}", fields.weight, fields.priority);
            text.push_str(if fields.reclaimable { "" } else { " reclaimable=no" });
            text.push_str(if fields.closed { " closed\n" } else { "\n" });
        }
        for (at, (group, pod)) in self.all_pods().iter().enumerate() {
            let _ = write!(text, "pod p{at} in {} {} node=n{}", LEAVES[pod.queue], pair(pod.asks), self.node_of(pod));
            group.iter().for_each(|group| _ = write!(text, " group={group}"));
            let _ = write!(text, " priority={} created={}", pod.priority, pod.created);
            let not_preemptable = pod.not_preemptable || !self.budgets_allow(&[format!("p{at}")]);
            text.push_str(if not_preemptable { " preemptable=no" } else { "" });
            text.push_str(if pod.terminating { " terminating\n" } else { "\n" });
        }
        for (gang, queue) in self.gangs() {
            let _ = writeln!(text, "group gang-{gang}-{} in {} min={}", LEAVES[queue], LEAVES[queue], self.mins[gang]);
        }
        let preemptor = &self.preemptor;
        let not_preemptable = if preemptor.preemptable { "" } else { " preemptable=no" };
        let member_keeps = if preemptor.member_keeps { " preemptable=not-all" } else { "" };
        let min = preemptor.members + usize::from(preemptor.runs);
        let (queue, asks) = (LEAVES[preemptor.queue], pair(preemptor.asks));
        let _ = writeln!(
            text,
            "group asking in {queue} min={min} asks={asks} times={} priority={}{not_preemptable}{member_keeps}",
            preemptor.members, preemptor.priority
        );
        if let Some((queue, asks)) = self.waits {
            let _ = writeln!(text, "group waits in {} asks={}", LEAVES[queue], pair(asks));
        }
        if let Some(reserves) = self.reserves() {
            let _ = writeln!(text, "reserve asking in {queue} {}", pair(reserves));
        }
        text
    }

    /// Returns the state of the scheduler for these facts.
    pub(super) fn state(&self) -> SchedulingState {
        let mut state = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
        for at in 0..self.slack.len() {
            state.apply_node(NodeFacts { allocatable: amounts(&list(self.offers(at))), ..node(&format!("n{at}"), &[]) });
        }
        for ((name, parent), fields) in SHAPE.iter().zip(&self.queues) {
            let bounds = |bounds: Bounds| {
                limits(&DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some((*name, bound?))).collect::<Vec<_>>())
            };
            state.apply_queue(QueueFacts {
                capability: bounds(fields.capability),
                deserved: bounds(fields.deserved),
                guarantee: bounds(fields.guarantee),
                weight: fields.weight,
                priority: fields.priority,
                reclaimable: fields.reclaimable,
                closed_by_hand: fields.closed,
                ..queue(name, *parent, &[])
            });
        }
        for (gang, queue) in self.gangs() {
            state.apply_group(group("ns", &format!("gang-{gang}-{}", LEAVES[queue]), self.mins[gang], LEAVES[queue]));
        }
        let preemptor = &self.preemptor;
        let min = u32::try_from(preemptor.members).unwrap() + u32::from(preemptor.runs);
        let facts = group("ns", "asking", min, LEAVES[preemptor.queue]);
        state.apply_group(GroupFacts { preemptable: preemptor.preemptable, ..facts });
        for (at, (group, facts)) in self.all_pods().iter().enumerate() {
            let seconds = SignedDuration::from_secs(i64::from(facts.created));
            let pod_facts = PodFacts {
                request: amounts(&list(facts.asks)),
                priority: facts.priority,
                created: Timestamp::UNIX_EPOCH + seconds,
                preemptable: !facts.not_preemptable,
                deleting: facts.terminating,
                charged_queue: Some(LEAVES[facts.queue].to_owned()),
                uid: Uid::from(format!("p{at}").as_str()),
                ..pod("ns", &format!("p{at}"), group.as_deref().unwrap_or("none"), &[])
            };
            state.apply_pod(running(pod_facts, &format!("n{}", self.node_of(facts))));
        }
        for (at, uid) in self.members().iter().enumerate() {
            let name = uid.as_str().trim_start_matches("ns/").to_owned();
            let preemptable = at > 0 || !preemptor.member_keeps;
            state.apply_pod(PodFacts { request: amounts(&list(preemptor.asks)), preemptable, ..pod("ns", &name, "asking", &[]) });
        }
        if let Some((queue, asks)) = self.waits {
            state.apply_group(group("ns", "waits", 1, LEAVES[queue]));
            state.apply_pod(PodFacts { request: amounts(&list(asks)), ..pod("ns", "w0", "waits", &[]) });
        }
        if let Some(reserves) = self.reserves() {
            state.cache.accounting.reserve("ns/asking", LEAVES[preemptor.queue], &amounts(&list(reserves)));
        }
        state
    }

    pub(super) fn queue(&self) -> &'static str {
        LEAVES[self.preemptor.queue]
    }

    pub(super) fn key() -> GroupKey {
        GroupKey::new("ns", "asking")
    }

    pub(super) fn left_on(&self, node: &str, gone: &[String]) -> Pair {
        let mut left = [0; 2];
        for at in (0..self.slack.len()).filter(|at| format!("n{at}") == node) {
            left = self.offers(at);
            for (pod, (_, facts)) in self.all_pods().iter().enumerate() {
                let is_there = self.node_of(facts) == at && !facts.terminating && !gone.contains(&format!("p{pod}"));
                left.iter_mut().zip(facts.asks).for_each(|(left, asks)| *left -= if is_there { asks } else { 0 });
            }
        }
        left
    }

    pub(super) fn no_nodes() -> BTreeSet<Arc<str>> {
        BTreeSet::new()
    }
}

fn list(pair: Pair) -> [(&'static str, i64); 2] {
    [(DIMENSIONS[0], pair[0]), (DIMENSIONS[1], pair[1])]
}

fn pair(pair: Pair) -> String {
    format!("cpu:{},memory:{}", pair[0], pair[1])
}
