//! Which text reports why a PodGroup or a pod waits?

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::code::of_ceiling;
use super::{Code, Exceeds, KeptVolumes, Lack, NextMember, Refusal, Step};
use crate::accounting::{Bound, Ceiling, QueueFault, Why};
use crate::api::fault::shorten;
use crate::resources::{Amount, ResourceName, quantity};

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
            Self::NodeGroups { queue, field } => write!(f, "this scheduler cannot honour yet: {field} of queue \"{queue}\""),
            Self::Queue(fault) => queue_fault(f, fault),
            Self::Closed { queue } => write!(f, "queue \"{queue}\" is closed"),
            Self::Ceiling(full) => ceiling(f, full),
            Self::AfterOthers { ceiling, waiting } => after_others(f, ceiling, *waiting),
            Self::NotEnoughTasks { wanted, there, gated } => {
                write!(f, "the gang needs {wanted} members, ")?;
                ready(f, *there, *gated)
            }
            Self::NotEnoughPodsOfTask { task, wanted, there, gated } => {
                write!(f, "the gang needs {wanted} members of task {}, ", shorten(task))?;
                ready(f, *there, *gated)
            }
            Self::NotEnoughSubGroups { policy, size, wanted, there, gated } => {
                write!(f, "the gang needs {wanted} subgroups of policy {policy} with {size} members each, ")?;
                ready(f, *there, *gated)
            }
            Self::IncompleteSubGroup { policy, size, there, gated } => {
                write!(f, "a subgroup of policy {policy} needs {size} members, ")?;
                ready(f, *there, *gated)
            }
            Self::Nodes { needed, placed, member, tally, exceeds } => {
                if *needed > 1 {
                    write!(f, "{placed} of {needed} members find a place; for ")?;
                    match member {
                        Some(member) => member.fmt(f)?,
                        None => f.write_str("the next one")?,
                    }
                    f.write_str(": ")?;
                }
                write!(f, "{tally}")?;
                if let Some(Exceeds { dimension, asked, offered }) = exceeds.as_ref().filter(|_| *needed > 1) {
                    let [asked, offered] = [asked, offered].map(|amount| shown(dimension, *amount));
                    write!(f, "; the gang requests {dimension} {asked} together, and all nodes offer {offered}")?;
                }
                Ok(())
            }
            Self::Behind { first: Some(first) } => write!(f, "the queue is fifo, and PodGroup {first} comes first"),
            Self::Behind { first: None } => f.write_str("the queue is fifo, and other PodGroups come first"),
            Self::WithoutPreemption { refusal, why } => write!(f, "{refusal}; {why}"),
            Self::Nominated { victims, queues, lack } => nominated(f, *victims, queues, lack.as_ref()),
            Self::Backoff { step, why, failures, lack } => {
                f.write_str(match step {
                    Step::Bind => "a binding failed",
                    Step::Preemption => "the preemption was given up",
                    Step::Volumes => "the nodes were given back without volumes",
                })?;
                write!(f, ": {why}")?;
                lack.iter().try_for_each(|lack| write!(f, "; {lack}"))?;
                write!(f, " ({failures} in a row); it is retried after a back-off")
            }
            Self::Volumes { claims, first } => {
                write!(
                    f,
                    "waiting for {claims} persistentvolumeclaim(s) to be bound, the first is \"{first}\" (see kubectl describe pvc {first}); the places of their pods stay reserved"
                )
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

/// `persistentvolumeclaim "data" keeps persistentvolume "pv-1" (zone=a), and 2 further claims are like it`.
impl fmt::Display for KeptVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claim, volume, place, further } = self;
        write!(f, "persistentvolumeclaim \"{claim}\" ")?;
        match volume {
            Some(volume) => write!(f, "keeps persistentvolume \"{volume}\" ({place})")?,
            None => write!(f, "gets its volume on {place} only")?,
        }
        match further {
            0 => Ok(()),
            1 => f.write_str(", and 1 further claim is like it"),
            _ => write!(f, ", and {further} further claims are like it"),
        }
    }
}

/// `train-2 (task worker) and 3 like it`.
impl fmt::Display for NextMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.task.iter().try_for_each(|task| write!(f, " (task {})", shorten(task)))?;
        if self.alike == 0 { Ok(()) } else { write!(f, " and {} like it", self.alike) }
    }
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

/// `queue "team" is over its quota with the pods that come before: cpu requested 1, used 2, waiting or reserved before 2, capability 4`.
fn after_others(f: &mut fmt::Formatter<'_>, ceiling: &Ceiling, before: Amount) -> fmt::Result {
    let Ceiling { queue, dimension, .. } = ceiling;
    let [asked, used, before, limit] = [ceiling.asked, ceiling.used, before, ceiling.limit].map(|amount| shown(dimension, amount));
    write!(f, "queue \"{queue}\" is over its quota with the pods that come before: {dimension} requested {asked}, used {used}")?;
    write!(f, ", waiting or reserved before {before}, capability {limit}")
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

pub(super) fn shown(name: &ResourceName, amount: Amount) -> String {
    quantity::shown(amount, name.style())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Excess;
    use crate::cycle::explain::{Count, NotPreempted, Reason, Tally};

    #[test]
    fn the_member_of_a_gang_that_finds_no_node_is_named_with_its_task_and_how_many_are_like_it() {
        let text = |task: Option<&str>, alike, needed| {
            let member = NextMember { name: "train-2".into(), task: task.map(str::to_owned), alike };
            Refusal::Nodes { needed, placed: needed / 2, member: Some(Arc::new(member)), tally: Arc::default(), exceeds: None }.to_string()
        };
        let none = "no nodes available to schedule pods";
        assert_eq!(text(Some("worker"), 1, 4), format!("2 of 4 members find a place; for train-2 (task worker) and 1 like it: {none}"));
        assert_eq!(text(None, 0, 4), format!("2 of 4 members find a place; for train-2: {none}"));
        assert_eq!(text(None, 0, 1), none);
        assert!(text(Some(&"x".repeat(100_000)), 0, 4).len() < 300);
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
            Refusal::Nodes { needed: 1, placed: 0, member: None, tally: Arc::new(Tally { nodes: 9, reasons }), exceeds: None }
        };
        let lacks = |name: &str| Some(Lack { queue: None, dimension: name.into() });
        let refusal = nodes(&[(&Reason::Unschedulable, 5), (&cpu, 1), (&memory, 3)]);
        assert_eq!(refusal.lack(), lacks("memory"));
        assert_eq!(nodes(&[(&Reason::Unschedulable, 5)]).lack(), None);
        let refusal = Refusal::WithoutPreemption { refusal: Arc::new(refusal), why: Arc::new(NotPreempted::NoCandidates(Box::default())) };
        assert_eq!(refusal.lack(), lacks("memory"));
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
