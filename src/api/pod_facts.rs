//! The facts of a pod that scheduling uses: its PodGroup, requests, constraints and unsupported fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::resources::Resources;
use crate::resources::request::{self, ContainerRequest, PodRequestInput};

use super::fault::Fault;
use super::images::PodImages;
use super::membership::{GroupKey, controller_of, group_of};
use super::misspelt::asks_of_group;
use super::names::{
    CHARGED_QUEUE, COOLDOWN, GROUP_NAME, GROUP_NAME_OLD, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, LEADER_CHANGED, PREEMPTABLE, QUEUE_PATH,
    TASK, YES,
};
use super::node_choice;
use super::pod::{Container, ContainerStatus, NodeSelectorTerm, Pod, PodCondition, PodSpec, PodStatus, ResourceNeeds, Toleration};
use super::pod_terms::PodTerms;
use super::priority_class::preempts;
use super::quantities::{self, RawResources};
use super::uid::Uid;
use super::unsupported::{Unsupported, unsupported};
use super::volumes::{PodClaim, PodVolumes, UnusableClaim};

/// The default grace period, as in the API server.
const GRACE: Duration = Duration::from_secs(30);

/// The versions and kinds of controllers with pods that are spread over nodes and zones by default, as in kube-scheduler.
const REPLICATED: [(&str, &str); 3] = [("apps/v1", "ReplicaSet"), ("v1", "ReplicationController"), ("apps/v1", "StatefulSet")];

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not all containers have started.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// All containers ended, and at least one failed.
    Failed,
    /// The node cannot be reached.
    Unknown,
}

impl PodPhase {
    /// Returns whether the pod has ended and uses no resources.
    #[must_use]
    pub const fn ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The constraints of a pod on its node. Pods with equal constraints fit the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraints {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Terms, at least one of which must match. `None` matches every node, an empty list no node.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// The tolerations.
    pub tolerations: Vec<Toleration>,
    /// The features that the node must declare.
    pub node_features: BTreeSet<&'static str>,
    /// What its claims require, which the cache finds while the pod waits; none where it has none, or one cannot be used.
    pub volumes: Option<Arc<PodVolumes>>,
}

/// A pod as the scheduler knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name, which a later pod may have again.
    pub name: Arc<str>,
    /// Its UID, which no other pod has.
    pub uid: Uid,
    /// Its resourceVersion, which its binding carries. 0 where it is no number: then the binding carries none.
    pub resource_version: u64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The name of its scheduler (`spec.schedulerName`), ours or another.
    pub scheduler: Arc<str>,
    /// Its node, if it is bound.
    pub node: Option<Arc<str>>,
    /// Its phase.
    pub phase: PodPhase,
    /// Whether it is being deleted; it is charged until it has ended.
    pub deleting: bool,
    /// Whether it is ready, for its disruption budget.
    pub ready: bool,
    /// How long it may take to end once it is deleted (`terminationGracePeriodSeconds`; 30 s where it states none).
    pub grace: Duration,
    /// When it was created, in whole seconds; 1970 where the object does not say it.
    pub created: Timestamp,
    /// When its node saw it first, in whole seconds, once it has ended; none where the object does not say it.
    pub ran_from: Option<Timestamp>,
    /// Its PodGroup, which may not exist.
    pub group: GroupKey,
    /// Whether an annotation names its PodGroup.
    pub names_group: bool,
    /// Whether no controller owns the pod, and its annotations ask for something of a PodGroup, or may be meant to.
    pub asks_alone: bool,
    /// The queue that its binding charged, which never changes.
    pub charged_queue: Option<String>,
    /// The path of queues that its binding wrote, from `root` down to the charged queue.
    pub queue_path: Option<Arc<str>>,
    /// Its task (`volcano.sh/task-spec`), for minTaskMember.
    pub task: Option<String>,
    /// Its effective request by the rules of Kubernetes, including the resource `pods`.
    pub request: Resources,
    /// Its priority (`spec.priority`); 0 where it states none.
    pub priority: i32,
    /// Whether it may preempt other pods.
    pub preempts: bool,
    /// Whether it may be preempted.
    pub preemptable: bool,
    /// Whether Volcano protects it from preemption (see [`is_protected`]). Until this is supported, it is never a victim.
    pub protected: bool,
    /// Whether it has scheduling gates.
    pub gated: bool,
    /// Its constraints on nodes.
    pub constraints: Constraints,
    /// The images that it needs, while it has no node; none where it names none.
    pub images: Option<Arc<PodImages>>,
    /// Its unsupported fields, sorted, each once.
    pub unsupported: Vec<Unsupported>,
    /// A claim that cannot be used now, which the cache finds while the pod waits. Until that changes, the pod is not placed.
    pub unusable_claim: Option<Arc<UnusableClaim>>,
    /// What it requires of other pods in its topology domains.
    pub terms: Arc<PodTerms>,
    /// Its present PodScheduled condition, so that an equal condition is not written again.
    pub scheduled_condition: Option<PodCondition>,
    /// Whether a leader of this scheduler has fenced it, which its condition `podgroup.dev/LeaderChanged` says.
    pub fenced: bool,
    /// The node in its `status.nominatedNodeName`. It may be of an earlier leader, of others, or not exist; a new leader checks it
    /// before it is of any use.
    pub nominated_node: Option<Arc<str>>,
    /// The invalid values. With one of them the pod is not placed.
    pub faults: Vec<Fault>,
}

