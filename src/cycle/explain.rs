//! Why is something not placed? As data; the text is made at the edge, by `Display`.
//!
//! The counts are exact: every node is looked at, and each is counted once, under the first predicate that refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::accounting::{Bound, Ceiling, QueueFault, QueueRefusal, Why};
use crate::api::node::Taint;
use crate::api::pod_facts::Unsupported;
use crate::api::{Fault, GroupKey};
use crate::resources::{Amount, ResourceName, quantity};

use super::reclaim::NotTaken;

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is cordoned.
    Unschedulable,
    /// It has a taint that the pod does not bear.
    Taint(Taint),
    /// It lacks a label of the pod's nodeSelector.
    NodeSelector,
    /// No term of the pod's required node affinity holds for it.
    NodeAffinity,
    /// A pod that is there keeps this one away.
    AntiAffinity {
        /// The label of nodes that makes the place.
        topology_key: String,
    },
    /// Too little is left of this.
    Lacks(ResourceName),
}

/// How many nodes refuse a pod, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many nodes there are.
    pub nodes: u32,
    /// By reason: how many nodes, and of [`Reason::Lacks`] what the pod asked for and the most that any of them has left.
    pub reasons: BTreeMap<Reason, Count>,
}

/// How many nodes refuse for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub nodes: u32,
    /// What was asked for; 0 where the reason is no resource.
    pub asked: Amount,
    /// The most that any of them has left; 0 where the reason is no resource.
    pub most_free: Amount,
}

impl Tally {
    /// The most frequent first.
    fn listed(&self) -> Vec<(&Reason, &Count)> {
        let mut listed: Vec<_> = self.reasons.iter().collect();
        listed.sort_by(|a, b| b.1.nodes.cmp(&a.1.nodes).then(a.0.cmp(b.0)));
        listed
    }

    /// What most nodes say: what the text begins with. None where there are no nodes.
    #[must_use]
    pub fn first(&self) -> Option<&Reason> {
        self.listed().first().map(|(reason, _)| *reason)
    }

    /// What most of those lack that lack something, which are those that would take it otherwise. None where nobody does.
    #[must_use]
    pub fn lacks(&self) -> Option<&ResourceName> {
        self.listed().into_iter().find_map(|(reason, _)| if let Reason::Lacks(dimension) = reason { Some(dimension) } else { None })
    }
}

/// Why a group or a pod of it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pod's PodGroup does not exist (yet).
    NoGroup {
        /// Its name.
        name: Arc<str>,
    },
    /// The pod asks for something that cannot be honoured yet.
    Unsupported(Vec<Unsupported>),
    /// The pod or the group says something that cannot be read.
    Faulty(Fault),
    /// The group asks for a place in the network, which cannot be honoured yet.
    NetworkTopology,
    /// The group asks for groups of its members that are whole, which cannot be honoured yet.
    SubGroups,
    /// A queue asks for groups of nodes, which cannot be honoured yet.
    NodeGroups {
        /// The queue: the group's own or one above it.
        queue: Arc<str>,
        /// The field that says so.
        field: &'static str,
    },
    /// The queue takes no pods.
    Queue(QueueFault),
    /// The queue takes nothing for now.
    Closed {
        /// The queue that somebody closed: the group's own or one above it.
        queue: Arc<str>,
    },
    /// It does not fit below a ceiling, or beside what is kept for the guarantees of others.
    Ceiling(Ceiling),
    /// There are fewer members than must be placed together.
    NotEnoughTasks {
        /// How many members the gang needs.
        wanted: u32,
        /// How many there are that run, have succeeded or can be placed.
        there: u32,
        /// How many more are held back by their scheduling gates.
        gated: u32,
    },
    /// There are fewer members of a task than must be placed together.
    NotEnoughPodsOfTask {
        /// The task.
        task: String,
        /// How many the gang needs of it.
        wanted: u32,
        /// How many there are that run, have succeeded or can be placed.
        there: u32,
        /// How many more of it are held back by their scheduling gates.
        gated: u32,
    },
    /// No node takes the next member.
    Nodes {
        /// How many members must find a place together now.
        needed: u32,
        /// How many of them did.
        placed: u32,
        /// What the nodes said about the first that did not.
        tally: Arc<Tally>,
    },
    /// Its queue is fifo, and another group is before it (A6).
    Behind {
        /// The group that comes first.
        first: GroupKey,
    },
    /// The same, and others do not go for it.
    Kept {
        /// What is in its way.
        refusal: Arc<Refusal>,
        /// Why nobody goes.
        why: Arc<NotTaken>,
    },
    /// Others are leaving for it; their places are kept for it until they are gone.
    Nominated {
        /// How many.
        victims: u32,
        /// The queues that they are in.
        queues: BTreeSet<Arc<str>>,
        /// What they make room in; none where it is no resource that was lacking.
        lack: Option<Lack>,
    },
    /// A bind or an eviction was refused; the group is tried again after a while.
    Backoff {
        /// What failed, and what the API server said, by kind.
        why: String,
        /// How often in a row.
        failures: u32,
        /// What it lacked when others were to go for it; none where it had its places, and a bind was refused.
        lack: Option<Lack>,
    },
    /// It has its places, and nobody says whether its members are bound to them.
    Unanswered {
        /// How many.
        binds: u32,
        /// What the API server says instead, by kind.
        why: &'static str,
    },
}

