//! The facts of a cluster, without any sums.
//!
//! The simplest record next to the accounting: numbers for names and arrays for maps, so a state costs almost nothing to make and to copy.

use std::fmt::Write;

use super::former::Former;
use crate::accounting::reference::{self, ByRules};

/// Amounts by dimension, in nanos.
pub(super) type Amounts = [i128; 3];
/// Limits by dimension; `None` means unset.
pub(super) type Bounds = [Option<i128>; 3];

pub(super) const DIMENSIONS: [&str; 3] = ["cpu", "memory", "pods"];
/// The names in their order, after `root`. The last one never has an object.
pub(super) const NAMES: [&str; QUEUES] = ["root", "a", "b", "c", "d", "default", "e", "f", "g", "h", "i", "j", "missing"];
pub(super) const QUEUES: usize = 13;
pub(super) const ROOT: usize = 0;
pub(super) const MISSING: usize = 12;
pub(super) const NODES: usize = 3;
pub(super) const PODS: usize = 8;
pub(super) const GROUPS: usize = 3;

/// The fields of a queue's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueueSpec {
    pub(super) parent: usize,
    pub(super) capability: Bounds,
    pub(super) deserved: Bounds,
    pub(super) guarantee: Bounds,
    pub(super) weight: u32,
    pub(super) priority: i32,
    pub(super) reclaimable: bool,
    pub(super) closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pod {
    /// The number of the node; [`NODES`] and above do not exist.
    pub(super) node: Option<usize>,
    /// `None` for a pod of another scheduler.
    pub(super) queue: Option<usize>,
    pub(super) amounts: Amounts,
    pub(super) assumed: bool,
    pub(super) terminating: bool,
}

/// All facts of a cluster.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Facts {
    pub(super) nodes: [Option<Amounts>; NODES],
    pub(super) queues: [Option<QueueSpec>; QUEUES],
    /// Where deleted queues were.
    pub(super) former: [Option<Former>; QUEUES],
    pub(super) pods: [Option<Pod>; PODS],
    /// By PodGroup: the queue and the amount that it has reserved.
    pub(super) reserved: [Option<(usize, Amounts)>; GROUPS],
    /// By PodGroup: the queue, and the requests of its waiting members.
    pub(super) waits: [Option<(usize, Amounts)>; GROUPS],
}

impl Facts {
    /// Returns what the pods on a node use, whatever their scheduler (N1).
    pub(super) fn on_node(&self, node: usize) -> Amounts {
        let mut used = [0; 3];
        self.pods.iter().flatten().filter(|pod| pod.node == Some(node)).for_each(|pod| add(&mut used, &pod.amounts));
        used
    }

    /// Returns what a PodGroup wants beyond its reservation (S1), and in which queue.
    pub(super) fn wants(&self, group: usize) -> Option<(usize, Amounts)> {
        let (queue, mut wants) = self.waits[group]?;
        let reserved = self.reserved[group].map_or([0; 3], |(_, amounts)| amounts);
        wants.iter_mut().zip(reserved).for_each(|(wants, reserved)| *wants = (*wants - reserved).max(0));
        Some((queue, wants))
    }

    /// Computes the answers of the rules to these facts.
    pub(super) fn rules(&self) -> ByRules {
        ByRules::read(&self.text())
    }

    /// Writes the facts as a scenario.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (node, offers) in self.nodes.iter().enumerate() {
            offers.iter().for_each(|offers| _ = writeln!(text, "node n{node} {}", amounts(offers)));
        }
        for (name, spec) in NAMES.iter().zip(&self.queues) {
            spec.iter().for_each(|spec| text.push_str(&queue_line(name, spec)));
        }
        for (pod, spec) in self.pods.iter().enumerate() {
            let Some(spec) = spec else { continue };
            let Some(queue) = spec.queue else {
                // A pod of another scheduler counts only where it is: on its node (N2).
                spec.node.iter().for_each(|node| _ = writeln!(text, "foreign p{pod} {} node=n{node}", amounts(&spec.amounts)));
                continue;
            };
            let terminating = if spec.terminating { " terminating" } else { "" };
            let _ = writeln!(text, "pod p{pod} in {} {}{terminating}", NAMES[queue], amounts(&spec.amounts));
        }
        for (group, asks) in self.waits.iter().enumerate() {
            asks.iter().for_each(|(queue, asks)| _ = writeln!(text, "group g{group} in {} asks={}", NAMES[*queue], amounts(asks)));
        }
        for (group, reserved) in self.reserved.iter().enumerate() {
            reserved.iter().for_each(|(queue, reserved)| _ = writeln!(text, "reserve g{group} in {} {}", NAMES[*queue], amounts(reserved)));
        }
        text + &self.places()
    }
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Returns amounts as the reference has them.
pub(super) fn by_name(amounts: &Amounts) -> reference::Amounts {
    DIMENSIONS.iter().zip(amounts).map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

/// Writes amounts as scenarios do.
pub(super) fn amounts(amounts: &Amounts) -> String {
    bounds(&amounts.map(|amount| (amount != 0).then_some(amount)))
}

fn bounds(bounds: &Bounds) -> String {
    let set = DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some(format!("{name}:{}n", (*bound)?)));
    let set: Vec<String> = set.collect();
    if set.is_empty() { "nothing".to_owned() } else { set.join(",") }
}

pub(super) fn queue_line(name: &str, spec: &QueueSpec) -> String {
    let mut line = format!("queue {name}");
    if spec.parent != ROOT {
        let _ = write!(line, " parent={}", NAMES[spec.parent]);
    }
    for (key, limits) in [("capability", spec.capability), ("deserved", spec.deserved), ("guarantee", spec.guarantee)] {
        if limits.iter().any(Option::is_some) {
            let _ = write!(line, " {key}={}", bounds(&limits));
        }
    }
    let _ = write!(line, " weight={} priority={}", spec.weight, spec.priority);
    line.push_str(if spec.reclaimable { "" } else { " reclaimable=no" });
    line.push_str(if spec.closed { " closed\n" } else { "\n" });
    line
}
