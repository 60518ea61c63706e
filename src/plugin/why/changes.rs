//! The changes after which the PodGroup would no longer wait.

use std::collections::BTreeSet;

use crate::accounting::{QueueFault, Why};
use crate::api::jobset::jobset_of_group;
use crate::api::lws::selector_of_lws;
use crate::api::workload::NamespaceLabels;
use crate::api::{GroupFacts, NodeFacts, PodFacts};
use crate::cycle::cache::Phase;
use crate::cycle::explain::{Code, Count, Exceeds, Explanation, Reason, Tally};
use crate::nearest::nearest;
use crate::plugin::page::first_of;
use crate::plugin::queues::{Level, Queues};
use crate::resources::{Amount, ResourceName, quantity};
use crate::scheduler::dialect::phase_name;

use super::advice::{Refused, over_capability};
use super::members::Members;
use super::other_pods;
use super::places::{Places, most_frequent_first};

/// The limit of names in a list.
const NAMED: usize = 5;

/// The facts that the advice follows from.
pub(super) struct Known<'a> {
    pub(super) group: &'a GroupFacts,
    /// Whether the PodGroup has an owner. The annotations of the owner set its spec.
    pub(super) owned: bool,
    pub(super) members: Option<&'a Members>,
    pub(super) queues: Option<&'a Queues>,
    pub(super) fault: Option<&'a QueueFault>,
    pub(super) levels: &'a [Level],
    pub(super) places: Option<&'a Places>,
    /// The member that finds no node, if that is known.
    pub(super) next: Option<&'a PodFacts>,
    pub(super) nodes: &'a [NodeFacts],
    pub(super) namespaces: &'a [NamespaceLabels],
    /// Whether a scheduler has reported a refusal.
    pub(super) said: bool,
    /// The refusal, if it comes from our scheduler.
    pub(super) refused: Option<Refused<'a>>,
    /// Every amount for which the queues refuse the PodGroup, if the scheduler answered.
    pub(super) shortages: &'a [Explanation],
    /// The schedulers of the members.
    pub(super) schedulers: BTreeSet<String>,
}

/// Returns one change for each obstacle: the queues before the nodes, in the order of the scheduler.
pub(super) fn changes(known: &Known<'_>) -> Vec<String> {
    let mut changes = Vec::new();
    if known.group.deleting {
        changes.push("the PodGroup is being deleted: nothing is placed for it any more, unless it is made again".to_owned());
    }
    changes.extend(known.members.into_iter().flat_map(|members| of_members(known, members)));
    changes.extend(of_group(known.group));
    changes.extend(known.fault.map(|fault| of_fault(fault, known)));
    if known.fault.is_none() {
        changes.extend(of_levels(known.levels));
    }
    if let Some(refused) = known.refused.filter(|refused| !is_seen(refused.code, known)) {
        let each = |all: &Explanation| Refused { code: all.code, explanation: Some(all), own: refused.own }.advice();
        let shortages: Vec<_> = known.shortages.iter().map(each).collect();
        let advice = || beyond_capability(&refused, known).unwrap_or_else(|| refused.advice());
        changes.extend(if shortages.is_empty() { vec![advice()] } else { shortages });
    }
    // The victims are still on the nodes.
    let preempting = known.refused.is_some_and(|refused| refused.code == Code::WaitingForPreemption);
    match known.places.filter(|_| !preempting) {
        Some(Places::TooFew { tally, exceeds, .. }) => {
            changes.push(of_nodes(tally, known));
            changes.extend(exceeds.as_ref().map(of_gang));
        }
        Some(Places::Other(_) | Places::Enough { .. }) | None => {}
    }
    if !known.said {
        let names: Vec<_> = known.schedulers.iter().map(String::as_str).collect();
        let schedulers =
            if names.is_empty() { "its pods' spec.schedulerName".to_owned() } else { format!("spec.schedulerName {}", names.join(", ")) };
        changes.push(format!("no scheduler has reported why it waits: a scheduler that serves {schedulers} must run and hold its Lease"));
    }
    changes
}