impl PodFacts {
    /// Returns its task; the default is the task with an empty name, as in Volcano.
    #[must_use]
    pub fn task(&self) -> &str {
        self.task.as_deref().unwrap_or_default()
    }

    /// Reads the facts from the object.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let mut faults = Vec::new();
        let request = request_of(&pod.spec, &pod.status, &mut faults);
        let unsupported = unsupported(meta, &pod.spec, &request);
        let affinity = pod.spec.affinity.clone().unwrap_or_default();
        let (namespace, labels) = (meta.namespace.as_deref().unwrap_or_default(), meta.labels.clone().unwrap_or_default());
        let terms = PodTerms::of(&pod.spec, namespace, &labels, &mut faults);
        faults.extend(node_choice::excess(&pod.spec));
        let replica_of = controller_of(meta)
            .filter(|owner| {
                REPLICATED.contains(&(owner.api_version.as_str(), owner.kind.as_str())) && pod.spec.topology_spread_constraints.is_empty()
            })
            .map(|owner| Uid::from(owner.uid.as_str()));
        let claims = PodClaim::all_of(&pod.spec, meta.name.as_deref().unwrap_or_default(), &mut faults);
        let terms = Arc::new(PodTerms { replica_of, claims, ..terms });
        let names = |key: &&str| meta.annotations.as_ref().and_then(|all| all.get(*key)).is_some_and(|name| !name.is_empty());
        Self {
            namespace: Arc::from(namespace),
            name: Arc::from(meta.name.as_deref().unwrap_or_default()),
            uid: Uid::from(meta.uid.as_deref().unwrap_or_default()),
            resource_version: resource_version(meta),
            labels,
            scheduler: Arc::from(pod.spec.scheduler_name.as_str()),
            node: pod.spec.node_name.as_deref().filter(|node| !node.is_empty()).map(Arc::from),
            phase: phase_of(&pod.status.phase),
            deleting: meta.deletion_timestamp.is_some(),
            ready: pod.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True"),
            grace: pod
                .spec
                .termination_grace_period_seconds
                .map_or(GRACE, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            ran_from: pod.status.start_time.as_ref().filter(|_| phase_of(&pod.status.phase).ended()).map(|time| time.0),
            group: group_of(meta),
            names_group: [GROUP_NAME, GROUP_NAME_OLD].iter().any(names),
            asks_alone: controller_of(meta).is_none()
                && meta
                    .annotations
                    .iter()
                    .flat_map(BTreeMap::keys)
                    .any(|key| [GROUP_NAME, GROUP_NAME_OLD].contains(&key.as_str()) || asks_of_group(key)),
            charged_queue: meta.annotations.as_ref().and_then(|annotations| annotations.get(CHARGED_QUEUE)).cloned(),
            queue_path: meta.annotations.as_ref().and_then(|annotations| annotations.get(QUEUE_PATH)).map(|path| Arc::from(path.as_str())),
            task: meta.annotations.as_ref().and_then(|annotations| annotations.get(TASK)).cloned(),
            request,
            priority: pod.spec.priority.unwrap_or(0),
            preempts: preempts(pod.spec.preemption_policy.as_deref()),
            preemptable: preemptable(meta),
            protected: is_protected(meta),
            gated: !pod.spec.scheduling_gates.is_empty(),
            images: if pod.spec.node_name.as_ref().is_none_or(String::is_empty) { PodImages::of(&pod.spec) } else { None },
            unsupported,
            unusable_claim: None,
            terms,
            constraints: Constraints {
                node_selector: pod.spec.node_selector.clone(),
                node_affinity: affinity
                    .node_affinity
                    .and_then(|node| node.required_during_scheduling_ignored_during_execution)
                    .map(|required| required.node_selector_terms),
                tolerations: pod.spec.tolerations.clone(),
                node_features: node_features(&pod.spec),
                volumes: None,
            },
            scheduled_condition: pod.status.conditions.iter().find(|condition| condition.kind == "PodScheduled").cloned(),
            fenced: pod.status.conditions.iter().any(|condition| condition.kind == LEADER_CHANGED && condition.status == "True"),
            nominated_node: pod.status.nominated_node_name.as_deref().filter(|node| !node.is_empty()).map(Arc::from),
            faults,
        }
    }
}

