//! Which text reports why a PodGroup or a pod waits?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::code::of_ceiling;
use super::{Code, Exceeds, Lack, Reason, Refusal, Step, Tally};
use crate::accounting::{Bound, Ceiling, QueueFault, Why};
use crate::api::fault::shorten;
use crate::api::node::Taint;
use crate::resources::{Amount, ResourceName, quantity};

/// As kube-scheduler says it of the nodes that refuse: `Insufficient cpu`, `node(s) were unschedulable`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint(it) => write!(f, "node(s) had untolerated taint {{{}}}", taint(it)),
            Self::NodeSelector => f.write_str("node(s) didn't match Pod's nodeSelector"),
            Self::NodeAffinity => f.write_str("node(s) didn't match Pod's node affinity"),
            Self::DeclaredFeature { feature } => write!(f, "node(s) didn't match Pod's required features ({feature})"),
            Self::ClaimInUse => f.write_str(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ),
            Self::VolumeLimit => f.write_str("node(s) exceed max volume count"),
            Self::VolumeNodeAffinity => f.write_str("node(s) didn't match PersistentVolume's node affinity"),
            Self::VolumeZone => f.write_str("node(s) had no available volume zone"),
            Self::HostPorts => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::TopologySpreadLabel { topology_key } => {
                write!(f, "node(s) didn't match pod topology spread constraints (missing required label) (topology key {topology_key})")
            }
            Self::TopologySpread { topology_key } => {
                write!(f, "node(s) didn't match pod topology spread constraints (topology key {topology_key})")
            }
            Self::PodAffinity { topology_key } => write!(f, "node(s) didn't match pod affinity rules (topology key {topology_key})"),
            Self::PodAntiAffinity { topology_key } => {
                write!(f, "node(s) didn't match pod anti-affinity rules (topology key {topology_key})")
            }
            Self::ExistingAntiAffinity { topology_key } => {
                write!(f, "node(s) didn't satisfy existing pods anti-affinity rules (topology key {topology_key})")
            }
            Self::NodeGroup { group } => write!(f, "node(s) were reserved for the node group {group} of other queues"),
            Self::Lacks(name) if is_pods(name) => f.write_str("Too many pods"),
            Self::Lacks(name) => write!(f, "Insufficient {name}"),
        }
    }
}

/// Whether the node has as many pods as it takes, for which kube-scheduler has words of its own.
fn is_pods(name: &ResourceName) -> bool {
    name.as_str() == "pods"
}

/// A taint as kubectl writes it: `key=value:effect`.
pub(super) fn taint(taint: &Taint) -> String {
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    format!("{}{}{}:{}", taint.key, if value.is_some() { "=" } else { "" }, value.unwrap_or_default(), taint.effect)
}

/// How many reasons of nodes a message names: those of most nodes first. A message has an end.
const REASONS: usize = 10;

