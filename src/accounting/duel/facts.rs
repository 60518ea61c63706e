//! What is so, without any sum?
//!
//! The plainest record beside the books: numbers for names, arrays for maps, so that a state of it costs next to nothing to make and to copy.

use std::fmt::Write;

/// Amounts by dimension, in nanos.
pub(super) type Amounts = [i128; 3];
/// Limits by dimension; `None` is unset.
pub(super) type Bounds = [Option<i128>; 3];

pub(super) const DIMENSIONS: [&str; 3] = ["cpu", "memory", "pods"];
/// In the order of the names but for `root`; for the last there is never an object.
pub(super) const NAMES: [&str; QUEUES] = ["root", "a", "b", "c", "d", "default", "e", "f", "g", "h", "i", "j", "nobody"];
pub(super) const QUEUES: usize = 13;
pub(super) const ROOT: usize = 0;
pub(super) const DEFAULT: usize = 5;
pub(super) const NOBODY: usize = 12;
pub(super) const NODES: usize = 3;
pub(super) const PODS: usize = 8;
pub(super) const GROUPS: usize = 3;

/// What the object of a queue says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
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
    /// One beyond [`NODES`] does not exist.
    pub(super) node: Option<usize>,
    /// None for a pod of another scheduler.
    pub(super) queue: Option<usize>,
    pub(super) amounts: Amounts,
    pub(super) assumed: bool,
    pub(super) terminating: bool,
}

/// All facts.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Facts {
    pub(super) nodes: [Option<Amounts>; NODES],
    pub(super) queues: [Option<Said>; QUEUES],
    pub(super) pods: [Option<Pod>; PODS],
    /// By group: where and what.
    pub(super) reserved: [Option<(usize, Amounts)>; GROUPS],
    /// By group: where it waits, and what its members ask for.
    pub(super) waits: [Option<(usize, Amounts)>; GROUPS],
}

impl Facts {
    /// What all nodes offer together.
    pub(super) fn total(&self) -> Amounts {
        let mut total = [0; 3];
        self.nodes.iter().flatten().for_each(|offers| add(&mut total, offers));
        total
    }

    /// What the pods on a node use, whoever they are (N1).
    pub(super) fn on_node(&self, node: usize) -> Amounts {
        let mut used = [0; 3];
        self.pods.iter().flatten().filter(|pod| pod.node == Some(node)).for_each(|pod| add(&mut used, &pod.amounts));
        used
    }

    /// What a group wants beyond what it has reserved (S1), and in which queue.
    pub(super) fn wants(&self, group: usize) -> Option<(usize, Amounts)> {
        let (queue, mut wants) = self.waits[group]?;
        let reserved = self.reserved[group].map_or([0; 3], |(_, amounts)| amounts);
        wants.iter_mut().zip(reserved).for_each(|(wants, reserved)| *wants = (*wants - reserved).max(0));
        Some((queue, wants))
    }

    /// As a scenario.
    pub(super) fn text(&self) -> String {
        let mut text = format!("total {}\n", amounts(&self.total()));
        for (name, said) in NAMES.iter().zip(&self.queues) {
            said.iter().for_each(|said| text.push_str(&queue_line(name, said)));
        }
        for (pod, said) in self.pods.iter().enumerate() {
            let Some((said, queue)) = said.and_then(|said| Some((said, said.queue?))) else { continue };
            let terminating = if said.terminating { " terminating" } else { "" };
            let _ = writeln!(text, "pod p{pod} in {} {}{terminating}", NAMES[queue], amounts(&said.amounts));
        }
        for (group, asks) in self.waits.iter().enumerate() {
            asks.iter().for_each(|(queue, asks)| _ = writeln!(text, "group g{group} in {} asks={}", NAMES[*queue], amounts(asks)));
        }
        for (group, held) in self.reserved.iter().enumerate() {
            held.iter().for_each(|(queue, held)| _ = writeln!(text, "reserve g{group} in {} {}", NAMES[*queue], amounts(held)));
        }
        text
    }
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// As scenarios write amounts.
pub(super) fn amounts(amounts: &Amounts) -> String {
    bounds(&amounts.map(|amount| (amount != 0).then_some(amount)))
}

fn bounds(bounds: &Bounds) -> String {
    let set = DIMENSIONS.iter().zip(bounds).filter_map(|(name, bound)| Some(format!("{name}:{}n", (*bound)?)));
    let set: Vec<String> = set.collect();
    if set.is_empty() { "nothing".to_owned() } else { set.join(",") }
}

pub(super) fn queue_line(name: &str, said: &Said) -> String {
    let mut line = format!("queue {name}");
    if said.parent != ROOT {
        let _ = write!(line, " parent={}", NAMES[said.parent]);
    }
    for (key, limits) in [("capability", said.capability), ("deserved", said.deserved), ("guarantee", said.guarantee)] {
        if limits.iter().any(Option::is_some) {
            let _ = write!(line, " {key}={}", bounds(&limits));
        }
    }
    let _ = write!(line, " weight={} priority={}", said.weight, said.priority);
    line.push_str(if said.reclaimable { "" } else { " reclaimable=no" });
    line.push_str(if said.closed { " closed\n" } else { "\n" });
    line
}