/// Returns whether the objects show the cause themselves, with more detail than the code.
fn is_seen(code: Code, known: &Known<'_>) -> bool {
    let blocked = known.members.is_some_and(|members| members.blocked > 0);
    match code {
        Code::NotEnoughPods => known.members.is_some(),
        // The scheduler does not try a gang without all its members.
        Code::NotTried => known.members.is_some_and(|members| missing(known.group, members) > 0),
        Code::SchedulingGated => {
            known.members.is_some_and(|members| members.gated > 0)
                && known.refused.and_then(|refused| refused.explanation?.task.as_ref()).is_none()
        }
        Code::InvalidField => blocked || !known.group.faults.is_empty(),
        Code::UnsupportedField => blocked || known.group.network_topology,
        Code::QueueNotFound | Code::QueueInvalid | Code::QueueNotLeaf => known.fault.is_some(),
        Code::QueueClosed => known.levels.iter().any(|level| level.closed_by.is_some()),
        Code::Cordoned
        | Code::HostPorts
        | Code::InsufficientResources
        | Code::NoNodes
        | Code::NodeAffinity
        | Code::NodeFeatures
        | Code::NodeGroup
        | Code::NodeSelector
        | Code::PodAffinity
        | Code::PodAntiAffinity
        | Code::Taints
        | Code::TopologySpread => matches!(known.places, Some(Places::TooFew { .. })),
        Code::BehindInFifoQueue
        | Code::BindBackoff
        | Code::BindUnanswered
        | Code::ClaimBeingDeleted
        | Code::ClaimInUse
        | Code::ClaimLost
        | Code::ClaimNotBound
        | Code::ClaimNotFound
        | Code::ClaimNotOwned
        | Code::NoVolume
        | Code::NotEnoughStorage
        | Code::StorageClassNotFound
        | Code::VolumeBackoff
        | Code::VolumeLimit
        | Code::VolumeNodeAffinity
        | Code::VolumeNotFound
        | Code::VolumeZone
        | Code::ClusterFull
        | Code::GuaranteeReserved
        | Code::NonPreemptableOverEntitlement
        | Code::NotEnoughPodsOfTask
        | Code::NotEnoughSubGroups
        | Code::PodGroupNotFound
        | Code::PreemptionBackoff
        | Code::QueueQuotaExceeded
        | Code::RoomReserved
        | Code::WaitingForPreemption
        | Code::WaitingForVolumes => false,
    }
}

/// Returns the number of members that count towards minMember, wherever they are.
fn there(members: &Members) -> u32 {
    [members.placed, members.succeeded, members.waiting, members.gated, members.blocked].into_iter().fold(0, u32::saturating_add)
}

/// Returns the number of pods that must be created before the gang is complete.
fn missing(group: &GroupFacts, members: &Members) -> u32 {
    group.min_member.saturating_sub(there(members))
}

fn of_members(known: &Known<'_>, members: &Members) -> Vec<String> {
    let (group, mut changes) = (known.group, Vec::new());
    let (there, missing) = (there(members), missing(group, members));
    if missing > 0 {
        // A gang of no members is no advice.
        let fewer = if there > 0 { format!(" (or minMember must be {there})") } else { String::new() };
        let why = if group.managed && jobset_of_group(&group.key.name).is_some() {
            // The controller does not read JobSets, and nothing on a Job or pod says in which order they start.
            "if the JobSet has startupPolicy: InOrder or dependsOn, its later Jobs start only when the earlier ones are ready, and these wait for the \
             whole gang. Then write podgroup.dev/gang: jobset only on the pod templates of roles that start together, and the number of their pods as \
             scheduling.volcano.sh/group-min-member. Otherwise the Events of the JobSet and of its Jobs say what keeps the members from being made"
        } else if group.managed && selector_of_lws(&group.key.name).is_some() {
            // The controller does not read LeaderWorkerSets, and nothing on a pod says when the workers start.
            "if the LeaderWorkerSet has startupPolicy: LeaderReady, its workers are made only when the leader is ready, and with an exclusive topology only \
             when it has a node; and the leader waits for the whole gang. Then write scheduling.volcano.sh/group-min-member: \"1\" on both pod templates. \
             Both must also have podgroup.dev/gang: leaderworkerset. Otherwise the Events of the StatefulSets say what keeps the members from being made"
        } else if group.status.phase.as_deref() == Some(phase_name(Phase::Pending)) {
            "its phase is Pending, and an operator may create pods only after the PodGroup is admitted"
        } else {
            "the Events of their owner say what keeps them from being made, for example a quota"
        };
        changes.push(format!("the gang lacks {missing} of its {} members{fewer}: {why}", group.min_member));
    }
    if members.gated > 0 {
        changes.push(format!("members held by scheduling gates: {}; their scheduling gates must be removed", members.gated));
    }
    if members.blocked > 0 {
        changes.push(format!("members that ask for what cannot be honoured: {} ({})", members.blocked, members.blocked_by.join("; ")));
    }
    changes
}