/// As kube-scheduler says it: `0/5 nodes are available: 3 Insufficient nvidia.com/gpu (requested 2, most free 1)`, sorted as texts.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available: ", self.nodes)?;
        let listed = self.listed();
        let text = |(reason, count): &(&Reason, &super::Count)| {
            let amounts = if let Reason::Lacks(name) = reason
                && !is_pods(name)
            {
                format!(" (requested {}, most free {})", shown(name, count.asked), shown(name, count.most_free))
            } else {
                String::new()
            };
            format!("{} {reason}{amounts}", count.nodes)
        };
        // kube-scheduler sorts them as texts, with the numbers.
        let mut texts: Vec<String> = listed.iter().take(REASONS).map(text).collect();
        texts.sort_unstable();
        f.write_str(&texts.join(", "))?;
        let others = listed.get(REASONS..).unwrap_or_default();
        if others.is_empty() {
            return Ok(());
        }
        let nodes = others.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(count.nodes));
        write!(f, ", {nodes} node(s) for {} more reasons", others.len())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGroup { name } => write!(f, "PodGroup \"{name}\" does not exist"),
            Self::Unsupported(fields) => {
                let named: Vec<_> = fields.iter().map(|field| field.field()).collect();
                write!(f, "this scheduler cannot honour yet: {}", named.join("; "))
            }
            Self::Faulty(fault) => write!(f, "cannot be read: {fault}"),
            Self::Claim(unusable) => write!(f, "{unusable}"),
            Self::NetworkTopology => f.write_str("this scheduler cannot honour yet: spec.networkTopology with mode hard"),
            Self::SubGroups => {
                f.write_str("this scheduler cannot honour yet: spec.subGroupPolicy[] with minSubGroups, or with a subGroupSize above 1")
            }
            Self::NodeGroups { queue, field } => write!(f, "this scheduler cannot honour yet: {field} of queue \"{queue}\""),
            Self::Queue(fault) => queue_fault(f, fault),
            Self::Closed { queue } => write!(f, "queue \"{queue}\" is closed"),
            Self::Ceiling(full) => ceiling(f, full),
            Self::NotEnoughTasks { wanted, there, gated } => {
                write!(f, "the gang needs {wanted} members, ")?;
                ready(f, *there, *gated)
            }
            Self::NotEnoughPodsOfTask { task, wanted, there, gated } => {
                write!(f, "the gang needs {wanted} members of task {}, ", shorten(task))?;
                ready(f, *there, *gated)
            }
            Self::Nodes { needed, placed, tally, exceeds } => {
                if *needed > 1 {
                    write!(f, "{placed} of {needed} members find a place; for the next one: ")?;
                }
                write!(f, "{tally}")?;
                let Some(Exceeds { dimension, asked, offered }) = exceeds.as_ref().filter(|_| *needed > 1) else { return Ok(()) };
                let [asked, offered] = [asked, offered].map(|amount| shown(dimension, *amount));
                write!(f, "; the gang requests {dimension} {asked} together, and all nodes offer {offered}")
            }
            Self::Behind { first } => write!(f, "the queue is fifo, and PodGroup {first} comes first"),
            Self::Kept { refusal, why } => write!(f, "{refusal}; {why}"),
            Self::Nominated { victims, queues, lack } => nominated(f, *victims, queues, lack.as_ref()),
            Self::Backoff { step, why, failures, lack } => {
                f.write_str(match step {
                    Step::Bind => "a binding failed",
                    Step::Preemption => "the preemption was given up",
                })?;
                write!(f, ": {why}")?;
                lack.iter().try_for_each(|lack| write!(f, "; {lack}"))?;
                write!(f, " ({failures} in a row); it is retried after a back-off")
            }
            Self::Unanswered { binds, why } => {
                write!(f, "the API server has not answered the bindings of {binds} members ({why}); their places stay reserved")
            }
        }
    }
}

fn ready(f: &mut fmt::Formatter<'_>, there: u32, gated: u32) -> fmt::Result {
    if gated == 0 { write!(f, "{there} exist") } else { write!(f, "{there} are ready, and {gated} more are held back by scheduling gates") }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.queue {
            None => write!(f, "Insufficient {} on nodes", self.dimension),
            Some(queue) => write!(f, "Insufficient {} in queue \"{queue}\"", self.dimension),
        }
    }
}

/// How many queues are named: there may be as many as victims.
const NAMED: usize = 3;

fn nominated(f: &mut fmt::Formatter<'_>, victims: u32, queues: &BTreeSet<Arc<str>>, lack: Option<&Lack>) -> fmt::Result {
    let named: Vec<_> = queues.iter().take(NAMED).map(|queue| format!("\"{queue}\"")).collect();
    let pods = if victims == 1 { "pod" } else { "pods" };
    let whose = if queues.len() == 1 { "queue" } else { "queues" };
    if victims == 0 {
        // A new leader counts on pods of other schedulers that are leaving.
        f.write_str("waiting for terminating pods")?;
    } else {
        write!(f, "preempting {victims} {pods} of {whose} {}", named.join(", "))?;
    }
    let more = queues.len().saturating_sub(NAMED);
    if more > 0 {
        write!(f, " and {more} more")?;
    }
    f.write_str("; their places are nominated for this PodGroup")?;
    lack.map_or(Ok(()), |lack| write!(f, " ({lack})"))
}