/// Of what there is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The queue that is full of it; none where nodes have too little.
    pub queue: Option<Arc<str>>,
    /// The dimension.
    pub dimension: ResourceName,
}

impl Refusal {
    /// Of what there is too little; none where that is not what is in the way.
    #[must_use]
    pub fn lack(&self) -> Option<Lack> {
        match self {
            Self::Ceiling(Ceiling { queue, dimension, .. }) => Some(Lack { queue: Some(Arc::clone(queue)), dimension: dimension.clone() }),
            Self::Nodes { tally, .. } => tally.lacks().map(|dimension| Lack { queue: None, dimension: dimension.clone() }),
            Self::Kept { refusal, .. } => refusal.lack(),
            Self::Nominated { lack, .. } | Self::Backoff { lack, .. } => lack.clone(),
            Self::NoGroup { .. }
            | Self::Unsupported(_)
            | Self::Faulty(_)
            | Self::NetworkTopology
            | Self::SubGroups
            | Self::NodeGroups { .. }
            | Self::Queue(_)
            | Self::Closed { .. }
            | Self::NotEnoughTasks { .. }
            | Self::NotEnoughPodsOfTask { .. }
            | Self::Behind { .. }
            | Self::Unanswered { .. } => None,
        }
    }

    /// The reason of the PodGroup's condition, in Volcano's words.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotEnoughTasks { .. } => "NotEnoughTasks",
            Self::NotEnoughPodsOfTask { .. } => "NotEnoughPodsOfTask",
            Self::NoGroup { .. }
            | Self::Unsupported(_)
            | Self::Faulty(_)
            | Self::NetworkTopology
            | Self::SubGroups
            | Self::NodeGroups { .. }
            | Self::Queue(_)
            | Self::Closed { .. }
            | Self::Ceiling(_)
            | Self::Nodes { .. }
            | Self::Behind { .. }
            | Self::Kept { .. }
            | Self::Nominated { .. }
            | Self::Backoff { .. }
            | Self::Unanswered { .. } => "NotEnoughResources",
        }
    }

    /// The name of the variant, one of a bounded set, for a metric's label.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoGroup { .. } => "no_group",
            Self::Unsupported(_) => "unsupported",
            Self::Faulty(_) => "faulty",
            Self::NetworkTopology => "network_topology",
            Self::SubGroups => "sub_groups",
            Self::NodeGroups { .. } => "node_groups",
            Self::Queue(_) => "queue",
            Self::Closed { .. } => "closed",
            Self::Ceiling(_) => "ceiling",
            Self::NotEnoughTasks { .. } => "not_enough_tasks",
            Self::NotEnoughPodsOfTask { .. } => "not_enough_pods_of_task",
            Self::Nodes { .. } => "nodes",
            Self::Behind { .. } => "behind",
            Self::Kept { refusal, .. } => refusal.kind(),
            Self::Nominated { .. } => "nominated",
            Self::Backoff { .. } => "backoff",
            Self::Unanswered { .. } => "unanswered",
        }
    }
}