fn of_group(group: &GroupFacts) -> Vec<String> {
    let mut changes = Vec::new();
    if group.network_topology {
        changes.push("a hard networkTopology cannot be honoured: say mode: soft".to_owned());
    }
    changes.extend(group.faults.iter().map(|fault| format!("the PodGroup says what cannot be read: {fault}")));
    changes
        .extend(group.unknown.iter().map(|fault| format!("if a field is misspelt, correct it (it does not block the PodGroup): {fault}")));
    changes
}

fn of_fault(fault: &QueueFault, known: &Known<'_>) -> String {
    let (queue, queues) = (&fault.queue, known.queues);
    match &fault.why {
        Why::NotFound => {
            let meant =
                queues.and_then(|queues| nearest(queue, queues.names())).map(|meant| format!(", perhaps {meant}")).unwrap_or_default();
            let place = if known.owned { "annotation scheduling.volcano.sh/queue-name of its owner" } else { "its spec.queue" };
            format!("queue {queue} must be created, or the PodGroup must name another{meant} ({place})")
        }
        Why::MissingParent { parent } => format!("queue {parent} must be created, or queue {queue} must name another parent"),
        Why::Cycle => format!("one of the queues above {queue} must name a parent that is not below it"),
        Why::TooDeep => format!("queue {queue} must stand nearer to root"),
        Why::Guarantees(excess) => {
            let name = &excess.dimension;
            let children = quantity::format(excess.children, name.style());
            format!("the guarantee of queue {queue} must be at least {name} {children}, or the guarantees of the queues below it be lower")
        }
        Why::NotLeaf => {
            let below = queues.map(|queues| queues.below(queue)).unwrap_or_default();
            let leaf = |name: &&String| queues.is_some_and(|queues| queues.children(name).next().is_none());
            let leaves: Vec<&str> = below.iter().filter(leaf).map(String::as_str).collect();
            format!("the PodGroup must name a queue that has none below it: {}", some(&leaves))
        }
    }
}

fn of_levels(levels: &[Level]) -> Vec<String> {
    let closed: BTreeSet<&str> = levels.iter().filter_map(|level| level.closed_by.as_deref()).collect();
    closed.iter().map(|queue| format!("queue {queue} must be opened: kubectl podgroup queue open {queue}")).collect()
}

/// Returns the advice for a PodGroup whose minResources alone exceed the capability of a queue, if only the code of the refusal is known.
fn beyond_capability(refused: &Refused<'_>, known: &Known<'_>) -> Option<String> {
    let requested = known.group.min_resources.as_ref()?;
    if refused.code != Code::QueueQuotaExceeded || refused.explanation.is_some() {
        return None;
    }
    let of_level = |level: &Level| {
        level.dimensions.iter().find_map(|dimension| {
            let (asked, limit) = (requested.get(&dimension.name), dimension.capability?);
            let [text, most] = [asked, limit].map(|amount| dimension.shown(amount));
            (asked > limit).then(|| over_capability(dimension.name.as_str(), &level.name, [&text, &most, &text]))
        })
    };
    known.levels.iter().find_map(of_level)
}

/// Returns the changes of nodes. Any one of them is enough.
fn of_nodes(tally: &Tally, known: &Known<'_>) -> String {
    if tally.nodes == 0 {
        return "there must be nodes".to_owned();
    }
    let ways: Vec<_> = most_frequent_first(tally).into_iter().map(|(reason, count)| of_reason(reason, *count, known)).collect();
    ways.join("; or ")
}