fn ceiling(f: &mut fmt::Formatter<'_>, ceiling: &Ceiling) -> fmt::Result {
    let Ceiling { queue, dimension, .. } = ceiling;
    let of_pods = ceiling.used.minus(ceiling.reserved);
    let [asked, used, reserved, kept, limit] =
        [ceiling.asked, of_pods, ceiling.reserved, ceiling.unused_guarantee, ceiling.limit].map(|amount| shown(dimension, amount));
    let whose = match ceiling.bound {
        Bound::Capability => "capability",
        Bound::Cluster => "available to queues in the cluster",
        Bound::Minimums => {
            return write!(
                f,
                "queue \"{queue}\": the room that is left is reserved for the minimum of other PodGroups: {dimension} requested {asked}, used {used}, reserved {reserved}, available to queues in the cluster {limit}"
            );
        }
        Bound::Entitlement => {
            return write!(
                f,
                "queue \"{queue}\": a non-preemptable PodGroup may not borrow ({dimension} requested {asked}, used {used}, entitled {limit})"
            );
        }
    };
    let code = of_ceiling(ceiling);
    if code == Code::QueueQuotaExceeded {
        write!(f, "queue \"{queue}\" is over its quota")?;
    } else if code == Code::ClusterFull {
        write!(f, "queue \"{queue}\": the cluster is full")?;
    } else {
        write!(f, "queue \"{queue}\" has no room beside the unused guarantees")?;
    }
    write!(f, ": {dimension} requested {asked}, used {used}")?;
    if !ceiling.reserved.is_zero() {
        write!(f, ", reserved {reserved}")?;
    }
    write!(f, ", {whose} {limit}")?;
    if ceiling.unused_guarantee.is_zero() { Ok(()) } else { write!(f, ", unused guarantees {kept}") }
}

fn queue_fault(f: &mut fmt::Formatter<'_>, fault: &QueueFault) -> fmt::Result {
    let queue = &fault.queue;
    write!(f, "queue \"{queue}\" ")?;
    match &fault.why {
        Why::NotFound => write!(f, "does not exist"),
        Why::MissingParent { parent } => write!(f, "names the parent \"{parent}\", which does not exist"),
        Why::Cycle => write!(f, "is below itself"),
        Why::TooDeep => write!(f, "has too many queues above it"),
        Why::Guarantees(excess) => {
            let [children, own] = [excess.children, excess.guarantee].map(|amount| shown(&excess.dimension, amount));
            write!(f, "is guaranteed {} {own}, and the queues below it {children} together", excess.dimension)
        }
        Why::NotLeaf => write!(f, "has queues below it, and pods go to queues that have none"),
    }
}