/// Returns the resourceVersion of the object; 0 where it is no number.
///
/// The API server counts them in decimal (Kubernetes 1.35, KEP-5504), and every etcd before did so.
#[must_use]
pub fn resource_version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Returns whether the pod or PodGroup is preemptable, from its annotation, or else its label, as in Volcano.
///
/// An invalid value means no, so that a typing error evicts no pod.
pub(super) fn preemptable(meta: &ObjectMeta) -> bool {
    let says = |words: &Option<BTreeMap<String, String>>| words.as_ref()?.get(PREEMPTABLE).map(|word| YES.contains(&word.as_str()));
    says(&meta.annotations).or_else(|| says(&meta.labels)).unwrap_or(true)
}

/// Returns whether annotations of the pod or PodGroup protect it from preemption in Volcano.
///
/// The protection is for a time after the start ([`COOLDOWN`], also as a label of the pod) or for a number of members (`jdb-*`).
/// An empty annotation has no effect; an invalid value protects too.
pub(super) fn is_protected(meta: &ObjectMeta) -> bool {
    let says = |key| annotation(meta, key).is_some();
    let cooldown = meta.labels.as_ref().and_then(|labels| labels.get(COOLDOWN)).is_some_and(|time| !time.is_empty());
    cooldown || [COOLDOWN, JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE].into_iter().any(says)
}

/// Returns the annotation if it is not empty.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// The features that nodes declare and pods need, with the rules of `component-helpers/nodedeclaredfeatures/features` (Kubernetes 1.36):
/// from these two and nothing else a feature is inferred for scheduling.
pub(super) const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
pub(super) const HOST_NETWORK_USERS: &str = "UserNamespacesHostNetworkSupport";

fn node_features(spec: &PodSpec) -> BTreeSet<&'static str> {
    let restarts_all = |container: &Container| container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers");
    let needs = [
        (RESTART_ALL, spec.containers.iter().chain(&spec.init_containers).any(restarts_all)),
        (HOST_NETWORK_USERS, spec.host_network && spec.host_users == Some(false)),
    ];
    needs.into_iter().filter_map(|(feature, needed)| needed.then_some(feature)).collect()
}