impl From<QueueRefusal> for Refusal {
    fn from(refusal: QueueRefusal) -> Self {
        match refusal {
            QueueRefusal::Fault(fault) => Self::Queue(fault),
            QueueRefusal::Closed { queue } => Self::Closed { queue },
            QueueRefusal::Ceiling(ceiling) => Self::Ceiling(ceiling),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("cordoned"),
            Self::Taint(taint) => {
                let value = taint.value.as_deref().filter(|value| !value.is_empty());
                write!(f, "taint {}{}{}:{}", taint.key, if value.is_some() { "=" } else { "" }, value.unwrap_or_default(), taint.effect)
            }
            Self::NodeSelector => f.write_str("nodeSelector does not match"),
            Self::NodeAffinity => f.write_str("required node affinity does not match"),
            Self::AntiAffinity { topology_key } => write!(f, "anti-affinity of a pod that runs there ({topology_key})"),
            Self::Lacks(name) => write!(f, "lacks {name}"),
        }
    }
}

/// `3/5 nodes: lacks nvidia.com/gpu (asked 2, most free 1); 2/5 nodes: taint a=b:NoSchedule`: the most frequent first.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("there are no nodes");
        }
        for (index, (reason, count)) in self.listed().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{}/{} nodes: {reason}", count.nodes, self.nodes)?;
            if let Reason::Lacks(name) = reason {
                write!(f, " (asked {}, most free {})", shown(name, count.asked), shown(name, count.most_free))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGroup { name } => write!(f, "its PodGroup {name} does not exist"),
            Self::Unsupported(fields) => {
                let named: Vec<_> = fields.iter().map(|field| field.field()).collect();
                write!(f, "this scheduler cannot honour yet: {}", named.join("; "))
            }
            Self::Faulty(fault) => write!(f, "cannot be read: {fault}"),
            Self::NetworkTopology => f.write_str("this scheduler cannot honour yet: spec.networkTopology with mode hard"),
            Self::SubGroups => {
                f.write_str("this scheduler cannot honour yet: spec.subGroupPolicy[] with minSubGroups, or with a subGroupSize above 1")
            }
            Self::NodeGroups { queue, field } => write!(f, "this scheduler cannot honour yet, what queue {queue} says: {field}"),
            Self::Queue(fault) => queue_fault(f, fault),
            Self::Closed { queue } => write!(f, "queue {queue} is closed"),
            Self::Ceiling(full) => ceiling(f, full),
            Self::NotEnoughTasks { wanted, there, gated: 0 } => write!(f, "the gang needs {wanted} members, {there} exist"),
            Self::NotEnoughTasks { wanted, there, gated } => {
                write!(f, "the gang needs {wanted} members, {there} are ready, and {gated} more are held back by scheduling gates")
            }
            Self::NotEnoughPodsOfTask { task, wanted, there, gated: 0 } => {
                write!(f, "the gang needs {wanted} members of task {task}, {there} exist")
            }
            Self::NotEnoughPodsOfTask { task, wanted, there, gated } => {
                write!(
                    f,
                    "the gang needs {wanted} members of task {task}, {there} are ready, and {gated} more are held back by scheduling gates"
                )
            }
            Self::Nodes { needed: 1, tally, .. } => write!(f, "no node takes it: {tally}"),
            Self::Nodes { needed, placed, tally } => write!(f, "{placed} of {needed} members find a place; for the next one: {tally}"),
            Self::Behind { first } => write!(f, "its queue is fifo, and {first} comes first"),
            Self::Kept { refusal, why } => write!(f, "{refusal}; {why}"),
            Self::Nominated { victims, queues, lack } => nominated(f, *victims, queues, lack.as_ref()),
            Self::Backoff { why, failures, lack } => {
                f.write_str(why)?;
                lack.iter().try_for_each(|lack| write!(f, "; {lack}"))?;
                write!(f, " ({failures} in a row); it is tried again")
            }
            Self::Unanswered { binds, why } => {
                write!(f, "nobody says whether {binds} of its members are bound ({why}); their places are kept")
            }
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.queue {
            None => write!(f, "nodes lack {}", self.dimension),
            Some(queue) => write!(f, "queue {queue} is full of {}", self.dimension),
        }
    }
}