/// Returns the advice for a gang that requests more than all nodes offer together, whatever else runs there.
fn of_gang(exceeds: &Exceeds) -> String {
    let name = &exceeds.dimension;
    let [asked, offered] = [exceeds.asked, exceeds.offered].map(|amount| quantity::format(amount, name.style()));
    format!("the gang requests {name} {asked} together, and all nodes offer {offered}: add nodes, or request less")
}

fn of_reason(reason: &Reason, count: Count, known: &Known<'_>) -> String {
    match reason {
        Reason::Lacks(name) => of_lack(name, count, known.nodes),
        Reason::Unschedulable => {
            let names: Vec<&str> = known.nodes.iter().filter(|node| node.unschedulable).map(|node| &*node.name).collect();
            format!("uncordon {} ({}), if the next member fits there", nodes_of(count), some(&names))
        }
        Reason::Taint(taint) => {
            format!("let the pods tolerate the taint {}:{} of {}, if the next member fits there", taint.key, taint.effect, nodes_of(count))
        }
        Reason::NodeGroup { group } => {
            format!("name the node group {group} in the affinity of the queue, as preferred, or take the label off {}", nodes_of(count))
        }
        Reason::NodeSelector => format!("give {} the labels of the pods' nodeSelector", nodes_of(count)),
        Reason::NodeAffinity => format!("make {} match the pods' required node affinity", nodes_of(count)),
        Reason::NotNamed => {
            "make room on the nodes that the pods' required node affinity names (metadata.name), or name further nodes there".to_owned()
        }
        Reason::NamesConflict => "let each term of the pods' required node affinity name one node only (metadata.name)".to_owned(),
        Reason::DeclaredFeature { feature } => format!("the kubelets of {} must declare the feature {feature}", nodes_of(count)),
        Reason::ClaimInUse => "the pod that uses the claim must end: one pod at a time may use it (ReadWriteOncePod)".to_owned(),
        Reason::VolumeLimit => format!(
            "a pod with a volume of the same driver must leave one of {}, or nodes that take more volumes be added",
            nodes_of(count)
        ),
        Reason::VolumeNodeAffinity => format!("the volumes of the pods must be such that {} can mount them", nodes_of(count)),
        Reason::NoVolume => format!(
            "a volume for the claims of the pods must be free on one of {}, or their StorageClass make volumes there",
            nodes_of(count)
        ),
        Reason::NotEnoughStorage => {
            format!("one of {} must have enough storage to make a volume for the claims of the pods", nodes_of(count))
        }
        Reason::VolumeZone => {
            format!("{} must be in the zones of the volumes (labels topology.kubernetes.io/zone and region)", nodes_of(count))
        }
        Reason::HostPorts => {
            format!("a pod with the same host port must leave one of {}, or the pods ask for another port", nodes_of(count))
        }
        Reason::TopologySpreadLabel { topology_key } => {
            format!("label {} with {topology_key}, if they shall count for the spread", nodes_of(count))
        }
        Reason::TopologySpread { topology_key } => {
            format!(
                "the domains ({topology_key}) of {} have maxSkew pods more than the least: another domain needs room first",
                nodes_of(count)
            )
        }
        Reason::PodAffinity { .. } | Reason::PodAntiAffinity { .. } | Reason::ExistingAntiAffinity { .. } => {
            other_pods::of_reason(reason, count, known)
        }
    }
}

fn of_lack(name: &ResourceName, count: Count, nodes: &[NodeFacts]) -> String {
    let shown = |amount: Amount| quantity::format(amount, name.style());
    let largest = nodes.iter().map(|node| node.allocatable.get(name)).max().unwrap_or(Amount::ZERO);
    let (asked, free) = (shown(count.asked), shown(count.most_free));
    if count.asked > largest && largest == Amount::ZERO && name.is_device() {
        return format!("one pod asks for {name} {asked}, and no node offers {name}: check the name of the resource and its device plugin");
    }
    if count.asked > largest {
        return format!("one pod asks for {name} {asked}, and no node offers more than {}: smaller pods, or a larger node", shown(largest));
    }
    format!("a node must have {name} {asked} free for the next member, and the most that any has is {free}")
}

pub(super) fn nodes_of(count: Count) -> String {
    if count.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", count.nodes) }
}

fn some(names: &[&str]) -> String {
    if names.is_empty() { "there is none".to_owned() } else { first_of(names, NAMED) }
}
