//! In which words is it said why something waits?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::{Lack, Reason, Refusal, Tally};
use crate::accounting::{Bound, Ceiling, QueueFault, Why};
use crate::api::fault::shorten;
use crate::resources::{Amount, ResourceName, quantity};

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("cordoned"),
            Self::Taint(taint) => {
                let value = taint.value.as_deref().filter(|value| !value.is_empty());
                write!(f, "taint {}{}{}:{}", taint.key, if value.is_some() { "=" } else { "" }, value.unwrap_or_default(), taint.effect)
            }
            Self::NodeGroup { group } => write!(f, "labelled for the node group {group} of other queues"),
            Self::NodeSelector => f.write_str("nodeSelector does not match"),
            Self::NodeAffinity => f.write_str("required node affinity does not match"),
            Self::AntiAffinity { topology_key } => write!(f, "anti-affinity of a pod that runs there ({topology_key})"),
            Self::Lacks(name) => write!(f, "lacks {name}"),
        }
    }
}

/// `3/5 nodes: lacks nvidia.com/gpu (asked 2, most free 1); 2/5 nodes: taint a=b:NoSchedule`: the most frequent first.
/// So many reasons of nodes are named, those of most nodes first.
const REASONS: usize = 10;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("there are no nodes");
        }
        let listed = self.listed();
        for (index, (reason, count)) in listed.iter().take(REASONS).enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(f, "{comma}{}/{} nodes: {reason}", count.nodes, self.nodes)?;
            if let Reason::Lacks(name) = reason {
                write!(f, " (asked {}, most free {})", shown(name, count.asked), shown(name, count.most_free))?;
            }
        }
        // Nodes with a taint each, say: a message has an end.
        let others = listed.get(REASONS..).unwrap_or_default();
        if others.is_empty() {
            return Ok(());
        }
        let nodes = others.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(count.nodes));
        write!(f, "; {nodes}/{} nodes: {} more reasons", self.nodes, others.len())
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
                write!(f, "the gang needs {wanted} members of task {}, {there} exist", shorten(task))
            }
            Self::NotEnoughPodsOfTask { task, wanted, there, gated } => {
                write!(
                    f,
                    "the gang needs {wanted} members of task {}, {there} are ready, and {gated} more are held back by scheduling gates",
                    shorten(task)
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
    let [asked, used, kept, limit] =
        [ceiling.asked, ceiling.used, ceiling.unused_guarantee, ceiling.limit].map(|amount| shown(dimension, amount));
    let whose = match ceiling.bound {
        Bound::Capability => "capability",
        Bound::Cluster => "the cluster's",
        Bound::Entitlement => {
            let borrows = "which one that is not preemptable must not exceed";
            return write!(f, "queue {queue} has a right to {dimension} {limit}, {borrows}: asked {asked}, used {used}");
        }
    };
    write!(f, "queue {queue} is full: {dimension} asked {asked}, used {used} of {whose} {limit}")?;
    if ceiling.unused_guarantee.is_zero() { Ok(()) } else { write!(f, ", {kept} kept for guarantees") }
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
    use crate::api::node::Taint;
    use crate::cycle::explain::Count;
    use crate::cycle::reclaim::NotTaken;

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
    fn a_cluster_in_which_every_node_has_a_taint_of_its_own_makes_no_endless_message() {
        let taint = |at: u32| Reason::Taint(Taint { key: format!("of/{at:03}"), value: None, effect: "NoSchedule".into() });
        let count = |at: u32| Count { nodes: if at == 500 { 3 } else { 1 }, ..Count::default() };
        let text =
            |reasons: u32| Tally { nodes: 900, reasons: (501 - reasons..501).map(|at| (taint(at), count(at))).collect() }.to_string();
        assert!(text(500).starts_with("3/900 nodes: taint of/500:NoSchedule; 1/900 nodes: taint of/001:NoSchedule; "), "{}", text(500));
        assert!(text(500).ends_with("; 490/900 nodes: 490 more reasons") && text(500).len() < 600, "{}", text(500));
        assert!(text(10).ends_with("; 1/900 nodes: taint of/499:NoSchedule"), "{}", text(10));
    }

    #[test]
    fn a_full_queue_is_named_with_its_level_and_dimension_and_what_is_kept_in_it() {
        let full = |unused_guarantee, bound| {
            let [asked, used, unused_guarantee, limit] = [1, 4, unused_guarantee, 10].map(|gibis| Amount::from_units(gibis << 30));
            let (queue, dimension) = (Arc::from("q"), "memory".into());
            Refusal::Ceiling(Ceiling { queue, dimension, asked, used, unused_guarantee, limit, bound }).to_string()
        };
        assert_eq!(full(0, Bound::Capability), "queue q is full: memory asked 1Gi, used 4Gi of capability 10Gi");
        assert_eq!(full(6, Bound::Capability), "queue q is full: memory asked 1Gi, used 4Gi of capability 10Gi, 6Gi kept for guarantees");
        let right = "queue q has a right to memory 10Gi, which one that is not preemptable must not exceed: asked 1Gi, used 4Gi";
        assert_eq!(full(0, Bound::Entitlement), right);
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
    fn what_a_tenant_calls_a_task_is_repeated_but_not_at_any_length() {
        for gated in [0, 1] {
            let text = Refusal::NotEnoughPodsOfTask { task: "x".repeat(100_000), wanted: 2, there: 1, gated }.to_string();
            assert!(text.len() < 300 && text.contains("task xxx"), "{}", text.len());
        }
    }

    #[test]
    fn a_closed_queue_and_one_that_promises_too_much_are_named() {
        assert_eq!(Refusal::Closed { queue: "q".into() }.to_string(), "queue q is closed");
        let excess = Excess { dimension: "cpu".into(), children: Amount::from_units(5), guarantee: Amount::from_units(4) };
        let refusal = Refusal::Queue(QueueFault { queue: "q".into(), why: Why::Guarantees(excess) });
        assert_eq!(refusal.to_string(), "queue q is guaranteed cpu 4, and the queues below it 5 together");
    }
}