/// How many queues are named: there may be as many as victims.
const NAMED: usize = 3;

fn nominated(f: &mut fmt::Formatter<'_>, victims: u32, queues: &BTreeSet<Arc<str>>, lack: Option<&Lack>) -> fmt::Result {
    let named: Vec<&str> = queues.iter().take(NAMED).map(|queue| &**queue).collect();
    let pods = if victims == 1 { "pod" } else { "pods" };
    let whose = if queues.len() == 1 { "queue" } else { "queues" };
    write!(f, "waits for {victims} {pods} of {whose} {} to go", named.join(", "))?;
    let more = queues.len().saturating_sub(NAMED);
    if more > 0 {
        write!(f, " (and {more} further queues)")?;
    }
    lack.map_or(Ok(()), |lack| write!(f, ": {lack}"))
}

fn ceiling(f: &mut fmt::Formatter<'_>, ceiling: &Ceiling) -> fmt::Result {
    let Ceiling { queue, dimension, .. } = ceiling;
    let [asked, used, kept, limit] = [ceiling.asked, ceiling.used, ceiling.kept, ceiling.limit].map(|amount| shown(dimension, amount));
    let whose = match ceiling.bound {
        Bound::Capability => "capability",
        Bound::Cluster => "the cluster's",
        Bound::Right => {
            let borrows = "which one that is not preemptable must not exceed";
            return write!(f, "queue {queue} has a right to {dimension} {limit}, {borrows}: asked {asked}, used {used}");
        }
    };
    write!(f, "queue {queue} is full: {dimension} asked {asked}, used {used} of {whose} {limit}")?;
    if ceiling.kept.is_zero() { Ok(()) } else { write!(f, ", {kept} kept for guarantees") }
}

fn queue_fault(f: &mut fmt::Formatter<'_>, fault: &QueueFault) -> fmt::Result {
    let queue = &fault.queue;
    match &fault.why {
        Why::NotFound => write!(f, "queue {queue} does not exist"),
        Why::MissingParent { parent } => write!(f, "queue {queue} names the parent {parent}, which does not exist"),
        Why::Cycle => write!(f, "queue {queue} is below itself"),
        Why::TooDeep => write!(f, "queue {queue} has too many queues above it"),
        Why::Guarantees(excess) => {
            let [children, own] = [excess.children, excess.guarantee].map(|amount| shown(&excess.dimension, amount));
            write!(f, "queue {queue} is guaranteed {} {own}, and the queues below it {children} together", excess.dimension)
        }
        Why::NotLeaf => write!(f, "queue {queue} has queues below it, and pods go to queues that have none"),
    }
}

