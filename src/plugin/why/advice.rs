//! The advice for each code of the scheduler's refusals.
//!
//! The code comes from the PodGroup's condition, or with its amounts from the scheduler itself ([`Explanation`]). No text of the scheduler
//! is parsed, and no limit is computed here. Without the scheduler, the advice contains no amounts.

use crate::cycle::explain::{Code, Explanation, Quota};
use crate::plugin::flags::is_name;

/// A refusal as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused<'a> {
    /// Its code.
    pub(super) code: Code,
    /// The details, if the scheduler answered.
    pub(super) explanation: Option<&'a Explanation>,
    /// The PodGroup's own queue.
    pub(super) own: &'a str,
}

impl<'a> Refused<'a> {
    /// Returns the advice: what must change.
    pub(super) fn advice(&self) -> String {
        match self.code {
            Code::BehindInFifoQueue => self.of_fifo(),
            Code::BindBackoff => format!(
                "the API server must accept the bindings{}; the scheduler retries within a minute, and its log has each answer",
                self.detail()
            ),
            Code::BindUnanswered => {
                "the API server must answer the bindings: see its log, and webhooks for pods/binding that hang".to_owned()
            }
            Code::ClaimBeingDeleted => format!("the claim must be created again: it is being deleted, and stays so while a pod uses it{}", self.detail()),
            Code::ClaimInUse => "the pod that uses the claim must end: one pod at a time may use it (ReadWriteOncePod)".to_owned(),
            Code::ClaimLost => format!("the volume of the claim must exist again, or the claim must be created again{}", self.detail()),
            Code::ClaimNotBound => format!("the claim must be bound to a volume: the Events of the claim say what keeps it from that{}", self.detail()),
            Code::ClaimNotFound => format!("the claim must be created{}", self.detail()),
            Code::ClaimNotOwned => format!("the claim with the name that the pod needs must be deleted, or the pod be named otherwise{}", self.detail()),
            Code::StorageClassNotFound => format!("the StorageClass must be created, or the claim must name another{}", self.detail()),
            Code::NoVolume => "a volume of the class, size and access modes of the claims must be free on a node with room, or the StorageClass make volumes for it (provisioner, allowedTopologies)".to_owned(),
            Code::NotEnoughStorage => "a node with room must have enough storage for the volumes of the claims: smaller claims, more storage (the CSIStorageCapacity objects of the class), or a node be added".to_owned(),
            Code::VolumeBackoff => format!("the claims must get volumes: their Events say what keeps them from that{}; the scheduler retries within a minute, and a claim that is tied to a node stays tied to it", self.detail()),
            Code::WaitingForVolumes => format!("nothing: its pods have nodes, and are bound when all their claims are; the Events of the claims say more{}", self.detail()),
            Code::VolumeLimit => "a pod with a volume of the same driver must leave its node, or nodes that take more volumes be added".to_owned(),
            Code::VolumeNodeAffinity => "a node that can mount the volumes of the pods must have room, or such a node be added".to_owned(),
            Code::VolumeNotFound => format!("the volume of the claim must exist{}", self.detail()),
            Code::VolumeZone => "a node in the zones of the volumes of the pods must have room, or such a node be added".to_owned(),
            Code::ClusterFull => format!("{} must become free on the nodes, or nodes be added", self.resource()),
            Code::Cordoned => "uncordon nodes (kubectl uncordon), if the next member fits there".to_owned(),
            Code::GuaranteeReserved => self.of_guarantees(),
            Code::InsufficientResources => {
                format!("a node must have more {} free in one piece: smaller pods, or more or larger nodes", self.resource())
            }
            Code::InvalidField => format!("correct the value that cannot be read{}", self.detail()),
            Code::NoNodes => "there must be nodes".to_owned(),
            Code::NodeAffinity => "label nodes so that they match the pods' required node affinity, or change the affinity".to_owned(),
            Code::NodeFeatures => "nodes must have a kubelet that declares the feature that the pods need".to_owned(),
            Code::NodeSelector => "label nodes as the pods' nodeSelector says, or change the nodeSelector".to_owned(),
            Code::NonPreemptableOverEntitlement => self.of_entitlement(),
            Code::NotEnoughPods => {
                "the owner must make more pods, or minMember be lower: the Events of the owner say what keeps it from making them"
                    .to_owned()
            }
            Code::NotEnoughPodsOfTask => self.of_task(),
            Code::NotEnoughSubGroups => format!(
                "as many pods with the labels of {} must exist as its subgroups need: the Events of the owner say what keeps it from making them",
                self.explanation.and_then(|all| all.details.first()).map_or("the subGroupPolicy", String::as_str)
            ),
            Code::NotTried => "nothing: the scheduler tries it in its next cycle".to_owned(),
            Code::HostPorts => "wait for the pods with the same host port to end, ask for another port, or add nodes".to_owned(),
            Code::PodAffinity => "the pods that the affinity requires must run first, where this pod fits beside them; a node without the label of its topology key takes none".to_owned(),
            Code::TopologySpread => {
                "the topology domains with fewer pods need room for one more, or maxSkew be larger, or the domains be more".to_owned()
            }
            Code::PodAntiAffinity => "add nodes (where the anti-affinity is by zone, in a further zone), or wait for the pods with a conflicting anti-affinity to end".to_owned(),
            Code::PodGroupNotFound => {
                let name = self.explanation.and_then(|all| all.pod_group.as_deref()).map(|name| format!(" {name}")).unwrap_or_default();
                format!(
                    "PodGroup{name} must be created, or its pods must not name it (annotation scheduling.k8s.io/group-name); the controller makes that of a JobSet \
                     or a group of a LeaderWorkerSet (podgroup.dev/gang) if the pod template names a scheduler that it serves"
                )
            }
            Code::PreemptionBackoff => {
                format!("the pods that were to be preempted must be evictable{}; the scheduler retries within a minute", self.detail())
            }
            Code::QueueClosed => {
                let queue = self.queue();
                let command = queue.filter(|queue| is_name(queue)).map(|queue| format!(": kubectl podgroup queue open {queue}"));
                format!("{} must be opened{}", self.named(), command.unwrap_or_default())
            }
            Code::QueueInvalid => format!("{} must have a valid place in the tree of queues", self.named()),
            Code::QueueNotFound => format!("{} must be created, or the PodGroup must name another", self.named()),
            Code::QueueNotLeaf => "the PodGroup must name a queue that has none below it".to_owned(),
            Code::QueueQuotaExceeded => self.of_quota(),
            Code::RoomReserved => {
                "nothing: it is beyond minMember, and waits until PodGroups that were admitted first have their nodes or their admission ends".to_owned()
            }
            Code::SchedulingGated => self.of_gates(),
            Code::NodeGroup => {
                "the queue must name the node group of the nodes, as preferred, or the label be taken off the nodes".to_owned()
            }
            Code::Taints => "let the pods tolerate the taints of the nodes, or take the taints away".to_owned(),
            Code::UnsupportedField => self.of_field(),
            Code::WaitingForPreemption => {
                "nothing: pods are being preempted for it, and it is bound when the last of them is gone".to_owned()
            }
        }
    }