fn shown(name: &ResourceName, amount: Amount) -> String {
    quantity::format(amount, name.style())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Excess;
    use crate::cycle::explain::Count;
    use crate::cycle::explain::NotPreempted;

    #[test]
    fn counts_stand_in_the_order_of_kube_scheduler_and_amounts_in_their_units() {
        let lacks = Count { nodes: 3, asked: Amount::from_units(2), most_free: Amount::from_units(1) };
        let taint = Taint { key: "a".into(), value: Some("b".into()), effect: "NoSchedule".into() };
        let tally = Tally {
            nodes: 5,
            reasons: [(Reason::Taint(taint), Count { nodes: 2, ..Count::default() }), (Reason::Lacks("nvidia.com/gpu".into()), lacks)]
                .into(),
        };
        assert_eq!(
            tally.to_string(),
            "0/5 nodes are available: 2 node(s) had untolerated taint {a=b:NoSchedule}, 3 Insufficient nvidia.com/gpu (requested 2, most free 1)"
        );
        let full = Count { nodes: 10, asked: Amount::from_units(1), most_free: Amount::ZERO };
        let tally = Tally {
            nodes: 12,
            reasons: [(Reason::Lacks("pods".into()), full), (Reason::Unschedulable, Count { nodes: 2, ..full })].into(),
        };
        assert_eq!(tally.to_string(), "0/12 nodes are available: 10 Too many pods, 2 node(s) were unschedulable");
        assert_eq!(Tally::default().to_string(), "no nodes available to schedule pods");
    }

    #[test]
    fn a_cluster_in_which_every_node_has_a_taint_of_its_own_makes_no_endless_message() {
        let taint = |at: u32| Reason::Taint(Taint { key: format!("of/{at:03}"), value: None, effect: "NoSchedule".into() });
        let count = |at: u32| Count { nodes: if at == 500 { 3 } else { 1 }, ..Count::default() };
        let text =
            |reasons: u32| Tally { nodes: 900, reasons: (501 - reasons..501).map(|at| (taint(at), count(at))).collect() }.to_string();
        assert!(
            text(500)
                .contains(", 1 node(s) had untolerated taint {of/009:NoSchedule}, 3 node(s) had untolerated taint {of/500:NoSchedule}, "),
            "{}",
            text(500)
        );
        assert!(text(500).ends_with(", 490 node(s) for 490 more reasons") && text(500).len() < 700, "{}", text(500));
        assert!(
            text(10)
                .ends_with(", 1 node(s) had untolerated taint {of/499:NoSchedule}, 3 node(s) had untolerated taint {of/500:NoSchedule}"),
            "{}",
            text(10)
        );
    }

    #[test]
    fn a_full_queue_is_named_with_its_level_and_dimension_and_what_is_kept_in_it() {
        let of = |asked, reserved, kept, bound| {
            let [asked, used, reserved, kept, limit] = [asked, 4, reserved, kept, 10].map(|gibis| Amount::from_units(gibis << 30));
            let (queue, dimension) = (Arc::from("q"), "memory".into());
            Refusal::Ceiling(Ceiling { queue, dimension, asked, used, reserved, unused_guarantee: kept, limit, bound }).to_string()
        };
        let full = |asked, kept, bound| of(asked, 0, kept, bound);
        let reserved = "queue \"q\" is over its quota: memory requested 7Gi, used 1Gi, reserved 3Gi, capability 10Gi";
        assert_eq!(of(7, 3, 0, Bound::Capability), reserved);
        assert_eq!(full(7, 0, Bound::Capability), "queue \"q\" is over its quota: memory requested 7Gi, used 4Gi, capability 10Gi");
        let kept = "queue \"q\" has no room beside the unused guarantees: memory requested 1Gi, used 4Gi";
        assert_eq!(full(1, 6, Bound::Capability), format!("{kept}, capability 10Gi, unused guarantees 6Gi"));
        let right = "queue \"q\": a non-preemptable PodGroup may not borrow (memory requested 7Gi, used 4Gi, entitled 10Gi)";
        assert_eq!(full(7, 0, Bound::Entitlement), right);
        assert_eq!(full(1, 6, Bound::Cluster), format!("{kept}, available to queues in the cluster 10Gi, unused guarantees 6Gi"));
        let cluster = "queue \"q\": the cluster is full: memory requested 7Gi, used 4Gi, available to queues in the cluster 10Gi";
        assert_eq!(full(7, 6, Bound::Cluster), format!("{cluster}, unused guarantees 6Gi"));
    }

    #[test]
    fn who_waits_for_others_to_go_says_how_many_and_of_which_queues() {
        let waits = |victims, queues: &[&str], lack| {
            let queues = queues.iter().map(|q| Arc::from(*q)).collect();
            Refusal::Nominated { victims, queues, lack }.to_string()
        };
        let lack = |queue: Option<&str>| Some(Lack { queue: queue.map(Arc::from), dimension: "cpu".into() });
        assert_eq!(waits(1, &["a"], None), "preempting 1 pod of queue \"a\"; their places are nominated for this PodGroup");
        let nominated = "their places are nominated for this PodGroup";
        let few = format!("preempting 3 pods of queues \"a\", \"b\"; {nominated} (Insufficient cpu on nodes)");
        assert_eq!(waits(3, &["a", "b"], lack(None)), few);
        let many = waits(9, &["a", "b", "c", "d", "e"], lack(Some("q")));
        let wanted = format!("preempting 9 pods of queues \"a\", \"b\", \"c\" and 2 more; {nominated} (Insufficient cpu in queue \"q\")");
        assert_eq!(many, wanted);
    }

    #[test]
    fn what_is_lacking_is_the_dimension_that_most_nodes_lack_though_more_refuse_for_other_reasons() {
        let count = |nodes| Count { nodes, ..Count::default() };
        let [cpu, memory] = ["cpu", "memory"].map(|name| Reason::Lacks(name.into()));
        let nodes = |reasons: &[(&Reason, u32)]| {
            let reasons = reasons.iter().map(|(reason, nodes)| ((*reason).clone(), count(*nodes))).collect();
            Refusal::Nodes { needed: 1, placed: 0, tally: Arc::new(Tally { nodes: 9, reasons }), exceeds: None }
        };
        let lacks = |name: &str| Some(Lack { queue: None, dimension: name.into() });
        let refusal = nodes(&[(&Reason::Unschedulable, 5), (&cpu, 1), (&memory, 3)]);
        assert_eq!(refusal.lack(), lacks("memory"));
        assert_eq!(nodes(&[(&Reason::Unschedulable, 5)]).lack(), None);
        let kept = Refusal::Kept { refusal: Arc::new(refusal), why: Arc::new(NotPreempted::NoCandidates(Box::default())) };
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
        assert_eq!(Refusal::Closed { queue: "q".into() }.to_string(), "queue \"q\" is closed");
        let excess = Excess { dimension: "cpu".into(), children: Amount::from_units(5), guarantee: Amount::from_units(4) };
        let refusal = Refusal::Queue(QueueFault { queue: "q".into(), why: Why::Guarantees(excess) });
        assert_eq!(refusal.to_string(), "queue \"q\" is guaranteed cpu 4, and the queues below it 5 together");
    }
}