fn shown(name: &ResourceName, amount: Amount) -> String {
    quantity::format(amount, name.style())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Excess;

    #[test]
    fn counts_stand_with_the_most_frequent_first_and_amounts_in_their_units() {
        let lacks = Count { nodes: 3, asked: Amount::from_units(2), most_free: Amount::from_units(1) };
        let taint = Taint { key: "a".into(), value: Some("b".into()), effect: "NoSchedule".into() };
        let tally = Tally {
            nodes: 5,
            reasons: [(Reason::Taint(taint), Count { nodes: 2, ..Count::default() }), (Reason::Lacks("nvidia.com/gpu".into()), lacks)]
                .into(),
        };
        assert_eq!(tally.to_string(), "3/5 nodes: lacks nvidia.com/gpu (asked 2, most free 1); 2/5 nodes: taint a=b:NoSchedule");
        assert_eq!(Tally::default().to_string(), "there are no nodes");
    }

    #[test]
    fn a_full_queue_is_named_with_its_level_and_dimension_and_what_is_kept_in_it() {
        let full = |kept, bound| {
            let [asked, used, kept, limit] = [1, 4, kept, 10].map(|gibis| Amount::from_units(gibis << 30));
            let (queue, dimension) = (Arc::from("q"), "memory".into());
            Refusal::Ceiling(Ceiling { queue, dimension, asked, used, kept, limit, bound }).to_string()
        };
        assert_eq!(full(0, Bound::Capability), "queue q is full: memory asked 1Gi, used 4Gi of capability 10Gi");
        assert_eq!(full(6, Bound::Capability), "queue q is full: memory asked 1Gi, used 4Gi of capability 10Gi, 6Gi kept for guarantees");
        let right = "queue q has a right to memory 10Gi, which one that is not preemptable must not exceed: asked 1Gi, used 4Gi";
        assert_eq!(full(0, Bound::Right), right);
        assert_eq!(full(6, Bound::Cluster), "queue q is full: memory asked 1Gi, used 4Gi of the cluster's 10Gi, 6Gi kept for guarantees");
    }

    #[test]
    fn who_waits_for_others_to_go_says_how_many_and_of_which_queues() {
        let waits = |victims, queues: &[&str], lack| {
            let queues = queues.iter().map(|q| Arc::from(*q)).collect();
            Refusal::Nominated { victims, queues, lack }.to_string()
        };
        let lack = |queue: Option<&str>| Some(Lack { queue: queue.map(Arc::from), dimension: "cpu".into() });
        assert_eq!(waits(1, &["a"], None), "waits for 1 pod of queue a to go");
        assert_eq!(waits(3, &["a", "b"], lack(None)), "waits for 3 pods of queues a, b to go: nodes lack cpu");
        let many = waits(9, &["a", "b", "c", "d", "e"], lack(Some("q")));
        assert_eq!(many, "waits for 9 pods of queues a, b, c to go (and 2 further queues): queue q is full of cpu");
    }

    #[test]
    fn what_is_lacking_is_the_dimension_that_most_nodes_lack_though_more_refuse_for_other_reasons() {
        let count = |nodes| Count { nodes, ..Count::default() };
        let [cpu, memory] = ["cpu", "memory"].map(|name| Reason::Lacks(name.into()));
        let nodes = |reasons: &[(&Reason, u32)]| {
            let reasons = reasons.iter().map(|(reason, nodes)| ((*reason).clone(), count(*nodes))).collect();
            Refusal::Nodes { needed: 1, placed: 0, tally: Arc::new(Tally { nodes: 9, reasons }) }
        };
        let lacks = |name: &str| Some(Lack { queue: None, dimension: name.into() });
        let refusal = nodes(&[(&Reason::Unschedulable, 5), (&cpu, 1), (&memory, 3)]);
        assert_eq!(refusal.lack(), lacks("memory"));
        assert_eq!(nodes(&[(&Reason::Unschedulable, 5)]).lack(), None);
        let kept = Refusal::Kept { refusal: Arc::new(refusal), why: Arc::new(NotTaken::Nobody(Box::default())) };
        assert_eq!(kept.lack(), lacks("memory"));
        assert_eq!(Refusal::Closed { queue: "q".into() }.lack(), None);
    }

    #[test]
    fn a_closed_queue_and_one_that_promises_too_much_are_named() {
        assert_eq!(Refusal::Closed { queue: "q".into() }.to_string(), "queue q is closed");
        let excess = Excess { dimension: "cpu".into(), children: Amount::from_units(5), guarantee: Amount::from_units(4) };
        let refusal = Refusal::Queue(QueueFault { queue: "q".into(), why: Why::Guarantees(excess) });
        assert_eq!(refusal.to_string(), "queue q is guaranteed cpu 4, and the queues below it 5 together");
    }
}
