//! Which small worlds are there, as we see them and as the reference reads them?

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::api::names::DEFAULT_SCHEDULER;
use crate::api::{GroupFacts, GroupKey, NodeFacts, PodFacts, QueueFacts, Uid};
use crate::cycle::state::SchedulingState;
use crate::cycle::testing::{amounts, group, limits, node, pod, queue, running};

/// Whole units of cpu and memory.
pub(super) type Pair = [i64; 2];
type Bounds = [Option<i64>; 2];

const DIMENSIONS: [&str; 2] = ["cpu", "memory"];
/// The queues that there are, with their parents; the pods go to the leaves.
const SHAPE: [(&str, Option<&str>); 6] = [("a", None), ("b", None), ("p", None), ("pa", Some("p")), ("pb", Some("p")), ("pc", Some("p"))];
const LEAVES: [&str; 5] = ["a", "b", "pa", "pb", "pc"];

#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) capability: Bounds,
    pub(super) deserved: Bounds,
    pub(super) guarantee: Bounds,
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) reclaimable: bool,
    pub(super) closed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) node: usize,
    /// One of two groups of its queue; none where it is by itself.
    pub(super) gang: Option<usize>,
    pub(super) priority: i32,
    pub(super) created: u8,
    pub(super) stays: bool,
    pub(super) terminating: bool,
    /// Which disruption budgets guard it (R9).
    pub(super) guards: Guards,
}

/// One of two budgets, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guards {
    None,
    One(usize),
    Both,
}

/// Who asks, with members that are all alike.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) queue: usize,
    pub(super) asks: Pair,
    pub(super) members: usize,
    pub(super) priority: i32,
    pub(super) preemptable: bool,
    pub(super) reserved: bool,
    /// One of them runs already, so far down in the order of pods.
    pub(super) runs: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) queues: Vec<Said>,
    pub(super) pods: Vec<Running>,
    /// What each node offers beyond what its pods use.
    pub(super) slack: Vec<Pair>,
    pub(super) mins: [u32; 2],
    /// How many each budget lets go.
    pub(super) budgets: [u32; 2],
    pub(super) asking: Asking,
    /// Where another group waits, and what for.
    pub(super) waits: Option<(usize, Pair)>,
}