fn phase_of(text: &str) -> PodPhase {
    match text {
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        "Unknown" => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// Returns the effective request of a pod from this template.
#[must_use]
pub fn request_of_template(spec: &PodSpec, faults: &mut Vec<Fault>) -> Resources {
    request_of(spec, &PodStatus::default(), faults)
}

fn request_of(spec: &PodSpec, status: &PodStatus, faults: &mut Vec<Fault>) -> Resources {
    let containers = spec.containers.iter().map(|container| container_request(container, &status.container_statuses, faults)).collect();
    let init_containers =
        spec.init_containers.iter().map(|container| container_request(container, &status.init_container_statuses, faults)).collect();
    request::effective(&PodRequestInput {
        containers,
        init_containers,
        overhead: quantities::resources(spec.overhead.as_ref(), "spec.overhead", faults),
        pod_level: spec.resources.as_ref().map(|needs| {
            let requests = asked(needs, "spec.resources", faults);
            given_beside(requests, status.allocated_resources.as_ref(), status.resources.as_ref(), faults)
        }),
        resize_infeasible: status
            .conditions
            .iter()
            .any(|condition| condition.kind == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")),
    })
}

fn container_request(container: &Container, statuses: &[ContainerStatus], faults: &mut Vec<Fault>) -> ContainerRequest {
    let place = format!("spec.containers[{}].resources", container.name);
    let status = statuses.iter().find(|status| status.name == container.name);
    let allocated = status.and_then(|status| status.allocated_resources.as_ref());
    let actual = status.and_then(|status| status.resources.as_ref());
    let requests = container.resources.as_ref().map(|needs| asked(needs, &place, faults)).unwrap_or_default();
    let restartable_init = container.restart_policy.as_deref() == Some("Always");
    ContainerRequest { restartable_init, ..given_beside(requests, allocated, actual, faults) }
}

/// Combines the requests with the allocated and actual resources in a status.
fn given_beside(
    requests: Resources,
    allocated: Option<&RawResources>,
    actual: Option<&ResourceNeeds>,
    faults: &mut Vec<Fault>,
) -> ContainerRequest {
    ContainerRequest {
        requests,
        allocated: allocated.map(|raw| quantities::resources(Some(raw), "status.allocatedResources", faults)),
        actual: actual.map(|needs| quantities::resources(needs.requests.as_ref(), "status.resources.requests", faults)),
        restartable_init: false,
    }
}

/// Returns the requests, with limits in place of missing requests, as the API server sets them (it does not default templates).
fn asked(needs: &ResourceNeeds, place: &str, faults: &mut Vec<Fault>) -> Resources {
    let mut asked = quantities::resources(needs.requests.as_ref(), &format!("{place}.requests"), faults);
    let stated = needs.requests.as_ref();
    for (name, amount) in quantities::resources(needs.limits.as_ref(), &format!("{place}.limits"), faults).iter() {
        if !stated.is_some_and(|requests| requests.contains_key(&**name)) {
            asked.set(name.clone(), amount);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::Amount;

    #[test]
    fn a_pod_names_its_group_by_either_annotation_whether_the_name_was_chosen_or_generated() {
        let uuid = "podgroup-0c2c4e2d-7d1c-4b7a-9f1e-2b5c8a6d9e10";
        for (key, name, names) in [
            (GROUP_NAME, "chosen", true),
            (GROUP_NAME, uuid, true),
            (GROUP_NAME_OLD, "chosen", true),
            (GROUP_NAME, "", false),
            (TASK, "x", false),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"annotations": {key: name}}})).unwrap();
            assert_eq!(PodFacts::of(&pod).names_group, names, "{key}: {name}");
        }
    }

    #[test]
    fn preemptable_is_parsed_as_by_go_from_the_annotation_or_else_the_label() {
        let word = |word: Option<&str>| word.map(|word| json!({ PREEMPTABLE: word }));
        let reads = |annotation, label| {
            let meta = json!({ "annotations": word(annotation), "labels": word(label) });
            preemptable(&serde_json::from_value(meta).unwrap())
        };
        assert!(reads(None, None));
        for yes in ["1", "t", "T", "TRUE", "true", "True"] {
            assert!(reads(Some(yes), None) && reads(None, Some(yes)) && reads(Some(yes), Some("false")), "{yes}");
        }
        for no in ["0", "f", "F", "FALSE", "false", "False", "", "yes", "tRUE", " true"] {
            assert!(!reads(Some(no), None) && !reads(None, Some(no)) && !reads(Some(no), Some("true")), "{no}");
        }
    }

    #[test]
    fn n2_a_pod_that_is_resized_as_a_whole_counts_with_the_most_of_what_is_asked_allocated_and_given() {
        let cpu = |amount: &str| json!({ "cpu": amount });
        let asks = |asked, allocated, given, infeasible| {
            let pending = json!([{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }]);
            let pod = serde_json::from_value(json!({
                "spec": { "resources": { "requests": cpu(asked) }, "containers": [{ "name": "c", "resources": { "requests": cpu("500m") } }] },
                "status": {
                    "allocatedResources": allocated,
                    "resources": { "requests": given },
                    "conditions": if infeasible { pending } else { json!([]) },
                },
            }));
            PodFacts::of(&pod.unwrap()).request.get("cpu")
        };
        let none = || json!(null);
        assert_eq!(asks("2", none(), none(), false), Amount::from_units(2));
        assert_eq!(asks("2", cpu("4"), cpu("3"), false), Amount::from_units(4), "the node has not given it back");
        assert_eq!(asks("2", cpu("2"), cpu("3"), false), Amount::from_units(3));
        assert_eq!(asks("9", cpu("2"), cpu("2"), false), Amount::from_units(9));
        assert_eq!(asks("9", cpu("2"), cpu("2"), true), Amount::from_units(2), "it never gets that");
    }

    #[test]
    fn a_pod_with_the_policy_never_preempts_no_pods() {
        for (policy, preempts) in [(None, true), (Some("PreemptLowerPriority"), true), (Some("Never"), false)] {
            let pod = serde_json::from_value(json!({ "metadata": {}, "spec": { "preemptionPolicy": policy } })).unwrap();
            assert_eq!(PodFacts::of(&pod).preempts, preempts, "{policy:?}");
        }
    }
}