    /// Returns the resource, queue and amounts of the quota that refuses.
    fn quota(&self) -> Option<(&'a str, &'a str, &'a Quota)> {
        let all = self.explanation?;
        Some((all.resource.as_deref()?, all.queue.as_deref()?, all.quota.as_ref()?))
    }

    fn queue(&self) -> Option<&'a str> {
        self.explanation.and_then(|all| all.queue.as_deref())
    }

    fn named(&self) -> String {
        self.queue().map_or_else(|| "the queue that the scheduler names".to_owned(), |queue| format!("queue {queue}"))
    }

    fn resource(&self) -> &'a str {
        self.explanation.and_then(|all| all.resource.as_deref()).unwrap_or("what it requests")
    }

    fn detail(&self) -> String {
        let details = self.explanation.map(|all| all.details.join("; ")).filter(|details| !details.is_empty());
        details.map(|details| format!(" ({details})")).unwrap_or_default()
    }

    fn of_quota(&self) -> String {
        let Some((name, queue, quota)) = self.quota() else {
            return format!("{} must become free in {}, or its spec.capability be raised", self.resource(), self.named());
        };
        let Quota { requested, limit, short, enough, .. } = quota;
        if quota.never {
            return over_capability(name, queue, [requested, limit, enough]);
        }
        format!(
            "{name} {short} must become free in queue {queue} and below it, or its spec.capability be raised from {name} {limit} to {enough}"
        )
    }

    fn of_guarantees(&self) -> String {
        let Some((name, queue, quota)) = self.quota() else {
            return format!(
                "{} must become free beside the guarantees in {}, or other guarantees be lowered",
                self.resource(),
                self.named()
            );
        };
        let Quota { kept, short, limit, enough, .. } = quota;
        let more = if quota.of_cluster {
            "nodes be added".to_owned()
        } else {
            format!("its spec.capability be raised from {name} {limit} to {enough}")
        };
        format!(
            "{name} {short} must become free in queue {queue} and below it beside the {kept} that are kept there for guarantees, or {more}, or the guarantees of other queues below it be lowered"
        )
    }

    fn of_entitlement(&self) -> String {
        let (queue, more) = match self.quota() {
            Some((name, queue, quota)) => (format!("queue {queue}"), format!(" more than {name} {}", quota.limit)),
            None => (self.named(), " more".to_owned()),
        };
        format!(
            "a PodGroup that is not preemptable may not borrow: it must ask for less, or {queue} be entitled to{more} (spec.deserved, spec.guarantee, spec.capability, or weight), or the annotation volcano.sh/preemptable: \"false\" go"
        )
    }

    fn of_fifo(&self) -> String {
        // A user chooses the PodGroup's name, so only a valid name becomes part of a command.
        let first = self.explanation.and_then(|all| all.pod_group.as_deref());
        let is_plain = |(namespace, name): &(&str, &str)| is_name(namespace) && is_name(name);
        let command = first.and_then(|first| first.split_once('/')).filter(is_plain);
        let command = command.map(|(namespace, name)| format!(" (kubectl podgroup why {name} -n {namespace})")).unwrap_or_default();
        let first = first.map_or_else(|| "the PodGroups that are ahead".to_owned(), |first| format!("PodGroup {first}"));
        format!("{first} must find places or go{command}, or spec.dequeueStrategy of queue {} be traverse", self.own)
    }

    /// Returns the number of members that the task needs, and their annotation.
    fn of_members(&self) -> Option<(u32, String)> {
        let all = self.explanation?;
        Some((all.needed?, format!("volcano.sh/task-spec: {}", all.task.as_deref()?)))
    }

    fn of_task(&self) -> String {
        let there = match self.of_members() {
            Some((needed, task)) => format!("there must be {needed} members with the annotation {task}"),
            None => "there must be more members of the task that the scheduler names".to_owned(),
        };
        format!("{there}, or spec.minTaskMember ask for fewer: the Events of their owner say what keeps them from being made")
    }

    fn of_gates(&self) -> String {
        match self.of_members() {
            Some((needed, task)) => {
                format!("{needed} members with the annotation {task} must be free of scheduling gates, or spec.minTaskMember ask for fewer")
            }
            None => "the scheduling gates of its members must be removed".to_owned(),
        }
    }

    fn of_field(&self) -> String {
        match self.queue() {
            Some(queue) => {
                format!("queue {queue} must leave out what is not supported{}, or the PodGroup must name another queue", self.detail())
            }
            None => format!("leave out what is not supported{}", self.detail()),
        }
    }
}