fn said() -> impl Strategy<Value = Said> {
    let bound = |most: i64, set: f64| prop::option::weighted(set, 0..=most);
    let bounds = move |most: Pair, set: f64| most.map(|most| bound(most, set));
    let amounts = (bounds([12, 6], 0.08), bounds([7, 2], 0.6), bounds([3, 1], 0.2));
    (amounts, 0..3_u32, 0..2_i32, prop::bool::weighted(0.9), prop::bool::weighted(0.03)).prop_map(
        |((capability, deserved, guarantee), weight, priority, reclaimable, closed)| Said {
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
        |(queue, asks, node, gang, priority, created, (stays, terminating, guards))| Running {
            queue,
            asks,
            node,
            gang,
            priority,
            created,
            stays,
            terminating,
            guards,
        },
    )
}

fn asking() -> impl Strategy<Value = Asking> {
    let flags = (prop::bool::weighted(0.9), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (
        0..LEAVES.len(),
        prop_oneof![3 => 1..3_i64, 1 => 3..5_i64],
        prop::bool::weighted(0.3),
        prop_oneof![3 => 1..3_usize, 1 => Just(3)],
        1..4_i32,
        flags,
    )
        .prop_map(|(queue, cpu, memory, members, priority, (preemptable, reserved, runs))| Asking {
            queue,
            asks: [cpu, i64::from(memory)],
            members,
            priority,
            preemptable,
            reserved,
            runs,
        })
}

/// Any world, or one in which nothing but shares decides and the one who asks has a share, or there a budget.
pub(super) fn facts() -> impl Strategy<Value = Facts> {
    (any_facts(), prop_oneof![10 => Just(0), 7 => Just(1), 1 => Just(2)]).prop_map(|(facts, which)| match which {
        0 => facts,
        1 => lending(facts),
        _ => guarded(lending(facts)),
    })
}

/// One budget guards everybody, and lets one of them go: more than one would do what is asked.
fn guarded(mut facts: Facts) -> Facts {
    facts.pods.iter_mut().for_each(|pod| pod.guards = Guards::One(0));
    facts.budgets = [1, 1];
    facts
}

/// All cpu is lent and some memory is left: who borrows only memory owes nothing of what is lacking, and some borrow so little that not all of theirs may go.
fn lending(mut facts: Facts) -> Facts {
    let asking = facts.asking.queue;
    for ((name, _), said) in SHAPE.iter().zip(&mut facts.queues) {
        let own = *name == LEAVES[asking] || *name == "p";
        let [cpu, memory] = said.deserved.map(|deserved| deserved.unwrap_or(1));
        let deserved = if own { [Some(6), Some(4)] } else { [Some(cpu), Some(memory)] };
        *said = Said {
            capability: [None; 2],
            guarantee: [None; 2],
            deserved,
            priority: i32::from(own),
            reclaimable: true,
            closed: false,
            ..said.clone()
        };
    }
    for pod in &mut facts.pods {
        *pod = Running { gang: None, stays: false, terminating: false, guards: Guards::None, ..pod.clone() };
    }
    facts.slack.iter_mut().for_each(|slack| *slack = [0, 2]);
    facts.waits = None;
    let [cpu, _] = facts.asking.asks;
    facts.asking = Asking { asks: [cpu, 1], priority: 3, preemptable: true, reserved: false, runs: false, ..facts.asking.clone() };
    facts
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let slack = prop::collection::vec([-1..3_i64, -1..4_i64], 1..4);
    let queues = prop::collection::vec(said(), SHAPE.len());
    let waits = prop::option::weighted(0.2, (0..LEAVES.len(), [0..4_i64, 0..2_i64]));
    let lets = [0..3_u32, 1..3_u32];
    (queues, prop::collection::vec(one(), 1..8), slack, [0..4_u32, 1..3_u32], lets, asking(), waits)
        .prop_map(|(queues, pods, slack, mins, budgets, asking, waits)| Facts { queues, pods, slack, mins, budgets, asking, waits })
}

impl Facts {
    fn node_of(&self, running: &Running) -> usize {
        running.node % self.slack.len()
    }

    /// What a node offers.
    fn offers(&self, node: usize) -> Pair {
        let mut offers = self.slack[node];
        for pod in self.everybody().iter().filter(|(_, pod)| self.node_of(pod) == node) {
            offers.iter_mut().zip(pod.1.asks).for_each(|(offers, asks)| *offers += asks);
        }
        offers.map(|amount| amount.max(0))
    }

    /// Each pod that runs, with its group.
    fn everybody(&self) -> Vec<(Option<String>, Running)> {
        let gang = |pod: &Running| pod.gang.map(|gang| format!("gang-{gang}-{}", LEAVES[pod.queue]));
        let mut all: Vec<_> = self.pods.iter().map(|pod| (gang(pod), pod.clone())).collect();
        if self.asking.runs {
            let own = Running {
                queue: self.asking.queue,
                asks: self.asking.asks,
                node: 0,
                gang: None,
                priority: 0,
                created: 0,
                stays: false,
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
        let members = i64::try_from(self.asking.members).unwrap();
        self.asking.reserved.then(|| self.asking.asks.map(|asks| asks * members))
    }

    pub(super) fn members(&self) -> Vec<Uid> {
        (0..self.asking.members).map(|at| Uid::from(format!("ns/m{at}").as_str())).collect()
    }

    /// The budgets of a pod, by place; what two guard nobody can evict, and beyond the last place nothing is left.
    pub(super) fn budgets_of(&self, uid: &str) -> Vec<usize> {
        let pod = (0..self.pods.len()).find(|at| format!("p{at}") == uid).and_then(|at| self.pods.get(at));
        match pod.map_or(Guards::None, |pod| pod.guards) {
            Guards::None => Vec::new(),
            Guards::One(at) => vec![at],
            Guards::Both => vec![self.budgets.len()],
        }
    }

    /// R9: whether the budgets let all of these go together.
    pub(super) fn budgets_let(&self, victims: &[String]) -> bool {
        let all: Vec<usize> = victims.iter().flat_map(|uid| self.budgets_of(uid)).collect();
        let asked = |budget: usize| u32::try_from(all.iter().filter(|at| **at == budget).count()).unwrap();
        all.iter().all(|at| self.budgets.get(*at).is_some_and(|lets| asked(*at) <= *lets))
    }

    /// As a scenario. The reference knows no budgets: whom none lets go is one who stays, whatever else goes.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for node in 0..self.slack.len() {
            let _ = writeln!(text, "node n{node} {}", pair(self.offers(node)));
        }
        for ((name, parent), said) in SHAPE.iter().zip(&self.queues) {
            let _ = write!(text, "queue {name}");
            parent.iter().for_each(|parent| _ = write!(text, " parent={parent}"));
            for (key, bounds) in [("capability", said.capability), ("deserved", said.deserved), ("guarantee", said.guarantee)] {
                if bounds.iter().any(Option::is_some) {
                    let set: Vec<_> =
                        DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some(format!("{name}:{}", bound?))).collect();
                    let _ = write!(text, " {key}={}", set.join(","));
                }
            }
            let _ = write!(text, " weight={} priority={}", said.weight, said.priority);
            text.push_str(if said.reclaimable { "" } else { " reclaimable=no" });
            text.push_str(if said.closed { " closed\n" } else { "\n" });
        }
        for (at, (group, pod)) in self.everybody().iter().enumerate() {
            let _ = write!(text, "pod p{at} in {} {} node=n{}", LEAVES[pod.queue], pair(pod.asks), self.node_of(pod));
            group.iter().for_each(|group| _ = write!(text, " group={group}"));
            let _ = write!(text, " priority={} created={}", pod.priority, pod.created);
            let stays = pod.stays || !self.budgets_let(&[format!("p{at}")]);
            text.push_str(if stays { " preemptable=no" } else { "" });
            text.push_str(if pod.terminating { " terminating\n" } else { "\n" });
        }
        for (gang, queue) in self.gangs() {
            let _ = writeln!(text, "group gang-{gang}-{} in {} min={}", LEAVES[queue], LEAVES[queue], self.mins[gang]);
        }
        let asking = &self.asking;
        let stays = if asking.preemptable { "" } else { " preemptable=no" };
        let min = asking.members + usize::from(asking.runs);
        let (queue, asks) = (LEAVES[asking.queue], pair(asking.asks));
        let _ =
            writeln!(text, "group asking in {queue} min={min} asks={asks} times={} priority={}{stays}", asking.members, asking.priority);
        if let Some((queue, asks)) = self.waits {
            let _ = writeln!(text, "group waits in {} asks={}", LEAVES[queue], pair(asks));
        }
        if let Some(reserves) = self.reserves() {
            let _ = writeln!(text, "reserve asking in {queue} {}", pair(reserves));
        }
        text
    }

    /// As we see it.
    pub(super) fn state(&self) -> SchedulingState {
        let mut state = SchedulingState::new([DEFAULT_SCHEDULER.to_owned()]);
        for at in 0..self.slack.len() {
            state.apply_node(NodeFacts { allocatable: amounts(&list(self.offers(at))), ..node(&format!("n{at}"), &[]) });
        }
        for ((name, parent), said) in SHAPE.iter().zip(&self.queues) {
            let bounds = |bounds: Bounds| {
                limits(&DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some((*name, bound?))).collect::<Vec<_>>())
            };
            state.apply_queue(QueueFacts {
                capability: bounds(said.capability),
                deserved: bounds(said.deserved),
                guarantee: bounds(said.guarantee),
                weight: said.weight,
                priority: said.priority,
                reclaimable: said.reclaimable,
                closed_by_hand: said.closed,
                ..queue(name, *parent, &[])
            });
        }
        for (gang, queue) in self.gangs() {
            state.apply_group(group("ns", &format!("gang-{gang}-{}", LEAVES[queue]), self.mins[gang], LEAVES[queue]));
        }
        let asking = &self.asking;
        let min = u32::try_from(asking.members).unwrap() + u32::from(asking.runs);
        let facts = group("ns", "asking", min, LEAVES[asking.queue]);
        state.apply_group(GroupFacts { preemptable: asking.preemptable, ..facts });
        for (at, (group, facts)) in self.everybody().iter().enumerate() {
            let seconds = SignedDuration::from_secs(i64::from(facts.created));
            let said = PodFacts {
                request: amounts(&list(facts.asks)),
                priority: facts.priority,
                created: Timestamp::UNIX_EPOCH + seconds,
                preemptable: !facts.stays,
                deleting: facts.terminating,
                charged_queue: Some(LEAVES[facts.queue].to_owned()),
                uid: Uid::from(format!("p{at}").as_str()),
                ..pod("ns", &format!("p{at}"), group.as_deref().unwrap_or("none"), &[])
            };
            state.apply_pod(running(said, &format!("n{}", self.node_of(facts))));
        }
        for uid in self.members() {
            let name = uid.as_str().trim_start_matches("ns/").to_owned();
            state.apply_pod(PodFacts { request: amounts(&list(asking.asks)), ..pod("ns", &name, "asking", &[]) });
        }
        if let Some((queue, asks)) = self.waits {
            state.apply_group(group("ns", "waits", 1, LEAVES[queue]));
            state.apply_pod(PodFacts { request: amounts(&list(asks)), ..pod("ns", "w0", "waits", &[]) });
        }
        if let Some(reserves) = self.reserves() {
            state.cache.accounting.reserve("ns/asking", LEAVES[asking.queue], &amounts(&list(reserves)));
        }
        state
    }

    pub(super) fn queue(&self) -> &'static str {
        LEAVES[self.asking.queue]
    }

    pub(super) fn key() -> GroupKey {
        GroupKey::new("ns", "asking")
    }

    pub(super) fn left_on(&self, node: &str, gone: &[String]) -> Pair {
        let mut left = [0; 2];
        for at in (0..self.slack.len()).filter(|at| format!("n{at}") == node) {
            left = self.offers(at);
            for (pod, (_, facts)) in self.everybody().iter().enumerate() {
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