/// Returns the advice for a request that exceeds the capability of a queue even when nothing else runs there: requested, limit and what
/// would be enough.
pub(super) fn over_capability(name: &str, queue: &str, [requested, limit, enough]: [&str; 3]) -> String {
    format!(
        "the PodGroup requests {name} {requested}, and queue {queue} may never use more than {limit}: raise spec.capability of {queue} to {name} {enough}, or request less"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::explain::Cause;

    fn advice(code: Code, change: impl FnOnce(&mut Explanation)) -> String {
        let mut all = Explanation::plain(&Cause::plain(code));
        change(&mut all);
        Refused { code, explanation: Some(&all), own: "q" }.advice()
    }

    #[test]
    fn every_code_has_advice_without_the_scheduler_and_without_empty_values() {
        for code in Code::ALL {
            let text = Refused { code: *code, explanation: None, own: "q" }.advice();
            assert!(text.len() > 15 && !text.contains("  ") && !text.contains("()"), "{code:?}: {text}");
        }
    }

    #[test]
    fn only_valid_names_become_part_of_a_command() {
        let behind = |first: &str| advice(Code::BehindInFifoQueue, |all| all.pod_group = Some(first.to_owned()));
        assert!(behind("ns/first").contains("why first -n ns)"), "{}", behind("ns/first"));
        assert!(!behind("ns/$(x)").contains("kubectl"), "{}", behind("ns/$(x)"));
        let closed = |queue: &str| advice(Code::QueueClosed, |all| all.queue = Some(queue.to_owned()));
        assert_eq!(closed("a"), "queue a must be opened: kubectl podgroup queue open a");
        assert!(!closed("$(x)").contains("kubectl"));
    }
}
